"""Poisson rewards: counts of rare events."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger._numerics import phi_at, phi_inverse, phi_inverse_below
from hellinger._random import poisson
from hellinger._special import gammainccinv
from hellinger.families._base import Family, Floats

__all__ = ["Poisson"]


class _NoParameters(NamedTuple):
    pass


class Poisson(Family, _NoParameters):
    """Counts with variance equal to the mean; B(p, q) = (√q − √p)²/2, so the bound is (√m + √(2x))².

    >>> Poisson().hellinger_upper(0.1, 0.02)
    0.266...
    """

    __slots__ = ()
    name = "poisson"
    reference = "Yang, Wang & Mullhaupt, Hellinger-UCB, section 4.2"
    integer = True
    posterior = "Gamma(½ + s, rate n), from Jeffreys' prior"
    posterior_quantile = True

    def _log_partition(self, theta: Any) -> Any:
        return np.exp(theta)

    def _mean(self, theta: float) -> float:
        return math.exp(theta)

    def _natural(self, m: float) -> float:
        return math.log(m)

    def _variance(self, m: float) -> float:
        return m

    def _kl(self, p: float, q: float) -> float:
        if p == q:
            return 0.0
        if q == 0.0 or q == math.inf:
            return math.inf
        return q if p == 0.0 else p * phi_at((q - p) / p, q / p)

    def _bhattacharyya(self, p: float, q: float) -> float:
        if p == q:
            return 0.0
        if q == math.inf:
            return math.inf
        root = (q - p) / (math.sqrt(p) + math.sqrt(q))
        return 0.5 * root * root

    def _hellinger_upper(self, m: float, x: float) -> float:
        q = m + 2.0 * x + math.sqrt(8.0 * m * x)
        return math.inf if x == math.inf and not math.isnan(m) else q

    def _kl_upper(self, m: float, x: float) -> float:
        q = m + m * phi_inverse(x / m)
        q = x if m < 1e-300 else q
        q = m if x == 0.0 else q
        return math.inf if x == math.inf and not math.isnan(m) else q

    def _hellinger_lower(self, m: float, x: float) -> float:
        root = math.sqrt(m) - math.sqrt(2.0 * x)
        q = root * root if root > 0.0 or math.isnan(root) else 0.0
        return m if x == 0.0 else q

    def _kl_lower(self, m: float, x: float) -> float:
        q = m * math.exp(-phi_inverse_below(x / m))
        q = m if x == 0.0 or (m == 0.0 and not math.isnan(x)) else q
        return 0.0 if x == math.inf and not math.isnan(m) else q

    def _draw(self, m: float, z: np.uint64) -> float:
        return poisson(m, z)[0]

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        return rng.poisson(mean, size)

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        return rng.standard_gamma(s + 0.5) / n

    def _posterior_upper(self, s: float, n: float, tail: float) -> float:
        return gammainccinv(s + 0.5, tail, 0) / n
