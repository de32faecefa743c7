"""Moving items between cells, cells between groups; every step O(log) of what it touches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import borrowed, inline, jit
from hellinger._random import scramble as mix
from hellinger.pool import _blocks as blocks
from hellinger.pool import _members as members
from hellinger.pool._layout import (
    ARENA_TOP,
    CELLS,
    FREE,
    FREE_CELL,
    FREE_GROUP,
    GROUPS,
    LIMIT,
    LIVE_CELLS,
    NONE,
    ORDER,
    OWNER_SHIFT,
    ItemArrays,
)

__all__ = [
    "borrow",
    "detach",
    "mix",
    "pack",
    "place",
    "pulls",
    "remap",
    "renumber",
    "settle",
    "settle_all",
    "tight",
]

Slots = npt.NDArray[np.int64]

_AHEAD, _FAR = 16, 1 << 16
"""Items whose memory is asked for together, and how many there must be for it to be worth while."""


@inline
def borrow(st: ItemArrays) -> ItemArrays:
    """The same state for the length of a kernel's call, during which the pool owns it."""
    return ItemArrays(
        borrowed(st.items),
        borrowed(st.cells),
        borrowed(st.groups),
        borrowed(st.order),
        borrowed(st.arena),
        borrowed(st.map),
        borrowed(st.meta),
    )


@inline
def pulls(st: ItemArrays, item: Any) -> Any:
    """An item's impressions, as many as its rewards take at least."""
    return max(item["n"], item["s"] / np.int64(st.meta[LIMIT]).view(np.float64))


@inline
def _group(st: ItemArrays, cell: Any) -> Any:
    """The group of a cell."""
    return st.groups[cell["owner"] >> OWNER_SHIFT]


@inline
def _home(stratum: int, s: float, n: float, size: int) -> Any:
    h = mix(np.float64(s).view(np.uint64) ^ mix(np.float64(n).view(np.uint64) + np.uint64(stratum)))
    return np.int64(h & np.uint64(size - 1))


@inline
def _is(st: ItemArrays, c: int, stratum: int, s: float, n: float) -> Any:
    """Whether this is the cell of these counts."""
    group = _group(st, st.cells[c])
    return st.cells[c]["n"] == n and group["s"] == s and group["stratum"] == stratum


@inline
def _find(st: ItemArrays, stratum: int, s: float, n: float) -> Any:
    """Place in the map of this cell, or of the gap where it would go."""
    mask = st.map.size - 1
    i = _home(stratum, s, n, st.map.size)
    while True:
        c = st.map[i]
        if c == NONE:
            return i
        if _is(st, c, stratum, s, n):
            return i
        i = (i + 1) & mask


@inline
def _unmap(st: ItemArrays, hole: int) -> None:
    """Empty a place of the map, moving back the entries that had to pass it."""
    mask = st.map.size - 1
    i = hole
    while True:
        i = (i + 1) & mask
        c = st.map[i]
        if c == NONE:
            break
        group = _group(st, st.cells[c])
        home = _home(group["stratum"], group["s"], st.cells[c]["n"], st.map.size)
        if ((i - home) & mask) >= ((i - hole) & mask):
            st.map[hole] = c
            hole = i
    st.map[hole] = NONE


@jit
def remap(st: ItemArrays) -> None:
    """Fill the map anew from the cells, after it has grown."""
    st.map[:] = NONE
    for c in range(st.meta[CELLS]):
        cell = st.cells[c]
        if cell["size"] > 0:
            group = _group(st, cell)
            st.map[_find(st, group["stratum"], group["s"], cell["n"])] = c


@jit
def tight(st: ItemArrays) -> Any:
    """How many entries of the arena the blocks of groups and cells need at least."""
    total = np.int64(0)
    for p in range(st.meta[ORDER]):
        total += 1 << blocks.smallest(st.groups[st.order[p]]["size"])
    for c in range(st.meta[CELLS]):
        if st.cells[c]["size"] > 0:
            total += members.footprint(st.arena, st.meta, st.cells[c])
    return total


@jit
def pack(st: ItemArrays, arena: Any) -> None:
    """Move every block into another arena, which has room for them, without gaps."""
    top = np.int64(0)
    for p in range(st.meta[ORDER]):
        group = st.groups[st.order[p]]
        blocks.move(st.arena, group["start"], group["size"], arena, top)
        group["start"], group["log2"] = top, blocks.smallest(group["size"])
        top += 1 << group["log2"]
    for c in range(st.meta[CELLS]):
        cell = st.cells[c]
        if cell["size"] > 0:
            top = members.move(st.arena, st.meta, cell, arena, top)
    st.meta[FREE:] = NONE
    st.meta[ARENA_TOP] = top


@inline
def _position(st: ItemArrays, stratum: int, s: float) -> int:
    """First place in the order whose group is not below (stratum, s)."""
    low, high = 0, st.meta[ORDER]
    while low < high:
        middle = (low + high) >> 1
        group = st.groups[st.order[middle]]
        if group["stratum"] < stratum or (group["stratum"] == stratum and group["s"] < s):
            low = middle + 1
        else:
            high = middle
    return low


@inline
def detach(st: ItemArrays, i: int) -> None:
    """Take an item out of its cell, if it is in one."""
    meta = st.meta
    c = st.items[i]["cell"]
    if c == NONE:
        return
    cell = st.cells[c]
    members.remove(st, cell, i)
    st.items[i]["cell"] = NONE
    if cell["size"] > 0:
        return
    members.release(st.arena, meta, cell)
    g = cell["owner"] >> OWNER_SHIFT
    group = st.groups[g]
    _unmap(st, _find(st, group["stratum"], group["s"], cell["n"]))
    blocks.pop(st.arena, group["start"], group["size"], cell["where"], st.cells["n"], st.cells["where"])
    group["size"] -= 1
    cell["owner"] = meta[FREE_CELL]
    meta[FREE_CELL] = c
    meta[LIVE_CELLS] -= 1
    if group["size"] > 0:
        group["head"] = st.cells[st.arena[group["start"]]]["n"]
        return
    blocks.release(st.arena, meta, group["start"], group["log2"])
    p = _position(st, group["stratum"], group["s"])
    meta[ORDER] -= 1
    for j in range(p, meta[ORDER]):
        st.order[j] = st.order[j + 1]
    group["stratum"] = meta[FREE_GROUP]
    meta[FREE_GROUP] = g


@inline
def _new_group(st: ItemArrays, stratum: int, s: float, p: int) -> Any:
    meta = st.meta
    g = meta[FREE_GROUP]
    if g == NONE:
        g = meta[GROUPS]
        meta[GROUPS] += 1
    else:
        meta[FREE_GROUP] = st.groups[g]["stratum"]
    for j in range(meta[ORDER], p, -1):
        st.order[j] = st.order[j - 1]
    st.order[p] = g
    meta[ORDER] += 1
    group = st.groups[g]
    group["s"] = s
    group["stratum"] = stratum
    group["size"] = 0
    group["log2"] = 0
    group["start"] = blocks.allocate(st.arena, meta, 0)
    return g


@inline
def _new_cell(st: ItemArrays, stratum: int, s: float, n: float, place: int) -> Any:
    """Make a cell, and its group if need be; NONE where an array is too short for it."""
    meta = st.meta
    p = _position(st, stratum, s)
    exists = p < meta[ORDER]
    if exists:
        group = st.groups[st.order[p]]
        exists = group["s"] == s and group["stratum"] == stratum
    wanted = np.int64(0)
    if not exists:
        wanted = blocks.cost(meta, 0)
    elif group["size"] == 1 << group["log2"]:
        wanted = blocks.cost(meta, group["log2"] + 1)
    if (
        (meta[FREE_CELL] == NONE and meta[CELLS] == st.cells.size)
        or 4 * (meta[LIVE_CELLS] + 1) > 3 * st.map.size
        or (meta[FREE_GROUP] == NONE and meta[GROUPS] == st.groups.size)
        or meta[ORDER] == st.order.size
        or not blocks.available(st.arena, meta, wanted)
    ):
        return NONE
    g = st.order[p] if exists else _new_group(st, stratum, s, p)
    c = meta[FREE_CELL]
    if c == NONE:
        c = meta[CELLS]
        meta[CELLS] += 1
    else:
        meta[FREE_CELL] = st.cells[c]["owner"]
    meta[LIVE_CELLS] += 1
    cell = st.cells[c]
    cell["n"] = n
    cell["owner"] = g << OWNER_SHIFT
    cell["size"] = 0
    st.map[place] = c
    group = st.groups[g]
    if group["size"] == 1 << group["log2"]:
        larger = blocks.allocate(st.arena, meta, group["log2"] + 1)
        blocks.move(st.arena, group["start"], group["size"], st.arena, larger)
        blocks.release(st.arena, meta, group["start"], group["log2"])
        group["start"] = larger
        group["log2"] += 1
    blocks.push(st.arena, group["start"], group["size"], c, st.cells["n"], st.cells["where"])
    group["size"] += 1
    group["head"] = st.cells[st.arena[group["start"]]]["n"]
    return c


@inline
def attach(st: ItemArrays, i: int) -> bool:
    """Put an item into the cell of its counts; false, with nothing changed, where an array is too short."""
    item = st.items[i]
    n = pulls(st, item)
    place = _find(st, item["stratum"], item["s"], n)
    c = st.map[place]
    if c == NONE:
        c = _new_cell(st, item["stratum"], item["s"], n, place)
        if c == NONE:
            return False
    if not members.add(st, st.cells[c], i):
        return False
    item["cell"] = c
    return True


@inline
def settle(st: ItemArrays, i: int) -> bool:
    """Bring an item to the cell of its present counts; false where an array is too short (call again)."""
    item = st.items[i]
    if item["hidden"] != 0:
        detach(st, i)
        return True
    c = item["cell"]
    if c != NONE:
        if _is(st, c, item["stratum"], item["s"], pulls(st, item)):
            return True
        detach(st, i)
    return attach(st, i)


@inline
def _foresee(st: ItemArrays, slots: Slots, first: Any, last: Any, homes: Slots) -> None:
    """Ask memory for what settling these items will touch: all at once, instead of waiting for one after the other."""
    if st.items.size < _FAR:
        return
    for j in range(last, min(last + _AHEAD, slots.size)):
        blocks.fetch(st.items, slots[j])
    for j in range(first, last):
        item = st.items[slots[j]]
        homes[j - first] = _home(item["stratum"], item["s"], pulls(st, item), st.map.size)
        blocks.fetch(st.map, homes[j - first])
        if item["cell"] != NONE:
            blocks.fetch(st.cells, item["cell"])
    for j in range(first, last):
        c = st.items[slots[j]]["cell"]
        if c != NONE:
            members.fetch(st, st.cells[c], slots[j])
        c = st.map[homes[j - first]]
        if c != NONE:
            blocks.fetch(st.cells, c)
    for j in range(first, last):
        c = st.map[homes[j - first]]
        if c != NONE:
            members.fetch(st, st.cells[c], slots[j])


@inline
def settle_all(st: ItemArrays, slots: Slots, first: Any) -> Any:
    """Settle these items from the first-th on; returns how many are settled, fewer than all where room lacks."""
    homes = np.empty(_AHEAD, np.int64)
    for start in range(first, slots.size, _AHEAD):
        end = min(start + _AHEAD, slots.size)
        _foresee(st, slots, start, end, homes)
        for j in range(start, end):
            if not settle(st, slots[j]):
                return j
    return slots.size


@jit
def place(st: ItemArrays, slots: Slots, first: int) -> Any:
    """:func:`settle_all`, from outside."""
    return settle_all(borrow(st), slots, first)


@inline
def renumber(st: ItemArrays, old: int, new: int) -> None:
    """Move an item to another, vacant place of the array."""
    st.items[new] = st.items[old]
    c = st.items[new]["cell"]
    if c != NONE:
        members.point(st, st.cells[c], new)
