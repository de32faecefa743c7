"""How many samples it takes to identify the best arms, and how often the answer is wrong: many runs, compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger._jit import helper, is_own, jit
from hellinger._random import word
from hellinger.errors import require
from hellinger.families import Family
from hellinger.families import _dispatch as d
from hellinger.identification import rates
from hellinger.identification.finder import make_race
from hellinger.identification.race import Race, bound, decide, doubt, schedule, sort_by_mean
from hellinger.lab._block import reward_streams
from hellinger.lab.problem import Problem
from hellinger.world.runs import Progress, get_engine, run, run_key

__all__ = ["BALLS", "DELTA", "SEARCH", "Identified", "IdentifyBlock", "identify", "places", "plot"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

BALLS = ("kl", "hellinger", "gaussian")
"""Shapes of intervals that are compared unless others are named."""
DELTA = 0.05
"""Probability with which an answer may be wrong unless another is given."""
SEARCH = "accepts and rejects"
"""The name of the method with a fixed budget."""
_BLOCK = 25
"""Runs that are played in one task."""


class Identified(NamedTuple):
    """What came of many runs of one method."""

    method: str
    ball: str
    rate: str
    runs: int
    samples: float
    """Mean over runs."""
    error: float
    """Standard error of that mean."""
    wrong: int
    """Runs with a wrong answer."""
    unfinished: int
    """Runs that reached the largest number of samples without an answer."""


class _Outcome(NamedTuple):
    samples: Ints
    wrong: Ints
    unfinished: Ints


@helper
def _draw(family: Family, means: Floats, streams: Words, arm: int, sums: Floats, pulls: Floats) -> None:
    sums[arm] += d.draw(family, means[arm], word(streams[arm], np.uint64(pulls[arm])))
    pulls[arm] += 1.0


@jit
def play_race(race: Race, epsilon: float, means: Floats, streams: Words, most: int, pulls: Floats, order: Ints) -> bool:
    """One run with fixed confidence: write plays, and arms by falling mean; tell whether it ended by itself."""
    arms = means.size
    sums, seen, lower, upper = np.zeros(arms), np.empty(arms), np.empty(arms), np.empty(arms)
    for arm in range(arms):
        order[arm] = arm
        _draw(race.family, means, streams, arm, sums, pulls)
        seen[arm] = sums[arm]
        lower[arm] = bound(race, sums[arm], 1.0, 1.0, False)
        upper[arm] = bound(race, sums[arm], 1.0, 1.0, True)
    samples, t = arms, 1.0
    while True:
        sort_by_mean(order, seen)
        if rates.timed(race.rate):  # of an arm only the bound that matters
            for i in range(race.best):
                lower[order[i]] = bound(race, sums[order[i]], pulls[order[i]], t, False)
            for i in range(race.best, arms):
                upper[order[i]] = bound(race, sums[order[i]], pulls[order[i]], t, True)
        weakest, strongest = doubt(order, race.best, lower, upper)
        if upper[strongest] - lower[weakest] <= epsilon:
            return True
        if samples + 2 > most:
            return False
        for arm in (weakest, strongest):
            _draw(race.family, means, streams, arm, sums, pulls)
            seen[arm] = sums[arm] / pulls[arm]
            if not rates.timed(race.rate):
                lower[arm] = bound(race, sums[arm], pulls[arm], t, False)
                upper[arm] = bound(race, sums[arm], pulls[arm], t, True)
        samples += 2
        t += 1.0


@jit
def play_search(family: Family, best: int, phases: Ints, means: Floats, streams: Words, pulls: Floats) -> Ints:
    """One run with a fixed budget: write plays, and return the arms accepted."""
    arms = means.size
    sums = np.zeros(arms)
    race, accepted, found = np.arange(arms), np.zeros(best, np.int64), 0
    for least in phases:
        for arm in race:
            while pulls[arm] < least:
                _draw(family, means, streams, int(arm), sums, pulls)
        if 0 < best - found < race.size:
            place, good = decide(sums[race] / pulls[race], best - found)
            if good:
                accepted[found] = race[place]
                found += 1
            race = np.concatenate((race[:place], race[place + 1 :]))
        if found == best:
            break
        if best - found == race.size:
            accepted[found:] = race
            break
    return accepted


class IdentifyBlock(NamedTuple):
    """Runs ``first`` to ``first + size − 1`` of a method on a problem."""

    method: str
    race: Race | None
    problem: Problem
    best: int
    epsilon: float
    budget: int
    seed: int
    first: int
    size: int

    @property
    def key(self) -> str:
        """A digest of all that determines the outcome."""
        words = (self._replace(problem=None), self.problem.family)  # type: ignore[arg-type]
        return run_key(words, self.problem.means)

    @property
    def lasting(self) -> bool:
        """Whether the outcome may be kept."""
        return is_own(self.problem.family)

    @property
    def steps(self) -> int:
        """Runs."""
        return self.size

    def empty(self) -> _Outcome:
        """Names, shapes and types."""
        return _Outcome(*(np.zeros(self.size, np.int64) for _ in _Outcome._fields))

    def play(self) -> _Outcome:
        """Samples of each run, whether its answer is wrong, and whether it had none."""
        outcome = self.empty()
        arms = self.problem.means.size
        good = np.sort(self.problem.means)[arms - self.best] - self.epsilon
        for i in range(self.size):
            ties = np.random.default_rng([self.seed, self.first + i]).permutation(arms)
            streams = reward_streams(np.uint64(self.seed), np.uint64(self.first + i), ties)
            means, pulls = self.problem.means[ties], np.zeros(arms)
            if self.race is None:
                found = play_search(self.problem.family, self.best, schedule(arms, self.budget), means, streams, pulls)
            else:
                order = np.empty(arms, np.int64)
                ended = play_race(self.race, self.epsilon, means, streams, self.budget, pulls, order)
                outcome.unfinished[i] = not ended
                found = order[: self.best]
            outcome.samples[i] = int(pulls.sum())
            outcome.wrong[i] = bool((means[found] < good).any()) and not outcome.unfinished[i]
        return outcome


def identify(
    means: str | Sequence[float] | Floats,
    *,
    best: int = 1,
    delta: float | None = None,
    epsilon: float = 0.0,
    balls: Sequence[str] | None = None,
    rates: Sequence[str] | None = None,
    budget: int | None = None,
    family: str | families.Family = "bernoulli",
    runs: int = 1000,
    seed: int = 0,
    most: int = 10_000_000,
    engine: str = "local",
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Identified]:
    """Identify the best arms many times, with every ball and rate; with a budget, by successive accepts and rejects.

    The n-th reward of an arm in a run is the same for every method.

    Parameters
    ----------
    means
        True means of the arms: numbers, or text as ``hellinger.simulate`` reads it.
    best, delta, epsilon, family
        As for :class:`~hellinger.Identification`.
    balls, rates
        Every pair of them is a method: all three balls, with the tightest rate that holds, if not given.
    budget
        Instead of confidence: samples of a run; without ``delta``, ``balls`` and ``rates``.
    runs, seed
        How many, and what makes them reproducible.
    most
        Samples after which a run with fixed confidence is given up.
    engine, workers, progress
        As for ``hellinger.simulate``.

    Examples
    --------
    >>> kl, = identify([0.8, 0.2, 0.1], delta=0.05, balls=["kl"], runs=200)
    >>> kl.wrong / kl.runs <= 0.05, kl.unfinished
    (True, 0)
    """
    problem = Problem.make(means, family, seed=seed)
    require(problem.changes is None, "means stay where the best arms are looked for", means=means)
    require(problem.draws is None, "the family draws rewards in compiled code", family=problem.family)
    arms = problem.means.size
    require(1 <= best < arms and best % 1 == 0, "1 <= best < arms, a whole number", best=best, arms=arms)
    require(0 <= epsilon < math.inf, "0 <= epsilon", epsilon=epsilon)
    require(runs >= 1, "1 <= runs", runs=runs)
    require(0 <= seed < 2**63, "0 <= seed < 2^63", seed=seed)
    ordered = np.sort(problem.means)[::-1]
    distinct = budget is not None or epsilon > 0 or ordered[best - 1] > ordered[best]
    require(bool(distinct), "the best arms have larger means than the others, or 0 < epsilon", means=ordered.tolist())
    methods: list[tuple[str, Race | None]] = []
    if budget is not None:
        require(budget > arms, "arms < budget", budget=budget, arms=arms)
        alone = delta is None and balls is None and rates is None
        require(alone, "delta, balls and rates go without a budget", delta=delta, balls=balls, rates=rates)
        methods.append((SEARCH, None))
    else:
        require(most >= arms, "arms <= most", most=most, arms=arms)
        sure = DELTA if delta is None else delta
        widths: Sequence[str | None] = [None] if rates is None else rates
        for rate in widths:
            for ball in BALLS if balls is None else balls:
                race = make_race(problem.family, arms=arms, best=int(best), delta=sure, ball=ball, rate=rate)
                methods.append((f"{race.ball.name}, {race.rate.name}", race))
    blocks = [
        IdentifyBlock(name, race, problem, int(best), epsilon, budget or most, seed, first, min(_BLOCK, runs - first))
        for name, race in methods
        for first in range(0, runs, _BLOCK)
    ]
    parts: dict[str, list[tuple[int, _Outcome]]] = {}
    for block, outcome in run(blocks, get_engine(engine, workers=workers), progress=progress):
        parts.setdefault(block.method, []).append((block.first, outcome))
    return [_summary(name, race, sorted(parts[name], key=lambda part: part[0])) for name, race in methods]


def _summary(name: str, race: Race | None, parts: list[Any]) -> Identified:
    samples, wrong, unfinished = (np.concatenate(each) for each in zip(*(part for _, part in parts), strict=True))
    spread = float(samples.std(ddof=1)) / math.sqrt(samples.size) if samples.size > 1 else math.nan
    ball, rate = ("", "") if race is None else (race.ball.name, race.rate.name)
    mean = float(samples.mean())
    return Identified(name, ball, rate, samples.size, mean, spread, int(wrong.sum()), int(unfinished.sum()))


def plot(results: Sequence[Identified], *, lower: float | None = None, title: str = "") -> Any:
    """Draw each method's samples with a 95 % interval, and the lower bound."""
    from hellinger import figures

    return figures.draw_ranking(places(results), title=title, what="samples ± 95 %", unit="mean", lower=lower)


def places(results: Sequence[Identified]) -> list[Any]:
    """What is drawn of each method."""
    from hellinger import figures

    ends = [(r, 1.96 * r.error if r.runs > 1 else 0.0) for r in results]
    return [figures.Place(r.method, r.samples, r.samples - half, r.samples + half) for r, half in ends]
