"""Negative binomial rewards: failures before the r-th success."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from hellinger._numerics import kl_pair, log_cosh_ball, phi_at
from hellinger._random import gamma, poisson
from hellinger._special import betaincinv
from hellinger.errors import require
from hellinger.families._base import Family, Floats

__all__ = ["NegativeBinomial"]


class _Parameters(NamedTuple):
    r: float


class NegativeBinomial(Family, _Parameters):
    """Counts with variance m + m²/r; the bound is r·sinh²(arcsinh√(m/r) + arccosh e^(x/r)).

    >>> NegativeBinomial(3.0).hellinger_upper(1.0, 0.1)
    2.430...
    """

    __slots__ = ()
    name = "negative-binomial"
    reference = "Morris 1982 (quadratic variance)"
    integer = True
    posterior = "r·BetaPrime(½ + s, r·n), from Jeffreys' prior"
    posterior_quantile = True

    def __new__(cls, r: float = 1.0) -> Self:
        """Check that r is positive."""
        require(0 < r < math.inf, "0 < r", r=r)
        return super().__new__(cls, float(r))

    @classmethod
    def cases(cls) -> Iterator[Self]:
        """Over-dispersed and almost Poisson."""
        yield from (cls(3.0), cls(0.3), cls(500.0))

    def _natural_bounds(self) -> tuple[float, float]:
        return (-math.inf, 0.0)

    def _log_partition(self, theta: Any) -> Any:
        if theta.real < -0.7:
            return -self.r * np.log1p(-np.exp(theta))
        return -self.r * np.log(-np.expm1(theta))

    def _mean(self, theta: float) -> float:
        return self.r / math.expm1(-theta) if theta > -700.0 else self.r * math.exp(theta)

    def _natural(self, m: float) -> float:
        return -math.log1p(self.r / m)

    def _variance(self, m: float) -> float:
        return m + m * m / self.r

    def _kl(self, p: float, q: float) -> float:
        # r·φ(−d/(q+r)) + p·φ(d·r/(p(q+r))), both parts ≥ 0.
        if p == q:
            return 0.0
        if q == 0.0 or q == math.inf:
            return math.inf
        away = (q - p) / (q + self.r)
        share = (p + self.r) / (q + self.r)
        up = self.r * away if p == 0.0 else p * phi_at(away * self.r / p, share * (q / p))
        return self.r * phi_at(-away, share) + up

    def _bhattacharyya(self, p: float, q: float) -> float:
        if p == q:
            return 0.0
        if q == math.inf:
            return math.inf
        sinh = (q - p) / (math.sqrt(q) * math.sqrt(self.r + p) + math.sqrt(p) * math.sqrt(self.r + q))
        return 0.5 * self.r * math.log1p(sinh * sinh)

    def _hellinger_upper(self, m: float, x: float) -> float:
        if x == 0.0:
            return m
        if x == math.inf and not math.isnan(m):
            return math.inf
        cosh, sinh = log_cosh_ball(x, self.r)
        root = math.sqrt(m) * cosh + math.sqrt(self.r + m) * sinh
        return root * root

    def _kl_upper(self, m: float, x: float) -> float:
        if x == 0.0:
            return m
        if x == math.inf and not math.isnan(m):
            return math.inf
        return m + (m + self.r) * math.expm1(kl_pair(m, self.r, m + self.r, x))

    def _hellinger_lower(self, m: float, x: float) -> float:
        if x == 0.0:
            return m
        if x == math.inf and not math.isnan(m):
            return 0.0
        cosh, sinh = log_cosh_ball(x, self.r)
        root = math.sqrt(m) * cosh - math.sqrt(self.r + m) * sinh
        return root * root if root > 0.0 or math.isnan(root) else 0.0

    def _draw(self, m: float, z: np.uint64) -> float:
        rate, state = gamma(self.r, z)
        return poisson(m / self.r * rate, state)[0]

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        return rng.negative_binomial(self.r, self.r / (self.r + mean), size)

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        return self.r * rng.standard_gamma(s + 0.5) / rng.standard_gamma(self.r * n)

    def _posterior_upper(self, s: float, n: float, tail: float) -> float:
        success = betaincinv(self.r * n, s + 0.5, tail, 0)
        return self.r * (1.0 - success) / success
