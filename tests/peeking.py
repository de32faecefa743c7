"""Experiments in which nothing is to be found, looked at a thousand times each, and how often something was found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv, xlogy
from scipy.stats import chi2

from hellinger.experiment import sample_ratio
from hellinger.experiment._crossing import finish
from hellinger.experiment._mixture import Wealth, mixed
from hellinger.experiment.sequences import _least

Floats = npt.NDArray[np.float64]
SLOTS = 20
PEEKS = 1000
LEVEL = math.log(2 / 0.05)


@dataclass(frozen=True)
class Path:
    """One variant of many experiments, at every peek: arrays of runs by peeks."""

    requests: Floats
    reward: Floats
    squares: Floats
    most: Floats
    means: Floats
    """Sum of the means of requests given what was before them: what an interval has to cover."""

    def wealth(self, by_request: bool) -> Wealth:
        """The bets at every peek of every run, in one long array."""
        n = self.requests.ravel() * SLOTS
        one = np.ones_like(n)
        if by_request:
            columns = (self.requests.ravel(), n, self.reward.ravel(), self.squares.ravel(), SLOTS * one)
            return Wealth.counted(*columns, self.most.ravel())
        return Wealth.counted(n, n, self.reward.ravel(), self.reward.ravel(), one, one)


def path(clicks: npt.NDArray[np.int64], means: Floats) -> Path:
    """Peeks at even distances along requests' clicks and means, arrays of runs by requests."""
    runs, requests = clicks.shape
    at = np.arange(1, PEEKS + 1) * requests // PEEKS - 1
    return Path(
        np.broadcast_to(at + 1.0, (runs, PEEKS)).copy(),
        np.cumsum(clicks, axis=1)[:, at].astype(float),
        np.cumsum(clicks * clicks, axis=1)[:, at].astype(float),
        np.maximum.accumulate(clicks, axis=1)[:, at].astype(float),
        np.cumsum(means, axis=1)[:, at],
    )


def steady(rng: np.random.Generator, runs: int, requests: int, rate: float) -> Path:
    """Every impression clicked alike, whatever was before."""
    clicks = rng.binomial(SLOTS, rate, (runs, requests))
    return path(clicks, np.full(clicks.shape, SLOTS * rate))


def clumped(rng: np.random.Generator, runs: int, requests: int, rate: float, shape: float) -> Path:
    """Users who click much and users who do not: a request has a rate of its own, from a gamma law."""
    own = np.minimum(rate / shape * rng.standard_gamma(shape, (runs, requests)), 1.0)
    grid = (np.arange(200_000) + 0.5) / 200_000
    law = np.minimum(rate / shape * gammaincinv(shape, grid), 1.0)
    return path(rng.binomial(SLOTS, own), np.full((runs, requests), SLOTS * law.mean()))


def learning(rng: np.random.Generator, runs: int, requests: int, items: int = 10) -> Path:
    """Thompson sampling over items of different rates: what comes next depends on every click before."""
    rates = rng.beta(1.6, 20.0, (runs, items))
    good, bad = np.ones((runs, items)), np.full((runs, items), 10.0)
    every = np.arange(runs)
    clicks, means = np.empty((runs, requests), dtype=np.int64), np.empty((runs, requests))
    for r in range(requests):
        shown = rng.beta(good, bad).argmax(axis=1)
        means[:, r] = SLOTS * rates[every, shown]
        clicks[:, r] = rng.binomial(SLOTS, rates[every, shown])
        good[every, shown] += clicks[:, r]
        bad[every, shown] += SLOTS - clicks[:, r]
    return path(clicks, means)


def missed_rates(one: Path, *, by_request: bool) -> float:
    """Share of runs whose interval for the rate ever missed."""

    def outside(wealth: Wealth, means: Floats) -> npt.NDArray[np.bool_]:
        above, below = wealth.up(means), wealth.down(means)
        out = np.zeros(means.size, dtype=bool)
        for bets in (above, below):
            # no mixture is worth more than the best of its bets: only where that is high must it be made
            rows = np.flatnonzero(bets[0].max(axis=1) > LEVEL)
            if rows.size:
                out[rows] |= mixed((bets[0][rows], bets[1][rows]))[0] > LEVEL
        return out

    wealth, means = one.wealth(by_request), one.means.ravel()
    return _ever([outside(wealth[part], means[part]) for part in _parts(means.size)])


def missed_lifts(one: Path, other: Path, *, by_request: bool) -> float:
    """Share of runs whose interval for the lift ever missed."""

    def outside(down: Wealth, up: Wealth, a: Floats, b: Floats) -> npt.NDArray[np.bool_]:
        # nor is the least along a ray above what it is at the truth
        out = down.down(a)[0].max(axis=1) + up.up(b)[0].max(axis=1) > LEVEL
        rows = np.flatnonzero(out)
        if rows.size:
            p, q = (a / down.impressions)[rows], (b / up.impressions)[rows]
            out[rows] = finish(_least(down[rows], up[rows], np.log(p / q), q))[0] > LEVEL
        return np.asarray(out)

    x, y = one.wealth(by_request), other.wealth(by_request)
    a, b = one.means.ravel(), other.means.ravel()
    parts = _parts(a.size)
    return _ever([outside(x[p], y[p], a[p], b[p]) | outside(y[p], x[p], b[p], a[p]) for p in parts])


def _parts(size: int) -> list[slice]:
    return [slice(start, start + PEEKS) for start in range(0, size, PEEKS)]


def _ever(runs: list[npt.NDArray[np.bool_]]) -> float:
    return float(np.mean([run.any() for run in runs]))


def split_alarms(rng: np.random.Generator, runs: int, requests: int, weights: dict[str, float]) -> tuple[float, float]:
    """Share of runs in which the check of the split ever rang, and in which a repeated likelihood-ratio test did."""
    shares = np.array(list(weights.values())) / sum(weights.values())
    rang = repeated = 0
    for _ in range(runs):
        counts = rng.multinomial(requests // PEEKS, shares, PEEKS).cumsum(axis=0)
        total = counts.sum(axis=1, keepdims=True)
        statistic = 2.0 * xlogy(counts, counts / (total * shares)).sum(axis=1)
        # no mixture of likelihoods is above the greatest: the check cannot ring where the repeated test does not
        high = np.flatnonzero(statistic > chi2.isf(0.001, shares.size - 1))
        repeated += bool(high.size)
        rang += any(sample_ratio(dict(zip(weights, counts[k].tolist(), strict=True)), weights).alarm for k in high)
    return rang / runs, repeated / runs
