"""Exp3 and its relatives: for rewards that anybody may have chosen, in whatever order."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hellinger.errors import InputError, require
from hellinger.families import Family
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["Exp3", "Exp3S", "Rexp3"]

_LEAST = 1e-290


class _Parameters(NamedTuple):
    family: Family
    budget: float
    gamma: float
    time: float
    """The horizon; NaN until it is given."""
    share: float
    span: float
    low: float
    width: float
    weights: Floats


class Exp3(_Parameters, Rule):
    """Plays each arm with chance (1 − γ)·(its share of all weights) + γ/K.

    A reward x, scaled to [0, 1], of an arm with chance p multiplies its weight by exp(γ·x/(p·K)).
    """

    __slots__ = ()
    random = True
    remembers = True
    at_once = True
    timed: ClassVar[bool] = False
    """Whether more than γ is set by the horizon."""

    @property
    def horizon(self) -> float:
        """The horizon, where something is set by it."""
        return 0.0 if self.gamma > 0.0 and not self.timed else self.time

    def at_horizon(self, horizon: float) -> Rule:
        """Set the horizon."""
        return self if self.horizon == 0.0 else self._replace(time=float(horizon))

    def _settings(self, arms: int) -> tuple[float, float, float]:
        """γ, the share of all weights that each arm is given back, and rounds between two new beginnings."""
        return math.sqrt(arms * math.log(arms) / ((math.e - 1.0) * self.time)), 0.0, 0.0

    def begin(self, arms: int) -> Rule:
        """All arms alike."""
        gamma, share, span = self._settings(max(arms, 2))
        gamma = self.gamma if self.gamma > 0.0 else min(1.0, gamma)
        return self._replace(gamma=gamma, share=share, span=span, weights=np.ones(arms))

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        left, total = rng.random(), self.weights.sum()
        out[:] = 0.0
        for i in range(out.size):
            left -= (1.0 - self.gamma) * self.weights[i] / total + self.gamma / out.size
            if left < 0.0 or i == out.size - 1:
                out[i] = 1.0
                break

    def _observe(self, arm: int, reward: float, t: float) -> None:
        weights = self.weights
        arms, total = weights.size, weights.sum()
        chance = (1.0 - self.gamma) * weights[arm] / total + self.gamma / arms
        grown = weights[arm] * math.exp(self.gamma * (reward - self.low) / (self.width * chance * arms))
        back = math.e * self.share / arms * total
        total += grown - weights[arm] + arms * back
        weights[arm] = grown
        anew = self.span > 0.0 and t % self.span == 0.0
        for i in range(arms):
            weights[i] = 1.0 if anew else max((weights[i] + back) * arms / total, _LEAST)


class Exp3S(Exp3):
    """Exp3 whose weights are given back a little of the whole after each round, for an arm that becomes the best."""

    __slots__ = ()
    timed = True

    def _settings(self, arms: int) -> tuple[float, float, float]:
        hardness = (1.0 + self.budget) * math.log(arms * self.time) + math.e
        return math.sqrt(arms * hardness / ((math.e - 1.0) * self.time)), 1.0 / self.time, 0.0


class Rexp3(Exp3):
    """Exp3 that begins anew after each batch of rounds, as long as the budget of variation lets means stay alike."""

    __slots__ = ()
    timed = True

    def _settings(self, arms: int) -> tuple[float, float, float]:
        size = arms * math.log(arms)
        batch = math.ceil(size ** (1 / 3) * (self.time / self.budget) ** (2 / 3))
        return math.sqrt(size / ((math.e - 1.0) * batch)), 0.0, float(batch)


def _make(
    cls: type[Exp3], name: str, family: Family, budget: float, gamma: float | None, horizon: float | None
) -> Rule:
    low, high = family.mean_bounds
    if not math.isfinite(high - low):
        raise InputError(f"{name} needs rewards with a lower and an upper bound, but got {family}")
    require(gamma is None or 0 < gamma <= 1, "0 < gamma <= 1", gamma=gamma)
    require(horizon is None or 1 <= horizon < math.inf, "1 <= horizon", horizon=horizon)
    time = math.nan if horizon is None else float(horizon)
    return cls(
        family, float(budget), 0.0 if gamma is None else float(gamma), time, 0.0, 0.0, low, high - low, np.empty(0)
    )


@named("exp3")
def exp3(family: Family, *, gamma: float | None = None, horizon: float | None = None) -> Rule:
    """Exp3: no assumption on rewards but their bounds.

    Formula: chance (1 − γ)wᵢ/Σw + γ/K, wᵢ ← wᵢ·exp(γx/(pᵢK)); γ = √(K·log K/((e − 1)T)).
    Reference: Auer, Cesa-Bianchi, Freund & Schapire 2002, section 3 and corollary 3.2.
    """
    return _make(Exp3, "exp3", family, 0.0, gamma, horizon)


@named("exp3s")
def exp3s(family: Family, *, changes: float = 1.0, gamma: float | None = None, horizon: float | None = None) -> Rule:
    """Exp3.S: against the best sequence of arms with so many changes.

    Formula: exp3's, and wᵢ ← wᵢ + e/(T·K)·Σw after each round; γ = √(K(S·log(KT) + e)/((e − 1)T)), S = 1 + changes.
    Reference: Auer, Cesa-Bianchi, Freund & Schapire 2002, section 8 and corollary 8.2.
    """
    require(0 <= changes < math.inf, "0 <= changes", changes=changes)
    return _make(Exp3S, "exp3s", family, changes, gamma, horizon)


@named("rexp3")
def rexp3(family: Family, *, variation: float = 1.0, gamma: float | None = None, horizon: float | None = None) -> Rule:
    """Rexp3: Exp3 begun anew, for means that vary by no more than a budget in all.

    Formula: exp3 in batches of (K·log K)^(1/3)·(T/V)^(2/3) rounds, γ = √(K·log K/((e − 1)·batch)).
    Reference: Besbes, Gur & Zeevi 2014, section 4 and theorem 2.
    """
    require(0 < variation < math.inf, "0 < variation", variation=variation)
    return _make(Rexp3, "rexp3", family, variation, gamma, horizon)
