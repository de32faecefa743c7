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


_BELOW, _ABOVE = 10.0, 14.0
"""Standard deviations below and above its mean within which a rate surely is, whatever its posterior."""
_NEAREST = 0.1
"""The grid's first cell ends at so many of the least standard deviation."""
_LEAST = 1e-12


class _Parameters(NamedTuple):
    family: Family
    points: int


class InformationDirected(_Parameters, Rule):
    """Draws one of two arms such that (expected regret)²/(information about which arm is best) is least.

    Posteriors are Beta(1 + s, 1 + n − s); integrals over the rate are sums over ``points``, which
    are where the best arm's rate may be.
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
def _grid(sums: Floats, pulls: Floats, points: int) -> tuple[Floats, Floats]:
    """Rates that the best arm may have, and the width of each one's cell.

    The best arm's rate is above ``low``, the largest of the rates that each arm surely exceeds. Seen from there, an arm
    that may be the best lies as many of its own standard deviations away as any other: so the points have equal
    distances in log(x − low), and narrow posteriors have as many as wide ones.
    """
    low, high, least = 0.0, 0.0, 1.0
    for i in range(sums.size):
        total = 2.0 + pulls[i]
        mean = (1.0 + sums[i]) / total
        deviation = math.sqrt(mean * (1.0 - mean) / (total + 1.0))
        low = max(low, mean - _BELOW * deviation)
        high = max(high, mean + _ABOVE * deviation)
        least = min(least, deviation)
    wide = min(high, 1.0) - low
    step = math.log(wide / (_NEAREST * least)) / points
    x, width = np.empty(points), np.empty(points)
    for k in range(points):
        away = wide * math.exp((k + 0.5 - points) * step)
        x[k], width[k] = low + away, away * step
    return x, width


@helper
def _regret_and_gain(sums: Floats, pulls: Floats, points: int) -> tuple[Floats, Floats]:
    """Each arm's expected regret, and what playing it is expected to tell about which arm is best, in nats."""
    arms = sums.size
    density, below, part = np.empty((arms, points)), np.empty((arms, points)), np.empty((arms, points))
    x, width = _grid(sums, pulls, points)
    hits, misses = np.log(x), np.log1p(-x)
    for i in range(arms):
        a, b = 1.0 + sums[i], 1.0 + pulls[i] - sums[i]
        constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        above, mean_above = 0.0, 0.0  # from the top: of what is below the grid only the whole is known
        for k in range(points - 1, -1, -1):
            log_density = constant + (a - 1.0) * hits[k] + (b - 1.0) * misses[k]
            mass = math.exp(log_density) * width[k]
            density[i, k] = mass
            below[i, k] = max(1.0 - above - 0.5 * mass, _LEAST)
            part[i, k] = min(max(a / (a + b) - mean_above - 0.5 * mass * x[k], 0.0), below[i, k] * x[k])
            above += mass
            mean_above += mass * x[k]
    chance, own, lower = np.zeros(arms), np.zeros(arms), np.empty(arms)
    known = np.zeros((arms, arms))  # mean of the second arm where the first is the best, times the chance of that
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
            own[i] += weight * x[k]
            for j in range(arms):  # no branch, so that it vectorises
                known[i, j] += weight * lower[j]
    for i in range(arms):
        known[i, i] = own[i]
    total = chance.sum()
    regret, gain = np.zeros(arms), np.zeros(arms)
    for j in range(arms):
        # by the same sums as everything else: near the end regrets are far smaller than the sums are exact
        mean = min(max(known[:, j].sum() / total, 1e-12), 1.0 - 1e-12)
        for i in range(arms):
            regret[j] += max(known[i, i] - known[i, j], 0.0) / total
            if chance[i] > 0.0:
                p = min(max(known[i, j] / chance[i], 1e-12), 1.0 - 1e-12)
                gained = p * math.log(p / mean) + (1.0 - p) * math.log((1.0 - p) / (1.0 - mean))
                gain[j] += chance[i] / total * max(gained, 0.0)
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
