"""Arms with equal counts in one cell, cells in a heap by an upper bound of their index.

The heap's order is (key, unsettled before settled, first arm): its top, once settled, is the cell that the
full scan would choose, ties included. ``key`` is the cell's bound, or while ``settled`` its exact index at
the current time. Within a cell the arms form a pairing heap on their number, so that the first is at hand.

Everything but the hash table lives in the columns of one matrix, whole numbers included: a cell is one cache
line, and compiled code counts the references of one array instead of a dozen at every call.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, inline
from hellinger._random import mix
from hellinger.policies import _dispatch as rules
from hellinger.policies._rule import Floats, Rule

__all__ = ["cells_add", "cells_first", "cells_new", "cells_refresh", "cells_take"]

Ints = npt.NDArray[np.int64]

# By cell: counts, bound, key, whether the key is exact now, first arm (−1: none), position in the heap.
S, N, BOUND, KEY, SETTLED, ROOT, PLACE = range(7)
# By position: the heap, the stack of free cells, the stack of cells settled this round.
HEAP, FREE, STACK = range(7, 10)
# By arm: first child and next sibling in its cell's pairing heap.
CHILD, SIBLING = range(10, 12)
# In the last row: how many cells are in the heap, and how many are free.
LIVE, SPARE = 0, 1


@helper
def cells_new(arms: int) -> tuple[Floats, Ints]:
    """No cells yet, room for as many as there are arms and one more while an arm moves."""
    room = arms + 1
    buckets = 4
    while buckets < 2 * room:
        buckets *= 2
    c = np.full((room + 1, 12), -1.0)
    for i in range(room):
        c[i, FREE] = i
    c[room, LIVE] = 0.0
    c[room, SPARE] = room
    return c, np.full(buckets, -1)


# The heap of cells -----------------------------------------------------------------------------------


@inline
def _before(c: Floats, a: int, b: int) -> bool:
    if c[a, KEY] != c[b, KEY]:
        return bool(c[a, KEY] > c[b, KEY])
    if c[a, SETTLED] != c[b, SETTLED]:
        return bool(c[b, SETTLED] > 0.0)
    return bool(c[a, ROOT] < c[b, ROOT])


@inline
def _put(c: Floats, at: int, cell: int) -> None:
    c[at, HEAP] = cell
    c[cell, PLACE] = at


@inline
def _up(c: Floats, at: int) -> None:
    cell = int(c[at, HEAP])
    while at > 0:
        parent = (at - 1) // 2
        above = int(c[parent, HEAP])
        if not _before(c, cell, above):
            break
        _put(c, at, above)
        at = parent
    _put(c, at, cell)


@inline
def _down(c: Floats, at: int) -> None:
    cell = int(c[at, HEAP])
    live = int(c[-1, LIVE])
    while True:
        below = 2 * at + 1
        if below >= live:
            break
        larger = int(c[below, HEAP])
        if below + 1 < live:
            other = int(c[below + 1, HEAP])
            if _before(c, other, larger):
                below, larger = below + 1, other
        if not _before(c, larger, cell):
            break
        _put(c, at, larger)
        at = below
    _put(c, at, cell)


# The table of cells by (s, n), open addressing -------------------------------------------------------


@inline
def _bucket(table: Ints, s: float, n: float) -> int:
    bits = mix(np.float64(s).view(np.uint64) ^ mix(np.float64(n).view(np.uint64)))
    return int(np.int64(bits & np.uint64(table.size - 1)))


@inline
def _find(c: Floats, table: Ints, s: float, n: float) -> int:
    """The bucket that holds the cell (s, n), or the empty one where it belongs."""
    at = _bucket(table, s, n)
    while True:
        cell = table[at]
        if cell < 0 or (c[cell, S] == s and c[cell, N] == n):
            return at
        at = (at + 1) & (table.size - 1)


@inline
def _forget(c: Floats, table: Ints, cell: int) -> None:
    """Empty the cell's bucket and close the gap behind it."""
    last = table.size - 1
    gap = _find(c, table, c[cell, S], c[cell, N])
    at = gap
    while True:
        at = (at + 1) & last
        other = table[at]
        if other < 0:
            break
        home = _bucket(table, c[other, S], c[other, N])
        if ((at - home) & last) >= ((at - gap) & last):
            table[gap] = other
            gap = at
    table[gap] = -1


# The arms of a cell, a pairing heap ------------------------------------------------------------------


@inline
def _meld(c: Floats, a: int, b: int) -> int:
    if a < 0:
        return b
    if b < 0:
        return a
    if b < a:
        a, b = b, a
    c[b, SIBLING] = c[a, CHILD]
    c[a, CHILD] = b
    return a


@inline
def _without_first(c: Floats, arm: int) -> int:
    """The heap of a cell once its first arm is gone: its children melded in pairs, then all together."""
    pairs = -1
    node = int(c[arm, CHILD])
    while node >= 0:
        mate = int(c[node, SIBLING])
        rest = -1
        c[node, SIBLING] = -1.0
        if mate >= 0:
            rest = int(c[mate, SIBLING])
            c[mate, SIBLING] = -1.0
        merged = _meld(c, node, mate)
        c[merged, SIBLING] = pairs
        pairs = merged
        node = rest
    result = -1
    while pairs >= 0:
        rest = int(c[pairs, SIBLING])
        c[pairs, SIBLING] = -1.0
        result = _meld(c, result, pairs)
        pairs = rest
    c[arm, CHILD] = -1.0
    return result


# What the player does --------------------------------------------------------------------------------


@inline
def cells_add(c: Floats, table: Ints, rule: Rule, s: float, n: float, arm: int, until: float, arms: float) -> None:
    """Put an arm with these counts into its cell, with a bound that holds up to the time ``until``."""
    at = _find(c, table, s, n)
    cell = table[at]
    if cell >= 0:
        first = int(c[cell, ROOT])
        root = _meld(c, first, arm)
        c[cell, ROOT] = root
        if root != first:
            _up(c, int(c[cell, PLACE]))
        return
    spare = int(c[-1, SPARE]) - 1
    c[-1, SPARE] = spare
    cell = int(c[spare, FREE])
    table[at] = cell
    c[cell, S] = s
    c[cell, N] = n
    c[cell, ROOT] = arm
    c[cell, SETTLED] = 0.0
    bound = rules.score(rule, s, n, until, arms)
    c[cell, BOUND] = bound
    c[cell, KEY] = bound
    live = int(c[-1, LIVE])
    c[live, HEAP] = cell
    c[-1, LIVE] = live + 1
    _up(c, live)


@inline
def cells_take(c: Floats, table: Ints, cell: int) -> int:
    """Take the first arm out of a cell, and the cell away if it was the last."""
    arm = int(c[cell, ROOT])
    root = _without_first(c, arm)
    at = int(c[cell, PLACE])
    c[cell, ROOT] = root
    if root >= 0:
        _down(c, at)
        return arm
    _forget(c, table, cell)
    spare = int(c[-1, SPARE])
    c[spare, FREE] = cell
    c[-1, SPARE] = spare + 1
    live = int(c[-1, LIVE]) - 1
    c[-1, LIVE] = live
    if at < live:
        moved = int(c[live, HEAP])
        _put(c, at, moved)
        _up(c, at)
        _down(c, int(c[moved, PLACE]))
    return arm


@inline
def cells_first(c: Floats, rule: Rule, t: float, arms: float) -> int:
    """The cell with the largest index at time t; of equal ones that with the lowest arm."""
    settled = 0
    cell = int(c[0, HEAP])
    while c[cell, SETTLED] == 0.0:
        c[cell, KEY] = rules.score(rule, c[cell, S], c[cell, N], t, arms)
        c[cell, SETTLED] = 1.0
        c[settled, STACK] = cell
        settled += 1
        _down(c, 0)
        cell = int(c[0, HEAP])
    for i in range(settled):  # exact indices hold at t only: put the bounds back
        done = int(c[i, STACK])
        c[done, SETTLED] = 0.0
        c[done, KEY] = c[done, BOUND]
        _up(c, int(c[done, PLACE]))
    return cell


@helper
def cells_refresh(c: Floats, rule: Rule, until: float, arms: float) -> None:
    """Give every cell a bound that holds up to the time ``until``."""
    live = int(c[-1, LIVE])
    for i in range(live):
        cell = int(c[i, HEAP])
        bound = rules.score(rule, c[cell, S], c[cell, N], until, arms)
        c[cell, BOUND] = bound
        c[cell, KEY] = bound
    for i in range(live // 2 - 1, -1, -1):
        _down(c, i)
