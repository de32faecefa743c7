"""What compiled code may ask of a ball, a level and a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hellinger._jit import dispatch

if TYPE_CHECKING:
    from hellinger.families import Family
    from hellinger.policies._rule import Rule
    from hellinger.policies.balls import Ball
    from hellinger.policies.levels import Level

__all__ = [
    "ceiling",
    "distance",
    "exact",
    "fill",
    "learned",
    "level",
    "limit",
    "lower",
    "observe",
    "score",
    "upper",
    "when",
]

Floats = npt.NDArray[np.float64]


@dispatch
def upper(self: Ball, family: Family, m: float, x: float) -> float:
    """Largest q in the ball of radius x around the member with mean m."""
    return self._upper(family, m, x)


@dispatch
def lower(self: Ball, family: Family, m: float, x: float) -> float:
    """Smallest q in the ball of radius x around the member with mean m."""
    return self._lower(family, m, x)


@dispatch
def ceiling(self: Ball, family: Family) -> float:
    """Largest q in the ball of infinite radius: the index of an arm never played."""
    return self._ceiling(family)


@dispatch
def distance(self: Ball, family: Family, p: float, q: float) -> float:
    """Distance of means p and q on the scale of KL: about (q − p)²/2V where they are close."""
    return self._distance(family, p, q)


@dispatch
def level(self: Level, n: float, t: float, arms: float) -> float:
    """The level, n times the radius, of an arm with n pulls at round t."""
    return self._level(n, t, arms)


@dispatch
def learned(self: Rule, sums: Floats, pulls: Floats, plays: float) -> Rule:
    """The rule after so many plays: with a prior fitted to these counts, where it learns one and that is due."""
    return self._learned(sums, pulls, plays)


@dispatch
def observe(self: Rule, arm: int, reward: float, t: float) -> None:
    """See what came of playing an arm at round t, where the rule remembers more than counts."""
    return self._observe(arm, reward, t)


@dispatch
def limit(self: Rule, t: float, arms: float, out: Floats) -> None:
    """Write what no arm's index exceeds at round t into ``out``: cheap, and close to the indices."""
    return self._limit(t, arms, out)


@dispatch
def exact(self: Rule, arm: int, t: float, arms: float) -> float:
    """Index of one arm, as ``fill`` would have it."""
    return self._exact(arm, t, arms)


@dispatch
def score(self: Rule, s: float, n: float, t: float, arms: float) -> float:
    """Index of an arm with reward sum s and n ≥ 0 pulls, at round t among so many arms."""
    return self._score(s, n, t, arms)


@dispatch
def when(self: Rule, t: float, left: float) -> float:
    """What stands for the round where an arm can be played so many times more; 0 where that is not known."""
    return self._when(t, left)


@dispatch
def fill(
    self: Rule, sums: Floats, pulls: Floats, t: float, arms: float, rng: np.random.Generator | None, out: Floats
) -> None:
    """Write the index of every arm into ``out``."""
    return self._fill(sums, pulls, t, arms, rng, out)
