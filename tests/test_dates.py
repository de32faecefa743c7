"""Dates of expiry against a plain dictionary of them, over random lives of a catalogue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hellinger.engine import dates
from hellinger.engine.dates import Dates
from hellinger.ledger import SHOWN

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
        expired -= set(some.tolist())
        found = list[int]()
        while kept.due(at):
            part = kept.expire(at).tolist()
            assert len(part) <= 7
            found += part
        shown = np.flatnonzero(shelf["state"] == SHOWN)
        ends = kept.ends(shown)
        wanted = set(shown[(ends > 0) & (ends <= at)].tolist()) - expired
        assert sorted(found) == sorted(wanted)
        expired |= wanted
        all_expired, together = all_expired + len(found), max(together, len(found))
        assert set(np.flatnonzero(kept.expired(np.arange(60))).tolist()) == expired
        assert len(kept) <= 2 * shelf.live + 20 + 12
    assert all_expired > 150
    assert together > 7
    logged = list[int]()
    while part := kept.to_log():
        logged += part
    assert sorted(logged) == sorted(expired)
    assert kept.known == (len(kept) > 0)
