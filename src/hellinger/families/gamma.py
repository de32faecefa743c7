"""Gamma rewards of known shape; exponential rewards are shape 1."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from hellinger._numerics import log_cosh_ball, phi_at, phi_inverse, phi_inverse_below
from hellinger._random import gamma
from hellinger._special import gammaincinv
from hellinger.errors import require
from hellinger.families._base import Family, Floats

__all__ = ["Gamma"]


class _Parameters(NamedTuple):
    shape: float


class Gamma(Family, _Parameters):
    """Positive rewards with variance mean²/shape; the bound is m·exp(2·arccosh e^(x/shape)).

    >>> Gamma(2.0).hellinger_upper(1.0, 0.1)
    1.892...
    """

    __slots__ = ()
    name = "gamma"
    reference = "Morris 1982 (quadratic variance); Cappé et al. 2013, section 4"
    posterior = "shape·s/Gamma(shape·n), from Jeffreys' prior on the rate"
    posterior_quantile = True

    def __new__(cls, shape: float = 1.0) -> Self:
        """Check that shape is positive."""
        require(0 < shape < math.inf, "0 < shape", shape=shape)
        return super().__new__(cls, float(shape))

    @classmethod
    def cases(cls) -> Iterator[Self]:
        """Heavier and lighter than the exponential."""
        yield from (cls(2.0), cls(0.3), cls(50.0))

    def _natural_bounds(self) -> tuple[float, float]:
        return (-math.inf, 0.0)

    def _log_partition(self, theta: Any) -> Any:
        return -self.shape * np.log(-theta)

    def _mean(self, theta: float) -> float:
        return -self.shape / theta

    def _natural(self, m: float) -> float:
        return -self.shape / m

    def _variance(self, m: float) -> float:
        return m * m / self.shape

    def _kl(self, p: float, q: float) -> float:
        if p == q:
            return 0.0
        if p == 0.0 or q == 0.0 or q == math.inf:
            return math.inf
        return self.shape * phi_at((p - q) / q, p / q)

    def _bhattacharyya(self, p: float, q: float) -> float:
        if p == q:
            return 0.0
        if p == 0.0 or q == 0.0 or q == math.inf:
            return math.inf
        half_sinh = 0.5 * (q - p) / math.sqrt(p) / math.sqrt(q)
        return 0.5 * self.shape * math.log1p(half_sinh * half_sinh)

    def _hellinger_upper(self, m: float, x: float) -> float:
        if x == math.inf and not math.isnan(m):
            return math.inf
        if m == 0.0 and not math.isnan(x):
            return 0.0
        cosh, sinh = log_cosh_ball(x, self.shape)
        return m * (cosh + sinh) * (cosh + sinh)

    def _kl_upper(self, m: float, x: float) -> float:
        if x == math.inf and not math.isnan(m):
            return math.inf
        if m == 0.0 and not math.isnan(x):
            return 0.0
        return m * math.exp(phi_inverse_below(x / self.shape))

    def _hellinger_lower(self, m: float, x: float) -> float:
        if x == math.inf and not math.isnan(m):
            return 0.0
        cosh, sinh = log_cosh_ball(x, self.shape)
        return m / (cosh + sinh) / (cosh + sinh)

    def _kl_lower(self, m: float, x: float) -> float:
        if x == math.inf and not math.isnan(m):
            return 0.0
        return m / (1.0 + phi_inverse(x / self.shape))

    def _draw(self, m: float, z: np.uint64) -> float:
        return m / self.shape * gamma(self.shape, z)[0]

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        return rng.gamma(self.shape, mean / self.shape, size)

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        return self.shape * s / rng.standard_gamma(self.shape * n)

    def _posterior_upper(self, s: float, n: float, tail: float) -> float:
        return self.shape * s / gammaincinv(self.shape * n, tail, 0)
