"""What has left for good leaves memory, and nothing that is remembered of it reaches the item that has its slot."""

from __future__ import annotations

import io
import random
from typing import Any

import orjson
import polars as pl
import pytest

from hellinger.engine import dates
from hellinger.engine.desk import FORGET
from hellinger.engine.state import HOUR
from hellinger.experiment import Split
from hellinger.ledger import Ledger
from hellinger.ledger.recovery import differences, fold
from hellinger.ledger.snapshot import _blocks, decode, encode
from hellinger.pool import Leaving
from ledger_model import START, Log, Model
from lives import Copy, same_as_rebuilt

ONE = Split({"one": 1, "two": 0})


def stats(copy: Copy, item: str, variant: str = "one") -> tuple[float, float]:
    found = copy.desk.pools.of(variant).stats(copy.desk.ledger.catalogue.slots[item])
    return found.impressions, found.rewards


def forget(copy: Copy, at: int = START) -> None:
    """Let a copy that forgets at once do so."""
    copy.write(copy.desk.chores(at))
    copy.flush()


def replace(copy: Copy, name: str, other: str) -> int:
    """Delete an item, forget it, and add another in its slot; the slot."""
    slot = copy.desk.ledger.catalogue.slots[name]
    copy.turn(name, "deleted")
    forget(copy)
    copy.add(other)
    assert copy.desk.ledger.catalogue.slots[other] == slot
    return slot


# Memory -----------------------------------------------------------------------------------------------------


def test_memory_is_flat_under_churn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty rounds of new items, each with tags of its own, while the number of those shown stays the same."""
    monkeypatch.setattr(dates, "SPARE", 20)
    copy = Copy(Log(), forget_after=2 * HOUR, enough=0, leaving=Leaving(impressions=4), seed=1)
    rng, held = random.Random(1), copy.desk.ledger.catalogue
    at, sizes = START, []
    for number in range(50):
        names = [f"{number}/{j}" for j in range(10)]
        for name in names:
            copy.add(name, at=at, tags=[name], expires_at=at + rng.choice([HOUR, 9000 * HOUR]))
        ranked = [copy.rank(3, at=at, segment=rng.choice([None, "night"])) for _ in range(3)]
        copy.flush()
        for draft in ranked:
            copy.give(draft.event.key, draft.fields["items"][0], at=at)
        at += HOUR
        copy.chores(at)
        for name in [name for name in names if held["state"][held.slots[name]] == 0]:
            copy.turn(name, "deleted", at)
        assert len(copy.desk.pools.of("one")) == 0
        sizes.append((len(held.ids), len(held.tags.values), len(copy.desk.state.dates)))
    assert max(slots for slots, _, _ in sizes) <= 40
    assert max(sets for _, sets, _ in sizes) <= 41
    assert max(dates for _, _, dates in sizes) <= 60
    assert len(held.slots) <= 30
    assert sum(map(len, copy.desk.ledger.gone.values())) <= 60
    assert all(counts._n.size <= 64 for counts in copy.desk.ledger.counts.values())
    Model(copy.log.events).check(copy.desk.ledger)
    same_as_rebuilt(copy, at)


def test_items_are_forgotten_in_their_time_and_in_parts() -> None:
    copy = Copy(Log(), forget_after=2 * HOUR)
    names = [f"item {j}" for j in range(FORGET + 200)]
    copy.add("stays", *names)
    for start in (0, FORGET):
        copy.write([copy.desk.set_state(name, "deleted", START + start) for name in names[start : start + FORGET]])
        copy.flush()
    held = copy.desk.ledger.catalogue
    assert copy.desk.chores(START + 2 * HOUR - 1) == []
    (draft,) = copy.desk.chores(START + 2 * HOUR)
    assert (draft.event.kind, len(draft.fields["since"])) == ("forget", FORGET)
    assert copy.desk.chores(START + 3 * HOUR) == []  # one at a time is on its way
    copy.write([draft])
    copy.flush()
    assert len(held.free) == FORGET
    (draft,) = copy.desk.chores(START + 3 * HOUR)
    copy.write([draft])
    copy.flush()
    assert (len(held.free), list(held.slots)) == (len(names), ["stays"])
    assert copy.desk.chores(START + 9 * HOUR) == []
    copy.check()


def test_a_wrong_clock_holds_up_no_others() -> None:
    copy = Copy(Log(), forget_after=HOUR)
    copy.add("a", "b")
    copy.turn("a", "deleted", START + 1000 * HOUR)
    copy.turn("b", "deleted")
    (draft,) = copy.desk.chores(START + HOUR)
    assert draft.fields["since"] == [2]


def test_who_never_forgets() -> None:
    copy = Copy(Log())
    copy.add("a")
    copy.turn("a", "deleted")
    assert copy.desk.chores(START + 10**6 * HOUR) == []


# Whose counts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("remembered", [True, False])
def test_late_feedback_does_not_reach_the_item_now_in_the_slot(remembered: bool) -> None:
    copy = Copy(Log(), 1, forget_after=0, split=ONE, counted=False)
    copy.add("a", "b")
    draft = copy.rank(2)
    copy.flush()
    replace(copy, "a", "other")
    if not remembered:
        copy.rank(1, among=[])
        copy.flush()
    assert (draft.event.key in copy.desk.ledger.requests) is remembered
    for item, kind in (("a", "click"), ("b", "click"), ("a", "like")):
        assert copy.give(draft.event.key, item, kind) == "accepted"
    copy.write(copy.desk.sort_seen([(draft.event.key, "a")], START).drafts)
    copy.flush()
    assert (stats(copy, "other"), stats(copy, "b")) == ((0, 0), (1, 1))
    assert copy.desk.ledger.series.totals["one"] == [2 - remembered, 2, 2]
    copy.add("a")
    assert copy.give(draft.event.key, "a", "share") == "accepted"
    copy.flush()
    assert stats(copy, "a") == (0, 0)
    copy.check()


def test_a_ranking_written_after_its_item_was_forgotten() -> None:
    """It was in the overlay, and counted, when another replica forgot the item and gave its slot away."""
    log = Log()
    here, there = (Copy(log, forget_after=0, split=ONE, learning="shared") for _ in range(2))
    here.add("a", "b")
    there.flush()
    lost, kept = here.rank(2), here.rank(2)
    replace(there, "a", "other")
    mine, here.drafts = here.drafts, []
    here.flush()
    assert (stats(here, "other"), stats(here, "b")) == ((0, 0), (2, 0))
    assert here.desk.pools.of("one").rounds == 4
    here.write(mine)
    here.flush()
    there.flush()
    for copy in (here, there):
        assert (stats(copy, "other"), stats(copy, "b")) == ((0, 0), (2, 0))
        assert copy.desk.pools.of("one").rounds == 4
        for name in (lost, kept):
            assert copy.give(name.event.key, "a") == "accepted" or copy is there
        copy.flush()
        copy.check()


def test_a_replica_that_catches_up_at_once() -> None:
    """Its pools still have the old item when they learn of the new one in its slot."""
    log = Log()
    here, there = (Copy(log, forget_after=0, split=ONE, enough=0) for _ in range(2))
    here.add("a", "b", tags=["x"])
    for _ in range(3):
        here.rank(2, segment="night")
    here.flush()
    there.flush()
    there.desk.pools.finish()
    here.bring([("a", 50, 20)])
    slot = replace(here, "a", "other")
    here.bring([("other", 7, 2)])
    there.flush()
    assert stats(there, "other") == (7, 2)
    assert there.desk.pools.of("one").stats(slot).tags == frozenset()
    for copy in (here, there):
        copy.check()


@pytest.mark.parametrize("at_once", [True, False])
def test_an_item_does_not_leave_in_the_place_of_another(at_once: bool) -> None:
    log = Log()
    here, there = (Copy(log, forget_after=0, split=ONE, leaving=Leaving(impressions=2)) for _ in range(2))
    here.add("a", "b")
    there.flush()
    for _ in range(2):
        here.rank(1, among=["a"])
    there.turn("a", "deleted")  # while it is leaving
    if not at_once:
        here.flush()
    forget(there)
    there.add("other")
    here.flush()
    assert here.desk.pools.departing("one") == []
    assert sorted(here.rank(2).fields["items"]) == ["b", "other"]
    here.flush()
    for copy in (here, there):
        copy.chores(START)
    here.flush()
    for copy in (here, there):
        copy.check()


def test_an_item_has_not_left_because_the_one_before_it_had() -> None:
    """The log knows that the old one left a variant's pool; it expired later, and was forgotten."""
    copy = Copy(Log(), forget_after=0, split=ONE, leaving=Leaving(impressions=2))
    copy.add("a", expires_at=START + 10)
    slot = copy.desk.ledger.catalogue.slots["a"]
    for _ in range(2):
        copy.rank(1)
    copy.chores(START)
    assert slot in copy.desk.ledger.gone["one"]
    copy.chores(START + 10)
    forget(copy, START + 10)
    copy.add("other")
    assert copy.desk.ledger.catalogue.slots["other"] == slot
    assert copy.desk.about("other")["one"]["left"] is None
    assert copy.rank(1).fields["items"] == ["other"]
    copy.flush()
    copy.check(START + 10)


def test_a_date_of_the_old_item_does_not_end_the_new_one() -> None:
    copy = Copy(Log(), forget_after=0)
    copy.add("a", expires_at=START + 10)
    slot = copy.desk.ledger.catalogue.slots["a"]
    copy.turn("a", "deleted")
    forget(copy)
    copy.add("other", expires_at=START + 20)
    assert copy.desk.ledger.catalogue.slots["other"] == slot
    assert copy.rank(at=START + 10).fields["items"] == ["other"]
    assert copy.rank(at=START + 20).fields["items"] == []
    copy.flush()
    copy.chores(START + 20)
    copy.check(START + 20)


# Again and back ---------------------------------------------------------------------------------------------


def test_a_second_forget_does_nothing() -> None:
    log = Log()
    here, there = (Copy(log, forget_after=0, split=ONE) for _ in range(2))
    here.add("a")
    here.turn("a", "deleted")
    there.flush()
    both = [copy.desk.chores(START) for copy in (here, there)]
    here.write(both[0])
    here.flush()
    here.add("other")
    here.rank(1)
    here.flush()
    there.write(both[1])
    there.flush()
    here.flush()
    for copy in (here, there):
        assert stats(copy, "other") == (1, 0)
        copy.check()


def test_what_came_back_meanwhile_is_not_forgotten() -> None:
    copy = Copy(Log(), forget_after=0, split=ONE)
    copy.add("a", expires_at=START + 10)
    copy.rank(1)
    copy.flush()
    copy.chores(START + 10)
    drafts = copy.desk.chores(START + 10)
    assert [draft.event.kind for draft in drafts] == ["forget"]
    copy.add("a", at=START + 11, expires_at=START + 500)
    copy.write(drafts)
    copy.flush()
    assert stats(copy, "a") == (1, 0)
    copy.chores(START + 500)  # it expires again, and is forgotten
    forget(copy, START + 500)
    assert "a" not in copy.desk.ledger.catalogue.slots
    copy.add("a", at=START + 501)
    assert stats(copy, "a") == (0, 0)
    copy.check()


# Snapshots --------------------------------------------------------------------------------------------------


def as_version_2(parts: bytes) -> bytes:
    """A snapshot as it was before items were forgotten: it does not say when they left."""
    header, items, *frames = _blocks(parts)
    fields: dict[str, Any] = orjson.loads(header)
    assert fields["version"] == 6
    del fields["phases"], fields["groups"]
    series = fields["series"]
    del series["users"]
    series["pages"] = {variant: final[3:7] for _, variant, _, _, _, final, _ in series.pop("shares")}
    out = io.BytesIO()
    pl.read_parquet(io.BytesIO(items)).drop("left_at", "group", "features").write_parquet(out)
    blocks = [orjson.dumps(fields | {"version": 2}), out.getvalue(), *frames]
    return b"".join(len(block).to_bytes(8, "big") + block for block in blocks)


def test_a_snapshot_of_version_2() -> None:
    copy = Copy(Log(), split=ONE)
    copy.add("a", "b", tags=["x"])
    copy.add("c", tags=["y"], expires_at=START + 10)
    copy.add("d", tags=["z"])
    copy.turn("d", "deleted")
    copy.rank(3)
    copy.flush()
    copy.chores(START + 10)
    old = decode([as_version_2(b"".join(encode(copy.desk.ledger)))])
    assert differences(copy.desk.ledger, old) == []
    assert old.catalogue.tags.values == [(), ("x",), ("y",), ()]
    fresh = Copy(copy.log, split=ONE, forget_after=HOUR)
    fresh.start(old)
    fresh.chores(START + 10)  # nobody knows since when: long ago
    assert "c" not in fresh.desk.ledger.catalogue.slots
    fresh.add("e", tags=["z"])
    assert fresh.desk.ledger.catalogue.tags_of(fresh.desk.ledger.catalogue.slots["e"]) == ("z",)
    fresh.check()
    whole = Ledger()
    fold(whole, copy.log.events, copy.log.thread)
    assert differences(whole, fresh.desk.ledger) == []


def test_a_snapshot_between_leaving_and_being_forgotten() -> None:
    copy = Copy(Log(), split=ONE, forget_after=HOUR)
    copy.add("a", "b")
    copy.add("c", expires_at=START + 10)
    copy.rank(3)
    copy.turn("a", "deleted")
    copy.chores(START + 10)
    again = Copy(copy.log, split=ONE, forget_after=HOUR)
    again.start(decode(encode(copy.desk.ledger)))
    assert again.desk.chores(START + HOUR + 9) == []
    copy.chores(START + HOUR + 10)
    copy.add("other", "another", tags=["x"])
    again.flush()
    assert "c" not in again.desk.ledger.catalogue.slots
    for one in (copy, again):
        one.check()
    assert differences(copy.desk.ledger, again.desk.ledger) == []
