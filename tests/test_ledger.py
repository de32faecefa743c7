"""The ledger is the fold of the log: the same as a model that computes every figure anew from all events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hellinger.events import Logged
from hellinger.ledger import HIDDEN, Ledger, Request, Requests, TimeSeries, UnknownKindError, placed, series
from hellinger.ledger.looks import ZONES
from hellinger.ledger.recovery import differences, fold
from hellinger.ledger.snapshot import decode, encode
from ledger_model import START, Command, Log, Model, commands, written

quick = settings(max_examples=60, deadline=None)


def folded(log: Log, *, cache: int = 100_000, batch: int = 7, ledger: Ledger | None = None) -> Ledger:
    """The ledger of a log, a few events at a time."""
    ledger = ledger or Ledger(cache=cache)
    rest = [event for event in log.events if event.seq > ledger.seq]
    for start in range(0, len(rest), batch):
        fold(ledger, rest[start : start + batch], log.thread)
    return ledger


@settings(quick, max_examples=300)
@given(commands)
def test_the_fold_is_the_model(happenings: list[Command]) -> None:
    log = written(happenings)
    Model(log.events).check(folded(log))


@quick
@given(commands, st.integers(0, 50))
def test_every_place_of_the_log_has_its_fold(happenings: list[Command], cut: int) -> None:
    log = written(happenings)
    del log.events[cut:]
    Model(log.events).check(folded(log, batch=1))


@settings(quick, max_examples=120)
@given(commands, st.integers(0, 3), st.integers(1, 60))
def test_requests_forgotten_and_recalled_change_nothing(happenings: list[Command], cache: int, batch: int) -> None:
    log = written(happenings)
    ledger = folded(log, cache=cache, batch=batch)
    assert len(ledger.requests) <= cache
    Model(log.events).check(ledger)


def test_a_recalled_ranking_is_forgotten_when_it_is_no_longer_pinned() -> None:
    log = written([("rank", "one", None, ["a"], False, 0), ("feedback", 0, 0, "click", 0.0, False)])
    assert len(folded(log, cache=0, batch=1).requests) == 0


@settings(quick, max_examples=120)
@given(commands, st.integers(0, 50), st.integers(1, 3))
def test_a_snapshot_taken_anywhere_goes_on_alike(happenings: list[Command], cut: int, cache: int) -> None:
    log = written(happenings)
    start = Log()
    start.events = log.events[:cut]
    whole = folded(start)
    parts = list(encode(whole))
    assert all(0 < len(part) <= 1 << 20 for part in parts)
    again = decode(parts, cache=cache)
    assert differences(whole, again) == []
    assert b"".join(encode(again)) == b"".join(encode(decode(encode(again))))
    Model(log.events).check(folded(log, ledger=again))


# Differences ---------------------------------------------------------------------------------------------

BASIC: list[Command] = [
    ("item", "c/d", ["x"], 50),
    ("rank", "one", None, ["a", "b"], True, 0),
    ("rank", "two", "tablet", ["a"], True, 0),
    ("feedback", 0, 0, "click", 0.5, False),
    ("feedback", 1, 0, "like", 1.0, False),
    ("import", None, None, [("b", 4, 0.5, None)]),
    ("leave", "one", "b", True),
]


def _add_item(ledger: Ledger) -> None:
    ledger.catalogue.add("new", since=1, at=1)


def _retag(ledger: Ledger) -> None:
    ledger.catalogue.label(0, ("other",), ())


def _regroup(ledger: Ledger) -> None:
    ledger.catalogue.label(0, ledger.catalogue.tags_of(0), ("other",))


def _feature(ledger: Ledger) -> None:
    ledger.catalogue.features[0] = '{"length":1.0}'


def _column(name: str) -> Callable[[Ledger], None]:
    def change(ledger: Ledger) -> None:
        ledger.catalogue[name][1] += 1

    return change


def _note(n: float, s: float, key: tuple[str, str], gone: float = 0.0) -> Callable[[Ledger], None]:
    return lambda ledger: ledger.counts[key].add(np.array([0]), np.array([n]), np.array([s]), gone)


def _late(slot: int) -> Callable[[Ledger], None]:
    def change(ledger: Ledger) -> None:
        counts = ledger.counts["one", ""]
        late, total = np.zeros((1, len(ZONES) - 1)), counts.late.copy()
        late[0, 2], total[2] = slot + 1, total[2] - slot
        counts.set_behind(np.array([0]), counts.behind(np.array([0]), 1) + late, total.tolist())

    return change


def _curve(ledger: Ledger) -> None:
    ledger.curve = 3, {"worth": [1.0, 0.5]}


def _pace(ledger: Ledger) -> None:
    ledger.pace = 3, {"hourly": {"one": 7.0}, "at": 5}


def _look(ledger: Ledger) -> None:
    ledger.looks.note(0b1, 1, 1.0)


def _drop_counts(ledger: Ledger) -> None:
    del ledger.counts["two", "tablet"]


def _move(ledger: Ledger) -> None:
    ledger.counts["one", "tablet"] = ledger.counts.pop(("two", "tablet"))


def _total(place: int) -> Callable[[Ledger], None]:
    def change(ledger: Ledger) -> None:
        ledger.series.totals["one"][place] += 1

    return change


def _step(name: str) -> Callable[[Ledger], None]:
    def change(ledger: Ledger) -> None:
        step = next(iter(ledger.series.steps[name].values()))
        step["one"][2] += 1 / 8

    return change


def _page(what: str) -> Callable[[Ledger], None]:
    def change(ledger: Ledger) -> None:
        share = ledger.series.shares[0, "two"].final
        setattr(share, what, getattr(share, what) + 1)

    return change


def _ungone(ledger: Ledger) -> None:
    ledger.gone["one"].clear()


def _gone_otherwise(ledger: Ledger) -> None:
    next(iter(ledger.gone["one"].values()))["reason"] = "outclassed"


def _seq(ledger: Ledger) -> None:
    ledger.seq += 1


def _hide(ledger: Ledger) -> None:
    ledger.catalogue.set_state(0, HIDDEN, 0)


def _forget_variant(ledger: Ledger) -> None:
    del ledger.series.totals["two"]


TAMPERINGS = {
    "item": _add_item,
    "tags": _retag,
    "group": _regroup,
    "features": _feature,
    **{name: _column(name) for name in ("since", "said", "added_at", "expires_at", "state")},
    "hidden": _hide,
    "impression": _note(1, 0, ("one", "")),
    "reward": _note(0, 2.0**-20, ("one", "")),
    "imported": _note(1, 0, ("", "")),
    "position": _late(0),
    "position of deleted ones": _late(-1),
    "curve": _curve,
    "pace": _pace,
    "looks": _look,
    "moved": _move,
    "dropped": _drop_counts,
    "rounds": _note(0, 0, ("one", ""), 1.0),
    **{f"total {place}": _total(place) for place in range(3)},
    **{f"step {name}": _step(name) for name in ("minute", "hour", "day")},
    **{f"page {what}": _page(what) for what in ("units", "squares", "largest", "most", "guarded")},
    "came back": _ungone,
    "gone otherwise": _gone_otherwise,
    "place": _seq,
    "variant": _forget_variant,
}


def test_differences_of_equals_are_none() -> None:
    assert differences(folded(written(BASIC)), folded(written(BASIC), cache=1)) == []


@pytest.mark.parametrize("name", TAMPERINGS)
def test_differences_find(name: str) -> None:
    one, other = folded(written(BASIC)), folded(written(BASIC))
    TAMPERINGS[name](other)
    assert differences(one, other) != []
    assert differences(other, one) != []


def test_many_differences_are_cut_short() -> None:
    ledger = folded(written(BASIC))
    found = differences(ledger, Ledger(), most=3)
    assert len(found) == 4
    assert found[-1].startswith("and ")


# Parts --------------------------------------------------------------------------------------------------


def _request() -> Request:
    return Request("one", "", START, 1, ("a",), counted=True)


def _found(ledger: Ledger, name: str) -> Request:
    found = ledger.requests.find(name)
    assert found is not None
    return found


def test_requests_keep_those_that_are_needed() -> None:
    requests = Requests(2)
    first = _request()
    requests.put("first", first)
    with requests.pinned(["first", "not here yet"]), requests.pinned(["first"]):
        for name in ("second", "third", "fourth", "fifth", "sixth"):
            requests.put(name, _request())
        assert requests.get("first") is first
        assert "second" not in requests
    for name in ("seventh", "eighth"):
        requests.put(name, _request())
    assert "first" not in requests
    assert len(requests) == 2


def test_requests_without_a_cache_hold_what_is_kept() -> None:
    requests = Requests(0)
    requests.put("gone", _request())
    assert "gone" not in requests
    with requests.pinned(["kept"]):
        requests.put("kept", _request())
        assert "kept" in requests
    requests.put("other", _request())
    assert len(requests) == 0


@quick
@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["one", "two"])), max_size=40), st.randoms())
def test_minutes_kept_are_the_newest_whatever_the_order(adds: list[tuple[int, str]], rng: object) -> None:
    keep, series.KEEP_MINUTES = series.KEEP_MINUTES, 4
    try:
        one, other = TimeSeries(), TimeSeries()
        for minute, variant in adds:
            one.add(variant, minute * 60_000, 1, 2, 0.5)
        rng.shuffle(adds)  # type: ignore[attr-defined]
        for j, (minute, variant) in enumerate(adds):
            other.add(variant, minute * 60_000, 1, 2, 0.5)
            if j % 5 == 0:
                other = TimeSeries.of(other.as_json())
        newest = sorted({minute for minute, _ in adds})[-4:]
        assert sorted(one.steps["minute"]) == newest
        assert one.steps == other.steps
        assert one.totals == other.totals
        for minute in newest:
            for variant, cell in one.steps["minute"][minute].items():
                assert cell[0] == adds.count((minute, variant))
    finally:
        series.KEEP_MINUTES = keep


def test_an_import_into_the_future_is_counted_now() -> None:
    log = written([("import", "one", None, [("a", 3, 1.0, 10**12)])])
    steps = folded(log).series.steps["minute"]
    assert list(steps) == [START // 60_000]


def test_a_hidden_content_does_not_come_back_by_a_new_date() -> None:
    log = written([("item", "a", [], 50), ("state", "a", "hidden", True), ("state", "a", "expired", True)])
    assert contents_state(log, "a") == "hidden"


def test_a_content_that_aged_is_not_revived_by_a_description() -> None:
    log = written([("state", "a", "expired", True), ("item", "a", ["x"], None)])
    log.events[-2] = log.events[-2]._replace(body=log.events[-2].body.replace('"expires_at":1', '"expires_at":0'))
    assert contents_state(log, "a") == "expired"


def contents_state(log: Log, name: str) -> str:
    from hellinger.ledger import STATES

    ledger = folded(log)
    return STATES[ledger.catalogue["state"][ledger.catalogue.slots[name]]]


def test_sums_are_over_what_is_asked_for() -> None:
    ledger = folded(written(BASIC))
    slots = [ledger.catalogue.slots[name] for name in ("a", "b")]
    n, s = ledger.sums(slots, variants=["one", "two", ""])
    np.testing.assert_array_equal(n, [2, 5])
    np.testing.assert_array_equal(s, [1.5, 2])
    n, _ = ledger.sums(slots, variants=["one", "two"], segment="tablet")
    np.testing.assert_array_equal(n, [1, 0])
    assert ledger.segments == ["tablet"]
    assert ledger.rounds(variants=["two"]) == 1


def test_late_feedback_is_no_confirmation_even_when_recalled() -> None:
    happenings: list[Command] = [
        ("rank", "one", None, ["a"], False, 0),
        ("feedback", 0, 0, "click", 1.0, True),
        ("seen", 0, 0),
        ("feedback", 0, 0, "like", 0.5, False),
    ]
    log = written(happenings)
    ledger = folded(log, cache=0, batch=1)
    Model(log.events).check(ledger)
    assert ledger.series.totals["one"] == [1, 1, 0.5]


def test_an_event_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(UnknownKindError, match=r"event 1 .*vote.*hellinger 9\.9"):
        Ledger().apply(placed([Logged(1, "vote/1", "vote", START, '{"writer": "9.9"}')]))


def test_remembered_rankings_are_limited_in_bytes_and_share_their_names() -> None:
    names = [f"an item with a long name, number {j}" for j in range(50)]
    events: list[tuple[str, dict[str, Any]]] = [
        ("item", {"id": name, "tags": [], "expires_at": None, "metadata": None}) for name in names
    ]
    ranked = {"variant": "one", "segment": None, "counted": True, "through": len(names), "items": names}
    events += [("rank", ranked)] * 20
    log = [Logged(j, f"key{j}", kind, 0, orjson.dumps(fields).decode()) for j, (kind, fields) in enumerate(events, 1)]
    ledger = Ledger(cache=1000)  # in one part
    ledger.apply(placed(log))
    own = {id(name) for name in ledger.catalogue.ids}
    assert {id(item) for name in ledger.requests for item in _found(ledger, name).items} <= own
    assert len(ledger.requests) == 20
    ledger.requests.set_memory(ledger.requests.bytes // 2)
    assert len(ledger.requests) == 10
    assert list(ledger.requests) == [event.key for event in log[-10:]]
    assert ledger.requests.bytes <= ledger.requests.most_bytes
    ledger.requests.pin([log[-10].key])
    ledger.requests.set_memory(0)
    assert list(ledger.requests) == [log[-10].key]
