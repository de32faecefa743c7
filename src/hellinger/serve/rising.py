"""Which items do better of late than the pool does, from counts alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.ledger import SHOWN, Columns, Ledger, added

__all__ = ["LEAST", "Rises", "Rising", "wilson_lower"]

HALF = 12 * 3_600_000
LEAST = 20.0
"""Impressions of late that an item needs to be judged by."""
_Z = 1.6448536269514722
"""Quantile of the normal distribution at 95 %."""
_FRESH = 1000

Floats = npt.NDArray[np.float64]


class Rises(NamedTuple):
    """The items that are rising, best first."""

    slots: npt.NDArray[np.int64]
    impressions: Floats
    rewards: Floats
    low: Floats
    since: int
    added: npt.NDArray[np.int64]
    """Where in the log each was added: its slot may be another's by now."""


class _Mark(NamedTuple):
    """The counts of a time, and where in the log the item of each slot was added."""

    at: int
    n: Floats
    s: Floats
    added: npt.NDArray[np.int64]


def wilson_lower(n: Floats, s: Floats) -> Floats:
    """Wilson's lower bound for rates s/n, 95 % on one side: a lucky click does not lift an item with few impressions.

    >>> wilson_lower(np.array([10.0, 1000.0]), np.array([1.0, 100.0])).round(4)
    array([0.0226, 0.0855])
    """
    p = s / n
    return (p + _Z * _Z / (2 * n) - _Z * np.sqrt((p * (1 - p) + _Z * _Z / (4 * n)) / n)) / (1 + _Z * _Z / n)


class Rising:
    """What items have gathered in the last 12 to 24 hours.

    Two copies of the counts are kept, taken every 12 hours; what came after the older one is *of late*. An item is
    rising if it has at least ``LEAST`` impressions of late and Wilson's lower bound of their rate is above the rate of
    all items of late. A replica of the service knows of its own time since it started, and says since when.
    """

    def __init__(self, ledger: Callable[[], Ledger], at: int) -> None:
        self._current = ledger
        self._begin(at)

    def _begin(self, at: int) -> None:
        self._ledger = self._current()
        self._marks = [self._mark(at)]
        self._cached: tuple[int, Rises] | None = None

    def _mark(self, at: int) -> _Mark:
        return _Mark(at, *self._ledger.whole(), self._ledger.catalogue.added())

    @property
    def since(self) -> int:
        """When *of late* begins."""
        return self._marks[0].at

    def rotate(self, at: int) -> None:
        """Let time pass."""
        if self._current() is not self._ledger:  # made anew from the log, with other slots
            self._begin(at)
        elif at - self._marks[-1].at >= HALF:
            self._marks = [self._marks[-1], self._mark(at)]

    async def find(self, at: int) -> Rises:
        """The items that are rising, at most a second ago."""
        self.rotate(at)
        if self._cached is None or not 0 <= at - self._cached[0] < _FRESH:
            ledger, catalogue = self._ledger, self._ledger.catalogue
            found = await asyncio.to_thread(
                _rises, self._marks[0], ledger.views(), catalogue["state"], catalogue.added()
            )
            self._cached = (at, found)
        return self._cached[1]


def _rises(mark: _Mark, views: list[Columns], states: npt.NDArray[np.int8], places: npt.NDArray[np.int64]) -> Rises:
    n, s = added(views, views[0][0].size if views else 0)
    size = min(n.size, mark.n.size)
    same = np.flatnonzero(mark.added[:size] == places[:size])  # other slots have other items now
    n[same] -= mark.n[same]
    s[same] -= mark.s[same]
    shown, gained = n.sum(), s.sum()
    slots = np.flatnonzero(n >= LEAST)
    slots = slots[states[slots] == SHOWN]
    low = wilson_lower(n[slots], np.clip(s[slots], 0.0, n[slots]))  # a late click may outlive its impression
    above = low > (gained / shown if shown else 0.0)
    slots, low = slots[above], low[above]
    order = np.argsort(-low, kind="stable")
    slots = slots[order]
    return Rises(slots, n[slots], s[slots], low[order], mark.at, places[slots])
