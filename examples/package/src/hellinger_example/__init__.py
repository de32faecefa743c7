"""A policy and a family of rewards that are not hellinger's own."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger import Family, Rule

__all__ = ["Optimist", "Rate"]


class _Bonus(NamedTuple):
    family: Family
    bonus: float = 1.0


class Optimist(_Bonus, Rule):
    """The mean of an arm that had some successes more than it had.

    Formula: (s + bonus)/n.
    Reference: an example.
    """

    __slots__ = ()
    monotone = True  # falls with n and rises with s, so a pool may rank by groups; it checks

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        return (s + self.bonus) / n if n > 0.0 else math.inf


class _Exposure(NamedTuple):
    exposure: float = 1.0


class Rate(Family, _Exposure):
    """Counts per hour over a known exposure: ψ(θ) = exposure·exp(θ/exposure); all bounds follow from it.

    >>> round(Rate(24.0).hellinger_upper(0.5, 0.01), 4)
    0.5417
    """

    __slots__ = ()
    name = "rate"
    reference = "a Poisson process watched for a known time"

    def _log_partition(self, theta: Any) -> Any:
        return self.exposure * np.exp(theta / self.exposure)

    def _mean(self, theta: float) -> float:
        return math.exp(theta / self.exposure)

    def _natural(self, m: float) -> float:
        return self.exposure * math.log(m)

    def _variance(self, m: float) -> float:
        return m / self.exposure

    def _sample(self, mean: Any, rng: np.random.Generator, size: Any) -> Any:
        return rng.poisson(mean * self.exposure, size) / self.exposure
