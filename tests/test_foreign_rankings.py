"""Rankings that other copies made: counted many at once by the places of their items, read only when asked for."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import orjson
import pytest

from hellinger.events import Event, Logged, new_request
from hellinger.ledger import Ledger, Request, Requests, placed
from hellinger.ledger import requests as kept
from hellinger.ledger.catalogue import DELETED, Catalogue
from hellinger.ledger.errors import EventError
from hellinger.ledger.recovery import differences, fold
from hellinger.ledger.requests import PART
from hellinger.pool import Pool
from ledger_model import START, Log
from lives import Life


def _without_places(event: Logged) -> Logged:
    """The event as an older version wrote it."""
    if event.kind != "rank":
        return event
    fields = event.fields
    del fields["since"]
    return event._replace(body=orjson.dumps(fields).decode())


def _folded(events: list[Logged], *, batch: int, cache: int = 100_000) -> Ledger:
    log, ledger = Log(), Ledger(cache=cache)
    log.events = events
    for start in range(0, len(events), batch):
        fold(ledger, events[start : start + batch], log.thread)
    return ledger


@pytest.mark.parametrize("seed", sorted({*range(22)} - {5}))  # in these lives no item is shown
def test_places_of_items_give_the_ledger_that_their_names_give(seed: int) -> None:
    """In random lives, with items deleted, added again and forgotten while rankings are on their way."""
    life = Life(seed, steps=150)
    life.live()
    events = life.log.events
    assert any(event.kind == "rank" and event.fields["since"] for event in events)
    by_name = _folded([_without_places(event) for event in events], batch=7)
    for batch, cache in ((1, 0), (7, 100_000), (len(events), 100_000), (len(events), 3)):
        by_place = _folded(events, batch=batch, cache=cache)
        assert differences(by_place, by_name) == []
        assert by_place.series.as_json() == by_name.series.as_json()
        for name in set(by_place.requests) & set(by_name.requests):
            one, other = by_place.requests.find(name), by_name.requests.find(name)
            assert one is not None
            assert other is not None
            for field in ("whose", "at", "through", "items", "counted", "phase", "given", "reward", "seen"):
                assert getattr(one, field) == getattr(other, field), field


def test_items_are_found_by_their_places_as_by_their_names() -> None:
    """Whatever was deleted, forgotten and added since, and where the lowest bits of places are the same."""
    rng = random.Random(5)
    catalogue, place, everybody = Catalogue(), 0, {}
    for _ in range(3000):
        place += rng.choice([1, 1, 64, 4096])
        name = f"item {rng.randrange(300)}"
        slot = catalogue.slots.get(name)
        if slot is None:
            catalogue.add(name, since=place, at=START)
            everybody[place] = name
        elif rng.random() < 0.6:
            catalogue.set_state(slot, DELETED, START)
        if rng.random() < 0.05:
            catalogue.forget(list(catalogue.left)[:20])
    sought = np.array([*everybody, 0, place + 1], np.int64)
    expected = []
    for added in sought.tolist():
        slot = catalogue.slots.get(everybody.get(added, ""), -1)
        expected.append(slot if slot >= 0 and catalogue["since"][slot] == added else -1)
    assert catalogue.find(sought).tolist() == expected
    assert sum(slot >= 0 for slot in expected) == len(catalogue) > 50
    assert catalogue._added.size < 4 * len(catalogue.ids), "places of forgotten items leave memory"
    assert Catalogue().find(sought).tolist() == [-1] * sought.size


def _ranking(fields: dict[str, Any] | None = None) -> str:
    known = {"variant": "one", "segment": None, "counted": True, "phase": 0, "since": [1], "through": 1, "items": ["a"]}
    return orjson.dumps(known | (fields or {})).decode()


def test_a_request_is_read_when_it_is_asked_for() -> None:
    requests = Requests(3)
    for name in "abcd":
        requests.put_unread(name, START, _ranking())
    assert len(requests) == 4
    requests.evict()
    assert list(requests) == ["b", "c", "d"]
    unread = requests.bytes
    found = requests.get("b")
    assert found is not None
    assert (found.whose, found.at, found.items, found.through) == (("one", ""), START, ("a",), 1)
    assert requests.find("b") is found
    assert requests.bytes - found.size == unread * 2 // 3
    assert list(requests) == ["c", "d", "b"]
    requests.put_unread("b", START, _ranking())
    assert requests.bytes == unread
    requests.put("b", Request("one", "", START, 1, ("a",), counted=True))
    requests.set_memory(0)
    assert (len(requests), requests.bytes) == (0, 0)


def test_no_dictionary_of_requests_is_large() -> None:
    """One of 100,000 takes 5 to 15 ms whenever it makes its table anew, and rankings wait meanwhile."""
    requests, request = Requests(), Request("one", "", START, 1, ("a",), counted=True)
    names = [new_request(START + j) for j in range(3 * requests.limit)]
    largest = 0
    for j, name in enumerate(names):
        requests.put(name, request)
        if not j % 1000:
            largest = max(largest, *map(len, requests._ring))
    assert (len(requests), len(requests._ring)) == (requests.limit, 64)
    assert largest <= PART
    assert requests.bytes == requests.limit * request.size
    age = {name: len(names) - j for j, name in enumerate(names)}
    held = {age[name] for name in requests}
    assert max(held) < 1.2 * requests.limit, "what goes is what was longest unused, about"
    assert held >= set(range(1, int(0.8 * requests.limit)))
    oldest = max(requests, key=age.__getitem__)
    assert requests.get(oldest) is request
    for name in names[: requests.limit // 2]:
        requests.put(name, request)
    assert oldest in requests, "a use makes it new"


def test_limits_hold_where_parts_are_of_unlike_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "PART", 1)
    rng, letters = random.Random(3), "aaaaaaaabc"
    requests, request = Requests(20), Request("one", "", START, 1, ("a",), counted=True)
    pinned: list[str] = []
    for j in range(2000):
        name = f"{j}{rng.choice(letters)}-"
        requests.put(name, request)
        assert len(requests) == len(list(requests)) <= 20 + len(pinned)
        assert requests.bytes == len(requests) * request.size
        assert all(other in requests for other in pinned)
        if rng.random() < 0.3 and name in requests:
            requests.pin([name])
            pinned.append(name)
        if len(pinned) > 30 or (pinned and rng.random() < 0.1):
            requests.release([pinned.pop(rng.randrange(len(pinned)))])
    requests.set_memory(0)
    assert sorted(requests) == sorted(pinned)
    requests.release(pinned)
    assert (len(requests), requests.bytes) == (0, 0)


@pytest.mark.parametrize("seed", [0, 3])
def test_the_order_in_which_requests_go_changes_no_result(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(seed, steps=150)
    life.live()
    all_held = _folded(life.log.events, batch=7)
    for part, cache in ((1, 3), (1, 30), (1000, 3), (1000, 30)):
        monkeypatch.setattr(kept, "PART", part)
        some = _folded(life.log.events, batch=7, cache=cache)
        assert len(some.requests) <= cache
        assert (len(some.requests._ring) > 1) == (part == 1)
        assert differences(some, all_held) == []
        assert some.series.as_json() == all_held.series.as_json()


@pytest.mark.parametrize(
    "body",
    [_ranking()[:-1], _ranking({"since": ["a"]}), _ranking({"since": [1, None]}), '{"variant":"one","since":[1]}'],
    ids=["cut short", "no numbers", "a gap", "too few fields"],
)
def test_a_damaged_ranking_is_refused(body: str) -> None:
    ledger = Ledger()
    item = Event.of("item/a", "item", START, {"id": "a", "tags": [], "expires_at": None, "metadata": None})
    ledger.apply(placed([Logged(1, *item)]))
    with pytest.raises(EventError, match="event 2 of the log"):
        ledger.apply(placed([Logged(2, "R", "rank", START, body)]))


def test_fields_in_another_order_are_read_one_by_one() -> None:
    item = Event.of("item/a", "item", START, {"id": "a", "tags": [], "expires_at": None, "metadata": None})
    fields = orjson.loads(_ranking())
    both = []
    for body in (_ranking(), orjson.dumps(dict(reversed(fields.items()))).decode()):
        ledger = Ledger()
        ledger.apply(placed([Logged(1, *item), Logged(2, "R", "rank", START, body)]))
        both.append(ledger)
    assert differences(*both) == []
    assert both[0].series.totals == both[1].series.totals == {"one": [1.0, 1.0, 0.0]}
    assert both[0].sums([0])[0].tolist() == [1.0]


@pytest.mark.parametrize("names", [list(range(6)), [f"item {j}" for j in range(6)]], ids=["numbers", "names"])
def test_counts_are_set_where_items_are_present(names: list[Any]) -> None:
    pool = Pool("ucb1")
    pool.add(names[:4])
    asked: Any = np.array(names[2:]) if type(names[0]) is int else names[2:]
    with pytest.raises(ValueError, match="one of those in the pool"):
        pool.set_counts(asked, 3, 1)
    pool.set_counts(asked, [3, 4, 5, 6], [1, 2, 3, 4], skip_absent=True)
    assert [pool.stats(name)[:2] for name in names[:4]] == [(0, 0), (0, 0), (3, 1), (4, 2)]
    with pytest.raises(ValueError, match="given once"):
        pool.set_counts([names[1], names[1]], 1, 0, skip_absent=True)
