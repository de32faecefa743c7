"""The fold at its edges."""

from __future__ import annotations

import itertools
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from hellinger.events import Logged
from hellinger.experiment import Pages
from hellinger.ledger import Ledger, Request, Requests, TimeSeries, placed
from hellinger.ledger.series import KEEP_MINUTES
from hellinger.serve import export
from hellinger.store import open_store

MINUTE = 60_000


def request() -> Request:
    return Request("ucb1", "", 0, 0, ("a",), counted=True)


def test_counts_from_long_ago_when_minutes_are_let_go() -> None:
    series = TimeSeries()
    first = 10 * KEEP_MINUTES
    for minute in range(first, first + 2 * KEEP_MINUTES):
        series.add("ucb1", minute * MINUTE, 1, 1, 0)
        series.add("ucb1", (minute - 4 * KEEP_MINUTES) * MINUTE, 0, 1, 1)
    assert series.totals["ucb1"] == [2 * KEEP_MINUTES, 4 * KEEP_MINUTES, 2 * KEEP_MINUTES]
    assert sum(cells["ucb1"][1] for cells in series.steps["hour"].values()) == 4 * KEEP_MINUTES


def test_rewards_that_came_without_their_requests() -> None:
    ledger = Ledger()
    item: dict[str, Any] = {"id": "a", "tags": [], "expires_at": None}
    ledger.apply([(1, (("item/1", "item", 0, ""), item))])
    row = {"item": "a", "impressions": 9, "rewards": 0.5, "from": None, "to": None}
    fields = {"variant": "ucb1", "segment": None, "rows": [row]}
    ledger.apply([(2, (("import/1", "import", 0, ""), fields))])
    share = ledger.series.shares[0, "ucb1"].final
    assert (share.requests, share.impressions, share.reward) == (0, 9, 0.5)
    Pages(share.units, share.squares, share.largest, share.most).check(9, 0.5)


def test_requests_that_are_pinned_stay() -> None:
    requests = Requests(2)
    requests.pin(["a", "b", "c"])
    held = {name: request() for name in "abcdef"}
    for name, one in held.items():
        requests.put(name, one)
    assert [name for name in "abcdef" if name in requests] == ["a", "b", "c", "e", "f"]
    requests.pin(["a"])
    requests.release(["a", "b", "c"])
    for name in "ghij":
        requests.put(name, request())
    assert requests.get("a") is held["a"]
    assert len(requests) == 3
    requests.release(["a"])
    requests.put("k", request())
    assert len(requests) == 2


def test_feedback_of_many_kinds_is_summed_as_it_comes() -> None:
    """By whatever way and in whatever order it comes, and at the same cost for the last kind as for the first."""
    ranking = Request("ucb1", "", 0, 1, ("a", "b"), counted=True)
    told = [(position, kind, points) for kind in "xyz" for position, points in ((0, 0.375), (1, 2.0**-20))]
    for order in itertools.permutations(told):
        ledger, other = Ledger(), Request("ucb1", "", 0, 1, ("a", "b"), counted=True)
        ledger.apply([(1, (("R", "rank", 0, ""), {}))], {"R": ranking})
        ranking.given, ranking.sums, ranking.reward = {}, None, 0.0
        events = [(("R", position, kind, points, False, None), kind) for position, kind, points in order]
        ledger.apply([(seq, ((f"R/{kind}", "feedback", 0, ""), said)) for seq, (said, kind) in enumerate(events, 2)])
        assert sum(other.give(*one) for one in order) == other.reward == ranking.reward == 1.0 + 3 * 2.0**-20
        assert ranking.given == other.given
        assert ranking.sums == other.sums == {0: 1.125, 1: 3 * 2.0**-20}
    steps = []
    for number in range(300):
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        try:
            ranking.give(0, f"kind{number}", 1.0)
        finally:
            sys.setprofile(None)
        steps.append(calls)
    assert max(steps) < 2 * min(steps)  # not for each kind there is; the garbage collector may call something


def test_feedback_is_named_by_its_key() -> None:
    """Logs written before had what the key says in the body too."""
    short = Logged(1, "request/click/a/b", "feedback", 0, '{"points":1.0,"late":false,"happened":null}')
    told = {"request": "request", "item": "a/b", "kind": "click", "points": 1.0, "late": False, "happened": None}
    assert short.fields == told
    assert short._replace(body=orjson.dumps(told).decode()).fields == told
    assert short.parsed == tuple(told.values())


def test_what_was_not_ranked_earns_nothing(tmp_path: Path) -> None:
    """No service writes such events; in a log that has one all the same, it is nobody's."""
    item: dict[str, Any] = {"tags": [], "expires_at": None}
    rank: dict[str, Any] = {"variant": "ucb1", "segment": None, "counted": False, "through": 2, "items": ["a"]}
    rank |= {"policy": "ucb1", "version": "x", "chance": 1.0, "random": False, "user": None}
    rank |= {"scores": [0.5], "propensities": 1.0}
    events = [
        Logged(1, "item/1", "item", 0, orjson.dumps(item | {"id": "a"}).decode()),
        Logged(2, "item/2", "item", 0, orjson.dumps(item | {"id": "b"}).decode()),
        Logged(3, "R", "rank", 0, orjson.dumps(rank).decode()),
        Logged(4, "R/click/b", "feedback", 0, '{"points": 1.0, "late": false, "happened": null}'),
        Logged(5, "R/seen!/b", "seen", 0, '{"request": "R", "item": "b"}'),
    ]
    ledger, other = Ledger(), Ledger()
    for event in events:
        ledger.apply(placed([event]))
    other.requests.recall(events[2:], 5)
    for held in (ledger, other):
        found = held.requests.get("R")
        assert found is not None
        assert (found.given, found.reward, found.seen) == ({}, 0.0, None)
    assert ledger.seq == 5
    assert ledger.series.totals["ucb1"] == [1.0, 0.0, 0.0]
    assert [column.sum() for column in ledger.whole()] == [0.0, 0.0]
    with closing(open_store(f"sqlite:///{tmp_path}/log.db")) as store:
        store.append([event.row for event in events], 0)
        ((row,),) = export.rows(store, None, None)
    assert (row["item"], row["seen"], row["reward"], row["feedback"]) == ("a", False, 0.0, [])


def test_a_ranking_of_items_that_were_deleted() -> None:
    ledger = Ledger()
    for seq in range(1, 70):
        fields: dict[str, Any] = {"id": f"c{seq}", "tags": [], "expires_at": None}
        ledger.apply([(seq, ((f"item/{seq}", "item", 0, ""), fields))])
    ranking = Request("ucb1", "", 0, 69, ("gone", "c1"), counted=True)
    ledger.apply([(70, (("R", "rank", 0, ""), {}))], {"R": ranking})
    n, _ = ledger.whole()
    assert (n.sum(), n[0]) == (1, 1)
    assert ledger.rounds(variants=["ucb1"]) == 2
