"""Impressions and rewards by slot, as columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger._rows import RowTable
from hellinger.ledger.looks import ZONES, zones_of

__all__ = ["PART", "Columns", "Counts", "Entries", "Floats", "SegmentCounts", "Slots", "added", "joined"]

Floats = npt.NDArray[np.float64]
Slots = npt.NDArray[np.int64]

PART = 1 << 15
"""Items that are counted at a time where there are very many: what they have then fits the processor's cache."""
_LATE = len(ZONES) - 1
_NO_ZONES = np.zeros((0, _LATE), np.int32)
_NO_SLOTS = np.empty(0, np.int64)
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


class Entries(NamedTuple):
    """Counts of items that have any, by slot: the ledger's own arrays, to be read only; −1 for a row without an item.

    Other threads may read them; what is counted meanwhile may be in them or not.
    """

    slots: npt.NDArray[np.int32]
    n: Floats
    s: Floats
    late: npt.NDArray[np.int32]
    """Impressions in each zone but the first; no rows where nobody has any."""


class Counts:
    """Impressions and rewards of each item, by slot, in all traffic of one variant.

    Impressions of rankings are added up when they are asked for, or when many have gathered: twenty at a time would
    cost ten times more. Until then their slots stay in the arrays of the rankings themselves.

    Where impressions were is kept beside, by zone (``looks.ZONES``): what they are worth follows from it, for whatever
    curve is in force.
    """

    __slots__ = ("_behind", "_late", "_n", "_s", "_shown", "_used", "_waiting", "rounds")

    def __init__(self) -> None:
        self._n: Floats = np.zeros(0)
        self._s: Floats = np.zeros(0)
        self._used = 0
        """Slots that there are, as far as is known here."""
        self._shown: list[array[int]] = []
        self._waiting = 0
        self.rounds = 0.0
        """All impressions, those of deleted items included."""
        self._late: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        """Impressions of each item in each zone but the first, one after the other; none before there are any."""
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
            rows = self._reached(slots)
            np.add.at(self._n, rows, 1.0)
            behind = zones > 0
            if behind.any():
                self._reach_late()
                np.add.at(self._late, rows[behind] * _LATE + zones[behind] - 1, _ONE)

    def add(self, slots: Slots, n: Floats, s: Floats, deleted: float = 0.0) -> None:
        """Add to the counts of some items; ``deleted`` impressions were of deleted items."""
        self.rounds += float(n.sum()) + deleted
        if slots.size:
            rows = self._reached(slots)
            for column, values in ((self._n, n), (self._s, s)):
                if values.any():  # feedback seldom has impressions
                    np.add.at(column, rows, values)

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
        self._n, self._s = grown(self._n, size, scattered=True), grown(self._s, size, scattered=True)
        if self._late.size:
            self._late = grown(self._late, size * _LATE, scattered=True)

    def _reach_late(self) -> None:
        """Have a place for zones; arrays of many items have address space for more than there are."""
        if not self._late.size:
            self._late = grown(self._late, self._rows_used * _LATE, scattered=True)

    # Where a slot's counts are: at the slot itself ---------------------------------------------------

    def _reached(self, slots: Slots) -> Slots:
        """Where the counts of these items are, and are to be."""
        self._used = max(self._used, int(slots.max()) + 1)
        self._reach(self._used)
        return slots

    def _found(self, slots: Slots, size: int) -> Slots:
        """Where the counts of these items are, in a catalogue of so many."""
        self._used = max(self._used, size)
        self._reach(self._used)
        return slots

    @property
    def _rows_used(self) -> int:
        return self._used

    # Asking -------------------------------------------------------------------------------------------

    def of(self, slots: Slots, size: int) -> Columns:
        """Impressions and rewards of these items, in a catalogue of so many."""
        self._add_shown()
        rows = self._found(slots, size)
        return self._n[rows], self._s[rows]

    def worth(self, slots: Slots, size: int, lacks: Floats) -> Columns:
        """The same, with what the impressions are worth where one lacks so much in each zone but the first."""
        n, s = self.of(slots, size)
        late = self.behind(slots, size)
        return (n - late @ lacks if len(late) else n), s

    def behind(self, slots: Slots, size: int) -> npt.NDArray[np.int32]:
        """Impressions of these items in each zone but the first; no rows where nobody has any."""
        self._add_shown()
        rows = self._found(slots, size)
        return self._zones(self._rows_used)[rows] if self._late.size else _NO_ZONES

    def view(self, size: int) -> Columns:
        """Impressions and rewards of every slot, in a catalogue of so many: see :class:`Entries`."""
        self._add_shown()
        self._found(_NO_SLOTS, size)
        return self._n[:size], self._s[:size]

    def late_view(self, size: int) -> npt.NDArray[np.int32]:
        """Impressions of every slot in each zone but the first; no rows where nobody has any."""
        self._add_shown()
        self._found(_NO_SLOTS, size)
        return self._zones(size) if self._late.size else _NO_ZONES

    def entries(self) -> Entries:
        """The counts of all items that have any."""
        self._add_shown()
        n, s = self._n[: self._used], self._s[: self._used]  # large arrays have address space for many more
        rows = np.flatnonzero((n != 0) | (s != 0))
        late = self._zones(self._rows_used)[rows] if self._late.size else _NO_ZONES
        return Entries(rows.astype(np.int32), n[rows], s[rows], late)

    def mark(self, there: npt.NDArray[np.bool_], *, behind: bool = False) -> None:
        """Note by slot which items have any counts; ``behind``: impressions in other zones than the first."""
        self._add_shown()
        there[: self._used] |= self._any(self._used, behind)

    def _any(self, rows: int, behind: bool) -> npt.NDArray[np.bool_]:
        if behind and not self._late.size:
            return np.zeros(rows, np.bool_)
        some: npt.NDArray[np.bool_] = (self._n[:rows] != 0) | (self._s[:rows] != 0)
        if behind:
            some &= self._zones(rows).any(axis=1)
        return some

    def _zones(self, rows: int) -> npt.NDArray[np.int32]:
        return self._late[: self._late.size // _LATE * _LATE].reshape(-1, _LATE)[:rows]

    def set_behind(self, slots: npt.NDArray[Any], late: npt.NDArray[Any], total: Sequence[float]) -> None:
        """Set what :meth:`behind` gives, for items that are counted already, and all items' sum."""
        if slots.size:
            rows = self._reached(slots)
            self._reach_late()
            self._zones(self._rows_used)[rows] = late
        self._behind[:] = total

    def clear(self, slots: Slots) -> None:
        """Let nothing be counted for these slots, whose items are forgotten; ``rounds`` stays."""
        self._add_shown()
        self._empty(slots[slots < self._used])

    def _empty(self, rows: Slots) -> None:
        self._n[rows] = self._s[rows] = 0.0
        if self._late.size:
            self._zones(self._rows_used)[rows] = 0


class SegmentCounts(Counts):
    """The same in one segment, where few items may have any: in memory are those alone."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        super().__init__()
        self._table = RowTable()
        self._reach(1)

    @property
    def _rows_used(self) -> int:
        return self._table.top

    def _reached(self, slots: Slots) -> Slots:
        rows = self._table.enter(slots)
        self._reach(self._table.top)
        return rows

    def _found(self, slots: Slots, size: int) -> Slots:
        return self._table.find(slots)

    def entries(self) -> Entries:
        """The counts of all items that have any, and of some that have none."""
        self._add_shown()
        top = self._table.top
        late = self._zones(top) if self._late.size else _NO_ZONES
        return Entries(self._table.owner[:top], self._n[:top], self._s[:top], late)

    def mark(self, there: npt.NDArray[np.bool_], *, behind: bool = False) -> None:
        """Note by slot which items have any counts; ``behind``: impressions in other zones than the first."""
        self._add_shown()
        owner = self._table.owner[: self._table.top]
        there[owner[self._any(owner.size, behind) & (owner >= 0)]] = True

    def clear(self, slots: Slots) -> None:
        """Let nothing be counted for these slots, whose items are forgotten; ``rounds`` stays."""
        self._add_shown()
        self._empty(self._table.leave(slots))
