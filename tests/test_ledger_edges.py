"""The fold at its edges."""

from __future__ import annotations

from typing import Any

import orjson

from hellinger.events import Logged
from hellinger.experiment import Pages
from hellinger.ledger import Ledger, Request, Requests, Series
from hellinger.ledger.series import KEEP_MINUTES

MINUTE = 60_000


def request() -> Request:
    return Request("ucb1", "", 0, 0, ("a",), counted=True)


def test_counts_from_long_ago_when_minutes_are_let_go() -> None:
    series = Series()
    first = 10 * KEEP_MINUTES
    for minute in range(first, first + 2 * KEEP_MINUTES):
        series.add("ucb1", minute * MINUTE, 1, 1, 0)
        series.add("ucb1", (minute - 4 * KEEP_MINUTES) * MINUTE, 0, 1, 1)
    assert series.totals["ucb1"] == [2 * KEEP_MINUTES, 4 * KEEP_MINUTES, 2 * KEEP_MINUTES]
    assert sum(cells["ucb1"][1] for cells in series.steps["hour"].values()) == 4 * KEEP_MINUTES


def test_rewards_that_came_without_their_requests() -> None:
    ledger = Ledger()
    item: dict[str, Any] = {"id": "a", "tags": [], "expires_at": None}
    ledger.apply(Logged(1, "item/1", "item", 0, ""), item)
    row = {"item": "a", "impressions": 9, "rewards": 0.5, "from": None, "to": None}
    ledger.apply(Logged(2, "import/1", "import", 0, ""), {"variant": "ucb1", "segment": None, "rows": [row]})
    together = ledger.series.together("ucb1")
    Pages(together.count, together.squares, together.largest, together.most).check(9, 0.5)


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


def test_feedback_is_named_by_its_key() -> None:
    """Logs written before had what the key says in the body too."""
    short = Logged(1, "request/click/a/b", "feedback", 0, '{"points":1.0,"late":false,"happened":null}')
    told = {"request": "request", "item": "a/b", "kind": "click", "points": 1.0, "late": False, "happened": None}
    assert short.fields == told
    assert short._replace(body=orjson.dumps(told).decode()).fields == told
    assert short.said == tuple(told.values())
