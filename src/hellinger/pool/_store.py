"""The items of a pool: arrays, ids and tags, with growth and the bookkeeping of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._arrays import LARGE, distinct, extended, grown, roomy, slack
from hellinger._jit import borrowed, brief, entry, inline, jit
from hellinger.errors import InputError
from hellinger.pool import _groups
from hellinger.pool._ids import Id, Ids, forget, point, whole
from hellinger.pool._layout import (
    ARENA_TOP,
    CELLS,
    COUNT,
    GROUPS,
    LIVE_CELLS,
    MOST_ARRIVALS,
    MOST_ITEMS,
    NONE,
    ORDER,
    WANTED,
    ItemArrays,
    empty,
)

__all__ = ["BAD_REWARDS", "DONE", "Floats", "ItemStore", "Slots"]

Slots = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DONE, LACKING, BAD_REWARDS = 0, 1, 2

_MOST_GROUPS = 1 << 16
"""So many distinct reward sums are kept apart whatever the number of items; beyond, an eighth of it."""


@inline
def _fits(n: float, s: float, low: float, high: float) -> bool:
    if low == -math.inf:
        return True
    return s == 0.0 if n == 0.0 else low * n <= s <= high * n


@brief
def count_one(st: ItemArrays, grouped: bool, i: int, dn: float, ds: float, low: float, high: float) -> int:
    """Add to one item's counts and settle it."""
    st = _groups.borrow(st)
    item = st.items[i]
    n, s = item["n"] + dn, item["s"] + ds
    if not _fits(n, s, low, high):
        return BAD_REWARDS
    item["n"] = n
    item["s"] = s
    if grouped and not _groups.settle(st, i):
        return LACKING
    return DONE


@brief
def first_wrong(n: Floats, s: Floats, signed: bool) -> Any:
    """Positions of the first impressions and of the first reward that cannot be, or −1; whether all n are whole."""
    bad_n, bad_s, whole = NONE, NONE, True
    for j in range(n.size - 1, -1, -1):
        if not 0.0 <= n[j] < math.inf:
            bad_n = j
        whole = whole and n[j] == math.floor(n[j])
        if not (math.isfinite(s[j]) and (signed or s[j] >= 0.0)):
            bad_s = j
    return bad_n, bad_s, whole


@brief
def count_many(st: ItemArrays, grouped: bool, slots: Slots, dn: Floats, ds: Floats, low: float, high: float) -> Any:
    """Add to these items' counts and settle them.

    Returns the position of the first item whose counts cannot be, all undone, or −1; how many are settled, fewer
    than all where room lacks; and the impressions added.
    """
    st = _groups.borrow(st)
    total = 0.0
    before = np.empty((slots.size, 2))
    for j in range(slots.size):
        item = st.items[slots[j]]
        before[j, 0] = item["n"]
        before[j, 1] = item["s"]
        item["n"] += dn[j]
        item["s"] += ds[j]
        total += dn[j]
    for j in range(slots.size):
        item = st.items[slots[j]]
        if not _fits(item["n"], item["s"], low, high):
            for k in range(slots.size - 1, -1, -1):
                back = st.items[slots[k]]
                back["n"] = before[k, 0]
                back["s"] = before[k, 1]
            return j, 0, 0.0
    return NONE, _groups.settle_all(st, slots, 0) if grouped else slots.size, total


@brief
def set_many(st: ItemArrays, grouped: bool, slots: Slots, n: Floats, s: Floats, low: float, high: float) -> Any:
    """Set the counts of these items, each given once, and settle them; returns the same as :func:`count_many`."""
    st = _groups.borrow(st)
    for j in range(slots.size):
        if not _fits(n[j], s[j], low, high) or (n[j] == 0.0 and s[j] != 0.0):
            return j, 0, 0.0
    more = 0.0
    for j in range(slots.size):
        item = st.items[slots[j]]
        more += n[j] - item["n"]
        item["n"] = n[j]
        item["s"] = s[j]
    return NONE, _groups.settle_all(st, slots, 0) if grouped else slots.size, more


@jit
def take_out(st: ItemArrays, table: Any, slots: Slots) -> None:
    """Remove items, those at the end first; the last one moves into each place left."""
    st, table = _groups.borrow(st), borrowed(table)
    for slot in slots:
        last = st.meta[COUNT] - 1
        _groups.detach(st, slot)
        forget(table, st.items, st.items[slot]["key"])
        if slot != last:
            point(table, st.items, st.items[last]["key"], slot)
            _groups.renumber(st, last, slot)
        st.meta[COUNT] = last


class ItemStore:
    """Items, their counts, and the cells they are in while the pool is grouped."""

    def __init__(self, *, grouped: bool, limit: float) -> None:
        self.limit = limit
        """The most that one impression can earn."""
        self.state: ItemArrays = empty(16, limit)
        self.ids = Ids()
        self.grouped = grouped
        self.next_seq = 0
        self.numbered_by_id = True
        """Whether every item's arrival number is its id: different ids are then different numbers."""
        self.trusting = False
        """Whether arrival numbers that are given are known to be new: to see it takes a look at every item."""
        self.hidden = 0
        """How many items are hidden."""
        self._count_one = entry(count_one, self.state, True, 0, 0.0, 0.0, 0.0, 0.0)
        none, nothing = np.empty(0, np.int64), np.empty(0)
        self._count_many = entry(count_many, self.state, True, none, nothing, nothing, 0.0, 0.0)
        self._set_many = entry(set_many, self.state, True, none, nothing, nothing, 0.0, 0.0)

    def __len__(self) -> int:
        return int(self.state.meta[COUNT])

    @property
    def items(self) -> Any:
        """The items present, a view."""
        return self.state.items[: len(self)]

    @property
    def pulls(self) -> Floats:
        """Impressions of each item present, as many as its rewards take at least."""
        items = self.items
        least: Floats = np.maximum(items["n"], items["s"] / self.limit)
        return least

    @property
    def groups(self) -> int:
        """Distinct reward sums kept apart."""
        return int(self.state.meta[ORDER])

    @property
    def cells(self) -> Any:
        """The occupied cells, a copy."""
        cells = self.state.cells[: self.state.meta[CELLS]]
        return cells[cells["size"] > 0]

    # Items -----------------------------------------------------------------------------------------

    def add(
        self,
        names: Iterable[Id] | npt.NDArray[np.integer[Any]],
        count: int,
        *,
        n: Any,
        s: Any,
        tags: Any,
        born: float,
        order: Slots | None = None,
    ) -> Slots:
        """Add items with their counts (checked by the caller) and arrival numbers; all or none."""
        first = len(self)
        if first + count > MOST_ITEMS:
            raise InputError(f"a pool must hold at most {MOST_ITEMS:,} items, but would have {first + count:,}")
        seq = np.arange(self.next_seq, self.next_seq + count) if order is None else self._new_numbers(order, names)
        next_seq = max(self.next_seq, int(seq.max(initial=-1)) + 1)
        if next_seq > MOST_ARRIVALS:
            raise InputError(f"a pool must number its items below {MOST_ARRIVALS:,}, but got {next_seq - 1:,}")
        st = self.state
        if first + count > st.items.size:
            self.state = st = st._replace(items=grown(st.items, first + count))
        self.ids.add(st.items, first, names)
        new = st.items[first : first + count]
        new["n"], new["s"], new["tags"], new["born"], new["seq"] = n, s, tags, born, seq
        new["cell"], new["excluded"], new["stratum"], new["hidden"] = NONE, 0, 0, 0
        self.next_seq = next_seq
        if self.numbered_by_id:
            self.numbered_by_id = self.ids.names is None and bool((new["key"] == seq).all())
        st.meta[COUNT] = first + count
        slots = np.arange(first, first + count)
        self.settle(slots)
        return slots

    def _new_numbers(self, order: Slots, names: Any) -> Slots:
        """These arrival numbers, or an error where one is taken."""
        rising = bool((order[1:] > order[:-1]).all())
        if not rising and np.unique(order).size < order.size:
            values, times = np.unique(order, return_counts=True)
            raise InputError(f"`order` must be given once, but got {int(values[times > 1][0])} twice")
        if order.size and order.min() < self.next_seq and not self.trusting:  # else they are beyond all that are here
            if order.min() < 0:
                raise InputError(f"`0 <= order` must hold, but got order={int(order.min())}")
            keys = whole(names) if self.numbered_by_id else None
            if keys is None or not np.array_equal(keys, order):
                taken = order[np.isin(order, self.items["seq"])]
                if taken.size:
                    raise InputError(f"`order` must be new to the pool, but got {int(taken[0])}")
        elif order.size and order.min() < 0:
            raise InputError(f"`0 <= order` must hold, but got order={int(order.min())}")
        return order

    def remove(self, slots: Slots) -> Slots:
        """Take these items out; the last ones move into the places left, which are returned in that order."""
        self.hidden -= int(self.state.items["hidden"][slots].sum())
        falling = np.sort(slots)[::-1].copy()  # so that no place named is filled before its turn
        take_out(self.state, self.ids.table, falling)
        self.ids.remove(falling.tolist())
        return falling

    def hide(self, slots: Slots, hidden: int) -> None:
        """Take these items out of their cells, or put them back."""
        column = self.state.items["hidden"]
        slots = distinct(slots[column[slots] != hidden])
        self.hidden += slots.size if hidden else -slots.size
        column[slots] = hidden
        self.settle(slots)

    def blank(self) -> ItemStore:
        """The same items, none ever shown."""
        other = ItemStore(grouped=False, limit=self.limit)
        other.ids, other.next_seq, other.hidden = self.ids.copy(), self.next_seq, self.hidden
        other.numbered_by_id, other.trusting = self.numbered_by_id, self.trusting
        items = self.items.copy()
        items["n"] = items["s"] = items["stratum"] = 0
        other.state.meta[COUNT] = items.size
        other.state = other.state._replace(items=items)
        return other

    # Counts -------------------------------------------------------------------------------------------

    def count_one(self, slot: int, n: float, s: float, bounds: tuple[float, float]) -> bool:
        """Add to one item's counts; false, with nothing changed, where they cannot be."""
        outcome = self._count_one(self.state, self.grouped, slot, n, s, bounds[0], bounds[1])
        if outcome == LACKING:
            self.settle(np.array([slot]))
        return bool(outcome != BAD_REWARDS)

    def count(self, slots: Slots, n: Floats, s: Floats, bounds: tuple[float, float]) -> tuple[int, float]:
        """Add to these items' counts: −1 and the impressions added; or the first that cannot be, all undone."""
        return self._settled(slots, self._count_many(self.state, self.grouped, slots, n, s, bounds[0], bounds[1]))

    def set(self, slots: Slots, n: Floats, s: Floats, bounds: tuple[float, float]) -> tuple[int, float]:
        """Set the counts of these items, each given once; returns the same as :meth:`count`."""
        return self._settled(slots, self._set_many(self.state, self.grouped, slots, n, s, bounds[0], bounds[1]))

    def _settled(self, slots: Slots, outcome: tuple[int, int, float]) -> tuple[int, float]:
        bad, done, total = outcome
        if bad < 0 and done < slots.size:
            self.settle(slots, done)
        return bad, total

    def still(self, key: Slots, seq: Slots) -> tuple[Slots, npt.NDArray[np.bool_]]:
        """Places of those of these items that have not left since, and which they are."""
        slots = self.ids.by_key(self.state.items, key)
        present = slots >= 0
        present[present] = self.state.items["seq"][slots[present]] == seq[present]
        return slots[present], present

    def settle(self, slots: Slots, done: int = 0) -> None:
        """Bring these items, but for those done, to the cells of their counts, enlarging what is too short."""
        if not self.grouped:
            return
        while (done := _groups.place(self.state, slots, done)) < slots.size:
            self._enlarge()

    def _enlarge(self) -> None:
        st = self.state
        meta = st.meta
        if meta[CELLS] == st.cells.size:
            st = st._replace(cells=grown(st.cells, st.cells.size + 1))
        if meta[GROUPS] == st.groups.size or meta[ORDER] == st.order.size:
            size = st.groups.size + 1
            st = st._replace(groups=grown(st.groups, size), order=grown(st.order, size))
        if 4 * (meta[LIVE_CELLS] + 1) > 3 * st.map.size:
            st = st._replace(map=np.empty(2 * st.map.size, np.int32))
            _groups.remap(st)
        if st is self.state:
            least = _groups.tight(st) + int(meta[WANTED])
            size = least + (slack(least) if least < LARGE else least // 2)
            # to pack a million items takes tens of milliseconds: not before a third is gaps
            more = extended(st.arena, size) if size > st.arena.size else None
            if more is None:
                more = roomy(size, np.int64)
                _groups.pack(st, more)
            st = st._replace(arena=more)
        self.state = st

    # Grouping -----------------------------------------------------------------------------------------

    def ungroup(self) -> None:
        """Give up the cells."""
        self.regroup(grouped=False)

    def regroup(self, *, grouped: bool) -> None:
        """Build the cells anew, or none."""
        old = self.state
        fresh = empty(0, self.limit)
        fresh.meta[COUNT] = len(self)
        items = self.items
        items["cell"] = NONE
        self.state = fresh._replace(items=old.items)
        self.grouped = grouped
        self.settle(np.arange(len(self)))

    @property
    def crowded(self) -> bool:
        """Whether the reward sums are too many to be worth keeping apart."""
        return self.groups > _MOST_GROUPS and self.groups > len(self) // 8

    def memory(self) -> int:
        """Bytes in use, the ids themselves not counted."""
        names = 0 if self.ids.names is None else 8 * len(self.ids.names)
        st, meta = self.state, self.state.meta
        used = [(st.items, meta[COUNT]), (st.cells, meta[CELLS]), (st.groups, meta[GROUPS]), (st.order, meta[ORDER])]
        used.append((st.arena, meta[ARENA_TOP]))
        whole: list[Any] = [array for name, array in zip(st._fields[4:], st[4:], strict=True) if name != "arena"]
        total = sum(int(array[:size].nbytes) for array, size in used) + sum(int(array.nbytes) for array in whole)
        return total + int(self.ids.table.nbytes) + names
