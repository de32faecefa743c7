"""Which items are surely among the best, from counts that anyone gathered in any way, while items arrive.

A race has so many arms and asks for them in turn. Here items come at any time, whoever likes shows them, and some
rewards are not known yet.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger._jit import jit
from hellinger.errors import require
from hellinger.families import Family
from hellinger.identification import rates
from hellinger.identification.rates import BetaRate, Rate
from hellinger.policies import _dispatch as _ball
from hellinger.policies import balls
from hellinger.policies.balls import Ball

__all__ = ["Certainty", "WorthRate", "arriving_bounds", "certainty", "log_shares"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_ALL = 2.109742801236892
"""Σ 1/(k·log² k) over k = 2, 3, …"""


class WorthRate(Rate):
    """Holds for all n at once, for rewards in [0, 1] whose mean is μ·w, w ≤ 1 known before: n is the sum of all w.

    E exp(λX) ≤ 1 + μw(e^λ − 1) ≤ exp(μw(e^λ − 1)), so that likelihood ratios of Poisson rewards are supermartingales.
    Mixed over rates with density e^(−q), Ville's inequality bounds how far it ever rises. With the Poisson family's
    divergence; for small rates hardly wider than :class:`BetaRate`.
    """

    __slots__ = ()
    name = "worth"
    formula = "log(1/δ) + s·log m − s − log Γ(1+s) + (1+s)·log(1+n), m = s/n"
    reference = "Robbins 1970; Ville 1939 (an exponential mixture of Poisson likelihoods)"

    def _threshold(self, s: float, n: float, t: float) -> float:
        most = s * math.log(s / n) - s if s > 0.0 else 0.0
        return self.scale * (self.constant + (most - math.lgamma(1.0 + s) + (1.0 + s) * math.log1p(n)))


def log_shares(places: npt.NDArray[np.int64], delta: float) -> Floats:
    """log(1/δ_k), δ_k = δ/(2.11·(k + 1)·log²(k + 1)), for items that arrived at the places k = 1, 2, ….

    All δ_k together are δ, however many items will arrive, and an item's own never changes. For a million items this is
    log 10⁶ + 6, little more than if their number had been known (log 10⁶); δ/(k·(k + 1)) would be 2·log 10⁶.

    >>> log_shares(np.array([1, 10, 10**6]), 0.05).round(1).tolist()
    [3.7, 7.9, 22.8]
    """
    logs = np.log1p(np.asarray(places, np.float64))
    shares: Floats = math.log(_ALL / delta) + logs + 2.0 * np.log(logs)
    return shares


@jit
def _bounds(
    family: Family,
    ball: Ball,
    rate: Rate,
    counts: tuple[Floats, Floats, Floats],
    logs: Floats,
    lower: Floats,
    upper: Floats,
) -> None:
    least, most, pulls = counts
    for i in range(pulls.size):
        n = pulls[i]
        if n == 0.0:
            lower[i], upper[i] = 0.0, 1.0
            continue
        x = (rates.threshold(rate, least[i], n, 0.0) + logs[i]) / n
        lower[i] = _ball.lower(ball, family, least[i] / n, x)
        x = (rates.threshold(rate, most[i], n, 0.0) + logs[i]) / n
        upper[i] = min(1.0, _ball.upper(ball, family, most[i] / n, x))


def arriving_bounds(
    least: Floats,
    most: Floats,
    pulls: Floats,
    *,
    places: npt.NDArray[np.int64],
    delta: float,
    weighted: bool = False,
) -> tuple[Floats, Floats]:
    """Lower and upper bounds of items' mean rewards in [0, 1].

    With probability 1 − δ all means are within theirs at all times, whoever decided by whatever was known which item to
    show. The rate is ``beta``, or :class:`WorthRate` where rewards are weighted, with a δ of each item's own
    (:func:`log_shares`).

    Parameters
    ----------
    least, most
        Sums of rewards: what is known, and what it may still become. Both bounds rise with the sum, so the lower one of
        the least and the upper one of the most hold whatever it becomes.
    pulls
        How many rewards they are sums of.
    places
        When each item arrived, a different whole number from 1 on for each that ever did.
    weighted
        Whether ``pulls`` are sums of what each reward is worth: the mean of one is the item's, times that.
    """
    require(0 < delta < 1, "0 < delta < 1", delta=delta)
    lower, upper = np.empty((2, pulls.size))
    known, possible, n = (np.ascontiguousarray(each, np.float64) for each in (least, most, pulls))
    law, rate = (families.Poisson(), WorthRate(1.0, 0.0)) if weighted else (families.Bernoulli(), BetaRate(1.0, 0.0))
    _bounds(law, balls.get("kl"), rate, (known, possible, n), log_shares(places, delta), lower, upper)
    return lower, upper


class Certainty(NamedTuple):
    """What bounds say of each item."""

    certain: Flags
    """Surely one of the best, or at most ε below them."""
    excluded: Flags
    """Surely none of the best."""


def certainty(lower: Floats, upper: Floats, *, best: int, epsilon: float = 0.0) -> Certainty:
    """Which items are surely among the ``best``, in time that grows with their number alone.

    An item is in if fewer than ``best`` others can have a mean more than ε above its lower bound, and out if as many
    surely have more than it can.

    >>> certainty(np.array([0.5, 0.2, 0.1, 0.0]), np.array([0.6, 0.4, 0.3, 0.15]), best=2).certain.tolist()
    [True, False, False, False]
    """
    require(best >= 1 and best % 1 == 0, "1 <= best, a whole number", best=best)
    require(0 <= epsilon < math.inf, "0 <= epsilon", epsilon=epsilon)
    if lower.size <= best:
        return Certainty(np.ones(lower.size, np.bool_), np.zeros(lower.size, np.bool_))
    last, following = -np.partition(-upper, (best - 1, best))[best - 1 : best + 1]
    # of the others: an item that is itself among the largest leaves its place to the next
    rival = np.where(upper >= last, following, last)
    certain = rival <= lower + epsilon
    least = -np.partition(-lower, best - 1)[best - 1]
    return Certainty(certain, (upper < least) & ~certain)
