"""Gaussian rewards of known standard deviation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from hellinger._random import normal
from hellinger._special import ndtri
from hellinger.errors import require
from hellinger.families._base import Family, Floats

__all__ = ["Gaussian"]


class _Parameters(NamedTuple):
    sigma: float


class Gaussian(Family, _Parameters):
    """Normal rewards; KL = (q − p)²/2σ² and B = KL/4, so both bounds are m + const·σ√x.

    >>> Gaussian(2.0).hellinger_upper(1.0, 0.5)
    5.0
    """

    __slots__ = ()
    name = "gaussian"
    reference = "Bhattacharyya 1943; Garivier & Cappé 2011, section 6"
    posterior = "Normal(s/n, σ²/n), from the flat prior"
    posterior_quantile = True

    def __new__(cls, sigma: float = 1.0) -> Self:
        """Check that sigma is positive."""
        require(0 < sigma < math.inf, "0 < sigma", sigma=sigma)
        return super().__new__(cls, float(sigma))

    @classmethod
    def cases(cls) -> Iterator[Self]:
        """Unit, narrow and wide."""
        yield from (cls(1.0), cls(0.01), cls(300.0))

    def typical_means(self) -> Floats:
        """Both signs."""
        return np.array([-1e9, -1e3, -1.0, -1e-6, 0.0, 1e-6, 0.3, 1.0, 40.0, 1e6])

    def _infimum(self) -> float:
        return -math.inf

    def _log_partition(self, theta: Any) -> Any:
        return 0.5 * self.sigma * self.sigma * theta * theta

    def _mean(self, theta: float) -> float:
        return self.sigma * self.sigma * theta

    def _natural(self, m: float) -> float:
        return m / (self.sigma * self.sigma)

    def _variance(self, m: float) -> float:
        return self.sigma * self.sigma + 0.0 * m

    def _kl(self, p: float, q: float) -> float:
        z = (q - p) / self.sigma
        return 0.5 * z * z

    def _bhattacharyya(self, p: float, q: float) -> float:
        z = (q - p) / self.sigma
        return 0.125 * z * z

    def _hellinger_upper(self, m: float, x: float) -> float:
        return m + self.sigma * math.sqrt(8.0 * x)

    def _kl_upper(self, m: float, x: float) -> float:
        return m + self.sigma * math.sqrt(2.0 * x)

    def _hellinger_lower(self, m: float, x: float) -> float:
        return m - self.sigma * math.sqrt(8.0 * x)

    def _kl_lower(self, m: float, x: float) -> float:
        return m - self.sigma * math.sqrt(2.0 * x)

    def _draw(self, m: float, z: np.uint64) -> float:
        return m + self.sigma * normal(z)[0]

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        return rng.normal(mean, self.sigma, size)

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        return s / n + self.sigma / math.sqrt(n) * rng.standard_normal()

    def _posterior_upper(self, s: float, n: float, tail: float) -> float:
        return s / n - self.sigma / math.sqrt(n) * ndtri(tail, 0)
