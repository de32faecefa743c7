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

from hellinger._empirical import divergence, least_gap
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
    return math.inf if q > top else float(divergence(below, weights, 1.0, float(top) - q)[0])


def empirical_upper(
    rewards: npt.ArrayLike, radius: float, *, counts: npt.ArrayLike | None = None, top: float = 1.0
) -> float:
    """The largest q with K_inf(rewards, q) ≤ radius; the index of empirical KL-UCB at radius = level/rewards.

    Cappé, Garivier, Maillard, Munos & Stoltz 2013. The law with that mean is the rewards' own with weights
    ∝ 1/(e + top − X), or that at e = 0 and some mass at the top: Newton's method finds e.

    Examples
    --------
    >>> round(empirical_upper([0.0, 0.25, 0.5, 1.0], 0.1, counts=[3, 4, 2, 1]), 6)
    0.453478
    """
    below, weights = _distribution(rewards, counts, top)
    require(radius >= 0, "0 <= radius", radius=radius)
    return float(top) - float(least_gap(below, weights, 1.0, float(radius)))


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
