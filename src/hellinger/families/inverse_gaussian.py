"""Inverse Gaussian rewards of known precision λ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from hellinger._numerics import two_product
from hellinger._random import mix, normal, uniform
from hellinger._special import ndtri
from hellinger.errors import require
from hellinger.families._base import Family, Floats

__all__ = ["InverseGaussian"]

_EDGE_HIGH, _EDGE_LOW = 4.82842712474619, 2.5074334358100436e-16  # 2(1 + √2) to 32 digits


class _Parameters(NamedTuple):
    lam: float


class InverseGaussian(Family, _Parameters):
    """Positive rewards with variance m³/λ. Both bounds have closed forms and reach ∞ at a finite radius.

    With z = x·m/λ the Hellinger bound is m·(1 + 2z + √(8z(1+z)))/((1 − 2(1+√2)z)(1 + 2(√2−1)z)), infinite
    from z = 1/(2(1+√2)) on; the KL bound is m/(1 − √(2z)). The factor that vanishes is formed in twice the
    working precision, so the bound keeps all its digits up to its pole.

    >>> InverseGaussian(2.0).hellinger_upper([1.0, 1.0], [0.1, 0.5])
    array([2.212...,        inf])
    """

    __slots__ = ()
    name = "inverse-gaussian"
    reference = "Tweedie 1957; closed form derived in docs/theory.md"
    posterior = "1/Normal(n/s, 1/(λs)) given > 0, from the flat prior on 1/mean"
    posterior_quantile = True

    def __new__(cls, lam: float = 1.0) -> Self:
        """Check that lam is positive."""
        require(0 < lam < math.inf, "0 < lam", lam=lam)
        return super().__new__(cls, float(lam))

    @classmethod
    def cases(cls) -> Iterator[Self]:
        """Three precisions."""
        yield from (cls(1.0), cls(0.05), cls(700.0))

    def _natural_bounds(self) -> tuple[float, float]:
        return (-math.inf, 0.0)

    def _log_partition(self, theta: Any) -> Any:
        return -np.sqrt(-2.0 * self.lam * theta)

    def _mean(self, theta: float) -> float:
        return math.sqrt(self.lam / (-2.0 * theta))

    def _natural(self, m: float) -> float:
        return -0.5 * self.lam / m / m

    def _variance(self, m: float) -> float:
        return m * m * m / self.lam

    def _kl(self, p: float, q: float) -> float:
        if p == q:
            return 0.0
        if p == 0.0 or q == 0.0:
            return math.inf
        gap = 1.0 if q == math.inf else (q - p) / q
        return 0.5 * self.lam * gap * gap / p

    def _bhattacharyya(self, p: float, q: float) -> float:
        if p == q:
            return 0.0
        if p == 0.0 or q == 0.0:
            return math.inf
        ratio = 0.0 if q == math.inf else p / q
        gap = 1.0 if q == math.inf else (q - p) / q
        return 0.25 * self.lam / p * gap * gap / (math.sqrt(0.5 + 0.5 * ratio * ratio) + 0.5 + 0.5 * ratio)

    def _hellinger_upper(self, m: float, x: float) -> float:
        if x == 0.0:
            return m
        if x == math.inf and not math.isnan(m):
            return math.inf
        high, low = two_product(x, m)
        edge, edge_low = two_product(_EDGE_HIGH, high)
        left = (self.lam - edge) - (edge_low + _EDGE_HIGH * low + _EDGE_LOW * high)
        if left <= 0.0:
            return math.inf
        z = high / self.lam
        other = 1.0 + 0.8284271247461901 * z
        return m * (1.0 + 2.0 * z + math.sqrt(8.0 * z * (1.0 + z))) / (left / self.lam * other)

    def _kl_upper(self, m: float, x: float) -> float:
        if x == 0.0:
            return m
        if x == math.inf and not math.isnan(m):
            return math.inf
        high, low = two_product(2.0 * x, m)
        left = (self.lam - high) - low
        if left <= 0.0:
            return math.inf
        return m * (1.0 + math.sqrt(high / self.lam)) / (left / self.lam)

    def _hellinger_lower(self, m: float, x: float) -> float:
        if x == math.inf and not math.isnan(m):
            return 0.0
        z = x * m / self.lam
        return m / (1.0 + 2.0 * z + math.sqrt(8.0 * z * (1.0 + z)))

    def _kl_lower(self, m: float, x: float) -> float:
        if x == math.inf and not math.isnan(m):
            return 0.0
        return m / (1.0 + math.sqrt(2.0 * x * m / self.lam))

    def _draw(self, m: float, z: np.uint64) -> float:
        # Michael, Schucany & Haas 1976, with the smaller root free of cancellation.
        x, state = normal(z)
        y = 0.5 * m * x * x / self.lam
        root = m / (1.0 + y + math.sqrt(y * (2.0 + y)))
        return root if uniform(mix(state)) * (m + root) <= m else m * (m / root)

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        positive = np.where(mean > 0.0, mean, 1.0)
        return np.where(mean > 0.0, rng.wald(positive, self.lam, size), 0.0)

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        if s == 0.0:
            return 0.0
        while True:
            u = n / s + rng.standard_normal() / math.sqrt(self.lam * s)
            if u > 0.0:
                return 1.0 / u

    def _posterior_upper(self, s: float, n: float, tail: float) -> float:
        if s == 0.0:
            return 0.0
        centre = n * math.sqrt(self.lam / s)  # distance of the truncation from the mean, in deviations
        outside = 0.5 * math.erfc(centre / math.sqrt(2.0))
        u = n / s + ndtri(outside + tail * (1.0 - outside), 0) / math.sqrt(self.lam * s)
        return 1.0 / u if u > 0.0 else math.inf
