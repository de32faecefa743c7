"""Impressions and rewards by slot, as columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown

__all__ = ["Columns", "Counts", "Floats", "Slots", "added", "joined"]

Floats = npt.NDArray[np.float64]
Slots = npt.NDArray[np.int64]

Columns = tuple[Floats, Floats]
"""Impressions and rewards."""


def added(columns: Iterable[Columns], size: int) -> Columns:
    """The sum of several, each of so many slots."""
    n, s = np.zeros(size), np.zeros(size)
    for more_n, more_s in columns:
        n += more_n
        s += more_s
    return n, s


def joined(rankings: Iterable[array[int]]) -> Slots:
    """The slots of several rankings in one array, of the type with which ``add.at`` takes a tenth of the time."""
    return np.frombuffer(b"".join(rankings), np.intc).astype(np.int64)


class Counts:
    """Impressions and rewards of each item, by slot, in one variant: in all its traffic or in one segment.

    Impressions of rankings are added up when they are asked for, or when many have gathered: twenty at a time would
    cost ten times more. Until then their slots stay in the arrays of the rankings themselves.

    An impression may be worth less than one, by where it was shown: what it lacks to one is kept beside, so that
    impressions remain a number of impressions.
    """

    __slots__ = ("_lack", "_lacking", "_n", "_s", "_shown", "_waiting", "lacking", "rounds")

    def __init__(self) -> None:
        self._n: Floats = np.zeros(0)
        self._s: Floats = np.zeros(0)
        self._shown: list[array[int]] = []
        self._waiting = 0
        self.rounds = 0.0
        """All impressions, those of deleted items included."""
        self._lack: Floats = np.zeros(0)
        """What the impressions of each item lack to one each; no entries before any does."""
        self._lacking: list[tuple[Slots, Floats]] = []
        self.lacking = 0.0
        """What all impressions lack, those of deleted items included."""

    def lack(self, slots: Slots, lacks: Floats) -> None:
        """Note what impressions lack to one each; −1 for a deleted item."""
        self.lacking += float(lacks.sum())
        there = slots >= 0
        if not there.all():
            slots, lacks = slots[there], lacks[there]
        if slots.size:
            self._lacking.append((slots, lacks))
            if len(self._lacking) > 50:
                self._add_lacking()

    def _add_lacking(self) -> None:
        if self._lacking:
            slots, lacks = (np.concatenate(parts) for parts in zip(*self._lacking, strict=True))
            self._lack = grown(self._lack, int(slots.max()) + 1)
            np.add.at(self._lack, slots, lacks)
            self._lacking.clear()

    def show(self, slots: Sequence[int], deleted: float = 0.0) -> None:
        """Add an impression of each of these items, and so many of deleted items."""
        self.rounds += len(slots) + deleted
        self._shown.append(slots if type(slots) is array else array("i", slots))
        self._waiting += len(slots)
        if self._waiting > 1_000:  # not more: rankings wait meanwhile
            self._add_shown()

    def show_many(self, slots: Slots, deleted: float = 0.0) -> None:
        """The same for the items of many rankings, each as often as it was shown."""
        self.rounds += slots.size + deleted
        if slots.size:
            self._reach(int(slots.max()) + 1)
            np.add.at(self._n, slots, 1.0)

    def add(self, slots: Slots, n: Floats, s: Floats, deleted: float = 0.0) -> None:
        """Add to the counts of some items; ``deleted`` impressions were of deleted items."""
        self.rounds += float(n.sum()) + deleted
        if slots.size:
            self._reach(int(slots.max()) + 1)
            for column, values in ((self._n, n), (self._s, s)):
                if values.any():  # feedback seldom has impressions
                    np.add.at(column, slots, values)

    def _add_shown(self) -> None:
        if self._waiting:
            shown = joined(self._shown)
            self._reach(int(shown.max()) + 1)
            np.add.at(self._n, shown, 1.0)
        self._shown, self._waiting = [], 0

    def _reach(self, size: int) -> None:
        self._n, self._s = grown(self._n, size), grown(self._s, size)

    def of(self, slots: npt.NDArray[np.intp] | slice, size: int) -> Columns:
        """Impressions and rewards of these items, in a catalogue of so many."""
        self._add_shown()
        self._reach(size)
        return self._n[slots], self._s[slots]

    def worth(self, slots: npt.NDArray[np.intp] | slice, size: int) -> Columns:
        """The same, with what the impressions are worth."""
        n, s = self.of(slots, size)
        self._add_lacking()
        if self._lack.size:
            self._lack = grown(self._lack, size)
            n = n - self._lack[:size][slots]
        return n, s

    def clear(self, slots: Slots) -> None:
        """Let nothing be counted for these slots, whose items are forgotten; ``rounds`` stays."""
        self._add_shown()
        self._add_lacking()
        some = slots[slots < self._n.size]
        self._n[some] = self._s[some] = 0.0
        self._lack[slots[slots < self._lack.size]] = 0.0

    def set(self, slots: npt.NDArray[Any], n: npt.NDArray[Any], s: npt.NDArray[Any], size: int) -> None:
        """Set the counts of these items, in a catalogue of so many."""
        self._n, self._s = np.zeros(size), np.zeros(size)
        self._n[slots], self._s[slots] = n, s
