"""Empirical likelihood: for bounded rewards of any law, as ratings and dwell times are."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._empirical import divergence, least_gap
from hellinger._jit import helper
from hellinger.errors import InputError, require
from hellinger.families import Family
from hellinger.policies import _dispatch as d
from hellinger.policies import levels
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["EmpiricalImed", "EmpiricalUcb"]

_LEVELS = 128
"""Different rewards of an arm that are told apart; beyond, one is taken for the next larger that the arm has had."""


class _Parameters(NamedTuple):
    family: Family
    level: levels.Level
    top: float
    below: Floats
    """How far below the largest possible reward those that each arm has had are, and how often it had each."""
    counts: Floats
    used: npt.NDArray[np.int64]


class EmpiricalUcb(_Parameters, Rule):
    """The largest mean whose distribution is likely enough given all rewards of an arm, in place of a family's KL."""

    __slots__ = ()
    remembers = True
    by_levels = True

    def begin(self, arms: int) -> Rule:
        """Nothing seen."""
        return self._replace(
            below=np.zeros((arms, _LEVELS)), counts=np.zeros((arms, _LEVELS)), used=np.zeros(arms, np.int64)
        )

    def _observe(self, arm: int, reward: float, t: float) -> None:
        self.counts[arm, _place(self.below[arm], self.used, arm, self.top - reward)] += 1.0

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        for i in range(out.size):
            some = self.counts[i, : self.used[i]]
            n = some.sum()
            out[i] = self.top
            if n > 0.0:
                out[i] -= least_gap(self.below[i, : self.used[i]], some, n, d.level(self.level, n, t, arms) / n)


class EmpiricalImed(EmpiricalUcb):
    """IMED with K_inf in place of a family's KL."""

    __slots__ = ()
    relative = True

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        least = math.inf  # how far below the top the best mean is
        for i in range(out.size):
            n, missing = 0.0, 0.0
            for j in range(self.used[i]):
                n += self.counts[i, j]
                missing += self.counts[i, j] * self.below[i, j]
            if n > 0.0:
                least = min(least, missing / n)
        for i in range(out.size):
            some = self.counts[i, : self.used[i]]
            n = some.sum()
            out[i] = math.inf
            if n > 0.0:
                out[i] = -(n * divergence(self.below[i, : self.used[i]], some, n, least)[0] + math.log(n))


@helper
def _place(below: Floats, used: Any, arm: int, gap: float) -> int:
    """Where a reward is counted that is so far below the top."""
    near, size = -1, used[arm]
    for j in range(size):
        if below[j] == gap:
            return j
        if below[j] < gap and (near < 0 or below[j] > below[near]):
            near = j
    if near >= 0 and size >= _LEVELS - 1:  # the last place is for a reward larger than all others
        return near
    below[size] = gap if size < _LEVELS - 1 else 0.0
    used[arm] += 1
    return int(size)


def _make(cls: type[EmpiricalUcb], name: str, family: Family, level: levels.Level) -> Rule:
    low, high = family.mean_bounds
    if not math.isfinite(high - low):
        raise InputError(f"{name} needs rewards with a lower and an upper bound, but got {family}")
    nothing = np.empty((0, 0))
    return cls(family, level, high, nothing, nothing, np.empty(0, np.int64))


@named("empirical-kl-ucb")
def empirical_kl_ucb(family: Family, *, c: float = 0.0) -> Rule:
    """Empirical KL-UCB: bounded rewards of any law; with coins it is KL-UCB.

    Formula: max{q : K_inf(rewards, q) ≤ (log t + c·log log t)/n}.
    Reference: Cappé, Garivier, Maillard, Munos & Stoltz 2013, section 4; Burnetas & Katehakis 1996.
    """
    require(0 <= c < math.inf, "0 <= c", c=c)
    return _make(EmpiricalUcb, "empirical-kl-ucb", family, levels.get("loglog", extra=c))


@named("empirical-imed")
def empirical_imed(family: Family) -> Rule:
    """IMED for bounded rewards of any law; with coins it is IMED.

    Formula: −(n·K_inf(rewards, m*) + log n), m* the best empirical mean.
    Reference: Honda & Takemura 2015, algorithm 1.
    """
    return _make(EmpiricalImed, "empirical-imed", family, levels.get("log"))
