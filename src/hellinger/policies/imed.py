"""IMED: indexed minimum empirical divergence, and its Hellinger twin."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hellinger.families import Family
from hellinger.policies import _dispatch as d
from hellinger.policies import balls
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["Imed"]


class _Parameters(NamedTuple):
    family: Family
    ball: balls.Ball


class Imed(_Parameters, Rule):
    """−(n·distance(m, best mean) + log n): the arm whose being best would surprise least is played."""

    __slots__ = ()
    relative = True

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        best = -math.inf
        for i in range(sums.size):
            if pulls[i] > 0.0:
                best = max(best, sums[i] / pulls[i])
        for i in range(sums.size):
            if pulls[i] == 0.0:
                out[i] = math.inf
            else:
                distance = d.distance(self.ball, self.family, sums[i] / pulls[i], best)
                out[i] = -(pulls[i] * distance + math.log(pulls[i]))


@named("imed")
def imed(family: Family) -> Rule:
    """IMED, asymptotically optimal with neither horizon nor bound to solve for.

    Formula: −(n·KL(m ‖ m*) + log n), m* the best empirical mean.
    Reference: Honda & Takemura 2015, algorithm 1.
    """
    return Imed(family, balls.KullbackLeibler())


@named("hellinger-imed")
def hellinger_imed(family: Family) -> Rule:
    """IMED with four times the Bhattacharyya distance; low regret on average, heavy tail.

    Formula: −(n·4B(m, m*) + log n).
    Reference: Honda & Takemura 2015, algorithm 1, with B of Hellinger-UCB, eq. 2.7.
    """
    return Imed(family, balls.Hellinger())
