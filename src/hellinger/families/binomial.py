"""Binomial rewards: successes among a known number of trials."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from hellinger._numerics import bhattacharyya_trials, hellinger_lower_trials, kl_trials
from hellinger._random import binomial
from hellinger._special import betaincinv
from hellinger.errors import require
from hellinger.families import _dispatch as d
from hellinger.families._base import Family, Floats
from hellinger.families.bernoulli import Bernoulli

__all__ = ["Binomial"]

_BERNOULLI = Bernoulli()


class _Parameters(NamedTuple):
    n: float


class Binomial(Family, _Parameters):
    """Rewards 0…n, n independent trials each; distances are n times those of :class:`Bernoulli`.

    >>> Binomial(10).hellinger_upper(3.0, 0.5)
    6.070...
    """

    __slots__ = ()
    name = "binomial"
    reference = "Yang, Wang & Mullhaupt, Hellinger-UCB, section 5.1"
    integer = True
    posterior = "n·Beta(1 + s, 1 + n·pulls − s)"
    posterior_quantile = True

    def __new__(cls, n: float = 1) -> Self:
        """Check that n is a positive whole number."""
        require(n >= 1 and n == math.floor(n) < math.inf, "n is a whole number and 1 <= n", n=n)
        return super().__new__(cls, float(n))

    @classmethod
    def cases(cls) -> Iterator[Self]:
        """One trial, a few, many."""
        yield from (cls(1), cls(7), cls(1000))

    def typical_means(self) -> Floats:
        """Those of Bernoulli, n times."""
        return self.n * _BERNOULLI.typical_means()

    def _supremum(self) -> float:
        return self.n

    def _log_partition(self, theta: Any) -> Any:
        return self.n * d.log_partition(_BERNOULLI, theta)

    def _mean(self, theta: float) -> float:
        return self.n * d.mean(_BERNOULLI, theta)

    def _natural(self, m: float) -> float:
        return math.log(m) - math.log(self.n - m)

    def _variance(self, m: float) -> float:
        return m * (self.n - m) / self.n

    def _kl(self, p: float, q: float) -> float:
        return kl_trials(p, q, self.n)

    def _bhattacharyya(self, p: float, q: float) -> float:
        return self.n * bhattacharyya_trials(p, q, self.n)

    def _hellinger_upper(self, m: float, x: float) -> float:
        q = self.n * d.hellinger_upper(_BERNOULLI, m / self.n, x / self.n)
        return m if x == 0.0 else q

    def _kl_upper(self, m: float, x: float) -> float:
        q = self.n * d.kl_upper(_BERNOULLI, m / self.n, x / self.n)
        return m if x == 0.0 else q

    def _hellinger_lower(self, m: float, x: float) -> float:
        return hellinger_lower_trials(m, x, self.n)

    def _kl_lower(self, m: float, x: float) -> float:
        q = self.n * d.kl_lower(_BERNOULLI, m / self.n, x / self.n)
        return m if x == 0.0 else q

    def _draw(self, m: float, z: np.uint64) -> float:
        return binomial(self.n, m / self.n, z)[0]

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        return rng.binomial(int(self.n), mean / self.n, size)

    def _proper_prior(self) -> bool:
        return True

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        return self.n * rng.beta(1.0 + s, 1.0 + n * self.n - s)

    def _posterior_upper(self, s: float, n: float, tail: float) -> float:
        return self.n * (1.0 - betaincinv(1.0 + n * self.n - s, 1.0 + s, tail, 0))
