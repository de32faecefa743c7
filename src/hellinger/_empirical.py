"""Kernels of empirical likelihood: K_inf and the bound it gives; see :mod:`hellinger.theory.empirical`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit
from hellinger._numerics import phi_at

__all__ = ["divergence", "least_gap", "rise", "tilted_gap"]

Floats = npt.NDArray[np.float64]


@helper
def _slopes(below: Floats, weights: Floats, gap: float, share: float) -> tuple[float, float]:
    """First and second derivative of E log(1 − λ(X − q)/(top − q)) in λ, with ``gap`` = top − q."""
    first, second = 0.0, 0.0
    for i in range(below.size):
        away = (below[i] - gap) / gap
        part = away / (1.0 + share * away)
        first += weights[i] * part
        second -= weights[i] * part * part
    return first, second


@jit
def divergence(below: Floats, weights: Floats, total: float, gap: float) -> tuple[float, float]:
    """K_inf at q = top − gap, and its λ: Newton for where a falling slope is 0; ``weights`` sum to ``total``."""
    first, _ = _slopes(below, weights, gap, 0.0)
    if gap == 0.0:
        return (0.0 if below.max() == 0.0 else math.inf), 0.0
    if not first > 0.0:
        return 0.0, 0.0
    left, right, share = 0.0, 1.0, 0.5
    last, _ = _slopes(below, weights, gap, 1.0)
    if last >= 0.0 and below.min() > 0.0:
        share = 1.0
    else:
        for _ in range(200):
            slope, bend = _slopes(below, weights, gap, share)
            if slope > 0.0:
                left = share
            else:
                right = share
            following = share - slope / bend
            newton = left < following < right
            if not newton:
                following = 0.5 * (left + right)
            step = abs(following - share)
            share = following
            if step <= (1e-12 if newton else 1e-16) * share:  # Newton's next step would be of the order of its square
                break
    # near the mean λ·E away, less parts that are not negative: log(1 + u) = u − φ(u); far from it that would cancel
    far = share * first > 0.5 * total
    value = 0.0 if far else share * first
    for i in range(below.size):
        away, grown = (below[i] - gap) / gap, (1.0 - share) + share * (below[i] / gap)
        value += weights[i] * (math.log(grown) if far else -phi_at(share * away, grown))
    return max(value / total, 0.0), share


@helper
def _tilted(below: Floats, weights: Floats, total: float, mean: float, beyond: float) -> tuple[float, float, float]:
    """KL from F to its tilt, dG ∝ dF/(beyond + top − X); its slope in z (see below); and top − mean of G."""
    inverse, square, spread, gap = 0.0, 0.0, 0.0, 0.0
    for i in range(below.size):
        # with 1 + u = (beyond + below)/(beyond + mean), E u = 0: E log(1 + u) = −E φ(u), E 1/(1 + u) = 1 + E u²/(1 + u)
        u, z = (below[i] - mean) / (beyond + mean), (beyond + below[i]) / (beyond + mean)
        part = u / z
        inverse += weights[i] * u * part
        square += weights[i] * part * part
        spread += weights[i] * phi_at(u, z)
        gap += weights[i] * below[i] / z
    inverse, square = inverse / total, square / total
    value = math.log1p(inverse) - spread / total
    return value, (square - inverse * inverse) * beyond / ((1.0 + inverse) * mean), gap / (total * (1.0 + inverse))


@helper
def rise(below: Floats, weights: Floats, total: float, gap: float, share: float) -> float:
    """By how much K_inf rises with q at q = top − gap, where ``share`` is its λ; as it is convex, it stays above."""
    value = 0.0
    for i in range(below.size):
        value += weights[i] * share * below[i] / (gap * ((1.0 - share) * gap + share * below[i]))
    return value / total


@jit
def least_gap(below: Floats, weights: Floats, total: float, radius: float) -> float:
    """top − q for the largest q with K_inf ≤ radius; ``weights`` sum to ``total``."""
    return tilted_gap(below, weights, total, radius)[0]


@helper
def tilted_gap(below: Floats, weights: Floats, total: float, radius: float) -> tuple[float, float]:
    """:func:`least_gap`, and the e of its law: infinite where that is F itself.

    The law with that mean is F tilted by 1/(e + top − X) for some e ≥ 0; or, where even e = 0 is within the radius,
    that one with mass added at the top. So e is the root of one equation (Cappé et al. 2013, appendix), found by
    bracketed Newton in z = log(1 + (top − mean of F)/e), in which it is quadratic at 0 and no more than linear far out.
    """
    mean, nearest, second = 0.0, math.inf, 0.0
    for i in range(below.size):
        mean += weights[i] * below[i]
        nearest = min(nearest, below[i])
    mean /= total
    if radius == 0.0 or mean == 0.0:
        return mean, math.inf
    if radius == math.inf:
        return 0.0, 0.0
    if nearest > 0.0:
        value, logs = _tilted(below, weights, total, mean, 0.0)[0], 0.0
        for i in range(below.size):
            logs += weights[i] * phi_at((below[i] - mean) / mean, below[i] / mean)
        if value <= radius:
            return mean * math.exp(-(logs / total + radius)), 0.0
    for i in range(below.size):
        second += weights[i] * (below[i] - mean) * (below[i] - mean)
    left, right = 0.0, math.inf
    z = mean * math.sqrt(2.0 * radius * total / second) + radius
    for _ in range(200):
        value, slope, _mean = _tilted(below, weights, total, mean, mean / math.expm1(z))
        if value < radius:
            left = z
        else:
            right = z
        following = z - (value - radius) / slope
        newton = left < following < min(right, 2.0 * z + 1.0)  # where it is all but flat, not over the end
        if not newton:
            following = 2.0 * z + 1.0 if right == math.inf else 0.5 * (left + right)
        step = abs(following - z)
        z = following
        if z > 700.0:
            return 0.0, 0.0
        if step <= (1e-9 if newton else 2e-16) * z:  # Newton's next step would be of the order of its square
            break
    beyond = mean / math.expm1(z)
    return _tilted(below, weights, total, mean, beyond)[2], beyond
