"""Impressions and rewards by slot, as columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger.ledger.looks import ZONES, zones_of

__all__ = ["Columns", "Counts", "Floats", "Slots", "added", "joined"]

Floats = npt.NDArray[np.float64]
Slots = npt.NDArray[np.int64]

_LATE = len(ZONES) - 1
_ONE = np.int32(1)
"""Of the type of what it is added to: with another ``add.at`` takes forty times as long."""

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

    Where impressions were is kept beside, by zone (``looks.ZONES``): what they are worth follows from it, for whatever
    curve is in force.
    """

    __slots__ = ("_behind", "_late", "_n", "_s", "_shown", "_waiting", "rounds")

    def __init__(self) -> None:
        self._n: Floats = np.zeros(0)
        self._s: Floats = np.zeros(0)
        self._shown: list[array[int]] = []
        self._waiting = 0
        self.rounds = 0.0
        """All impressions, those of deleted items included."""
        self._late: npt.NDArray[np.int32] = np.zeros((0, _LATE), np.int32)
        """Impressions of each item in each zone but the first; no rows before there are any."""
        self._behind: Floats = np.zeros(_LATE)

    def show(self, slots: array[int]) -> None:
        """Add an impression of each item of a ranking, best first; −1 for a deleted one."""
        self.rounds += len(slots)
        self._shown.append(slots)
        self._waiting += len(slots)
        if self._waiting > 1_000:  # not more: rankings wait meanwhile
            self._add_shown()

    def show_many(self, slots: Slots, sizes: Iterable[int]) -> None:
        """The same for many rankings, of so many items each."""
        self.rounds += slots.size
        zones = np.concatenate([zones_of(size) for size in sizes])
        self._behind += np.bincount(zones, minlength=_LATE + 1)[1:]
        there = slots >= 0
        if not there.all():
            slots, zones = slots[there], zones[there]
        if slots.size:
            self._reach(int(slots.max()) + 1)
            np.add.at(self._n, slots, 1.0)
            behind = zones > 0
            if behind.any():
                self._reach_late()
                np.add.at(self._late.reshape(-1), slots[behind] * _LATE + zones[behind] - 1, _ONE)

    def add(self, slots: Slots, n: Floats, s: Floats, deleted: float = 0.0) -> None:
        """Add to the counts of some items; ``deleted`` impressions were of deleted items."""
        self.rounds += float(n.sum()) + deleted
        if slots.size:
            self._reach(int(slots.max()) + 1)
            for column, values in ((self._n, n), (self._s, s)):
                if values.any():  # feedback seldom has impressions
                    np.add.at(column, slots, values)

    def total(self, lacks: Floats | None = None) -> float:
        """All impressions, or what they are worth where one lacks so much in each zone but the first."""
        return self.rounds if lacks is None else self.rounds - float(self.late @ lacks)

    @property
    def late(self) -> Floats:
        """Impressions in each zone but the first, those of deleted items included."""
        self._add_shown()
        return self._behind

    def _add_shown(self) -> None:
        if self._waiting:
            shown, self._shown, self._waiting = self._shown, [], 0
            self.rounds -= sum(map(len, shown))
            self.show_many(joined(shown), map(len, shown))

    def _reach(self, size: int) -> None:
        self._n, self._s = grown(self._n, size), grown(self._s, size)

    def _reach_late(self) -> None:
        if self._n.size > len(self._late):
            late, self._late = self._late, np.zeros((self._n.size, _LATE), np.int32)
            self._late[: len(late)] = late

    def of(self, slots: npt.NDArray[np.intp] | slice, size: int) -> Columns:
        """Impressions and rewards of these items, in a catalogue of so many."""
        self._add_shown()
        self._reach(size)
        return self._n[slots], self._s[slots]

    def worth(self, slots: npt.NDArray[np.intp] | slice, size: int, lacks: Floats) -> Columns:
        """The same, with what the impressions are worth where one lacks so much in each zone but the first."""
        n, s = self.of(slots, size)
        late = self.behind(slots, size)
        return (n - late @ lacks if len(late) else n), s

    def behind(self, slots: npt.NDArray[np.intp] | slice, size: int) -> npt.NDArray[np.int32]:
        """Impressions of these items in each zone but the first; no rows where nobody has any."""
        self._add_shown()
        if not len(self._late):
            return self._late
        self._reach(size)
        self._reach_late()
        return self._late[slots]

    def set_behind(self, slots: npt.NDArray[Any], late: npt.NDArray[Any], total: Sequence[float]) -> None:
        """Set what :meth:`behind` gives, for items that are counted already, and all items' sum."""
        self._reach_late()
        self._late[slots] = late
        self._behind[:] = total

    def clear(self, slots: Slots) -> None:
        """Let nothing be counted for these slots, whose items are forgotten; ``rounds`` stays."""
        self._add_shown()
        some = slots[slots < self._n.size]
        self._n[some] = self._s[some] = 0.0
        self._late[some[some < len(self._late)]] = 0

    def set(self, slots: npt.NDArray[Any], n: npt.NDArray[Any], s: npt.NDArray[Any], size: int) -> None:
        """Set the counts of these items, in a catalogue of so many."""
        self._n, self._s = np.zeros(size), np.zeros(size)
        self._n[slots], self._s[slots] = n, s
