"""Kernels of empirical likelihood: K_inf and the bound it gives; see :mod:`hellinger.theory.empirical`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit
from hellinger._numerics import phi_at

__all__ = ["divergence", "least_gap"]

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
def divergence(below: Floats, weights: Floats, gap: float) -> tuple[float, float]:
    """K_inf at q = top − gap, and the λ that reaches it: bracketed Newton for the root of a falling slope."""
    first, _ = _slopes(below, weights, gap, 0.0)
    if gap == 0.0:
        return (0.0, 0.0) if below.max() == 0.0 else (math.inf, 1.0)
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
            if not left < following < right:
                following = 0.5 * (left + right)
            if abs(following - share) <= 1e-16 * share:
                break
            share = following
    # near the mean λ·E away, less parts that are not negative: log(1 + u) = u − φ(u); far from it that would cancel
    far = share * first > 0.5
    total = 0.0 if far else share * first
    for i in range(below.size):
        away, grown = (below[i] - gap) / gap, (1.0 - share) + share * (below[i] / gap)
        total += weights[i] * (math.log(grown) if far else -phi_at(share * away, grown))
    return max(total, 0.0), share


@jit
def least_gap(below: Floats, weights: Floats, radius: float) -> float:
    """top − q for the largest q with K_inf ≤ radius, by bracketed Newton in v = −log(top − q)."""
    mean = 0.0
    for i in range(below.size):
        mean += weights[i] * below[i]
    if radius == 0.0 or mean == 0.0:
        return mean
    if radius == math.inf:
        return 0.0
    start = -math.log(mean)
    left, right, stride = start, start + radius, radius
    while divergence(below, weights, math.exp(-right))[0] < radius:
        left, stride = right, 2.0 * stride
        right = left + stride
        if right > 745.0:
            return 0.0
    v = right
    for _ in range(200):
        value, share = divergence(below, weights, math.exp(-v))
        if value < radius:
            left = v
        else:
            right = v
        following = v - (value - radius) / share
        if not left <= following <= right:
            following = 0.5 * (left + right)
        if abs(following - v) <= 2e-16 * max(abs(v), 1.0):
            break
        v = following
    return math.exp(-v)
