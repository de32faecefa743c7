"""Information-directed sampling for coins."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger._jit import helper
from hellinger.errors import InputError, require
from hellinger.families import Bernoulli, Family
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["InformationDirected"]


class _Parameters(NamedTuple):
    family: Family
    points: int


class InformationDirected(_Parameters, Rule):
    """Draws one of two arms such that (expected regret)²/(information about which arm is best) is least.

    Posteriors are Beta(1 + s, 1 + n − s); integrals over the rate are sums over ``points`` of equal distance.
    """

    __slots__ = ()
    random = True
    thorough = False
    few = True

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        for i in range(out.size):
            out[i] = 0.0
        if out.size == 0:
            return
        regret, gain = _regret_and_gain(sums, pulls, self.points)
        one, other, share = _least_ratio(regret, gain)
        out[one if rng.random() < share else other] = 1.0


@helper
def _regret_and_gain(sums: Floats, pulls: Floats, points: int) -> tuple[Floats, Floats]:
    """Each arm's expected regret, and what playing it is expected to tell about which arm is best, in nats."""
    arms = sums.size
    density, below, part = np.empty((arms, points)), np.empty((arms, points)), np.empty((arms, points))
    rates, hits, misses = np.empty(points), np.empty(points), np.empty(points)
    for k in range(points):
        rates[k] = (k + 0.5) / points
        hits[k], misses[k] = math.log(rates[k]), math.log1p(-rates[k])
    for i in range(arms):
        a, b = 1.0 + sums[i], 1.0 + pulls[i] - sums[i]
        most = -math.inf
        for k in range(points):
            density[i, k] = (a - 1.0) * hits[k] + (b - 1.0) * misses[k]
            most = max(most, density[i, k])
        total, mean = 0.0, 0.0
        for k in range(points):
            x = rates[k]
            density[i, k] = math.exp(density[i, k] - most)
            below[i, k] = total + 0.5 * density[i, k]
            part[i, k] = mean + 0.5 * density[i, k] * x
            total += density[i, k]
            mean += density[i, k] * x
        for k in range(points):
            density[i, k] /= total
            below[i, k] = max(below[i, k] / total, 1e-300)
            part[i, k] /= total
    chance, own, value = np.zeros(arms), np.zeros(arms), 0.0
    known = np.zeros((arms, arms))  # mean of the second arm where the first is the best
    lower = np.empty(arms)  # mean of an arm where it is below the rate
    for k in range(points):
        all_below = 1.0
        for i in range(arms):
            all_below *= below[i, k]
            lower[i] = part[i, k] / below[i, k]
        for i in range(arms):
            weight = density[i, k] / below[i, k] * all_below
            if weight <= 0.0:
                continue
            chance[i] += weight
            value += weight * rates[k]
            own[i] += weight * rates[k]
            for j in range(arms):  # no branch, so that it vectorises
                known[i, j] += weight * lower[j]
    for i in range(arms):
        known[i, i] = own[i]
    value /= chance.sum()
    regret, gain = np.empty(arms), np.zeros(arms)
    for j in range(arms):
        mean = (1.0 + sums[j]) / (2.0 + pulls[j])
        regret[j] = max(value - mean, 0.0)
        for i in range(arms):
            if chance[i] > 0.0:
                p = min(max(known[i, j] / chance[i], 1e-12), 1.0 - 1e-12)
                gained = p * math.log(p / mean) + (1.0 - p) * math.log((1.0 - p) / (1.0 - mean))
                gain[j] += chance[i] * max(gained, 0.0)
    return regret, gain


@helper
def _least_ratio(regret: Floats, gain: Floats) -> tuple[int, int, float]:
    """Two arms and the chance of the first with which regret²/gain is least: no more than two are needed."""
    best, one, other, share = math.inf, 0, 0, 1.0
    for i in range(regret.size):
        for j in range(i + 1):
            a, b = regret[i] - regret[j], gain[i] - gain[j]
            q = (b * regret[j] - 2.0 * a * gain[j]) / (a * b) if a != 0.0 and b != 0.0 else 1.0
            for tried in (0.0, min(max(q, 0.0), 1.0), 1.0):
                lost = regret[j] + tried * a
                gained = gain[j] + tried * b
                ratio = 0.0 if lost == 0.0 else (lost * lost / gained if gained > 0.0 else math.inf)
                if ratio < best:
                    best, one, other, share = ratio, i, j, tried
    return one, other, share


@named("ids")
def ids(family: Family, *, points: int = 400) -> Rule:
    """Information-directed sampling, for coins; its time a round grows with the square of the arms.

    Formula: the draw of least (expected regret)²/(information about the best arm), posteriors from Beta(1, 1).
    Reference: Russo & Van Roy 2014, algorithms 1 and 3.
    """
    if not isinstance(family, Bernoulli):
        raise InputError(f"ids is for Bernoulli rewards, but got {family}")
    require(10 <= points <= 100_000 and points % 1 == 0, "10 <= points <= 100000, a whole number", points=points)
    return InformationDirected(family, int(points))
