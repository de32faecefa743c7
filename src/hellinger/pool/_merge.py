"""The best k without looking at every item: a merge over groups, exact to the last bit.

At fixed reward sum the index falls with the impressions, at fixed impressions it rises with the reward
sum. Within a stratum only groups on the *staircase* can be best: those with fewer impressions at their
head than every group of a larger sum. Each step of the staircase stands for the run of groups below it,
which it dominates and which are looked at only once it has been taken; a group's block is a heap, so a
taken cell is followed by its two children there.

Arithmetic rounds, so that neighbours may be out of order by an ulp. A successor is therefore bounded by
its predecessor's index enlarged by 2⁻⁴⁰, and a cell is given out only once every bound lies below it. The
result is that of sorting all items by the computed index.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import borrowed, brief, helper, inline
from hellinger.policies import _dispatch as d
from hellinger.pool import _blocks as blocks
from hellinger.pool import _heap as heap
from hellinger.pool import _members as members
from hellinger.pool._groups import borrow, mix, pulls
from hellinger.pool._layout import COUNT, NONE, OLDEST, ORDER, ItemArrays

__all__ = ["eligible", "merge", "report"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_SLACK = 2.0**-40


@inline
def eligible(st: ItemArrays, i: Any, allowed: Any) -> Any:
    """Whether an item passes the query's filters."""
    item = st.items[i]
    return item["excluded"] == 0 and (allowed.size == 0 or allowed[item["tags"]])


@inline
def _bound(score: float) -> float:
    return score + _SLACK * abs(score)


# Items of equal index are those of several cells, in the order of stratum, reward sum and impressions, taken as one
# array: for each cell its start, its kind, and where it ends in that array. In place of a start, a cell of one item has
# that item itself.


@inline
def _take_oldest(
    st: ItemArrays, starts: Ints, kinds: Ints, ends: Ints, count: Any, allowed: Any, queue: Any, slots: Any, found: Any
) -> Any:
    """Fill ``slots`` from cells of equal index, oldest first: a merge of what each has in order of arrival."""
    size = np.int64(0)
    for j in range(count):
        size = _next_oldest(st, starts, kinds, queue, size, j, np.int64(0))
    while size > 0 and found < slots.size:
        j, at, i = queue[0]["a"], queue[0]["b"] + 1, np.int64(queue[0]["value"])
        heap.drop(queue, size)
        size -= 1
        if eligible(st, i, allowed):
            slots[found] = i
            found += 1
        if at < ends[j] - (ends[j - 1] if j > 0 else 0):
            size = _next_oldest(st, starts, kinds, queue, size, j, at)
    return found


@inline
def _next_oldest(st: ItemArrays, starts: Ints, kinds: Ints, queue: Any, size: Any, j: Any, at: Any) -> Any:
    """Add the at-th item of the j-th cell to a heap by age."""
    entry = starts[j] if kinds[j] == 0 else st.arena[members.select(st.arena, st.meta, starts[j], kinds[j], at)]
    i = members.place_of(entry)
    heap.push(queue, size, -float(st.items[i]["seq"]), j, at, float(i))
    return size + 1


@inline
def _locate(st: ItemArrays, starts: Ints, kinds: Ints, ends: Ints, count: Any, at: Any) -> Any:
    """Where the at-th entry of these cells is in the arena; −1 − j where it is that of the j-th cell, alone in it."""
    j, left = np.int64(0), count
    while left > 1:  # by halves whatever is found, so that there is no branch to mispredict
        half = left >> 1
        j += half if ends[j + half - 1] <= at else 0
        left -= half
    if kinds[j] == 0:
        return -1 - j
    return members.select(st.arena, st.meta, starts[j], kinds[j], at - (ends[j - 1] if j > 0 else 0))


@inline
def _draw(st: ItemArrays, starts: Ints, kinds: Ints, ends: Ints, count: Any, step: Any, stream: Any) -> Any:
    """Where the step-th entry of these cells is, and where one drawn from it and those after it."""
    draw = float(mix(stream + np.uint64(step)) >> np.uint64(11)) * 2.0**-53
    a = _locate(st, starts, kinds, ends, count, step)
    return a, _locate(st, starts, kinds, ends, count, step + np.int64(draw * (ends[count - 1] - step)))


@inline
def _swap(st: ItemArrays, starts: Ints, kinds: Ints, ends: Ints, count: Any, step: Any, stream: Any, log: Ints) -> Any:
    """Exchange the two entries that :func:`_draw` finds, or has found; returns what is the first then."""
    if 2 * step + 1 < log.size:
        a, b = log[2 * step], log[2 * step + 1]
    else:
        a, b = _draw(st, starts, kinds, ends, count, step, stream)
    one = st.arena[a] if a >= 0 else starts[-1 - a]
    other = st.arena[b] if b >= 0 else starts[-1 - b]
    if a >= 0:
        st.arena[a] = other
    else:
        starts[-1 - a] = other
    if b >= 0:
        st.arena[b] = one
    else:
        starts[-1 - b] = one
    return other


@inline
def _take_random(
    st: ItemArrays,
    starts: Ints,
    kinds: Ints,
    ends: Ints,
    count: Any,
    allowed: Any,
    log: Ints,
    slots: Any,
    found: Any,
    stream: Any,
) -> Any:
    """Fill ``slots`` from cells of equal index in uniformly random order, by shuffling in place and back.

    As many as are still wanted at a time, in steps that ask memory for what the next one touches.
    """
    steps = np.int64(0)
    while steps < ends[count - 1] and found < slots.size:
        last, new = min(steps + slots.size - found, ends[count - 1]), found
        for step in range(steps, min(last, log.size >> 1)):
            log[2 * step], log[2 * step + 1] = _draw(st, starts, kinds, ends, count, step, stream)
            blocks.fetch(st.arena, max(log[2 * step + 1], 0))
        for step in range(steps, last):
            i = members.place_of(_swap(st, starts, kinds, ends, count, step, stream, log))
            slots[new] = i
            new += 1
            blocks.fetch(st.items, i)
        for j in range(found, new):
            if eligible(st, slots[j], allowed):
                slots[found] = slots[j]
                found += 1
        steps = last
    for step in range(steps - 1, -1, -1):
        _swap(st, starts, kinds, ends, count, step, stream, log)
    return found, stream + np.uint64(steps)


@inline
def _stairs(
    rule: Any,
    st: ItemArrays,
    prior: Floats,
    t: float,
    arms: float,
    top: Any,
    low: Any,
    queue: Any,
    size: Any,
    work: Floats,
) -> Any:
    """Add the staircase of the groups order[low … top] to the heap, each step with the run below it."""
    p = top
    count = np.int64(0)
    while p >= low:
        group = st.groups[st.order[p]]
        stratum, n = group["stratum"], group["head"]
        run = p - 1
        while run >= low:
            other = st.groups[st.order[run]]
            if other["stratum"] != stratum or other["head"] < n:
                break
            run -= 1
        work[0, count] = (group["s"] + prior[stratum, 0]) * prior[stratum, 3]
        work[1, count] = (n + prior[stratum, 1]) * prior[stratum, 3]
        work[2, count] = p
        work[4, count] = prior[stratum, 2]
        count += 1
        p = run
    for j in range(count):  # apart, so that it vectorises
        work[3, j] = d.score(rule, work[0, j], work[1, j], d.when(rule, t, work[4, j]), arms)
    for j in range(count):
        below = np.int64(work[2, j + 1]) + 1 if j + 1 < count else low
        heap.push(queue, size, _bound(work[3, j]), np.int64(work[2, j]), -1 - below, work[3, j])
        size += 1
    return size


@helper
def _search(
    rule: Any,
    st: ItemArrays,
    prior: Floats,
    t: float,
    allowed: Any,
    seed: Any,
    slots: Any,
    rows: Any,
    room: Any,
    heaps: Any,
    ties: Any,
    work: Any,
) -> Any:
    """:func:`merge` in this much room; NONE where it lacks. After the last row: how many have the last one's index."""
    st, prior, allowed, slots, rows = borrow(st), borrowed(prior), borrowed(allowed), borrowed(slots), borrowed(rows)
    heaps, ties, work = borrowed(heaps), borrowed(ties), borrowed(work)
    queue, ready, ages = heaps[:room], heaps[room : 2 * room], heaps[2 * room :]
    starts, kinds, ends, log = ties[:room], ties[room : 2 * room], ties[2 * room : 3 * room], ties[3 * room :]
    arms = float(st.meta[COUNT])
    size = _stairs(rule, st, prior, t, arms, st.meta[ORDER] - 1, np.int64(0), queue, np.int64(0), work)
    waiting = np.int64(0)
    stream = mix(seed)
    found = np.int64(0)
    rows[slots.size, 0] = 0
    while found < slots.size and (size > 0 or waiting > 0):
        while size > 0 and (waiting == 0 or queue[0]["key"] >= ready[0]["key"]):
            # A cell is (its group's place in the order, its place in the group's heap),
            # a step of the staircase (place in the order, −1 − lowest place of its run).
            a, b, score = queue[0]["a"], queue[0]["b"], queue[0]["value"]
            heap.drop(queue, size)
            size -= 1
            if size + 2 + (a + b + 1 if b < 0 else 0) > queue.size or waiting == ready.size:
                return NONE
            position = np.int64(0) if b < 0 else b
            group = st.groups[st.order[a]]
            c = st.arena[group["start"] + position]
            heap.push(ready, waiting, score, c, a, st.cells[c]["n"])
            waiting += 1
            weight = prior[group["stratum"], 3]
            s = (group["s"] + prior[group["stratum"], 0]) * weight
            extra, when = prior[group["stratum"], 1], d.when(rule, t, prior[group["stratum"], 2])
            for child in range(2 * position + 1, min(2 * position + 3, group["size"])):
                n = (st.cells[st.arena[group["start"] + child]]["n"] + extra) * weight
                score = d.score(rule, s, n, when, arms)
                heap.push(queue, size, _bound(score), a, child, score)
                size += 1
            if b < 0:
                size = _stairs(rule, st, prior, t, arms, a - 1, -1 - b, queue, size, work)
        best = ready[0]["key"]
        count = np.int64(0)
        total = np.int64(0)
        while waiting > 0 and ready[0]["key"] == best:
            cell = st.cells[ready[0]["a"]]
            total += cell["size"]
            starts[count], kinds[count], ends[count] = cell["start"], members.kind(cell), total
            count += 1
            heap.drop(ready, waiting)
            waiting -= 1
        before = found
        if seed == OLDEST:
            found = _take_oldest(st, starts, kinds, ends, count, allowed, ages, slots, found)
        else:
            found, stream = _take_random(st, starts, kinds, ends, count, allowed, log, slots, found, stream)
        for j in range(before, found):
            rows[j, 1] = np.float64(best).view(np.int64)
        if found > before:
            rows[slots.size, 0] = total
    return found


@inline
def _excluded_of_tie(rule: Any, st: ItemArrays, prior: Floats, t: float, excluded: Ints, last: float) -> int:
    """How many of the excluded items have this index; they are excluded no more, so that none counts twice."""
    st, prior, excluded = borrow(st), borrowed(prior), borrowed(excluded)
    arms, count = float(st.meta[COUNT]), 0
    for j in range(excluded.size):
        item = st.items[excluded[j]]
        if item["excluded"] != 0 and item["hidden"] == 0:
            row = prior[item["stratum"]]
            s, n = (item["s"] + row[0]) * row[3], (pulls(st, item) + row[1]) * row[3]
            when = d.when(rule, t, row[2])
            count += d.score(rule, s, n, when, arms) == last
        item["excluded"] = 0
    return count


@brief
def merge(
    rule: Any,
    st: ItemArrays,
    prior: Floats,
    t: float,
    allowed: Any,
    excluded: Ints,
    seed: Any,
    named: Any,
    slots: Any,
    rows: Any,
) -> Any:
    """Write the best eligible items, best first, and their :func:`report`; ties by ``seed``, which may be OLDEST.

    ``excluded``: places of items to leave out, in whatever order, one perhaps twice. After the last row: how many of
    the others have the last one's index.
    """
    groups = st.meta[ORDER]
    room = 2 * groups + 2 * slots.size
    for j in range(excluded.size):
        st.items[excluded[j]]["excluded"] = 1
    while True:  # more is needed only where filters skip many
        heaps = np.empty((3 if seed == OLDEST else 2) * room, heap.ENTRY)
        ties, work = np.empty(5 * room, np.int64), np.empty((5, groups))
        found = _search(rule, st, prior, t, allowed, seed, slots, rows, room, heaps, ties, work)
        if found != NONE:
            break
        room *= 4
    last = np.int64(rows[found - 1, 1]).view(np.float64) if found > 0 else math.nan
    rows[slots.size, 0] -= _excluded_of_tie(rule, st, prior, t, excluded, last)
    return found, report(st.items, 1.0, named, slots, found, rows)


@inline
def report(items: Any, scale: float, named: Any, slots: Any, found: Any, rows: Any) -> bool:
    """Complete the rows (id, index, impressions, rewards) of a ranking, whose index is there already.

    The id is the item's key, or its place where ids are ``named`` elsewhere. Returns whether all counts are whole
    numbers; the rows then hold them as such, and as floats otherwise.
    """
    items, slots, rows = borrowed(items), borrowed(slots), borrowed(rows)
    whole = scale == 1.0
    for j in range(found):
        n, s = items[slots[j]]["n"], items[slots[j]]["s"]
        whole = whole and s == math.floor(s) and n == math.floor(n)
    for j in range(found):
        item = items[slots[j]]
        n, s = item["n"] * scale, item["s"] * scale
        rows[j, 0] = slots[j] if named else item["key"]
        rows[j, 2] = np.int64(n) if whole else np.float64(n).view(np.int64)
        rows[j, 3] = np.int64(s) if whole else np.float64(s).view(np.int64)
    return whole
