"""The arithmetic of a model, compiled: one event, one context, one item.

A person has features z, an item w. With z⁺ = (1, z) and w⁺ = (1, w) the shared weights Θ have a row for each entry of
z⁺ and a column for each of w⁺; row 0 is what an item's own features say of its level, and the entry (0, 0) is no
weight: the level has a mean of its own. They are kept as a vector, row by row, with their covariance.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit
from hellinger.families import _dispatch as d
from hellinger.models._base import Link
from hellinger.policies import _dispatch as rules

__all__ = [
    "BASE",
    "BLOCK",
    "DOUBT",
    "FIRST",
    "KAPPA",
    "ItemLevels",
    "Own",
    "View",
    "Weights",
    "coarse",
    "index",
    "look",
    "observe",
    "pairs",
    "prior_of_nobody",
    "project",
    "refresh_all",
    "scores",
]

Floats = npt.NDArray[np.float64]

BLOCK = 256
"""Items in a block: their features lie column by column, so that a pass over many items reads memory in order."""
BASE, KAPPA, DOUBT, FIRST = 0, 1, 2, 3
"""Rows of a block: a coarse copy of base, kappa and 1/info, then the features, in single precision."""


class Weights(NamedTuple):
    """The shared weights: means, covariance, and the variance of each before anything was known."""

    mean: Floats
    cov: Floats
    before: Floats


class ItemLevels(NamedTuple):
    """What is known of each item.

    Attributes
    ----------
    blocks
        Features, and a coarse copy of what follows.
    pulls, sums
        Impressions and rewards of an item, adjusted for who saw it.
    base, kappa, info
        η of its level is base + kappa·(what its features say), with precision info.
    row
        Where its own weights are, or −1.
    most
        The largest |base| and the largest |feature| so far.
    """

    blocks: npt.NDArray[np.float32]
    pulls: Floats
    sums: Floats
    base: Floats
    kappa: Floats
    info: Floats
    row: npt.NDArray[np.int32]
    most: Floats


class Own(NamedTuple):
    """Items' own weights: means, covariances and variance before anything was known, of those that had an event."""

    mean: Floats
    cov: Floats
    before: Floats


class View(NamedTuple):
    """What the weights say for one context, as a function of the item alone.

    Attributes
    ----------
    main, cross
        η moves by kappa·(main·w⁺) + cross·w⁺.
    square, twice, rest
        The variance of that is w⁺′(kappa²·square + kappa·twice + rest)w⁺.
    z
        The context.
    fresh
        Variance of the own weights' part, for an item that has had no event.
    """

    main: Floats
    cross: Floats
    square: Floats
    twice: Floats
    rest: Floats
    z: Floats
    fresh: float


@helper
def _clip(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


@helper
def feature(levels: ItemLevels, i: int, q: int) -> float:
    """Entry q of w⁺ of an item."""
    if q == 0:
        return 1.0
    return float(levels.blocks[i // BLOCK, FIRST + q - 1, i % BLOCK])


@helper
def refresh(link: Link, mass: float, strength: float, weights: Weights, width: int, levels: ItemLevels, i: int) -> None:
    """Bring base, kappa and info of an item in line with its counts and with what its features say now."""
    said = 0.0
    for q in range(1, width):
        said += weights.mean[q] * feature(levels, i, q)
    prior = mass
    usual = _clip(mass / strength, link.low, link.high)
    if said != 0.0:
        usual = _clip(d.mean(link.family, d.natural(link.family, usual) + said), link.low, link.high)
        prior = usual * strength
    pulls, sums = levels.pulls[i] + strength, levels.sums[i]
    # adjusted counts may be a little beyond what rewards can be
    least, most = d.infimum(link.family), d.supremum(link.family)
    if least > -math.inf:
        sums = max(sums, least * levels.pulls[i])
    if most < math.inf:
        sums = min(sums, most * levels.pulls[i])
    p = _clip((sums + prior) / pulls, link.low, link.high)
    variance = d.variance(link.family, p)
    kappa = min(1.0, strength * d.variance(link.family, usual) / (pulls * variance))
    base = d.natural(link.family, p) - kappa * said
    levels.base[i], levels.kappa[i], levels.info[i] = base, kappa, variance * pulls
    block = levels.blocks[i // BLOCK]
    block[BASE, i % BLOCK], block[KAPPA, i % BLOCK] = np.float32(base), np.float32(kappa)
    block[DOUBT, i % BLOCK] = np.float32(1.0 / levels.info[i])
    levels.most[0] = max(levels.most[0], abs(base))


@jit
def refresh_all(
    link: Link, mass: float, strength: float, weights: Weights, width: int, levels: ItemLevels, first: int, last: int
) -> None:
    """:func:`refresh` of the items from first up to last."""
    for i in range(first, last):
        refresh(link, mass, strength, weights, width, levels, i)


@helper
def _moved(link: Link, m: float, n: float, k: float, y: float) -> float:
    """How far k impressions that earned y move the natural parameter, known as well as n rewards of mean m tell.

    A reward that comes late, k = 0, makes y more of the same number of impressions. Where little is known, there may
    seem to have been too few of them: it then counts as much as a rewarded impression would differ from another.
    """
    family, low, high = link.family, link.low, link.high
    if k > 0.0 or m + y / n <= 0.5 * (m + high):
        return d.natural(family, _clip((n * m + y) / (n + k), low, high)) - d.natural(family, m)
    rewarded, other = _clip((n * m + y) / (n + 1.0), low, high), _clip(n * m / (n + 1.0), low, high)
    return d.natural(family, rewarded) - d.natural(family, other)


@jit
def observe(
    link: Link,
    mass: float,
    strength: float,
    weights: Weights,
    width: int,
    levels: ItemLevels,
    own: Own,
    i: int,
    z: Floats,
    k: float,
    y: float,
) -> None:
    """One event: k impressions of an item in context z, which earned y together; k = 0 for a reward that comes late.

    The natural parameter η has mean η̂ and variance q before: as much as n = 1/(V(m)·q) rewards of mean m = μ(η̂) tell.
    After it, their mean is m′ = (n·m + y)/(n + k) and their number n + k (West, Harrison & Migon 1985). The weights
    follow by linear Bayes: what moves η by Δ moves each by its covariance with η over q, times Δ.
    """
    family = link.family
    size = weights.mean.size
    x, g = np.zeros(size), np.zeros(size)
    kappa = levels.kappa[i]
    eta, quad = levels.base[i], 0.0
    for p in range(size // width):
        outer = kappa if p == 0 else z[p - 1]
        if outer != 0.0:
            for q in range(1 if p == 0 else 0, width):
                x[p * width + q] = outer * feature(levels, i, q)
    for j in range(size):
        if x[j] != 0.0:
            eta += weights.mean[j] * x[j]
            for c in range(size):
                g[c] += x[j] * weights.cov[j, c]
    for j in range(size):
        quad += x[j] * g[j]
    row = levels.row[i]
    h = np.zeros(z.size)
    if row >= 0:
        for a in range(z.size):
            eta += own.mean[row, a] * z[a]
            for b in range(z.size):
                h[b] += z[a] * own.cov[row, a, b]
        for a in range(z.size):
            quad += z[a] * h[a]
    said = 0.0
    for q in range(1, width):
        said += x[q] * weights.mean[q]
    level = _clip(d.mean(family, levels.base[i] + said), link.low, link.high)
    m = _clip(d.mean(family, eta), link.low, link.high)
    variance = d.variance(family, m)
    told, earned = k, y
    if k > 0.0:
        pulls = levels.pulls[i] + strength
        most = d.supremum(family)
        # impressions of one item say less of the weights than those of several: its level bears on all of them
        noise = 1.0 + k / pulls if most == math.inf else 1.0 + max(k - 1.0, 0.0) / (pulls + 1.0)
        told, earned = k / noise, y / noise
    step = _moved(link, m, 1.0 / (variance * quad), told, earned) / quad if quad > 0.0 else 0.0
    shrink = told * variance / (1.0 + told * variance * quad)
    for j in range(size):
        weights.mean[j] += g[j] * step
        if g[j] != 0.0 and shrink > 0.0:
            for c in range(size):
                weights.cov[j, c] -= shrink * g[j] * g[c]
    if row >= 0:
        for a in range(z.size):
            own.mean[row, a] += h[a] * step
            for b in range(z.size):
                own.cov[row, a, b] -= shrink * h[a] * h[b]
    # the level: one Newton step of its likelihood, as so many impressions of somebody who has no features
    # whose features account for what the other weights have just learned of them
    moved = eta
    for j in range(width, size):
        moved += x[j] * g[j] * step
    for a in range(h.size):
        moved += z[a] * h[a] * step
    shown = k if k > 0.0 else 1.0
    worth = k * (variance / d.variance(family, level))
    learned = _clip(d.mean(family, moved), link.low, link.high) - m
    levels.sums[i] += y + (worth * level - k * m) - shown * learned
    levels.pulls[i] += worth
    refresh(link, mass, strength, weights, width, levels, i)


@jit
def prior_of_nobody(link: Link, mean: float, strength: float, seen: float, adjusted: float) -> tuple[float, float]:
    """A prior's mean and strength where the rate of all items together is this, adjusted, instead of the one seen."""
    family, low, high = link.family, link.low, link.high
    if not (low < mean < high and low < seen < high and low < adjusted < high):
        return mean, strength
    moved = d.natural(family, mean) + d.natural(family, adjusted) - d.natural(family, seen)
    found = _clip(d.mean(family, moved), low, high)
    return found, strength * d.variance(family, mean) / d.variance(family, found)


@jit
def project(weights: Weights, width: int, z: Floats, fresh: float) -> View:
    """The weights for one context."""
    mean, cov = weights.mean, weights.cov
    main, cross = np.zeros(width), np.zeros(width)
    square, twice, rest = np.zeros((width, width)), np.zeros((width, width)), np.zeros((width, width))
    if mean.size:
        for q in range(width):
            main[q] = mean[q]
            for c in range(width):
                square[q, c] = cov[q, c]
        for a in range(z.size):
            if z[a] != 0.0:
                first = (a + 1) * width
                for q in range(width):
                    cross[q] += z[a] * mean[first + q]
                    for c in range(width):
                        twice[q, c] += z[a] * (cov[q, first + c] + cov[first + q, c])
                for b in range(z.size):
                    weight = z[a] * z[b]
                    if weight != 0.0:
                        second = (b + 1) * width
                        for q in range(width):
                            for c in range(width):
                                rest[q, c] += weight * cov[first + q, second + c]
    spread = 0.0
    for a in range(z.size):
        spread += z[a] * z[a]
    return View(main, cross, square, twice, rest, z, fresh * spread)


@helper
def look(
    link: Link, view: View, levels: ItemLevels, own: Own, i: int, found: Any, values: Floats
) -> tuple[float, float]:
    """Mean and effective pulls of an item in a context; ``found`` and ``values`` are room for its features."""
    count = 0
    for q in range(view.main.size):
        w = feature(levels, i, q)
        if w != 0.0:
            found[count], values[count] = q, w
            count += 1
    kappa = levels.kappa[i]
    eta, quad = 0.0, 0.0
    for a in range(count):
        q, w = found[a], values[a]
        eta += w * (kappa * view.main[q] + view.cross[q])
        inner = 0.0
        for b in range(a):  # the matrices are symmetric
            c = found[b]
            inner += values[b] * (kappa * (kappa * view.square[q, c] + view.twice[q, c]) + view.rest[q, c])
        quad += w * (2.0 * inner + w * (kappa * (kappa * view.square[q, q] + view.twice[q, q]) + view.rest[q, q]))
    eta += levels.base[i]
    row = levels.row[i]
    if row < 0:
        quad += view.fresh
    else:
        z = view.z
        for a in range(z.size):
            if z[a] != 0.0:
                eta += z[a] * own.mean[row, a]
                for b in range(z.size):
                    quad += z[a] * z[b] * own.cov[row, a, b]
    quad = max(quad, 0.0)
    m = _clip(d.mean(link.family, eta), link.low, link.high)
    info = levels.info[i]
    return m, info / (d.variance(link.family, m) * (1.0 + info * quad))


@jit
def pairs(link: Link, view: View, levels: ItemLevels, own: Own, slots: Any, means: Floats, pulls: Floats) -> None:
    """:func:`look` at several items."""
    found, values = np.empty(view.main.size, np.int64), np.empty(view.main.size)
    for j in range(slots.size):
        means[j], pulls[j] = look(link, view, levels, own, slots[j], found, values)


@helper
def index(rule: Any, m: float, n: float, t: float, arms: float) -> float:
    """The index of a mean and so many pulls; the family of rewards may have fewer means than the model."""
    m = min(max(m, d.infimum(rule.family)), d.supremum(rule.family))
    return rules.score(rule, m * n, n, t, arms)


@jit
def scores(
    rule: Any, link: Link, view: View, levels: ItemLevels, own: Own, t: float, arms: float, slots: Any, out: Floats
) -> None:
    """Index of each of these items in a context."""
    found, values = np.empty(view.main.size, np.int64), np.empty(view.main.size)
    for j in range(slots.size):
        m, n = look(link, view, levels, own, slots[j], found, values)
        out[j] = index(rule, m, n, t, arms)


@helper
def coarse(
    main: Any, cross: Any, new: Any, old: Any, blocks: Any, b: int, said: Any, eta: Any, fresh: Any, doubt: Any
) -> None:
    """η of the items of a block in single precision, and a bound of its variance, but for what own weights add.

    The bound is 1/info + Σ(kappa·new + (1 − kappa)·old)·w². Four features at a time, so that sums stay in registers.
    """
    block = blocks[b]
    width = main.size
    for j in range(BLOCK):
        said[j], eta[j], fresh[j], doubt[j] = main[0], cross[0], new[0], old[0]
    whole = 1 + (width - 1) // 4 * 4
    for q in range(1, whole, 4):
        r = FIRST + q - 1
        m0, m1, m2, m3 = main[q], main[q + 1], main[q + 2], main[q + 3]
        c0, c1, c2, c3 = cross[q], cross[q + 1], cross[q + 2], cross[q + 3]
        n0, n1, n2, n3 = new[q], new[q + 1], new[q + 2], new[q + 3]
        o0, o1, o2, o3 = old[q], old[q + 1], old[q + 2], old[q + 3]
        for j in range(BLOCK):
            w0, w1, w2, w3 = block[r, j], block[r + 1, j], block[r + 2, j], block[r + 3, j]
            said[j] += (m0 * w0 + m1 * w1) + (m2 * w2 + m3 * w3)
            eta[j] += (c0 * w0 + c1 * w1) + (c2 * w2 + c3 * w3)
            w0, w1, w2, w3 = w0 * w0, w1 * w1, w2 * w2, w3 * w3
            fresh[j] += (n0 * w0 + n1 * w1) + (n2 * w2 + n3 * w3)
            doubt[j] += (o0 * w0 + o1 * w1) + (o2 * w2 + o3 * w3)
    for q in range(whole, width):
        r = FIRST + q - 1
        m0, c0, n0, o0 = main[q], cross[q], new[q], old[q]
        for j in range(BLOCK):
            w0 = block[r, j]
            said[j] += m0 * w0
            eta[j] += c0 * w0
            fresh[j] += n0 * w0 * w0
            doubt[j] += o0 * w0 * w0
    for j in range(BLOCK):
        kappa = block[KAPPA, j]
        eta[j] += block[BASE, j] + kappa * said[j]
        doubt[j] += block[DOUBT, j] + kappa * (fresh[j] - doubt[j])
