"""Experiments of two variants as they happen, looked at again and again: how often something wrong was said of them.

Every situation is played with equal variants and with one that is better by a tenth, and read in two ways: as if it
were simple, and as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.experiment import Clusters, Pages, Phase, Totals
from hellinger.experiment._clusters import half_width, log_evidence, measured
from hellinger.experiment._crossing import finish
from hellinger.experiment._mixture import Wealth, mixed, paired
from hellinger.experiment._sides import Side, pooled, sides
from hellinger.experiment.sequences import _least

__all__ = ["SITUATIONS", "Reading", "Situation", "play"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
SLOTS, LOOKS, BUCKETS, WINDOW = 10, 100, 1024, 4000
RATE, LIFT = 0.05, 0.1
LEVEL = math.log(2 / 0.05)
"""Of the evidence: for two variants, a verdict and the end of a lift's interval ask for the same."""
NAMES = ("a", "b")


class Run(NamedTuple):
    """What happened, an entry a ranking, in order of time."""

    variant: Integers
    reward: Integers
    rate: Floats
    """Mean reward an impression, over all users alike."""
    phase: Integers
    weights: tuple[tuple[float, float], ...]
    """Of each phase."""
    delay: Integers
    """After how many further rankings the reward came."""
    bucket: Integers


def simple(rng: np.random.Generator, rankings: int, lift: float) -> Run:
    """Every impression clicked alike, and at once."""
    variant = rng.integers(0, 2, rankings)
    rate = _lifted(np.full(rankings, RATE), variant, lift)
    return _run(rng, variant, rate)


def clumped(rng: np.random.Generator, rankings: int, lift: float) -> Run:
    """Each page has a reader of its own, who clicks much or not at all."""
    variant = rng.integers(0, 2, rankings)
    own = _lifted(rng.beta(0.5, 9.5, rankings), variant, lift)
    return _run(rng, variant, own)._replace(rate=_lifted(np.full(rankings, RATE), variant, lift))


def delayed(rng: np.random.Generator, rankings: int, lift: float) -> Run:
    """The readers of the first answer within a tenth of the window, those of the second at any time within it."""
    run = simple(rng, rankings, lift)
    return run._replace(delay=(rng.random(rankings) * np.where(run.variant == 0, 0.1, 1.0) * WINDOW).astype(np.int64))


def ramp(rng: np.random.Generator, rankings: int, lift: float) -> Run:
    """From 1 % to 10 % to 50 %, while the rate of both falls by half."""
    phase = np.minimum(np.arange(rankings) * 3 // rankings, 2)
    weights = ((1.0, 99.0), (1.0, 9.0), (1.0, 1.0))
    share = np.array([first / (first + second) for first, second in weights])
    variant = (rng.random(rankings) >= share[phase]).astype(np.int64)
    rate = _lifted(np.array([0.06, 0.045, 0.03])[phase], variant, lift)
    return _run(rng, variant, rate)._replace(phase=phase, weights=weights)


def sticky(each: int, a: float, b: float) -> Callable[[np.random.Generator, int, float], Run]:
    """Users who come again at random times, so many times each on average, with rates of their own."""

    def play(rng: np.random.Generator, rankings: int, lift: float) -> Run:
        users = rankings // each
        variants, rates, buckets = rng.integers(0, 2, users), rng.beta(a, b, users), rng.integers(0, BUCKETS, users)
        user = rng.integers(0, users, rankings)
        variant = variants[user]
        run = _run(rng, variant, _lifted(rates[user], variant, lift))
        return run._replace(rate=_lifted(np.full(rankings, a / (a + b)), variant, lift), bucket=buckets[user])

    return play


def _lifted(rate: Floats, variant: Integers, lift: float) -> Floats:
    return np.asarray(np.minimum(rate * (1.0 + lift * (variant == 0)), 1.0))


def _run(rng: np.random.Generator, variant: Integers, rate: Floats) -> Run:
    nothing = np.zeros(variant.size, dtype=np.int64)
    return Run(variant, rng.binomial(SLOTS, rate), rate, nothing, ((1.0, 1.0),), nothing, nothing)


# Readings ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How a situation is read."""

    words: str
    pages: bool = True
    """By page; else by impression."""
    phases: bool = True
    """Each phase by itself; else all together."""
    matured: bool = True
    """Only rankings whose window has passed, where rewards are delayed at all."""
    clusters: bool = False


class Look(NamedTuple):
    """What a reading gives at each look of a run."""

    leads: npt.NDArray[np.bool_]
    """Whether the first is said to lead."""
    trails: npt.NDArray[np.bool_]
    misses: npt.NDArray[np.bool_]
    """Whether the lift's interval leaves the true one out."""
    off: npt.NDArray[np.bool_]
    """Whether that of a rate does; a column a variant."""


def _looks(rankings: int) -> Integers:
    return np.unique(np.geomspace(200, rankings, LOOKS).astype(np.int64))


def read(run: Run, reading: Reading, lift: float) -> Look:
    """Read a run at every look."""
    if reading.clusters:
        return _by_user(run, lift)
    at = _looks(run.variant.size)
    phase = run.phase if reading.phases else np.zeros_like(run.phase)
    weights = run.weights if reading.phases else ((1.0, 1.0),)
    shape = (at.size + 1, len(weights), 2)
    time = np.arange(run.variant.size)
    window = WINDOW if run.delay.any() else 0
    shown = np.searchsorted(at, time + 1 + (window if reading.matured else 0))
    earned = shown if reading.matured else np.searchsorted(at, time + 1 + run.delay)

    def summed(look: Integers, values: npt.NDArray[np.generic] | None = None) -> Floats:
        cells = np.bincount(np.ravel_multi_index((look, phase, run.variant), shape), values, math.prod(shape))
        return np.asarray(cells.reshape(shape)[:-1].cumsum(axis=0), dtype=float)

    requests, means = summed(shown), summed(shown, SLOTS * run.rate)
    reward, squares = summed(earned, run.reward), summed(earned, run.reward * run.reward)
    most = np.zeros(shape)
    np.maximum.at(most, (earned, phase, run.variant), run.reward)
    most = np.maximum.accumulate(most, axis=0)
    pairs, rates, truths = [], [], []
    for k in range(at.size):
        phases = [
            Phase(
                dict(zip(NAMES, weights[p], strict=True)),
                tuple(
                    _totals(
                        NAMES[v], requests[k, p, v], reward[k, p, v], squares[k, p, v], most[k, p, v], reading.pages
                    )
                    for v in range(2)
                ),
            )
            for p in range(len(weights))
        ]
        pairs.append(sides(phases, *NAMES))
        rates += [Side.of(totals) for totals in pooled(phases)]
        truths += [*means[k].sum(axis=0)]
    one, other = Wealth.of([pair[0] for pair in pairs]), Wealth.of([pair[1] for pair in pairs])
    truth = math.log1p(lift)
    enough = (requests.sum(axis=1).min(axis=1) >= 100) & (reward.sum(axis=(1, 2)) >= 30)
    leads, trails = _above(other, one, 0.0), _above(one, other, 0.0)
    misses = _above(other, one, -truth) | _above(one, other, truth)
    return Look(leads & enough, trails & enough, misses, _rates_off(Wealth.of(rates), np.array(truths)).reshape(-1, 2))


def _totals(name: str, requests: float, reward: float, squares: float, most: float, by_page: bool) -> Totals:
    pages = Pages(int(requests), squares, SLOTS if requests else 0, most) if by_page else None
    return Totals(name, int(requests), SLOTS * int(requests), reward, pages)


def _above(down: Wealth, up: Wealth, log_ratio: float) -> npt.NDArray[np.bool_]:
    """Where the bets have ruled out that the first's rate is so many times the second's, or more."""
    ratio = math.exp(log_ratio)
    rate = (down.reward + up.reward + 1.0) / (ratio * down.impressions + up.impressions + 2.0)
    # the least wealth along a ray is not above what it is anywhere on it
    out = paired(down, up, ratio * rate * down.impressions, rate * up.impressions)[0] > LEVEL
    rows = np.flatnonzero(out)
    if rows.size:
        out[rows] = finish(_least(down[rows], up[rows], np.full(rows.size, log_ratio), rate[rows]))[0] > LEVEL
    return np.asarray(out)


def _rates_off(wealth: Wealth, means: Floats) -> npt.NDArray[np.bool_]:
    return np.asarray((mixed(wealth.up(means))[0] > LEVEL) | (mixed(wealth.down(means))[0] > LEVEL))


def _by_user(run: Run, lift: float) -> Look:
    at = _looks(run.variant.size)
    shape = (at.size + 1, 2, BUCKETS)
    cell = np.ravel_multi_index((np.searchsorted(at, np.arange(run.variant.size) + 1), run.variant, run.bucket), shape)
    n, y = (
        np.asarray(np.bincount(cell, values, math.prod(shape)).reshape(shape)[:-1].cumsum(axis=0), dtype=float)
        for values in (np.full(cell.size, float(SLOTS)), run.reward)
    )
    variants = [Clusters(n[:, v], y[:, v]) for v in range(2)]
    estimate, information = measured(*variants)
    misses = np.abs(estimate - math.log1p(lift)) > half_width(information, 0.05)
    off = []
    for v in range(2):
        rate, known = measured(variants[v])
        off.append(np.abs(rate - math.log(run.rate[run.variant == v][0])) > half_width(known, 0.05))
    return Look(
        log_evidence(estimate, information) > LEVEL,
        log_evidence(-estimate, information) > LEVEL,
        misses,
        np.stack(off, axis=1),
    )


# Situations --------------------------------------------------------------------------------------------


class Situation(NamedTuple):
    """A law, and how it was read and is."""

    words: str
    law: Callable[[np.random.Generator, int, float], Run]
    rankings: int
    readings: Sequence[Reading]


SITUATIONS = {
    "immediate": Situation("independent clicks, at once", simple, 40_000, [Reading("by page")]),
    "clumped": Situation(
        "clicks clumped within a page", clumped, 40_000, [Reading("by impression", pages=False), Reading("by page")]
    ),
    "delayed": Situation(
        "clicks delayed, up to a window of 4,000 rankings",
        delayed,
        40_000,
        [Reading("all rankings", matured=False), Reading("matured rankings")],
    ),
    "ramp": Situation(
        "ramp 1 → 10 → 50 % while the base rate halves",
        ramp,
        60_000,
        [Reading("pooled", phases=False), Reading("by phase")],
    ),
    "sticky30": Situation(
        "sticky, 30 rankings a user, rates Beta(0.5, 9.5)",
        sticky(30, 0.5, 9.5),
        120_000,
        [Reading("by page"), Reading("by user", clusters=True)],
    ),
    "sticky10": Situation(
        "sticky, 10 rankings a user, rates Beta(2, 38)",
        sticky(10, 2.0, 38.0),
        120_000,
        [Reading("by page"), Reading("by user", clusters=True)],
    ),
}


class Result(NamedTuple):
    """Shares of runs."""

    verdicts: float
    """With a leader named, at any look, where there is none."""
    lifts: float
    """Whose lift interval ever left the truth out; the greater share of those of equal and of unequal variants."""
    rates: float
    """The same for the interval of a rate."""
    decided: float
    """With the better one named by the end."""
    rankings: float
    """Median of rankings until then; ∞ if most are undecided."""


def play(situation: Situation, runs: int, *, seed: int) -> list[Result]:
    """Play a situation, a result for each reading."""
    at = _looks(situation.rankings)
    equal: list[list[Look]] = [[] for _ in situation.readings]
    better: list[list[Look]] = [[] for _ in situation.readings]
    for number in range(runs):
        for lift, looks in ((0.0, equal), (LIFT, better)):
            run = situation.law(np.random.default_rng((seed, number, int(lift > 0.0))), situation.rankings, lift)
            for reading, found in zip(situation.readings, looks, strict=True):
                found.append(read(run, reading, lift))
    results = []
    for same, other in zip(equal, better, strict=True):
        until = [float(at[look.leads.argmax()]) if look.leads.any() else math.inf for look in other]
        results.append(
            Result(
                float(np.mean([(look.leads | look.trails).any() for look in same])),
                max(float(np.mean([look.misses.any() for look in looks])) for looks in (same, other)),
                max(float(np.mean([look.off.any(axis=0) for look in looks])) for looks in (same, other)),
                float(np.mean(np.isfinite(until))),
                float(np.median(until)),
            )
        )
    return results
