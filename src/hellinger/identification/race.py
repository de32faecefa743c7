"""The compiled core of identification: who is in doubt (LUCB), and who is decided next (accepts and rejects).

Arms are numbered in the order in which ties go to them; the caller shuffles them for random ties.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._jit import Component, brief, helper
from hellinger.families import Family
from hellinger.families import _dispatch as families
from hellinger.identification import rates
from hellinger.identification.rates import Rate
from hellinger.policies import _dispatch as balls
from hellinger.policies.balls import Ball

__all__ = ["Race", "bound", "decide", "doubt", "schedule", "sort_by_mean", "survey"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class _Parts(NamedTuple):
    family: Family
    ball: Ball
    rate: Rate
    best: int


class Race(Component, _Parts):
    """What decides a race for the ``best`` arms with fixed confidence."""

    __slots__ = ()


@helper
def sort_by_mean(order: Ints, means: Floats) -> None:
    """Sort arms by falling mean, ties by number; quick where they are nearly sorted already."""
    for i in range(1, order.size):
        arm = order[i]
        j = i - 1
        while j >= 0:
            before = order[j]
            if means[before] > means[arm] or (means[before] == means[arm] and before < arm):
                break
            order[j + 1] = before
            j -= 1
        order[j + 1] = arm


@helper
def bound(race: Race, s: float, n: float, t: float, upper: bool) -> float:
    """One end of an arm's confidence interval; of all means where it was never played."""
    if n == 0.0:
        return families.supremum(race.family) if upper else families.infimum(race.family)
    x = rates.threshold(race.rate, s, n, t) / n
    if upper:
        return balls.upper(race.ball, race.family, s / n, x)
    return balls.lower(race.ball, race.family, s / n, x)


@helper
def doubt(order: Ints, best: int, lower: Floats, upper: Floats) -> tuple[int, int]:
    """The leader with the smallest lower bound, and the other arm with the largest upper bound.

    Of equal bounds, the arm nearest to the border between leaders and others.
    """
    weakest = order[best - 1]
    for i in range(best - 2, -1, -1):
        if lower[order[i]] < lower[weakest]:
            weakest = order[i]
    strongest = order[best]
    for i in range(best + 1, order.size):
        if upper[order[i]] > upper[strongest]:
            strongest = order[i]
    return weakest, strongest


@brief
def survey(race: Race, sums: Floats, pulls: Floats, t: float, lower: Floats, upper: Floats) -> tuple[int, int]:
    """Write every arm's bounds, and return the two arms in doubt."""
    means = np.empty(sums.size)
    for i in range(sums.size):
        means[i] = sums[i] / pulls[i] if pulls[i] > 0.0 else -math.inf
        lower[i] = bound(race, sums[i], pulls[i], t, False)
        upper[i] = bound(race, sums[i], pulls[i], t, True)
    order = np.arange(sums.size)
    sort_by_mean(order, means)
    return doubt(order, race.best, lower, upper)


# Successive accepts and rejects ------------------------------------------------------------------------


def schedule(arms: int, budget: int) -> Ints:
    """Plays that each arm still in the race has at the end of each phase (Bubeck, Wang & Viswanathan 2013).

    n_k = ⌈(budget − K)/(loḡK·(K + 1 − k))⌉ with loḡK = ½ + ½ + … (1/2 + Σ 1/i from i = 2), k = 1, …, K − 1.

    >>> schedule(4, 100).tolist()
    [16, 21, 31]
    """
    total = 0.5 + sum(1.0 / i for i in range(2, arms + 1))
    return np.array([math.ceil((budget - arms) / (total * (arms + 1 - k))) for k in range(1, arms)], np.int64)


@brief
def decide(means: Floats, left: int) -> tuple[int, bool]:
    """Of the arms still in the race, of which ``left`` are to be accepted, the one to decide now, and whether it is in.

    The best arm is compared with the first that would be out, the worst with the last that would be in: the wider of
    the two gaps decides.
    """
    order = np.arange(means.size)
    sort_by_mean(order, means)
    first, last = order[0], order[-1]
    accepted = means[first] - means[order[left]] > means[order[left - 1]] - means[last]
    return (first if accepted else last), accepted
