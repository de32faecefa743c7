"""From the slots of some items to rows of a table: for what few items of a large catalogue have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._arrays import distinct, grown
from hellinger._jit import brief, inline
from hellinger._random import scramble

__all__ = ["RowTable"]

Slots = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]


@inline
def _home(slot: int, mask: int) -> Any:
    return np.int64(scramble(np.uint64(slot)) & np.uint64(mask))


@inline
def _probe(table: Places, owner: Places, slot: int) -> Any:
    """Where in the table a slot's row is, or would be."""
    mask = table.size - 1
    i = _home(slot, mask)
    while table[i] != 0 and owner[table[i]] != slot:
        i = (i + 1) & mask
    return i


@brief
def _find(table: Places, owner: Places, slots: Slots) -> Slots:
    out = np.empty(slots.size, np.int64)
    for j in range(slots.size):
        out[j] = table[_probe(table, owner, slots[j])]
    return out


@brief
def _enter(table: Places, owner: Places, slots: Slots, free: Places) -> int:
    """Give rows from the end of ``free`` to those of these slots that have none; returns how many are left there."""
    left = free.size
    for slot in slots:
        i = _probe(table, owner, slot)
        if table[i] == 0:
            left -= 1
            table[i] = free[left]
            owner[free[left]] = slot
    return left


@brief
def _leave(table: Places, owner: Places, slots: Slots, free: Places) -> int:
    """Take these slots out, and put their rows into ``free``; returns how many. Entries that passed them move back."""
    mask, left = table.size - 1, 0
    for slot in slots:
        hole = _probe(table, owner, slot)
        if table[hole] == 0:
            continue
        free[left] = table[hole]
        left += 1
        i = hole
        while True:
            i = (i + 1) & mask
            if table[i] == 0:
                break
            if ((i - _home(owner[table[i]], mask)) & mask) >= ((i - hole) & mask):
                table[hole] = table[i]
                hole = i
        table[hole] = 0
    for j in range(left):
        owner[free[j]] = -1
    return left


class RowTable:
    """A row for each slot that has one, from 1 on; 0 is that of all others. Rows that are left are used again."""

    def __init__(self) -> None:
        self._table: Places = np.zeros(64, np.int32)
        self.owner: Places = np.full(1, -1, np.int32)
        """The slot of each row; −1 for none."""
        self._free: Places = np.empty(0, np.int32)
        self._top = 1

    def __len__(self) -> int:
        return self._top - 1 - self._free.size

    @property
    def top(self) -> int:
        """The first row that was never used."""
        return self._top

    def find(self, slots: Slots) -> Slots:
        """The rows of these slots; 0 for those without."""
        return _find(self._table, self.owner, slots)

    def enter(self, slots: Slots) -> Slots:
        """The rows of these slots, each of which has one from now on."""
        rows = self.find(slots)
        fresh = distinct(slots[rows == 0])
        if not fresh.size:
            return rows
        more = fresh.size - self._free.size
        if more > 0:
            before = self.owner.size
            self.owner = grown(self.owner, self._top + more)
            self.owner[before:] = -1
            unused = np.arange(self._top, self._top + more, dtype=np.int32)
            self._free = np.concatenate((unused, self._free))
            self._top += more
        if 2 * (len(self) + fresh.size) > self._table.size:
            self._table = np.zeros(1 << (4 * (len(self) + fresh.size) - 1).bit_length(), np.int32)
            rows = np.flatnonzero(self.owner[: self._top] >= 0).astype(np.int32)
            owners = self.owner[rows].astype(np.int64)
            self.owner[rows] = -1
            _enter(self._table, self.owner, owners, np.ascontiguousarray(rows[::-1]))
        left = _enter(self._table, self.owner, fresh, self._free)
        self._free = self._free[:left].copy()
        return self.find(slots)

    def leave(self, slots: Slots) -> Slots:
        """Let these slots have no row any more; the rows that they had."""
        free = np.empty(slots.size, np.int32)
        left = _leave(self._table, self.owner, slots, free)
        self._free = np.concatenate((self._free, free[:left]))
        return free[:left].astype(np.int64)
