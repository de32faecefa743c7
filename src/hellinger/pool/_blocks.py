"""Blocks of the arena: allocated by powers of two; those of groups are binary heaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hellinger._jit import inline
from hellinger.pool._layout import ARENA_TOP, FREE, NONE, WANTED

__all__ = ["allocate", "available", "cost", "fetch", "move", "pop", "push", "release", "smallest"]

Ints = npt.NDArray[np.int64]
Meta = npt.NDArray[np.int64]


@inline
def cost(meta: Meta, log2: Any) -> Any:
    """How many unused entries a block of 2^log2 would take: none where one has been given back."""
    return np.int64(0) if meta[FREE + log2] != NONE else np.int64(1) << np.int64(log2)


@inline
def available(arena: Ints, meta: Meta, wanted: Any) -> Any:
    """Whether so many entries are unused; where not, it is noted how many are wanted."""
    if meta[ARENA_TOP] + wanted <= arena.size:
        return True
    meta[WANTED] = wanted
    return False


@inline
def allocate(arena: Ints, meta: Meta, log2: Any) -> Any:
    """Start of a block of 2^log2 entries, which must be available. A free block holds the next one's start."""
    start = meta[FREE + log2]
    if start != NONE:
        meta[FREE + log2] = arena[start]
        return start
    start = meta[ARENA_TOP]
    meta[ARENA_TOP] = start + (1 << log2)
    return start


@inline
def release(arena: Ints, meta: Meta, start: Any, log2: Any) -> None:
    """Give a block back."""
    arena[start] = meta[FREE + log2]
    meta[FREE + log2] = start


@inline
def smallest(size: Any) -> Any:
    """log2 of the smallest block for so many entries."""
    log2 = 0
    while (1 << log2) < size:
        log2 += 1
    return log2


def _move(_context: Any, arena: Any, start: Any, size: Any, other: Any, to: Any) -> Any:
    """Copy so many entries of an arena to another, or to another place in it that may overlap.

    One call of memmove: a loop that may overlap is not vectorised, and took several times as long.
    """

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, second = (context.make_array(signature.args[j])(context, builder, arguments[j]).data for j in (0, 3))
        count = arguments[2]
        cgutils.raw_memmove(
            builder, builder.gep(second, [arguments[4]]), builder.gep(first, [arguments[1]]), count, np.int64().itemsize
        )
        return context.get_dummy_value()

    whole = types.int64
    return types.void(arena, whole, whole, other, whole), build


move: Any = intrinsic(_move)


def _fetch(_context: Any, array: Any, at: Any) -> Any:
    """Ask memory for an entry of an array, so that it is there once it is needed."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        entry = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        kind = ir.FunctionType(ir.VoidType(), [entry.type] + 3 * [cgutils.int32_t])
        code = builder.module.declare_intrinsic("llvm.prefetch", [entry.type], kind)
        builder.call(code, [entry, *(cgutils.int32_t(option) for option in (0, 3, 1))])  # to read, to stay, data
        return context.get_dummy_value()

    return types.void(array, types.int64), build


fetch: Any = intrinsic(_fetch)


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
def push(arena: Ints, start: int, size: int, x: int, keys: Any, where: Any) -> None:
    """Put x into the heap of that size."""
    _rise(arena, start, size, x, keys, where)


@inline
def pop(arena: Ints, start: int, size: int, hole: int, keys: Any, where: Any) -> None:
    """Take the entry at position ``hole`` out of the heap; the last one fills its place."""
    last = size - 1
    if hole == last:
        return
    x = arena[start + last]
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
