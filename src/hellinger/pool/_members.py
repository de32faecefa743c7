"""The items of a cell, in order of arrival: a sorted block, or a tree of blocks where they are many.

Which item is the r-th of a cell thus depends on the items alone, not on how they came into it, and a ranking that
draws among equals is a function of what is in the pool. An entry is an item's arrival number and its place in one word,
so that a search touches no item.

The tree is a B+-tree with counts. Each node is a block of 2^b words. A leaf is a sorted block. An inner node has two
columns of half a block each, a row for each child: the least entry that belongs to it (for the first child, which
needs none, the number of children), and where it is with how many items it has. Full nodes are split on the way down to
where an entry goes in, small neighbours are merged on the way down to where one is taken out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, inline
from hellinger.pool import _blocks as blocks
from hellinger.pool._layout import NODE, OWNER_SHIFT, PLACE_BITS, TREE, ItemArrays

__all__ = ["add", "fetch", "footprint", "kind", "move", "place_of", "point", "release", "remove", "select"]

Words = npt.NDArray[np.int64]

_COUNT_BITS = PLACE_BITS + 1


@inline
def place_of(entry: Any) -> Any:
    """The place of the item in an entry."""
    return entry & ((1 << PLACE_BITS) - 1)


@inline
def kind(cell: Any) -> Any:
    """How a cell's items are stored; see ``OWNER_SHIFT``."""
    return cell["owner"] & ((1 << OWNER_SHIFT) - 1)


@inline
def _height(cell: Any) -> Any:
    """How many levels of a cell's tree are above its leaves; 0 without a tree."""
    return max(np.int64(kind(cell)) - TREE, 0)


@inline
def _least(seq: Any) -> Any:
    """The least entry with this arrival number."""
    return np.int64(seq) << PLACE_BITS


@inline
def _fan(meta: Words) -> Any:
    """How many children an inner node has at most: the length of its columns."""
    return np.int64(1) << (meta[NODE] - 1)


@inline
def _node(child: Any) -> Any:
    """Where a child is."""
    return child >> _COUNT_BITS


@inline
def _count(child: Any) -> Any:
    """How many items a child has."""
    return child & ((1 << _COUNT_BITS) - 1)


@inline
def _search(arena: Words, start: Any, size: Any, x: Any) -> Any:
    """Where the first of these sorted entries is that is not below x, or the end.

    Every entry is compared, many at once: halving has to wait for memory at each step, and took longer. Unsigned
    numbers, for compiled code takes a negative one as counted from the end, and then does not vectorise.
    """
    below = np.int64(0)
    for j in range(np.uint64(start), np.uint64(start + size)):
        below += np.int64(arena[j] < x)
    return start + below


@inline
def _open(arena: Words, at: Any, end: Any) -> None:
    """Make a gap for one entry."""
    blocks.move(arena, at, end - at, arena, at + 1)


@inline
def _close(arena: Words, at: Any, end: Any) -> None:
    """Close the gap of one entry."""
    blocks.move(arena, at + 1, end - at - 1, arena, at)


@inline
def _insert(arena: Words, start: Any, size: Any, x: Any) -> None:
    end = start + size
    at = end if size == 0 or arena[end - 1] < x else _search(arena, start, size, x)
    _open(arena, at, end)
    arena[at] = x


@inline
def _row(arena: Words, node: Any, x: Any) -> Any:
    """Which child of an inner node an entry belongs to."""
    return _search(arena, node + 1, arena[node] - 1, x + 1) - node - 1


@inline
def _leaf(arena: Words, meta: Words, cell: Any, x: Any) -> Any:
    """The block of a cell that an entry belongs to, and how many it has."""
    start, size = np.int64(cell["start"]), np.int64(cell["size"])
    for _ in range(_height(cell)):
        child = arena[start + _fan(meta) + _row(arena, start, x)]
        start, size = _node(child), _count(child)
    return start, size


@inline
def fetch(st: ItemArrays, cell: Any, i: Any) -> None:
    """Ask memory for the block of a cell that an item is in or goes to."""
    if kind(cell) > 0:
        start, size = _leaf(st.arena, st.meta, cell, _least(st.items[i]["seq"]))
        for j in range(start, start + size, 8):
            blocks.fetch(st.arena, j)


# In --------------------------------------------------------------------------------------------------


@inline
def add(st: ItemArrays, cell: Any, i: Any) -> bool:
    """Put an item into a cell; false, with nothing changed, where the arena is too short."""
    arena, meta, size, form = st.arena, st.meta, np.int64(cell["size"]), np.int64(kind(cell))
    if size == 0:
        cell["start"] = i
        cell["size"] = 1
        return True
    x = _least(st.items[i]["seq"]) | i
    if form > TREE or size == 1 << meta[NODE]:
        if not _add_to_tree(arena, meta, cell, x):
            return False
    else:
        if size == 1 << form:
            if not blocks.available(arena, meta, blocks.cost(meta, form + 1)):
                return False
            start = blocks.allocate(arena, meta, form + 1)
            if form == 0:
                arena[start] = _least(st.items[cell["start"]]["seq"]) | cell["start"]
            else:
                blocks.move(arena, cell["start"], size, arena, start)
                blocks.release(arena, meta, cell["start"], form)
            cell["start"] = start
            cell["owner"] += 1
        _insert(arena, cell["start"], size, x)
    cell["size"] += 1
    return True


@helper
def _add_to_tree(arena: Words, meta: Words, cell: Any, x: Any) -> bool:
    """:func:`add` to a tree, or to a full block, which becomes one."""
    height, fan = _height(cell), _fan(meta)
    if not blocks.available(arena, meta, (height + 2) << meta[NODE]):  # a node for each level and a new root
        return False
    if height == 0 or arena[cell["start"]] == fan:
        root = blocks.allocate(arena, meta, meta[NODE])
        arena[root] = 1
        arena[root + fan] = np.int64(cell["start"]) << _COUNT_BITS | cell["size"]
        height += 1
        cell["start"] = root
        cell["owner"] += TREE + height - kind(cell)
    node, size = np.int64(cell["start"]), np.int64(0)
    for level in range(height, 0, -1):
        i = _row(arena, node, x)
        child = arena[node + fan + i]
        if _fill(arena, child, level) == (fan if level > 1 else 2 * fan):
            _split(arena, meta, node, i, level, x)
            if arena[node + i + 1] <= x:
                i += 1
            child = arena[node + fan + i]
        arena[node + fan + i] = child + 1
        node, size = _node(child), _count(child)
    _insert(arena, node, size, x)
    return True


@inline
def _fill(arena: Words, child: Any, level: Any) -> Any:
    """How many entries or children a child has."""
    return _count(child) if level == 1 else arena[_node(child)]


@helper
def _split(arena: Words, meta: Words, node: Any, i: Any, level: Any, x: Any) -> None:
    """Make two of the i-th child, which is full, for x to go into one of them."""
    fan, rows, child = _fan(meta), arena[node], arena[node + _fan(meta) + i]
    old, new = _node(child), blocks.allocate(arena, meta, meta[NODE])
    moved = np.int64(0)
    if level == 1:
        # an entry beyond the last starts a leaf of its own, so that those added in order fill their leaves
        if i < rows - 1 or arena[old + 2 * fan - 1] > x:
            moved = fan
            blocks.move(arena, old + fan, fan, arena, new)
            x = arena[new]
    else:
        half = fan >> 1
        blocks.move(arena, old + half, half, arena, new)
        blocks.move(arena, old + fan + half, half, arena, new + fan)
        for j in range(half):
            moved += _count(arena[new + fan + j])
        x = arena[new]
        arena[old] = arena[new] = half
    _open(arena, node + i + 1, node + rows)
    _open(arena, node + fan + i + 1, node + fan + rows)
    arena[node + i + 1] = x >> PLACE_BITS << PLACE_BITS  # an item may come to another place later
    arena[node + fan + i] = child - moved
    arena[node + fan + i + 1] = new << _COUNT_BITS | moved
    arena[node] = rows + 1


# Out -------------------------------------------------------------------------------------------------


@inline
def remove(st: ItemArrays, cell: Any, i: Any) -> None:
    """Take an item out of a cell."""
    size, form = np.int64(cell["size"]), np.int64(kind(cell))
    if form > TREE:
        _remove_from_tree(st.arena, st.meta, cell, _least(st.items[i]["seq"]))
    elif size > 1:
        _delete(st.arena, np.int64(cell["start"]), size, _least(st.items[i]["seq"]))
    cell["size"] -= 1


@inline
def _delete(arena: Words, start: Any, size: Any, x: Any) -> None:
    _close(arena, _search(arena, start, size, x), start + size)


@helper
def _remove_from_tree(arena: Words, meta: Words, cell: Any, x: Any) -> None:
    height, fan = _height(cell), _fan(meta)
    node, size = np.int64(cell["start"]), np.int64(0)
    for level in range(height, 0, -1):
        i = _row(arena, node, x)
        half = fan >> 1 if level > 1 else fan
        if _fill(arena, arena[node + fan + i], level) <= half:
            i = _merge_small(arena, meta, node, i, level, half)
        child = arena[node + fan + i]
        arena[node + fan + i] = child - 1
        node, size = _node(child), _count(child)
    _delete(arena, node, size, x)
    while height > 0 and arena[cell["start"]] == 1:
        root = np.int64(cell["start"])
        cell["start"] = _node(arena[root + fan])
        blocks.release(arena, meta, root, meta[NODE])
        height -= 1
        cell["owner"] -= 1 if height > 0 else TREE + 1 - meta[NODE]


@helper
def _merge_small(arena: Words, meta: Words, node: Any, i: Any, level: Any, half: Any) -> Any:
    """Merge the i-th child with its neighbours where two fill half a node at most; returns which child it is then."""
    fan = _fan(meta)
    for left in (i, i - 1):
        if 0 <= left < arena[node] - 1:
            both = _fill(arena, arena[node + fan + left], level) + _fill(arena, arena[node + fan + left + 1], level)
            if both <= half:
                _merge(arena, meta, node, left, level)
                i = left
    return i


@helper
def _merge(arena: Words, meta: Words, node: Any, i: Any, level: Any) -> None:
    """Make one of the i-th child and the next."""
    fan, rows = _fan(meta), arena[node]
    child, other = arena[node + fan + i], arena[node + fan + i + 1]
    left, right = _node(child), _node(other)
    if level == 1:
        blocks.move(arena, right, _count(other), arena, left + _count(child))
    else:
        size, more = arena[left], arena[right]
        arena[right] = arena[node + i + 1]
        blocks.move(arena, right, more, arena, left + size)
        blocks.move(arena, right + fan, more, arena, left + fan + size)
        arena[left] = size + more
    blocks.release(arena, meta, right, meta[NODE])
    arena[node + fan + i] = child + _count(other)
    _close(arena, node + i + 1, node + rows)
    _close(arena, node + fan + i + 1, node + fan + rows)
    arena[node] = rows - 1


@inline
def release(arena: Words, meta: Words, cell: Any) -> None:
    """Give back the blocks of a cell that has no item any more."""
    form = np.int64(kind(cell))
    if form > TREE:
        _release_tree(arena, meta, np.int64(cell["start"]), form - TREE)
    elif form > 0:
        blocks.release(arena, meta, cell["start"], form)


@helper
def _release_tree(arena: Words, meta: Words, node: Any, height: Any) -> None:
    """Give back the nodes of a tree."""
    if height > 0:
        for j in range(arena[node]):
            _release_tree(arena, meta, _node(arena[node + _fan(meta) + j]), height - 1)
    blocks.release(arena, meta, node, meta[NODE])


# Asking ----------------------------------------------------------------------------------------------


@inline
def select(arena: Words, meta: Words, start: Any, form: Any, at: Any) -> Any:
    """Where in the arena the at-th item of a cell with more than one is."""
    if form > TREE:
        fan = _fan(meta)
        for _ in range(form - TREE):
            child = start + fan
            while _count(arena[child]) <= at:
                at -= _count(arena[child])
                child += 1
            start = _node(arena[child])
    return start + at


@inline
def point(st: ItemArrays, cell: Any, i: Any) -> None:
    """Note that an item of a cell is at another place now."""
    if kind(cell) == 0:
        cell["start"] = i
    else:
        x = _least(st.items[i]["seq"])
        start, size = _leaf(st.arena, st.meta, cell, x)
        st.arena[_search(st.arena, start, size, x)] = x | i


# Moving ----------------------------------------------------------------------------------------------


@inline
def footprint(arena: Words, meta: Words, cell: Any) -> Any:
    """How many entries of the arena a cell needs at least."""
    size = np.int64(cell["size"])
    if kind(cell) > TREE:
        return _nodes(arena, meta, np.int64(cell["start"]), _height(cell)) << meta[NODE]
    return np.int64(1) << blocks.smallest(size) if size > 1 else np.int64(0)


@helper
def _nodes(arena: Words, meta: Words, node: Any, height: Any) -> Any:
    """How many nodes a tree has."""
    if height == 0:
        return np.int64(1)
    total = np.int64(1)
    for j in range(arena[node]):
        total += _nodes(arena, meta, _node(arena[node + _fan(meta) + j]), height - 1)
    return total


@inline
def move(arena: Words, meta: Words, cell: Any, other: Words, top: Any) -> Any:
    """Move the items of a cell to another arena, from ``top`` on and in its :func:`footprint`; returns the end."""
    start, size, form = np.int64(cell["start"]), np.int64(cell["size"]), np.int64(kind(cell))
    if form > TREE:
        cell["start"] = top
        return _copy(arena, meta, start, form - TREE, other, top)
    if size == 1:
        cell["owner"] -= form
        cell["start"] = start if form == 0 else place_of(arena[start])
        return top
    least = blocks.smallest(size)
    blocks.move(arena, start, size, other, top)
    cell["start"] = top
    cell["owner"] += least - form
    return top + (1 << least)


@helper
def _copy(arena: Words, meta: Words, node: Any, height: Any, other: Words, top: Any) -> Any:
    """Copy a tree, each node before its children; returns the end."""
    blocks.move(arena, node, 1 << meta[NODE], other, top)
    end = top + (1 << meta[NODE])
    if height > 0:
        for row in range(_fan(meta), _fan(meta) + arena[node]):
            other[top + row] = end << _COUNT_BITS | _count(arena[node + row])
            end = _copy(arena, meta, _node(arena[node + row]), height - 1, other, end)
    return end
