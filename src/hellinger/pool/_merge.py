"""The best k without looking at every content: a merge over groups, exact to the last bit.

At fixed reward sum the index falls with the impressions, at fixed impressions it rises with the reward
sum. Within a stratum only groups on the *staircase* can be best: those with fewer impressions at their
head than every group of a larger sum. Each step of the staircase stands for the run of groups below it,
which it dominates and which are looked at only once it has been taken; a group's block is a heap, so a
taken cell is followed by its two children there.

Arithmetic rounds, so that neighbours may be out of order by an ulp. A successor is therefore bounded by
its predecessor's index enlarged by 2⁻⁴⁰, and a cell is given out only once every bound lies below it. The
result is that of sorting all contents by the computed index.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, inline, jit
from hellinger.policies import _dispatch as d
from hellinger.pool import _heap as heap
from hellinger.pool._groups import held, mix
from hellinger.pool._layout import ORDER, SORTED, State

__all__ = ["eligible", "gather", "merge"]

Floats = npt.NDArray[np.float64]

_SLACK = 2.0**-40


@inline
def eligible(st: State, i: Any, allowed: Any, mark: Any) -> Any:
    """Whether an item passes the query's filters."""
    item = st.items[i]
    return item["mark"] != mark and (allowed.size == 0 or allowed[item["tags"]])


@inline
def _bound(score: float) -> float:
    return score + _SLACK * abs(score)


@helper
def _take_oldest(st: State, tied: Any, count: Any, allowed: Any, mark: Any, out: Any, found: Any) -> Any:
    """Fill ``out`` from cells of equal index, oldest first: a merge over their heaps."""
    queue = heap.new(32)
    size = np.int64(0)
    for j in range(count):
        oldest = st.items[st.arena[st.cells[tied[j]]["start"]]]["seq"]
        queue = heap.push(queue, size, -float(oldest), tied[j], np.int64(0), 0.0)
        size += 1
    while size > 0 and found < out.size:
        c, position = queue[0]["a"], queue[0]["b"]
        heap.drop(queue, size)
        size -= 1
        cell = st.cells[c]
        i = st.arena[cell["start"] + position]
        if eligible(st, i, allowed, mark):
            out[found] = i
            found += 1
        for child in range(2 * position + 1, min(2 * position + 3, cell["size"])):
            seq = st.items[st.arena[cell["start"] + child]]["seq"]
            queue = heap.push(queue, size, -float(seq), c, child, 0.0)
            size += 1
    return found


@inline
def _take_random(st: State, tied: Any, count: Any, allowed: Any, mark: Any, out: Any, found: Any, stream: Any) -> Any:
    """Fill ``out`` from cells of equal index in uniformly random order, by shuffling in place and back."""
    left = np.int64(0)
    taken = np.zeros(count, np.int64)
    for j in range(count):
        left += st.cells[tied[j]]["size"]
    swaps = np.empty((16, 2), np.int64)
    steps = np.int64(0)
    while left > 0 and found < out.size:
        pick = np.int64(0)
        if left > 1:
            stream = stream + np.uint64(1)
            pick = np.int64(float(mix(stream) >> np.uint64(11)) * 2.0**-53 * left)
        j = 0
        while pick >= st.cells[tied[j]]["size"] - taken[j]:
            pick -= st.cells[tied[j]]["size"] - taken[j]
            j += 1
        a = st.cells[tied[j]]["start"] + taken[j]
        b = a + pick
        i = st.arena[b]
        if a != b:
            if steps == swaps.shape[0]:
                longer = np.empty((2 * steps, 2), np.int64)
                for k in range(steps):
                    longer[k, 0] = swaps[k, 0]
                    longer[k, 1] = swaps[k, 1]
                swaps = longer
            st.arena[b] = st.arena[a]
            st.arena[a] = i
            swaps[steps, 0] = a
            swaps[steps, 1] = b
            steps += 1
        taken[j] += 1
        left -= 1
        if eligible(st, i, allowed, mark):
            out[found] = i
            found += 1
    for k in range(steps - 1, -1, -1):
        a, b = swaps[k, 0], swaps[k, 1]
        st.arena[a], st.arena[b] = st.arena[b], st.arena[a]
    return found, stream


@inline
def _stairs(
    rule: Any, st: State, prior: Floats, t: float, arms: float, top: Any, low: Any, queue: Any, size: Any, work: Floats
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
        work[0, count] = group["s"] + prior[stratum, 0]
        work[1, count] = n + prior[stratum, 1]
        work[2, count] = p
        count += 1
        p = run
    for j in range(count):  # apart, so that it vectorises
        work[3, j] = d.score(rule, work[0, j], work[1, j], t, arms)
    for j in range(count):
        below = np.int64(work[2, j + 1]) + 1 if j + 1 < count else low
        queue = heap.push(queue, size, _bound(work[3, j]), np.int64(work[2, j]), -1 - below, work[3, j])
        size += 1
    return queue, size


@jit
def merge(
    rule: Any,
    st: State,
    prior: Floats,
    t: float,
    arms: float,
    allowed: Any,
    mark: Any,
    seed: Any,
    slots: Any,
    scores: Any,
) -> Any:
    """Write the best eligible items and their indices, best first; returns how many there are."""
    st = held(st)
    queue = heap.new(64)
    work = np.empty((4, st.meta[ORDER]))
    queue, size = _stairs(rule, st, prior, t, arms, st.meta[ORDER] - 1, np.int64(0), queue, np.int64(0), work)
    ready = heap.new(32)
    waiting = np.int64(0)
    tied = np.empty(8, np.int64)
    stream = mix(seed)
    found = np.int64(0)
    while found < slots.size and (size > 0 or waiting > 0):
        while size > 0 and (waiting == 0 or queue[0]["key"] >= ready[0]["key"]):
            # A step of the staircase is (place in the order, −1 − lowest place of its run),
            # any other cell (group, place in the group's heap).
            a, b, score = queue[0]["a"], queue[0]["b"], queue[0]["value"]
            heap.drop(queue, size)
            size -= 1
            g = np.int64(st.order[a]) if b < 0 else a
            position = np.int64(0) if b < 0 else b
            group = st.groups[g]
            ready = heap.push(ready, waiting, score, np.int64(st.arena[group["start"] + position]), np.int64(0), 0.0)
            waiting += 1
            s = group["s"] + prior[group["stratum"], 0]
            extra = prior[group["stratum"], 1]
            for child in range(2 * position + 1, min(2 * position + 3, group["size"])):
                n = st.cells[st.arena[group["start"] + child]]["n"] + extra
                score = d.score(rule, s, n, t, arms)
                queue = heap.push(queue, size, _bound(score), g, child, score)
                size += 1
            if b < 0:
                queue, size = _stairs(rule, st, prior, t, arms, a - 1, -1 - b, queue, size, work)
        best = ready[0]["key"]
        count = np.int64(0)
        while waiting > 0 and ready[0]["key"] == best:
            if count == tied.size:
                longer = np.empty(2 * count, np.int64)
                for j in range(count):
                    longer[j] = tied[j]
                tied = longer
            tied[count] = ready[0]["a"]
            count += 1
            heap.drop(ready, waiting)
            waiting -= 1
        before = found
        if count == 1 and st.cells[tied[0]]["size"] == 1:  # as most are: spare the arrays
            only = st.arena[st.cells[tied[0]]["start"]]
            if eligible(st, only, allowed, mark):
                slots[found] = only
                found += 1
        elif st.meta[SORTED] != 0:
            found = _take_oldest(st, tied, count, allowed, mark, slots, found)
        else:
            found, stream = _take_random(st, tied, count, allowed, mark, slots, found, stream)
        for j in range(before, found):
            scores[j] = best
    return found


@jit
def gather(items: Any, slots: Any, found: Any, keys: Any, n: Any, s: Any) -> bool:
    """Copy what a ranking shows of its items; whether all reward sums are whole numbers."""
    integral = True
    for j in range(found):
        item = items[slots[j]]
        keys[j] = item["key"]
        n[j] = item["n"]
        s[j] = item["s"]
        integral = integral and s[j] == math.floor(s[j])
    return integral
