"""Blocks of the arena: allocated by powers of two, ordered as binary heaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import inline
from hellinger.pool._layout import ARENA_TOP, FREE, NONE

__all__ = ["allocate", "available", "pop", "push", "release"]

Ints = npt.NDArray[np.int32]
Meta = npt.NDArray[np.int64]


@inline
def available(arena: Ints, meta: Meta, log2: Any) -> Any:
    """Whether a block of 2^log2 entries can be had."""
    return meta[FREE + log2] != NONE or meta[ARENA_TOP] + (1 << log2) <= arena.size


@inline
def allocate(arena: Ints, meta: Meta, log2: Any) -> Any:
    """Start of a block of 2^log2 entries, which must be available. A free block holds the next one's start."""
    start = meta[FREE + log2]
    if start != NONE:
        # two entries make one 64-bit link: an arena of many contents is longer than 2³¹
        meta[FREE + log2] = (np.int64(arena[start]) << np.int64(31)) | np.int64(arena[start + 1])
        if arena[start] < 0:
            meta[FREE + log2] = NONE
        return start
    start = meta[ARENA_TOP]
    meta[ARENA_TOP] = start + (1 << log2)
    return start


@inline
def release(arena: Ints, meta: Meta, start: Any, log2: Any) -> None:
    """Give a block back."""
    link = meta[FREE + log2]
    arena[start] = NONE if link == NONE else np.int32(link >> np.int64(31))
    arena[start + 1] = 0 if link == NONE else np.int32(link & np.int64(0x7FFFFFFF))
    meta[FREE + log2] = start


@inline
def _rise(arena: Ints, start: int, hole: int, x: int, keys: Any, where: Any) -> int:
    key = keys[x]
    while hole > 0:
        parent = (hole - 1) >> 1
        y = arena[start + parent]
        if not key < keys[y]:
            break
        arena[start + hole] = y
        where[y] = hole
        hole = parent
    arena[start + hole] = x
    where[x] = hole
    return hole


@inline
def push(arena: Ints, start: int, size: int, x: int, keys: Any, where: Any, ordered: bool) -> None:
    """Put x into a block of that size: in its place of the heap, or last."""
    if ordered:
        _rise(arena, start, size, x, keys, where)
    else:
        arena[start + size] = x
        where[x] = size


@inline
def pop(arena: Ints, start: int, size: int, hole: int, keys: Any, where: Any, ordered: bool) -> None:
    """Take the entry at position ``hole`` out of a block; the last one fills its place."""
    last = size - 1
    if hole == last:
        return
    x = arena[start + last]
    if not ordered:
        arena[start + hole] = x
        where[x] = hole
        return
    if _rise(arena, start, hole, x, keys, where) != hole:
        return
    key = keys[x]
    while True:
        child = 2 * hole + 1
        if child >= last:
            break
        y = arena[start + child]
        if child + 1 < last and keys[arena[start + child + 1]] < keys[y]:
            child += 1
            y = arena[start + child]
        if not keys[y] < key:
            break
        arena[start + hole] = y
        where[y] = hole
        hole = child
    arena[start + hole] = x
    where[x] = hole
