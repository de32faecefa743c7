"""Empirical likelihood: how far a distribution of rewards is from any with a larger mean, and the bound it gives.

Rewards are bounded above by ``top`` and otherwise of any law. With F the distribution of an arm's rewards, of mean m,

    K_inf(F, q) = min{KL(F ‖ G) : G on (−∞, top], mean of G ≥ q} = max over 0 ≤ λ ≤ 1 of E log(1 − λ(X − q)/(top − q))

(Burnetas & Katehakis 1996; the dual: Honda & Takemura 2010). It is what KL is for a family: with Bernoulli rewards the
two are equal.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit
from hellinger._numerics import phi_at
from hellinger.errors import require

__all__ = ["empirical_upper", "k_inf"]

Floats = npt.NDArray[np.float64]


def k_inf(rewards: npt.ArrayLike, q: float, *, counts: npt.ArrayLike | None = None, top: float = 1.0) -> float:
    """The least KL divergence from the rewards' distribution to one with mean q or more and no reward above ``top``.

    An arm's index under non-parametric IMED is −(n·K_inf(its rewards, the best empirical mean) + log n)
    (Honda & Takemura 2015).

    Parameters
    ----------
    rewards
        What was earned; or the levels that rewards have, where ``counts`` says how often each occurred.
    q
        The mean.
    counts
        One for each of ``rewards``; one each if not given.
    top
        The largest reward possible.

    Returns
    -------
    The divergence: 0 where q is at most the empirical mean, infinite where no such distribution is at a finite one, as
    where q is above the top.

    Examples
    --------
    >>> round(k_inf([0.0, 0.25, 0.5, 1.0], 0.6, counts=[3, 4, 2, 1]), 6)
    0.324748
    >>> round(k_inf([0, 1], 0.6, counts=[7, 3]), 6)  # KL(0.3 ‖ 0.6)
    0.183787
    """
    below, weights = _distribution(rewards, counts, top)
    require(not math.isnan(q), "q is a number", q=q)
    return math.inf if q > top else float(_k_inf(below, weights, float(top) - q)[0])


def empirical_upper(
    rewards: npt.ArrayLike, radius: float, *, counts: npt.ArrayLike | None = None, top: float = 1.0
) -> float:
    """The largest q with K_inf(rewards, q) ≤ radius; the index of empirical KL-UCB at radius = level/rewards.

    Cappé, Garivier, Maillard, Munos & Stoltz 2013. In v = −log(top − q) the slope of K_inf is the λ that
    reaches the maximum, so that Newton's method needs nothing more than K_inf gives.

    Examples
    --------
    >>> round(empirical_upper([0.0, 0.25, 0.5, 1.0], 0.1, counts=[3, 4, 2, 1]), 6)
    0.453478
    """
    below, weights = _distribution(rewards, counts, top)
    require(radius >= 0, "0 <= radius", radius=radius)
    return float(top) - float(_empirical_upper(below, weights, float(radius)))


def _distribution(rewards: npt.ArrayLike, counts: npt.ArrayLike | None, top: float) -> tuple[Floats, Floats]:
    """How far below the top each level is, and its share."""
    values = np.asarray(rewards, np.float64)
    require(values.ndim == 1 and values.size > 0, "rewards is a list of at least one number", rewards=rewards)
    require(bool((np.isfinite(values) & (values <= top)).all()), f"rewards <= {top:g}", rewards=values.tolist())
    weights = np.ones(values.size) if counts is None else np.asarray(counts, np.float64)
    require(weights.shape == values.shape, "one count for each reward", counts=weights.shape, rewards=values.shape)
    sound = bool((np.isfinite(weights) & (weights >= 0)).all() and weights.sum() > 0)
    require(sound, "0 <= counts, not all 0", counts=weights.tolist())
    present = weights > 0
    return float(top) - values[present], weights[present] / weights.sum()


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
def _k_inf(below: Floats, weights: Floats, gap: float) -> tuple[float, float]:
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
    # λ·E away, less parts that are not negative: log(1 + u) = u − φ(u)
    total = share * first
    for i in range(below.size):
        away = (below[i] - gap) / gap
        total -= weights[i] * phi_at(share * away, (1.0 - share) + share * (below[i] / gap))
    return max(total, 0.0), share


@jit
def _empirical_upper(below: Floats, weights: Floats, radius: float) -> float:
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
    while _k_inf(below, weights, math.exp(-right))[0] < radius:
        left, stride = right, 2.0 * stride
        right = left + stride
        if right > 745.0:
            return 0.0
    v = right
    for _ in range(200):
        value, share = _k_inf(below, weights, math.exp(-v))
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
