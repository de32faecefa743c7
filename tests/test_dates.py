"""Dates of expiry against a plain dictionary of them, over random lives of a catalogue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hellinger._arrays import distinct
from hellinger.engine import dates
from hellinger.engine.dates import Dates
from hellinger.ledger import SHOWN, Slots

GONE = SHOWN + 1


class Shelf(dict[str, Any]):
    """As much of a catalogue as dates need."""

    def __init__(self, size: int) -> None:
        super().__init__({each: np.zeros(size, np.int64) for each in ("expires_at", "added_at")})
        self["state"] = np.full(size, GONE)
        self.ids = range(size)

    @property
    def live(self) -> int:
        return int((self["state"] == SHOWN).sum())


def due_by(kept: Dates, shelf: Shelf, at: int) -> set[int]:
    """Items that are shown and have expired by this time."""
    shown = np.flatnonzero(shelf["state"] == SHOWN)
    ends = kept.ends(shown)
    return set(shown[(ends > 0) & (ends <= at)].tolist())


def _check_shown(kept: Dates, shelf: Shelf) -> None:
    """Which items may be shown, and how many at most: exactly so many once all that are due have had their turn."""
    everything = np.arange(len(shelf.ids))
    shown = (shelf["state"] == SHOWN) & ~kept.expired(everything)
    assert (kept.shows(everything) == shown).all()
    assert (kept.showing() == shown).all()
    assert kept.shown >= shown.sum()
    assert kept.late or kept.shown == shown.sum()


def _looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items are looked at together, each time."""
    looked: list[int] = []

    def noting(slots: Slots) -> Slots:
        looked.append(slots.size)
        return distinct(slots)

    monkeypatch.setattr(dates, "distinct", noting)
    return looked


@pytest.mark.parametrize("age", [None, 30_000])
@pytest.mark.parametrize("seed", range(8))
def test_items_expire_once_and_in_time_whatever_becomes_of_them(
    seed: int, age: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items come, change, leave and come again, many for the same moment, while the clock may step back."""
    monkeypatch.setattr(dates, "MOST", 7)
    monkeypatch.setattr(dates, "SPARE", 20)
    rng = np.random.default_rng(seed)
    shelf = Shelf(60)
    kept = Dates(shelf, age)  # type: ignore[arg-type]
    looked = _looked(monkeypatch)
    at, expired, all_expired, together = 1, set[int](), 0, 0
    for _ in range(600):
        at = max(1, at + int(rng.integers(0, 1500)) - 20_000 * bool(rng.random() < 0.01))
        some = rng.choice(60, int(rng.integers(1, 12)), replace=False)
        if rng.random() < 0.6:  # added, or sent again with another date or with the same
            shelf["state"][some] = SHOWN
            shelf["added_at"][some] = at
            same = rng.random() < 0.5
            shelf["expires_at"][some] = at + rng.integers(-500, 40_000, 1 if same else some.size)
            shelf["expires_at"][some[rng.random(some.size) < 0.2]] = 0
            np.maximum(shelf["expires_at"], 0, out=shelf["expires_at"])
        else:
            shelf["state"][some] = GONE
        kept.follow(SimpleNamespace(items=set(some.tolist())))  # type: ignore[arg-type]
        assert max(looked, default=0) <= 4 * some.size
        looked.clear()
        expired -= set(some.tolist())
        found = list[int]()
        while kept.due(at):
            part = kept.expire(at).tolist()
            assert len(part) <= 7
            assert max(looked, default=0) <= 7
            looked.clear()
            found += part
            # however many have yet to be given, which items have expired is known already
            assert set(np.flatnonzero(kept.expired(np.arange(60))).tolist()) == expired | due_by(kept, shelf, at)
            _check_shown(kept, shelf)
        wanted = due_by(kept, shelf, at) - expired
        assert sorted(found) == sorted(wanted)
        expired |= wanted
        all_expired, together = all_expired + len(found), max(together, len(found))
        assert set(np.flatnonzero(kept.expired(np.arange(60))).tolist()) == expired
        _check_shown(kept, shelf)
        assert len(kept) <= 2 * shelf.live + 20 + 12
    assert all_expired > 150
    assert together > 7
    logged = list[int]()
    while part := kept.to_log():
        logged += part
    assert sorted(logged) == sorted(expired)
    assert kept.known == (len(kept) > 0)


@pytest.mark.parametrize("spread", [1, 50_000], ids=["the same moment", "a minute"])
def test_very_many_that_expire_together_are_taken_up_in_parts(spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which have expired is exact from the first call on; the clock steps back, and some are changed meanwhile."""
    monkeypatch.setattr(dates, "MOST", 50)
    looked = _looked(monkeypatch)
    rng = np.random.default_rng(0)
    size, begin = 2000, 120_000
    shelf = Shelf(size)
    shelf["state"][:] = SHOWN
    shelf["expires_at"][:] = begin + rng.integers(0, spread, size)
    kept = Dates(shelf)  # type: ignore[arg-type]
    first, calls, given = begin + spread // 2, 0, list[int]()
    due = due_by(kept, shelf, first)
    assert not kept.expired(np.arange(size)).any()
    while kept.due(begin - 1 if calls else first):
        given += kept.expire(begin - 1 if calls else first).tolist()
        calls += 1
        if calls == 3:
            stays = min(due - set(given))
            shelf["expires_at"][stays] = 0
            kept.follow(SimpleNamespace(items={stays}))  # type: ignore[arg-type]
            due.discard(stays)
        assert kept.late == (len(given) < len(due) or kept.due(first))
        assert set(np.flatnonzero(kept.expired(slice(size))).tolist()) == due
        assert kept.shown == size - len(due), "known from the first call on"
        _check_shown(kept, shelf)
    assert sorted(given) == sorted(due)
    assert calls >= size // 50
    assert max(looked) <= 50
    assert len(due) > 900
    logged = 0
    while part := kept.to_log():
        assert len(part) <= dates.TO_LOG
        logged += len(part)
    assert logged == len(due)
    while kept.due(begin + spread):
        kept.expire(begin + spread)
    assert not kept.known


def test_dates_of_all_are_compared_with_the_clock_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls it takes until all that have expired together are given."""
    monkeypatch.setattr(dates, "MOST", 50)
    monkeypatch.setattr(dates, "PART", 300)
    sizes: list[int] = []
    ends = Dates.ends

    def noting(self: Dates, slots: Any) -> Slots:
        found = ends(self, slots)
        sizes.append(found.size)
        return found

    size, due = 2000, 120_000
    shelf = Shelf(size)
    shelf["state"][:] = SHOWN
    shelf["expires_at"][:1900] = due
    kept = Dates(shelf)  # type: ignore[arg-type]
    monkeypatch.setattr(Dates, "ends", noting)
    looked = []
    while kept.due(due):
        kept.expire(due)
        assert kept.shown == 100
        assert np.flatnonzero(kept.showing()).tolist() == list(range(1900, 2000))
        assert max(sizes) <= 300
        looked.append(sum(sizes))
        sizes.clear()
    assert len(looked) == 1900 / 50
    assert looked[0] >= size
    assert max(looked[1:]) <= 3 * 50 + 100


def test_a_minute_is_cleaned_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dates said again and again, of very many items for one minute, are dropped a few at a time, and none is lost."""
    monkeypatch.setattr(dates, "SPARE", 20)
    looked = _looked(monkeypatch)
    rng = np.random.default_rng(0)
    size, begin = 400, 120_000
    shelf = Shelf(size)
    shelf["state"][:] = SHOWN
    shelf["expires_at"][:] = begin
    kept = Dates(shelf)  # type: ignore[arg-type]
    looked.clear()
    for _ in range(2000):
        some = rng.choice(size, 3, replace=False)
        shelf["expires_at"][some] = rng.choice([begin, begin, begin + 120_000])
        kept.follow(SimpleNamespace(items=set(some.tolist())))  # type: ignore[arg-type]
        assert len(kept) <= 4 / 3 * (2 * size + 20) + 12  # a round adds a quarter of what it looks at, then ends
    assert 0 < max(looked) <= 12
    there = due_by(kept, shelf, begin)
    assert sorted(kept.expire(begin).tolist()) == sorted(there)
    assert sorted(kept.expire(begin + 120_000).tolist()) == sorted(set(range(size)) - there)
    assert len(kept) == 0
