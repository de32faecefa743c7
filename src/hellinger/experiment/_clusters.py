r"""Bounds for a sticky split, where the unit is the user: asymptotic confidence sequences from sums by bucket of users.

A user who comes again is no new draw, so nothing of ``_mixture`` holds of users at large. With Y_b and n_b the reward
and the impressions of bucket b, Y and n their sums, the logarithm of the rate Y/n is off by about Σ ψ_b,

.. math:: ψ_b = \frac{Y_b - (Y/n)\, n_b}{Y},

a sum of independent terms of mean 0; that of a ratio of rates by Σ (ψ_b − ψ'_b). (A user whom a change of weights has
moved is in the same bucket under both variants, so that this holds then as well.) With v the estimated variance of the
sum and I = 1/v, the estimate times I is nearly a Brownian motion at time I, and Robbins' mixture of normal laws bounds
it at all times at once (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2021):

.. math:: |\hat L - L| < \frac{1}{I}\sqrt{(I + η)\,\log\frac{I + η}{η\,α^2}}.

Users who come again make increments correlated, never less than those of a Brownian motion, which makes crossings rarer
(Slepian's lemma). What is covered is the rate over all users like these, at the times so far.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.experiment.totals import Clusters

__all__ = ["clustered_evidence", "clustered_lift", "clustered_rate", "half_width", "log_evidence", "measured"]

Floats = npt.NDArray[np.float64]

_ETA = 100.0
"""The information from which on bounds are near their sharpest: logarithms known to a tenth."""
_ENOUGH = 100
"""Buckets that must have had impressions before there is a figure."""


def measured(*variants: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Logarithm of a rate, or of the ratio of two rates, and how much is known of it: 0 where too little.

    Of each variant impressions and reward, the last axis being buckets.
    """
    buckets = {impressions.shape[-1] for impressions, _ in variants}
    require(len(buckets) == 1, "as many buckets for every variant", buckets=buckets)
    estimate, influence = np.zeros(()), np.zeros(())
    used = np.asarray(np.inf)
    for sign, (impressions, reward) in zip((1.0, -1.0), variants, strict=False):
        n, y = impressions.sum(axis=-1), reward.sum(axis=-1)
        used = np.minimum(used, np.where(y > 0.0, np.count_nonzero(impressions, axis=-1), 0))
        rate = np.where(y > 0.0, y, 1.0) / np.where(n > 0.0, n, 1.0)
        residuals = (reward - rate[..., None] * impressions) / np.where(y > 0.0, y, 1.0)[..., None]
        estimate, influence = estimate + sign * np.log(rate), influence + sign * residuals
    # an estimate of the variance from few buckets may well be too low by some standard deviations, each √(2/buckets)
    variance = (influence * influence).sum(axis=-1) * (1.0 + 2.0 / np.sqrt(np.maximum(used, 1.0)))
    enough = (used >= _ENOUGH) & (variance > 0.0)
    return estimate, np.where(enough, 1.0 / np.where(enough, variance, 1.0), 0.0)


def half_width(information: Floats, alpha: float) -> Floats:
    """What the estimate is never off by more than, with probability 1 − α; ∞ where nothing is known."""
    some = np.maximum(information, 1e-300)
    width = np.sqrt((some + _ETA) * (np.log1p(some / _ETA) - 2.0 * math.log(alpha))) / some
    return np.where(information > 0.0, width, np.inf)


def log_evidence(estimate: Floats, information: Floats) -> Floats:
    """Logarithm of the evidence that the estimated logarithm is above 0: the same mixture, over values above 0 only."""
    from scipy.special import log_ndtr

    score = estimate * information
    scale = information + _ETA
    # twice the normal law's upper half, for the other half has no part in the mixture
    half = math.log(2.0) + log_ndtr(score / np.sqrt(scale))
    return np.asarray(half - 0.5 * np.log1p(information / _ETA) + 0.5 * score * score / scale)


def clustered_rate(clusters: Clusters, alpha: float) -> tuple[float, float]:
    """Both ends of a rate."""
    estimate, information = measured(clusters)
    width = float(half_width(information, alpha))
    if math.isinf(width):
        return 0.0, 1.0
    return math.exp(float(estimate) - width), min(1.0, math.exp(min(float(estimate) + width, 0.0)))


def clustered_lift(one: Clusters, other: Clusters, alpha: float) -> tuple[float, float]:
    """Both ends of the lift of one over the other."""
    estimate, information = measured(one, other)
    width = float(half_width(information, alpha))
    if math.isinf(width):
        return -1.0, math.inf
    return math.expm1(float(estimate) - width), math.expm1(float(estimate) + width)


def clustered_evidence(one: Clusters, other: Clusters, *, growth: float = 1.0) -> float:
    """Logarithm of the evidence that one's rate is above the other's, were there ``growth`` times the users."""
    estimate, information = measured(one, other)
    return float(log_evidence(estimate, growth * information))
