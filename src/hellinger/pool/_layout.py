"""Where a pool keeps its items: a few arrays that compiled code shares.

Items with the same stratum, reward sum and impressions share a *cell*, since they share an index; cells with
the same stratum and reward sum form a *group*. The items of a cell lie in the arena in order of arrival (see
``_members``), the cells of a group in a block there that is a heap. Blocks grow by doubling and are recycled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "ARENA_TOP",
    "CELL",
    "CELLS",
    "COUNT",
    "FREE",
    "FREE_CELL",
    "FREE_GROUP",
    "GROUP",
    "GROUPS",
    "ITEM",
    "LIMIT",
    "LIVE_CELLS",
    "META",
    "MOST_ARRIVALS",
    "MOST_ITEMS",
    "NODE",
    "NONE",
    "OLDEST",
    "ORDER",
    "OWNER_SHIFT",
    "PLACE_BITS",
    "TREE",
    "WANTED",
    "ItemArrays",
    "empty",
]

NONE = -1

ITEM = np.dtype(
    [
        ("n", np.float64),  # multiples of a power of two stay exact while they have 53 bits
        ("s", np.float64),
        ("seq", np.uint32),  # order of arrival
        ("cell", np.int32),  # NONE where the item is hidden, or the pool scans
        ("stratum", np.int16),  # the class of its prior, or that of a large group
        ("hidden", np.int8),
        ("excluded", np.int8),  # by the present query
        ("tags", np.int32),
        ("key", np.int64),  # the id itself, or its hash
        ("born", np.float64),
    ],
    align=True,
)
"""48 bytes, together: an event touches nothing else of an item."""

CELL = np.dtype(
    [
        ("n", np.float64),  # of its items, as many as their rewards take at least: see LIMIT
        ("start", np.int32),  # of its block or tree; the item itself where there is but one
        ("size", np.int32),
        ("owner", np.int32),  # its group and the kind of its block, see below; next free cell while unused
        ("where", np.int32),  # position in the group's block
    ],
    align=True,
)
"""24 bytes: in a worn pool most items have a cell of their own."""
OWNER_SHIFT = 5
"""``owner`` is the group's number, and in the lowest bits how the items are stored.

0: one item, without a block. Up to ``TREE``: log2 of the capacity of a sorted block. From ``TREE`` on: a tree, and its
height."""
TREE = 16

GROUP = np.dtype(
    [
        ("s", np.float64),
        ("head", np.float64),  # fewest impressions in the group
        ("start", np.int32),
        ("size", np.int32),
        ("log2", np.int32),  # capacity of the block
        ("stratum", np.int32),  # next free group while unused
    ],
    align=True,
)

COUNT, CELLS, LIVE_CELLS, FREE_CELL, GROUPS, FREE_GROUP, ORDER, ARENA_TOP, WANTED, NODE, LIMIT, FREE = range(12)
META = FREE + 31
"""Slots of ``State.meta``: counts, heads of free lists, and from FREE on one free list for each block size.

LIMIT has the bits of a float: the most that one impression can earn, 1 for clicks, infinity where rewards have no
bound. Where impressions are worth less than one an item may have earned more than that; it then has the index of one
with as many impressions as its rewards take at least."""

PLACE_BITS = 28
MOST_ITEMS = 1 << PLACE_BITS
"""An item's entry in the arena has its place in the lowest bits and its arrival number above."""
MOST_ARRIVALS = 1 << 32
NODE_LOG2 = 7
"""log2 of the entries of a sorted block at most, and of a node where items are too many for one."""

OLDEST = -1
"""Given as the seed of a ranking: items of equal index come oldest first, not in random order."""


class ItemArrays(NamedTuple):
    """Everything that compiled code needs, in arrays."""

    items: Any
    cells: Any
    groups: Any
    order: npt.NDArray[np.int32]
    """Groups by stratum and reward sum, ascending: the busiest end is the cheap one to insert at."""
    arena: npt.NDArray[np.int64]
    map: npt.NDArray[np.int32]
    """Open-addressing table from (stratum, s, n) to a cell."""
    meta: npt.NDArray[np.int64]


def empty(items: int, limit: float, *, cells: int = 64, groups: int = 16, arena: int = 8) -> ItemArrays:
    """A state without items, with room for so many; ``limit``: the most that one impression can earn."""
    meta = np.zeros(META, np.int64)
    meta[FREE_CELL] = meta[FREE_GROUP] = NONE
    meta[FREE:] = NONE
    meta[NODE] = NODE_LOG2
    meta[LIMIT] = np.float64(limit).view(np.int64)
    size = 1 << (2 * cells - 1).bit_length()
    return ItemArrays(
        np.zeros(items, ITEM),
        np.zeros(cells, CELL),
        np.zeros(groups, GROUP),
        np.zeros(groups, np.int32),
        np.zeros(arena, np.int64),
        np.full(size, NONE, np.int32),
        meta,
    )
