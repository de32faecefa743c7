"""Baselines: greedy, ε-greedy and uniform choice."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hellinger.errors import require
from hellinger.families import Family
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["EpsilonGreedy", "Greedy", "Uniform"]


class _Epsilon(NamedTuple):
    family: Family
    epsilon: float
    decay: float


class _Family(NamedTuple):
    family: Family


class EpsilonGreedy(_Epsilon, Rule):
    """The empirical means, or with probability ε the arms in random order."""

    __slots__ = ()
    random = True

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        epsilon = self.epsilon if self.decay == 0.0 else min(1.0, self.decay * sums.size / t)
        explore = rng.random() < epsilon
        for i in range(sums.size):
            if explore:
                out[i] = rng.random()
            elif pulls[i] == 0.0:
                out[i] = math.inf
            else:
                out[i] = sums[i] / pulls[i]


class Greedy(_Family, Rule):
    """The empirical means; arms never played first."""

    __slots__ = ()
    monotone = True

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        return s / n if n > 0.0 else math.inf


class Uniform(_Family, Rule):
    """A fresh uniform number for every arm."""

    __slots__ = ()
    random = True

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        for i in range(sums.size):
            out[i] = rng.random()


@named("epsilon-greedy")
def epsilon_greedy(family: Family, *, epsilon: float = 0.1, decay: float = 0.0) -> Rule:
    """ε-greedy; with decay c > 0, ε falls as c·K/t.

    Formula: the best empirical mean with probability 1 − ε, else any arm; ε = min(1, c·K/t) if c > 0.
    Reference: Sutton & Barto, chapter 2; Auer, Cesa-Bianchi & Fischer 2002, figure 3.
    """
    require(0 <= epsilon <= 1, "0 <= epsilon <= 1", epsilon=epsilon)
    require(0 <= decay < math.inf, "0 <= decay", decay=decay)
    return EpsilonGreedy(family, float(epsilon), float(decay))


@named("uniform")
def uniform(family: Family) -> Rule:
    """Uniform choice, the floor for every comparison.

    Formula: any arm with probability 1/K.
    Reference: none needed.
    """
    return Uniform(family)


@named("greedy")
def greedy(family: Family) -> Rule:
    """The best mean so far: what a model or a pool earns without exploring.

    Formula: m.
    Reference: none needed.
    """
    return Greedy(family)
