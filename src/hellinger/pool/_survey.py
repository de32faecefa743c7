"""The best k items for one context, by a model: a coarse pass over all, an exact look at those that may be among them.

The index rises with the mean and falls with the pulls. The coarse pass gives each item its η and an upper bound of the
variance of that, in single precision. Items are in classes by this bound, eight to a factor of two; in each there is a
least η with which an item could still reach the k-th best so far, and an item below it is passed over. That η is found
by bisection once some items of the class have passed in vain, and again after as many more where the k-th best has
risen since. Looked at first is what was best in the last rankings, and of each of the first blocks the item that
promises most by η and a multiple of its standard deviation: no item below the k-th best of these can be among the best.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit
from hellinger.families import _dispatch as f
from hellinger.models import _kernels as kernels
from hellinger.models._base import Link
from hellinger.models._kernels import BLOCK, ItemLevels, Own, View
from hellinger.pool._groups import mix
from hellinger.pool._layout import COUNT, OLDEST, ItemArrays
from hellinger.pool._merge import eligible, report
from hellinger.pool._scan import worse

__all__ = ["survey"]

Floats = npt.NDArray[np.float64]

_SQUARINGS = 4
_HALVINGS = 5
_MISSES = 8
"""Items of a class that pass and cannot reach the k-th best, before the class's least η is found anew."""
_FIRST = 64
"""Blocks of which the most promising item is looked at first; what is known of their items is kept until the pass."""
_VAIN = 6
"""Promising items that were looked at one after the other in vain, before no more are."""
_MOST_ETA = 128.0
"""Promises are taken to be below this, so that they can be compared as whole numbers, many at a time."""
_CLASSES, _SHIFT = 1 << 11, 20
"""Classes of variances: the exponent of a number in single precision and the first three bits behind it."""


@helper
def _largest(a: Floats) -> float:
    """An upper bound of the largest eigenvalue of a symmetric matrix: ‖A^16‖^(1/16), within 12 % at 32 columns."""
    size = a.shape[0]
    power, log_scale, exponent = a.copy(), 0.0, 1.0
    for _ in range(_SQUARINGS + 1):
        total = 0.0
        for i in range(size):
            for j in range(size):
                total += power[i, j] * power[i, j]
        if total == 0.0:
            return 0.0
        norm = math.sqrt(total)
        log_scale += math.log(norm) / exponent
        if exponent == 2.0**_SQUARINGS:
            break
        for i in range(size):
            for j in range(size):
                power[i, j] /= norm
        square = np.zeros((size, size))
        for i in range(size):
            for k in range(size):
                factor = power[i, k]
                for j in range(size):
                    square[i, j] += factor * power[k, j]
        power = square
        exponent *= 2.0
    return math.exp(log_scale) * (1.0 + 1e-9)


@helper
def _bound(a: Floats, single: Any) -> Any:
    """Numbers with w⁺′Aw⁺ ≤ Σ bound·w² for every w⁺: the diagonal, times what correlations can add to it."""
    size = a.shape[0]
    root = np.zeros(size)
    for q in range(size):
        root[q] = 1.0 / math.sqrt(a[q, q]) if a[q, q] > 0.0 else 0.0
    scaled = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            scaled[i, j] = root[i] * root[j] * a[i, j]
    return (np.diag(a) * (_largest(scaled) * (1.0 + (size + 8.0) * 2.0**-22))).astype(single)


@helper
def _reach(rule: Any, link: Link, doubt: float, t: float, arms: float, eta: float) -> float:
    """The largest index that an item of this η can have, of at most this variance."""
    m = min(max(f.mean(link.family, eta), link.low), link.high)
    variance = f.variance(link.family, min(m, link.peak))
    index = kernels.index(rule, m, 1.0 / (variance * doubt), t, arms)
    return index + 1e-12 * abs(index)


@helper
def _least(rule: Any, link: Link, doubt: float, t: float, arms: float, bar: float) -> float:
    """An η below which no item of at most this variance can reach the bar."""
    high = f.natural(link.family, min(max(bar, link.low), link.high))
    if _reach(rule, link, doubt, t, arms, high) < bar:
        return math.inf if bar > link.high else high - 1e-9 * (1.0 + abs(high))
    width = 0.5
    low = high - width
    while _reach(rule, link, doubt, t, arms, low) >= bar:
        if width > 1e12:
            return -math.inf
        high = low
        width *= 2.0
        low -= width
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _reach(rule, link, doubt, t, arms, middle) >= bar:
            high = middle
        else:
            low = middle
    return low


@helper
def _promising(eta: Any, doubt: Any, width: Any, count: int, keys: Any) -> tuple[int, Any]:
    """The place of the item of a block that has the largest η + width·σ, nearly, and how large.

    Positive numbers in single precision are in the order of their bits, whose last eight here are the item's number.
    """
    single = np.float32
    promise = keys.view(single)
    low, high = single(0.0), single(2.0 * _MOST_ETA)
    for j in range(count):
        promise[j] = min(max(eta[j] + width * np.sqrt(doubt[j]) + single(_MOST_ETA), low), high)
    best = np.int32(0)
    for j in range(count):
        key = np.int32(keys[j] & -256 | j)
        best = key if key > best else best
    j = int(best & 255)
    return j, promise[j]


@helper
def _among(i: int, best: Any, found: int) -> bool:
    there = False
    for j in range(found):
        there |= best[j] == i
    return there


@helper
def _take(i: int, score: float, best: Any, kept: Floats, found: int) -> int:
    """Take an item in among the best, where it is; how many they are."""
    k = kept.size
    if found == k and not score > kept[k - 1]:
        return found
    hole = found if found < k else k - 1
    while hole > 0 and kept[hole - 1] < score:
        best[hole], kept[hole] = best[hole - 1], kept[hole - 1]
        hole -= 1
    best[hole], kept[hole] = i, score
    return min(found + 1, k)


@jit
def survey(
    rule: Any,
    link: Link,
    view: View,
    levels: ItemLevels,
    own: Own,
    st: ItemArrays,
    t: float,
    allowed: Any,
    seed: int,
    named: bool,
    hints: Any,
    best: Any,
    rows: Any,
) -> Any:
    """Write the best items and their report, as a scan of all would; and how many were looked at.

    ``hints`` are places to look at first, whatever they are: the better, the less is to be done.

    After the last row: how many have the last one's index, all of which are looked at.

    Sums in single precision are off by at most (columns + 8)·2⁻²³ of the sum of what they add up in absolute terms.
    """
    k, width, count = best.size, view.main.size, st.meta[COUNT]
    arms = float(count)
    single = np.float32
    main, cross = view.main.astype(single), view.cross.astype(single)
    error = levels.most[0]
    for q in range(width):
        error += (abs(view.main[q]) + abs(view.cross[q])) * max(1.0, levels.most[1])
    error *= (width + 8.0) * 2.0**-23
    # an item's variance is convex in its kappa: it is below the line from kappa = 0 to kappa = 1
    new, old = _bound(view.square + view.twice + view.rest, single), _bound(view.rest, single)
    said, fresh = np.empty(BLOCK, single), np.empty(BLOCK, single)
    edge = np.empty(1, np.int32)
    edge_value = edge.view(single)
    least, misses = np.full(_CLASSES, -math.inf), np.zeros(_CLASSES, np.int8)
    known = np.full(_CLASSES, -math.inf)  # the k-th best when the least η was found
    found_features, values = np.empty(width, np.int64), np.empty(width)
    kept, ties = np.empty(k), np.empty(k, np.uint64)
    bar = -math.inf
    found, looked, lost = 0, 0, 0  # lost: with the index of the last one, and not among the best
    spread, spreads = 0.0, 0
    for i in hints:
        if k == 0 or not 0 <= i < count or _among(i, best, found):
            continue
        if st.items[i]["hidden"] == 0 and eligible(st, i, allowed):
            m, n = kernels.look(link, view, levels, own, i, found_features, values)
            score = kernels.index(rule, m, n, t, arms)
            looked += 1
            found = _take(i, score, best, kept, found)
            high = f.natural(link.family, min(max(score, link.low), link.high)) - f.natural(link.family, m)
            if high < math.inf:
                spread += high * math.sqrt(n * f.variance(link.family, m))
                spreads += 1
    blocks = -(-count // BLOCK)
    first = min(blocks, _FIRST)
    etas, doubts = np.empty(max(first, 1) * BLOCK, single), np.empty(max(first, 1) * BLOCK, single)
    if spreads > 0 and k > 0:
        times = single(min(spread / spreads, 1e3))
        keys = np.empty(BLOCK, np.int32)
        promises, places = np.empty(first, single), np.empty(first, np.int64)
        for b in range(first):
            eta, doubt = etas[b * BLOCK : (b + 1) * BLOCK], doubts[b * BLOCK : (b + 1) * BLOCK]
            kernels.coarse(main, cross, new, old, levels.blocks, b, said, eta, fresh, doubt)
            j, promises[b] = _promising(eta, doubt, times, min(BLOCK, count - b * BLOCK), keys)
            places[b] = b * BLOCK + j
        vain = 0
        for _ in range(first):
            b = int(np.argmax(promises))
            promises[b] = single(-1.0)
            i = places[b]
            if vain == _VAIN:
                break
            if _among(i, best, found) or st.items[i]["hidden"] != 0 or not eligible(st, i, allowed):
                continue
            m, n = kernels.look(link, view, levels, own, i, found_features, values)
            score = kernels.index(rule, m, n, t, arms)
            looked += 1
            vain = 0 if found < k or score > kept[k - 1] else vain + 1
            found = _take(i, score, best, kept, found)
    else:
        first = 0
    if found == k and k > 0:
        bar = kept[k - 1]
    found = 0
    for b in range(blocks):
        start = b * BLOCK if b < first else 0
        eta, doubt = etas[start : start + BLOCK], doubts[start : start + BLOCK]
        kinds = doubt.view(np.int32)
        if b >= first:
            kernels.coarse(main, cross, new, old, levels.blocks, b, said, eta, fresh, doubt)
        for j in range(min(BLOCK, count - b * BLOCK)):
            kind = kinds[j] >> _SHIFT
            if eta[j] + error < least[kind]:
                continue
            i = b * BLOCK + j
            if bar > -math.inf and (
                _reach(rule, link, float(doubt[j]) * (1.0 + 1e-6), t, arms, float(eta[j]) + error) < bar
            ):
                misses[kind] += 1
                if misses[kind] == _MISSES:
                    misses[kind] = 0
                    edge[0] = (kind + 1) << _SHIFT
                    most = float(edge_value[0]) * (1.0 + 1e-6)
                    if known[kind] < bar:
                        least[kind], known[kind] = _least(rule, link, most, t, arms, bar), bar
                    elif _reach(rule, link, most, t, arms, float(eta[j]) + error) < bar:
                        least[kind] = max(least[kind], float(eta[j]) + error)
                continue
            if st.items[i]["hidden"] != 0 or not eligible(st, i, allowed):
                continue
            m, n = kernels.look(link, view, levels, own, i, found_features, values)
            score = kernels.index(rule, m, n, t, arms)
            looked += 1
            tie = np.uint64(st.items[i]["seq"])
            if seed != OLDEST:
                tie = mix(mix(seed) ^ mix(tie))
            if found == k and worse(score, tie, kept[k - 1], ties[k - 1]):
                lost += score == kept[k - 1]
                continue
            full, last = found == k, kept[k - 1]
            hole = found if found < k else k - 1
            while hole > 0 and worse(kept[hole - 1], ties[hole - 1], score, tie):
                best[hole], kept[hole], ties[hole] = best[hole - 1], kept[hole - 1], ties[hole - 1]
                hole -= 1
            best[hole], kept[hole], ties[hole] = i, score, tie
            lost = lost + 1 if full and kept[k - 1] == last else 0
            found = min(found + 1, k)
            if found == k:
                bar = max(bar, kept[k - 1])
    for j in range(found):
        rows[j, 1] = np.float64(kept[j]).view(np.int64)
        lost += kept[j] == kept[found - 1]
    rows[k, 0] = lost
    return found, report(st.items, 1.0, named, best, found, rows), looked
