"""Empirical likelihood: for bounded rewards of any law, as ratings and dwell times are."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._empirical import divergence, least_gap, rise, tilted_gap
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
    kept: Floats
    """By arm: how far its mean is below the top; and a line that its index stays below, the tangent where it was last
    computed: the value and the slope there, and where that was."""
    latest: Floats
    """The round and the arm of the index that was last computed, and that index: others may have had the same."""


_MEAN, _VALUE, _SLOPE, _PLACE = range(4)
_MARGIN = 1e-9
"""More than errors of rounding can be, as a share."""


class EmpiricalUcb(_Parameters, Rule):
    """The largest mean whose distribution is likely enough given all rewards of an arm, in place of a family's KL."""

    __slots__ = ()
    remembers = True
    by_levels = True
    limited = True

    def begin(self, arms: int) -> Rule:
        """Nothing seen."""
        return self._replace(
            below=np.zeros((arms, _LEVELS)),
            counts=np.zeros((arms, _LEVELS)),
            used=np.zeros(arms, np.int64),
            kept=np.full((4, arms), math.inf),
            latest=np.zeros(3),
        )

    def _observe(self, arm: int, reward: float, t: float) -> None:
        self.counts[arm, _place(self.below[arm], self.used, arm, self.top - reward)] += 1.0
        n, missing = 0.0, 0.0
        for j in range(self.used[arm]):
            n += self.counts[arm, j]
            missing += self.counts[arm, j] * self.below[arm, j]
        self.kept[_MEAN, arm] = missing / n
        self.kept[_VALUE, arm] = math.inf
        self.latest[0] = 0.0

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        for i in range(out.size):
            some = self.counts[i, : self.used[i]]
            n = some.sum()
            out[i] = self.top
            if n > 0.0:
                out[i] -= least_gap(self.below[i, : self.used[i]], some, n, d.level(self.level, n, t, arms) / n)

    def _limit(self, t: float, arms: float, out: Floats) -> None:
        _along(self.kept, d.level(self.level, 1.0, t, arms), out)  # concave in the level, which is that of all arms

    def _exact(self, arm: int, t: float, arms: float) -> float:
        if _had_before(self.latest, t, self.below, self.counts, self.used, self.kept, arm):
            return float(self.latest[2])
        some, below, kept = self.counts[arm, : self.used[arm]], self.below[arm, : self.used[arm]], self.kept
        n = some.sum()
        if not n > 0.0:
            return self.top
        level = d.level(self.level, n, t, arms)
        gap, beyond = tilted_gap(below, some, n, level / n)
        if beyond < math.inf:
            part = 0.0
            for j in range(below.size):
                part += some[j] * below[j] / (beyond + below[j]) if below[j] > 0.0 else 0.0
            kept[_VALUE, arm] = self.top - gap + _MARGIN * (gap + 1e-6 * abs(self.top))
            kept[_SLOPE, arm], kept[_PLACE, arm] = gap / part, level
        index = float(self.top - gap)
        self.latest[0], self.latest[1], self.latest[2] = t, arm, index
        return index


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

    def _limit(self, t: float, arms: float, out: Floats) -> None:
        _along(self.kept, self.kept[_MEAN].min(), out)  # K_inf is convex in the mean

    def _exact(self, arm: int, t: float, arms: float) -> float:
        if _had_before(self.latest, t, self.below, self.counts, self.used, self.kept, arm):
            return float(self.latest[2])
        some, below, kept = self.counts[arm, : self.used[arm]], self.below[arm, : self.used[arm]], self.kept
        n, least = some.sum(), kept[_MEAN].min()
        if not n > 0.0:
            return math.inf
        value, share = divergence(below, some, n, least)
        index = -float(n * value + math.log(n))
        if least > 0.0:
            kept[_VALUE, arm] = index + _MARGIN * (1.0 + n + abs(index))
            kept[_SLOPE, arm], kept[_PLACE, arm] = n * rise(below, some, n, least, share), least
        self.latest[0], self.latest[1], self.latest[2] = t, arm, index
        return index


@helper
def _had_before(latest: Floats, t: float, below: Floats, counts: Floats, used: Any, kept: Floats, arm: int) -> bool:
    """Whether an arm's rewards are, in the same places, those of the arm computed last in this round; its line too."""
    other = int(latest[1])
    if latest[0] != t or used[other] != used[arm]:
        return False
    for j in range(used[arm]):
        if counts[other, j] != counts[arm, j] or below[other, j] != below[arm, j]:
            return False
    for row in range(_VALUE, _PLACE + 1):
        kept[row, arm] = kept[row, other]
    return True


@helper
def _along(kept: Floats, x: float, out: Floats) -> None:
    """Where each arm's line is at x; infinite where it has none."""
    for i in range(out.size):
        further = x - kept[_PLACE, i]
        line = kept[_VALUE, i] + kept[_SLOPE, i] * (further + _MARGIN * abs(further))
        out[i] = line if kept[_VALUE, i] < math.inf else math.inf


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
    return cls(family, level, high, nothing, nothing, np.empty(0, np.int64), np.empty((4, 0)), np.empty(3))


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
