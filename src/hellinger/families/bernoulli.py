"""Bernoulli rewards: a click or none."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger._numerics import bhattacharyya_trials, expm1x, hellinger_lower_trials, kl_pair, kl_trials
from hellinger._random import uniform
from hellinger._special import betaincinv
from hellinger.families._base import Family, Floats

__all__ = ["Bernoulli"]


class _NoParameters(NamedTuple):
    pass


class Bernoulli(Family, _NoParameters):
    """Rewards 0 and 1 with P(1) = mean.

    The Hellinger bound is sin²(min(π/2, arcsin√m + arccos e⁻ˣ)). Without trigonometry, with
    ρ² = e⁻²ˣ: 1 where ρ² ≤ m, else m·ρ² + (1−m)(1−ρ²) + 2√(m(1−m)ρ²(1−ρ²)): one exponential and one
    square root, exact at m = 0 and m = 1.

    >>> Bernoulli().hellinger_upper(0.0, 0.1)
    0.18126924692201815
    >>> Bernoulli().kl_upper([0.0, 0.5, 1.0], 0.1).round(6).tolist()
    [0.095163, 0.712879, 1.0]
    """

    __slots__ = ()
    name = "bernoulli"
    reference = "Yang, Wang & Mullhaupt, Hellinger-UCB, eq. 5.13 (with its errata)"
    integer = True
    posterior = "Beta(1 + s, 1 + n − s)"
    posterior_quantile = True

    def typical_means(self) -> Floats:
        """Ends, near ends, and the middle."""
        small = np.array([0.0, 1e-12, 1e-9, 1e-6, 1e-3, 0.02, 0.1, 0.3])
        return np.concatenate([small, [0.5], 1.0 - small[::-1]])

    def _supremum(self) -> float:
        return 1.0

    def _log_partition(self, theta: Any) -> Any:
        if theta.real > 0.0:
            return theta + np.log1p(np.exp(-theta))
        return np.log1p(np.exp(theta))

    def _mean(self, theta: float) -> float:
        if theta > 0.0:
            return 1.0 / (1.0 + math.exp(-theta))
        e = math.exp(theta)
        return e / (1.0 + e)

    def _natural(self, m: float) -> float:
        return math.log(m) - math.log1p(-m)

    def _variance(self, m: float) -> float:
        return m * (1.0 - m)

    def _kl(self, p: float, q: float) -> float:
        return kl_trials(p, q, 1.0)

    def _bhattacharyya(self, p: float, q: float) -> float:
        return bhattacharyya_trials(p, q, 1.0)

    def _hellinger_upper(self, m: float, x: float) -> float:
        e, _ = expm1x(2.0 * x)
        rho2 = 1.0 + e
        q = m * rho2 - (1.0 - m) * e + 2.0 * math.sqrt(-m * (1.0 - m) * rho2 * e)
        return 1.0 if rho2 <= m else q

    def _kl_upper(self, m: float, x: float) -> float:
        r = 1.0 - m
        e, _ = expm1x(kl_pair(m, r, 1.0, x))
        q = m - r * e
        q = m if x == 0.0 or m == 1.0 else q
        return 1.0 if x == math.inf and not math.isnan(m) else q

    def _hellinger_lower(self, m: float, x: float) -> float:
        return hellinger_lower_trials(m, x, 1.0)

    def _kl_lower(self, m: float, x: float) -> float:
        # 1 − q is the upper bound of 1 − m; as q = m·e⁻ᵛ it keeps its digits
        e, _ = expm1x(kl_pair(1.0 - m, m, 1.0, x))
        q = m + m * e
        q = m if x == 0.0 or m == 0.0 else q
        return 0.0 if x == math.inf and not math.isnan(m) else q

    def _draw(self, m: float, z: np.uint64) -> float:
        return 1.0 if uniform(z) < m else 0.0

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        return rng.binomial(1, mean, size)

    def _proper_prior(self) -> bool:
        return True

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        return rng.beta(1.0 + s, 1.0 + n - s)

    def _posterior_upper(self, s: float, n: float, tail: float) -> float:
        return 1.0 - betaincinv(1.0 + n - s, 1.0 + s, tail, 0)
