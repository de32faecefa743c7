"""The desk decides as it should, and its pools are at all times those that the ledger alone would give."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest

from hellinger.engine.desk import LOGGED, Desk
from hellinger.engine.drafts import GivenFeedback, Query
from hellinger.engine.feedback import points
from hellinger.engine.learning import due, fit
from hellinger.engine.pools import SLICE
from hellinger.engine.state import HOUR
from hellinger.events import Event, tie_chances
from hellinger.experiment import Split
from hellinger.ledger import STATES, Counts, Ledger
from hellinger.pool import Leaving, Pool
from ledger_model import START, Log
from lives import VARIANTS, WINDOW, Copy, Life, in_slices, same_as_rebuilt, small_crowds


@pytest.mark.parametrize("seed", [*range(40), 50425, 3510097877, 2799056370, 2537380529])
def test_any_life_equals_its_log(seed: int) -> None:
    with small_crowds() if seed % 2 else nullcontext():
        Life(seed).live()


@pytest.mark.parametrize("seed", [*range(100, 112), 52436004])
def test_any_life_in_which_changes_take_effect_in_slices(seed: int) -> None:
    with in_slices(), small_crowds():
        Life(seed).live()


# Rankings -------------------------------------------------------------------------------------------------


def test_an_empty_pool_ranks_nothing() -> None:
    for share in (0.0, 1.0):
        copy = Copy(Log(), random_share=share)
        draft = copy.rank()
        assert draft.fields["items"] == []
        copy.flush()
        copy.check()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_filters_with_unknown_ids_and_more_wanted_than_there_is(share: float) -> None:
    copy = Copy(Log(), random_share=share, seed=1)
    copy.add("a", "b", tags=["x"])
    copy.add("c")
    ranked = {
        "all": copy.rank(50),
        "exclude": copy.rank(50, exclude=["a", "nobody"]),
        "tags": copy.rank(50, tags=["x", "nothing"]),
        "no tags": copy.rank(50, tags=[]),
        "among": copy.rank(50, among=["c", "nobody", "c"]),
        "among nobody": copy.rank(50, among=["nobody"]),
        "all of them": copy.rank(50, among=["a", "c"], tags=["x"], exclude=["a"]),
    }
    found = {name: sorted(draft.fields["items"]) for name, draft in ranked.items()}
    assert found == {
        "all": ["a", "b", "c"],
        "exclude": ["b", "c"],
        "tags": ["a", "b"],
        "no tags": [],
        "among": ["c"],
        "among nobody": [],
        "all of them": [],
    }
    copy.flush()
    copy.check()


def test_an_unshown_content_has_no_finite_score_under_ucb1() -> None:
    copy = Copy(Log(), split=Split({"one": 0, "two": 1}))
    copy.add("a")
    assert copy.rank().fields["scores"] == [None]


def test_propensities_are_those_of_the_draws() -> None:
    """Counted over many rankings of the same pool: each item at each place as often as was announced."""
    share, draws = 0.6, 6000
    copy = Copy(Log(), counted=False, random_share=share, seed=5, split=Split({"one": 1, "two": 0}))
    copy.add("a", "b", "c", "d")
    copy.bring([("a", 100, 50), ("b", 100, 40), ("c", 100, 30), ("d", 100, 20)])
    told: dict[tuple[int, str], float] = {}
    found: Counter[tuple[int, str]] = Counter()
    drawn = 0
    for _ in range(draws):
        fields = copy.desk.rank(Query(2), START).fields
        drawn += fields["random"]
        for place, (item, p) in enumerate(zip(fields["items"], fields["propensities"], strict=True)):
            assert told.setdefault((place, item), p) == p
            found[place, item] += 1
    assert drawn / draws == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / draws))
    for place in range(2):
        assert sum(p for (where, _), p in told.items() if where == place) == pytest.approx(1.0)
    for key, p in told.items():
        assert found[key] / draws == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / draws)), key
    assert told[0, "a"] == pytest.approx(share / 4 + 1 - share)


def test_a_policy_that_draws_has_no_propensity() -> None:
    ledger = Ledger()
    desk = Desk(ledger, {"t": "thompson"}, seed=1, random_share=0.5)
    desk.commit_own([(1, (Event("item/1", "item", START, ""), {"id": "a", "tags": [], "expires_at": None}))])
    assert desk.rank(Query(1), START).fields["propensities"] is None


def test_random_rankings_never_show_what_has_left_or_expired() -> None:
    only = Split({"one": 1, "two": 0})
    copy = Copy(Log(), random_share=1.0, seed=2, leaving=Leaving(impressions=2), split=only)
    copy.add("a", "b")
    copy.add("c", expires_at=START + 10)
    for _ in range(8):
        items = copy.rank(3, at=START + 10).fields["items"]
        assert "c" not in items
    assert copy.rank(3, at=START + 10).fields["items"] == []
    copy.chores(START + 10)
    copy.check()


def test_a_sticky_user_keeps_a_variant_and_all_get_their_share() -> None:
    weights = {"one": 3.0, "two": 1.0}
    desk = Desk(Ledger(), VARIANTS, sticky=True, split=Split(weights, salt="s"), seed=1)
    first = {user: desk.rank(Query(1, user=f"u{user}"), START).fields for user in range(2000)}
    again = [desk.rank(Query(1, user=f"u{user}"), START).fields["variant"] for user in range(2000)]
    assert [fields["variant"] for fields in first.values()] == again
    share = again.count("one") / 2000
    assert share == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 2000))
    assert {f["variant"]: f["chance"] for f in first.values()} == {"one": 0.75, "two": 0.25}
    nobody = Counter(desk.rank(Query(1), START).fields["variant"] for _ in range(2000))
    assert nobody["one"] / 2000 == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 2000))


def test_a_segment_ranks_by_its_own_counts_when_it_has_enough() -> None:
    copy = Copy(Log(), enough=100, counted=False, split=Split({"one": 1, "two": 0}))
    copy.add("a", "b")
    copy.bring([("a", 100, 90), ("b", 100, 10)])
    copy.bring([("a", 60, 0), ("b", 60, 60)], segment="night")
    assert copy.rank(1).fields["items"] == ["a"]
    assert copy.rank(1, segment="night").fields["items"] == ["b"]
    assert copy.rank(1, segment="unheard of").fields["items"] == ["a"]
    copy.flush()
    copy.check()


# Learning -------------------------------------------------------------------------------------------------


def stats(copy: Copy, variant: str, item: str) -> tuple[float, float]:
    found = copy.desk.pools.of(variant).stats(copy.desk.ledger.catalogue.slots[item])
    return found.impressions, found.rewards


@pytest.mark.parametrize(("learning", "expected"), [("isolated", (0, 0)), ("shared", (1, 1))])
def test_what_the_others_learn(learning: Any, expected: tuple[int, int]) -> None:
    copy = Copy(Log(), learning=learning, split=Split({"one": 1, "two": 0}))
    copy.add("a")
    copy.bring([("a", 2, 1)])
    draft = copy.rank()
    copy.flush()
    assert copy.give(draft.event.key, "a") == "accepted"
    copy.flush()
    assert stats(copy, "one", "a") == (3, 2)
    assert stats(copy, "two", "a") == (2 + expected[0], 1 + expected[1])
    copy.check()


def test_the_next_ranking_knows_of_those_not_yet_written() -> None:
    copy = Copy(Log(), split=Split({"one": 1, "two": 0}))
    copy.add(*"abcdef")
    shown = [copy.rank(2).fields["items"] for _ in range(3)]
    assert sorted(item for items in shown for item in items) == list("abcdef")


def test_an_impression_earns_at_most_one() -> None:
    copy = Copy(Log(), weights={"like": 0.5, "bad": -1.0}, split=Split({"one": 1, "two": 0}))
    copy.add("a")
    draft = copy.rank()
    copy.flush()
    for kind, total in (("like", 0.5), ("bad", 0.5), ("other", 1.0), ("third", 1.0)):
        assert copy.give(draft.event.key, "a", kind) == "accepted"
        copy.flush()
        assert stats(copy, "one", "a") == (1, total)
        assert copy.give(draft.event.key, "a", kind) == "duplicate"
    copy.check()


@pytest.mark.parametrize("weight", [1.0, 0.3, 1e-9, -5.0, 1e300])
def test_points_are_exact_to_sum(weight: float) -> None:
    rng = random.Random(1)
    for _ in range(100):
        p = points(weight, rng.random())
        assert 0.0 <= p <= 1.0
        assert p * 2**20 == round(p * 2**20)


def test_feedback_that_cannot_be_counted() -> None:
    copy = Copy(Log())
    copy.add("a", "b")
    draft = copy.rank(1)
    shown = draft.fields["items"][0]
    other = "b" if shown == "a" else "a"
    copy.flush()
    assert copy.give(draft.event.key, other) == "rejected"
    assert copy.give("A" * 22, "a") == "unknown"
    assert copy.give(draft.event.key, shown, at=START + WINDOW) == "accepted"
    assert copy.give(draft.event.key, shown, "like", at=START + WINDOW + 1) == "late"
    assert copy.give(draft.event.key, shown, "share", at=START - WINDOW) == "accepted"
    copy.flush()
    assert copy.give(draft.event.key, shown, "like") == "duplicate"
    copy.check()


def test_a_namesake_is_not_credited() -> None:
    copy = Copy(Log(), split=Split({"one": 1, "two": 0}))
    copy.add("a")
    draft = copy.rank()
    copy.flush()
    copy.turn("a", "deleted")
    assert copy.give(draft.event.key, "a") == "accepted"
    copy.add("a")
    copy.flush()
    assert copy.give(draft.event.key, "a", "like") == "accepted"
    copy.flush()
    assert stats(copy, "one", "a") == (0, 0)
    assert copy.desk.ledger.series.totals["one"] == [1, 1, 1]
    copy.check()


def test_a_ranking_written_after_its_item_was_replaced_does_not_count_for_the_new_one() -> None:
    log = Log()
    here, there = (Copy(log, split=Split({"one": 1, "two": 0})) for _ in range(2))
    here.add("a")
    there.flush()
    here.rank()
    there.turn("a", "deleted")
    there.add("a")
    here.flush()
    there.flush()
    assert stats(here, "one", "a") == stats(there, "one", "a") == (0, 0)
    here.check()
    there.check()


def test_confirmed_impressions() -> None:
    copy = Copy(Log(), counted=False, split=Split({"one": 1, "two": 0}))
    copy.add("a", "b", "c")
    draft = copy.rank(3)
    copy.flush()
    name = draft.event.key
    assert stats(copy, "one", "a") == (0, 0)
    assert copy.give(name, "a") == "accepted"  # nobody clicks what was not seen
    copy.write(copy.desk.sort_seen([(name, "b"), (name, "b")], START).drafts)
    copy.flush()
    assert [stats(copy, "one", item) for item in "abc"] == [(1, 1), (1, 0), (0, 0)]
    out = copy.desk.sort_seen([(name, "a"), (name, "z"), ("B" * 22, "a"), (name, "c")], START + WINDOW + 1)
    assert (out.duplicate, out.unknown, len(out.rejected), out.late, out.drafts) == ([0], [2], 1, {3}, [])
    copy.check()


def test_two_rankings_of_one_name_count_once() -> None:
    log = Log()
    here, there = (Copy(log, seed=j, split=Split({"one": 1, "two": 0}), learning="shared") for j in range(2))
    here.add(*"abcd")
    there.flush()
    mine = here.rank(2, name="N" * 22, segment="night")
    theirs = there.rank(3, name="N" * 22)
    assert mine.event.body != theirs.event.body
    there.flush()
    here.flush()
    for copy in (here, there):
        assert not copy.desk.named
        assert copy.desk.ledger.series.totals["one"] == [1, 3, 0]
        same_as_rebuilt(copy, START)
    assert here.give("N" * 22, theirs.fields["items"][0]) == "accepted"


# Coming and going -----------------------------------------------------------------------------------------


def state(copy: Copy, name: str) -> str:
    held = copy.desk.ledger.catalogue
    return STATES[held["state"][held.slots[name]]]


def test_what_has_expired_is_not_shown_even_before_the_log_has_it() -> None:
    copy = Copy(Log())
    copy.add("a", expires_at=START + 100)
    assert copy.rank(at=START + 99).fields["items"] == ["a"]
    assert copy.rank(at=START + 100).fields["items"] == []
    assert state(copy, "a") == "shown"
    copy.chores(START + 100)
    assert state(copy, "a") == "expired"
    copy.check()


@pytest.mark.parametrize("date", [None, START + 500])
def test_a_new_date_brings_back_what_had_expired(date: int | None) -> None:
    for logged in (True, False):
        copy = Copy(Log())
        copy.add("a", expires_at=START + 100)
        assert copy.rank(at=START + 100).fields["items"] == []
        if logged:
            copy.chores(START + 101)
        copy.add("a", at=START + 110, expires_at=date)
        assert copy.rank(at=START + 120).fields["items"] == ["a"]
        copy.chores(START + 130)
        assert copy.rank(at=START + 500).fields["items"] == ([] if date else ["a"])
        copy.chores(START + 500)
        copy.check()


def test_new_tags_and_unhiding_do_not_bring_back_what_has_expired() -> None:
    copy = Copy(Log())
    copy.add("a", expires_at=START + 100)
    copy.turn("a", "hidden")
    copy.chores(START + 200)
    assert state(copy, "a") == "hidden"
    copy.turn("a", "shown", START + 201)
    assert copy.rank(at=START + 201).fields["items"] == []
    copy.add("a", at=START + 202, tags=["x"], expires_at=START + 100)
    assert copy.rank(at=START + 203).fields["items"] == []
    copy.chores(START + 204)
    assert state(copy, "a") == "expired"
    copy.check()


def test_contents_added_while_running_age_too() -> None:
    copy = Copy(Log(), leaving=Leaving(age=1.0))
    copy.add("a")
    assert copy.rank(at=START + HOUR - 1).fields["items"] == ["a"]
    assert copy.rank(at=START + HOUR).fields["items"] == []
    copy.chores(START + HOUR)
    assert state(copy, "a") == "expired"
    copy.add("a", at=START + HOUR + 1, tags=["x"])
    assert state(copy, "a") == "expired"
    copy.add("a", at=START + HOUR + 2, expires_at=START + 9 * HOUR)  # back for a moment, but no younger
    assert copy.rank(at=START + HOUR + 3).fields["items"] == []
    copy.chores(START + HOUR + 3)
    assert state(copy, "a") == "expired"
    copy.check()


def test_a_content_leaves_one_variant_and_not_the_other() -> None:
    copy = Copy(Log(), leaving=Leaving(impressions=2), split=Split({"one": 1, "two": 0}))
    copy.add("a")
    drafts = [copy.rank() for _ in range(3)]
    assert [draft.fields["items"] for draft in drafts] == [["a"], ["a"], []]
    copy.chores(START)
    assert copy.desk.about("a")["one"]["left"]["reason"] == "graduated"
    assert copy.desk.about("a")["two"]["left"] is None
    assert copy.desk.ledger.catalogue.slots["a"] in copy.desk.pools.of("two")
    assert copy.give(drafts[0].event.key, "a") == "accepted"
    copy.flush()
    assert copy.desk.about("a")["one"]["rewards"] == 1
    copy.check()
    copy.start()
    assert copy.rank().fields["items"] == []


def test_a_content_deleted_just_after_it_left() -> None:
    copy = Copy(Log(), leaving=Leaving(impressions=1), split=Split({"one": 1, "two": 0}))
    copy.add("a", "b")
    copy.rank(2)
    copy.turn("a", "deleted")
    copy.add("a")
    copy.chores(START)
    assert copy.desk.about("a")["one"]["left"] is None
    assert copy.desk.about("b")["one"]["left"] is not None
    assert copy.rank(2).fields["items"] == ["a"]
    copy.flush()
    copy.chores(START)
    copy.check()


def test_contents_beyond_hope_are_swept_out() -> None:
    copy = Copy(Log(), leaving=Leaving(share=0.5), split=Split({"one": 1, "two": 0}))
    copy.add("good", "bad")
    copy.bring([("good", 10_000, 9000), ("bad", 10_000, 10)])
    copy.desk.sweep()
    copy.turn("bad", "hidden")
    copy.turn("bad", "shown")
    assert copy.rank().fields["items"] == ["good"]
    copy.chores(START)
    assert copy.desk.about("bad")["one"]["left"]["reason"] == "outclassed"
    copy.check()


def test_rounds_count_what_has_gone() -> None:
    """The number of rounds is that of all impressions, whatever became of the items, also after a restart."""
    for learning in ("isolated", "shared"):
        copy = Copy(Log(), learning=learning, split=Split({"one": 1, "two": 0}), enough=0)
        copy.add("a", "b")
        copy.bring([("a", 5, 1), ("b", 7, 1)])
        drafts = [copy.rank(2, segment="night") for _ in range(3)]
        copy.turn("b", "deleted")
        copy.give(drafts[0].event.key, "b")
        copy.flush()
        assert copy.desk.pools.of("one").rounds == 18
        assert copy.desk.pools.deciding("one", "night").rounds == 6
        copy.check()


def loads_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Pool, int]]:
    """What pools take in from now on: each pool, and how many items at once."""
    loads: list[tuple[Pool, int]] = []
    add = Pool.add

    def counting(self: Pool, ids: Any, *args: Any, **options: Any) -> None:
        loads.append((self, len(ids)))
        add(self, ids, *args, **options)

    monkeypatch.setattr(Pool, "add", counting)
    return loads


def test_a_great_batch_of_items_is_taken_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = loads_of(monkeypatch)
    copy = Copy(Log())
    copy.add(*(f"item {j}" for j in range(500)))
    copy.desk.pools.finish()
    assert [size for _, size in loads] == [500] * len(VARIANTS)


def test_a_ranking_waits_for_its_own_pool_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many items, many segments: one pool takes them in for a ranking, the others a slice at a time."""
    copy = Copy(Log(), enough=0, split=Split({"one": 1, "two": 0}))
    copy.add("a", "b")
    segments = [f"segment {j}" for j in range(20)]
    for segment in segments:
        copy.rank(1, segment=segment)
    copy.flush()
    copy.desk.pools.finish()
    loads = loads_of(monkeypatch)
    copy.add(*(f"item {j}" for j in range(2 * SLICE + 10)))
    copy.rank(2, segment=segments[3])
    copy.flush()
    pools = copy.desk.pools
    assert {id(pool) for pool, _ in loads} == {id(pools.of("one")), id(pools.deciding("one", segments[3]))}
    del loads[:]
    slices = 0
    for _ in pools.catch_up():
        slices += 1
        assert sum(size for _, size in loads) <= SLICE
        del loads[:]
    assert slices >= 3 * (len(segments) - 1)
    copy.check()


def test_a_segment_has_a_pool_once_it_decides() -> None:
    """Before, its counts are in the ledger alone: a pool for each of many segments would take much memory."""
    copy = Copy(Log(), enough=10, split=Split({"one": 1, "two": 0}))
    copy.add("a", "b")
    for _ in range(4):
        copy.rank(2, segment="night")
    copy.flush()
    assert copy.desk.pools.segments("one") == []
    assert copy.desk.pools.deciding("one", "night") is copy.desk.pools.of("one")
    copy.rank(2, segment="night")
    copy.flush()
    assert copy.desk.pools.segments("one") == ["night"]
    own = copy.desk.pools.deciding("one", "night")
    assert own is not copy.desk.pools.of("one")
    assert own.rounds == 10
    copy.check()


def test_many_items_expire_a_part_at_a_time() -> None:
    """Those that expire together are hidden at once, and logged in parts."""
    copy = Copy(Log())
    names = [f"item {j}" for j in range(2_500)]
    copy.add(*names, expires_at=START + 5)
    assert len(copy.rank(3).fields["items"]) == 3
    assert copy.rank(3, at=START + 5).fields["items"] == []
    copy.flush()
    parts = []
    while drafts := copy.desk.chores(START + 5):
        parts.append(len(drafts))
        copy.write(drafts)
        copy.flush()
    assert sum(parts) == len(names)
    assert max(parts) <= 1_000
    assert copy.desk.ledger.catalogue.live == 0
    copy.check(START + 5)


def test_a_fit_in_another_thread_leaves_the_ledger_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has all it needs: were it to add up what the loop is counting, impressions would be lost between the two."""
    copy = Copy(Log(), variants={"one": "cold-start", "two": "cold-start"})
    copy.add("a", "b")
    copy.rank(2)
    copy.flush()
    wanted = due(copy.desk.state)
    copy.rank(2)
    copy.flush()

    def touched(*_: object) -> None:
        raise AssertionError("the ledger was touched")

    monkeypatch.setattr(Counts, "_add_shown", touched)
    monkeypatch.setattr(Counts, "_reach", touched)
    assert [fit(each, START).event.kind for each in wanted] == ["prior"]


def test_a_ranking_has_so_many_kinds_of_feedback() -> None:
    """Those of the log and those of one batch are counted together; a log that has more of them is folded as ever."""
    copy = Copy(Log(), max_kinds=3)
    copy.add("a", "b")
    one, other = copy.rank().event.key, copy.rank().event.key
    copy.flush()
    kinds = ["k1", "k2", "k1", "k3", "k4", "k3", "k5"]
    out = copy.desk.sort([GivenFeedback(name, "a", kind) for kind in kinds for name in (one, other)], START)
    assert [kinds[j // 2] for j in out.places if j % 2 == 0] == ["k1", "k2", "k1", "k3", "k3"]
    assert [j for j, _ in out.rejected] == [8, 9, 12, 13]
    assert out.rejected[0][1] == (
        "a ranking must have feedback of at most 3 kinds (max_kinds), but 'k4' would be one more"
    )
    copy.write(out.drafts)
    copy.flush()
    assert copy.give(one, "b", "k4") == "rejected"
    assert copy.give(one, "a", "k3") == "duplicate"
    assert copy.give(one, "b", "k3") == "accepted"
    copy.flush()
    copy.check()
    copy.options["max_kinds"] = 2
    copy.start()
    assert [copy.give(one, "b", kind) for kind in ("k1", "k2", "k3", "k4")] == [
        "accepted",
        "accepted",
        "duplicate",
        "rejected",
    ]
    copy.flush()
    copy.check()


def test_propensities_are_over_the_order_of_ties() -> None:
    """Counted over many rankings of the same pool: with no random share, chance is in the order of ties alone."""
    draws = 4000
    copy = Copy(Log(), counted=False, seed=6, split=Split({"one": 1, "two": 0}))
    copy.add(*"abcdef")
    copy.bring([("a", 100, 50), ("b", 100, 40), ("c", 100, 40)])
    told: dict[tuple[int, str], float | None] = {}
    found: Counter[tuple[int, str]] = Counter()
    for _ in range(draws):
        fields = copy.desk.rank(Query(5, exclude=["f"]), START).fields
        assert (fields["k"], fields["exclude"], fields["eligible"]) == (5, ["f"], None)
        for place, (item, p) in enumerate(
            zip(fields["items"], tie_chances(fields["scores"], fields["tie"]), strict=True)
        ):
            assert told.setdefault((place, item), p) == p
            found[place, item] += 1
    for key, p in told.items():
        assert p is not None
        assert found[key] / draws == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / draws) + 1e-9), key
    assert {p for (_, item), p in told.items() if item in "bcde"} == {0.5}
    fields = copy.desk.rank(Query(1), START).fields
    assert fields["eligible"] == 6
    assert "exclude" not in fields


def test_a_random_share_and_ties_together() -> None:
    share, draws = 0.4, 8000
    copy = Copy(Log(), counted=False, random_share=share, seed=7, split=Split({"one": 1, "two": 0}))
    copy.add(*"abcdef")
    copy.bring([("a", 100, 50), ("b", 100, 50), ("c", 100, 50), ("d", 100, 20), ("e", 100, 10), ("f", 100, 5)])
    told: dict[tuple[int, str], float] = {}
    found: Counter[tuple[int, str]] = Counter()
    for _ in range(draws):
        fields = copy.desk.rank(Query(2), START).fields
        assert fields["eligible"] == 6
        for place, (item, p) in enumerate(zip(fields["items"], fields["propensities"], strict=True)):
            assert told.setdefault((place, item), p) == p
            found[place, item] += 1
    for key, p in told.items():
        assert found[key] / draws == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / draws)), key
    assert told[0, "a"] == pytest.approx(share / 6 + (1 - share) / 3)
    assert told[1, "f"] == pytest.approx(share / 6)


def test_the_log_has_no_more_than_so_many_ids_of_a_filter() -> None:
    desk = Desk(Ledger(), {"a": "ucb1"}, seed=1)
    items: list[dict[str, Any]] = [
        {"id": f"item-{n}", "tags": [], "expires_at": None, "metadata": None} for n in range(3)
    ]
    desk.commit_own(list(enumerate(desk.describe(items, 0), 1)))
    many = [f"other-{n}" for n in range(LOGGED + 5)]
    made = desk.rank(Query(3, exclude=[*many, "item-1"]), 1).fields
    assert sorted(made["items"]) == ["item-0", "item-2"]
    assert (made["exclude"], made["asked"]) == (many[:LOGGED], LOGGED + 6)
    made = desk.rank(Query(3, among=["item-1", *many]), 1).fields
    assert made["items"] == ["item-1"]
    assert (len(made["among"]), made["asked"]) == (LOGGED, LOGGED + 6)
    assert "asked" not in desk.rank(Query(3, exclude=["item-1"]), 1).fields


def test_an_item_leaves_with_its_impressions_not_with_what_they_are_worth() -> None:
    leaving = Leaving(impressions=2.2)
    desk = Desk(Ledger(), {"a": "cold-start"}, seed=1, positions=[1.0, 0.5, 0.25], leaving=leaving)
    items: list[dict[str, Any]] = [
        {"id": f"item-{n}", "tags": [], "expires_at": None, "metadata": None} for n in range(3)
    ]
    places = itertools.count(1)
    desk.commit_own([(next(places), draft) for draft in desk.describe(items, 0)])
    shown: Counter[str] = Counter()
    left: dict[str, float] = {}
    for at in range(8):
        made = desk.rank(Query(3), at)
        shown.update(made.fields["items"])
        if at % 2:  # the others are not in the log yet
            desk.commit_own([(next(places), made)])
        for draft in desk.chores(at):
            assert draft.event.kind == "leave"
            left[draft.fields["id"]] = draft.fields["impressions"]
            assert draft.fields["impressions"] == shown[draft.fields["id"]]
            assert type(draft.fields["impressions"]) is int
    assert len(left) >= 2
