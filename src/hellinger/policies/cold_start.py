"""Cold start: many arms, little traffic, and a prior learned from the arms themselves."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger._jit import helper
from hellinger.errors import InputError
from hellinger.families import Bernoulli, Family
from hellinger.policies import _dispatch as d
from hellinger.policies import balls, levels
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule
from hellinger.policies.prior import NOTHING, Learned, Prior, learn, next_fit

__all__ = ["ColdStart"]

_SCALE, _FEW, _DOUBT = 0.12, 5.0, 0.4
"""The level of an arm that can be played r times more is 0.12·log(1 + r/(5n′))·m/(m + 0.4), m = r·s′/n′."""


@helper
def ending(s: float, n: float, left: float) -> float:
    """The level of an arm that can be played so many times more, its counts with those of the prior.

    Close to what an impression more is worth by dynamic programming: see section 10 of the theory page.
    """
    rewards = left * s / n
    return _SCALE * math.log1p(left / (_FEW * n)) * rewards / (rewards + _DOUBT)


class _Parameters(NamedTuple):
    family: Family
    ball: balls.Ball
    level: levels.Level
    prior: Learned


class ColdStart(_Parameters, Rule):
    """The largest q in the Hellinger ball around (s + a)/(n + a + b), with Beta(a, b) learned from all arms.

    t is the number of plays that the present arms have had: those of arms since removed tell nothing about how
    well these are known. Where it is known that an arm can be played r times more, −r stands for t: see
    :func:`hellinger.policies.cold_start.ending`.
    """

    __slots__ = ()
    relative = True
    learns_prior = True
    knows_lives = True

    def given(self, prior: Prior) -> Rule:
        """The same rule with this prior, that of arms without groups."""
        return self._replace(prior=Learned(*prior[:4]))

    def _learned(self, sums: Floats, pulls: Floats, plays: float) -> ColdStart:
        if plays < next_fit(self.prior.plays):
            return self
        return ColdStart(self.family, self.ball, self.level, learn(sums, pulls, np.ones(sums.size)))

    def _when(self, t: float, left: float) -> float:
        return -left if left > 0.0 else t

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        level = ending(s, n, -t) if t < 0.0 else d.level(self.level, n, t, arms)
        return d.upper(self.ball, self.family, s / n, level / n)

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        prior = self.prior
        t = pulls.sum() * prior.focus + 1.0
        for i in range(sums.size):
            out[i] = d.score(self, sums[i] + prior.a, pulls[i] + prior.strength, t, arms)


@named("cold-start")
def cold_start(family: Family) -> Rule:
    """For many arms and little traffic: a level that knows their number, a prior learned from them.

    Formula: max{q : B((s + a)/n′, q) ≤ 0.27·log(e² + t/(∛(K²M)·n′))/n′}, n′ = n + a + b, Beta(a, b) fitted to all arms,
    M = (Σn)²/Σn² of them in rotation. Where an arm can be played r times more, 0.12·log(1 + r/(5n′))·m/(m + 0.4) is in
    place of 0.27·log(…), m = r(s + a)/n′.
    Reference: Hellinger-UCB, eq. 3.3, with a level after MOSS (Audibert & Bubeck 2009) and an empirical-Bayes prior.
    """
    if not isinstance(family, Bernoulli):
        raise InputError(f"cold-start learns a Beta prior, so it needs the Bernoulli family, but got {family}")
    level = levels.get("sparse", scale=0.27, anytime=True)
    return ColdStart(family, balls.Hellinger(), level, NOTHING)
