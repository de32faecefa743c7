"""What the figures of an experiment say: a leaderboard, a check of the split, and one plain sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hellinger.errors import require
from hellinger.experiment._crossing import Steps, finish
from hellinger.experiment.best import probability_best
from hellinger.experiment.ratio import SampleRatio, sample_ratio
from hellinger.experiment.sequences import evidence_steps, lift_steps, rate_bounds
from hellinger.experiment.totals import Totals
from hellinger.experiment.verdict import Duel, Verdict, judge

__all__ = ["Readout", "Row", "readout", "readout_steps"]

_Lift = tuple[float | None, float | None, float | None]


class Row(NamedTuple):
    """One variant's line of the leaderboard. What cannot be said yet is None."""

    variant: str
    requests: int
    impressions: int
    reward: float
    rate: float | None
    low: float
    high: float
    """Anytime-valid ends of the rate."""
    lift: float | None
    """Rate over the control's, less 1; None for the control itself."""
    lift_low: float | None
    lift_high: float | None
    """Anytime-valid ends of the lift; no upper end (None) while the control's rate may be 0."""
    probability_best: float
    share: float | None
    """Of all requests."""
    intended: float
    """The share it was meant to have."""
    design_effect: float
    """How many times the variance of the reward is that of independent impressions."""


class Readout(NamedTuple):
    """An experiment as it stands, best variant first."""

    variants: tuple[Row, ...]
    control: str | None
    alpha: float
    check: SampleRatio | None
    """None where the split is sticky and users were not counted."""
    verdict: Verdict

    @property
    def sentence(self) -> str:
        """What it all says, in a sentence."""
        return self.verdict.sentence

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON can hold it."""
        return {
            "variants": [row._asdict() for row in self.variants],
            "control": self.control,
            "confidence": 1.0 - self.alpha,
            "sample_ratio": None if self.check is None else self.check._asdict(),
            "verdict": self.verdict.kind,
            "sentence": self.sentence,
        }


def readout(
    totals: Sequence[Totals],
    *,
    weights: Mapping[str, float] | None = None,
    control: str | None = None,
    alpha: float = 0.05,
    sticky: bool = False,
) -> Readout:
    """Read an experiment.

    Parameters
    ----------
    totals
        What was counted of each variant.
    weights
        How traffic was meant to be split, as for :class:`~hellinger.experiment.Split`; evenly unless given.
    control
        The variant that lifts are over; the last one unless given.
    alpha
        An interval ever misses what it is for with at most this probability.
    sticky
        Whether users kept their variant. Requests of one user then fall together, and the check of the split counts
        ``Totals.users`` instead; without them there is none.

    Examples
    --------
    >>> result = readout([
    ...     Totals("hellinger-ucb", 100_000, 2_000_000, 123_000),
    ...     Totals("kl-ucb", 100_200, 2_004_000, 100_200),
    ... ])
    >>> result.sentence
    'Hellinger-UCB leads KL-UCB by 23 % (21–25 %); more data will not change the order.'
    """
    return finish(readout_steps(totals, weights=weights, control=control, alpha=alpha, sticky=sticky))


def readout_steps(
    totals: Sequence[Totals],
    *,
    weights: Mapping[str, float] | None = None,
    control: str | None = None,
    alpha: float = 0.05,
    sticky: bool = False,
) -> Steps[Readout]:
    """:func:`readout` in steps of about a millisecond, for whoever has other things to do as well."""
    names = [each.variant for each in totals]
    require(len(set(names)) == len(names), "variants differ", variants=names)
    require(control is None or control in names, "the control is one of the variants", control=control, variants=names)
    weights = dict.fromkeys(names, 1.0) if weights is None else weights
    require(set(names) <= set(weights), "every variant has a weight", variants=names, weights=list(weights))
    if not totals:
        return Readout((), None, alpha, None, judge((), (), None, alpha))

    ranked = sorted(totals, key=lambda each: -each.rate if each.impressions else math.inf)
    against = next(each for each in totals if each.variant == (names[-1] if control is None else control))
    running = [each for each in ranked if each.impressions or weights[each.variant] > 0.0]
    duels, lifts = yield from _compare(ranked, running, against, alpha)
    check = _check(totals, weights, sticky)
    yield
    rows = yield from _rows(ranked, lifts, weights, alpha)
    return Readout(rows, against.variant, alpha, check, judge(running, duels, check, alpha))


def _compare(
    ranked: Sequence[Totals], running: Sequence[Totals], control: Totals, alpha: float
) -> Steps[tuple[list[Duel], dict[str, _Lift]]]:
    """The leader against every other and each against the next, and everyone's lift over the control."""
    pairs = [(running[0], other) for other in running[1:]] + list(pairwise(running[1:]))
    over = [(one, control) for one in ranked if one is not control]
    if not over:
        return [], {}
    bounds = yield from lift_steps(*_sides([*over, *pairs[:1]]), alpha)
    ends = [(float(low), float(high)) for low, high in zip(*bounds, strict=True)]
    lifts: dict[str, _Lift] = {
        one.variant: (_finite(_lift(one, control)), low, _finite(high))
        for (one, _), (low, high) in zip(over, ends, strict=False)
    }
    evidence = (yield from evidence_steps(*_sides(pairs))) if pairs else ()
    duels = [
        Duel(one, other, _lift(one, other), ends[-1] if place == 0 else None, float(evidence[place]))
        for place, (one, other) in enumerate(pairs)
    ]
    return duels, lifts


def _sides(pairs: Sequence[tuple[Totals, Totals]]) -> tuple[list[Totals], list[Totals]]:
    return [one for one, _ in pairs], [other for _, other in pairs]


def _lift(one: Totals, other: Totals) -> float:
    if not one.impressions or not other.impressions:
        return math.nan
    if other.rate == 0.0:
        return math.inf if one.rate > 0.0 else math.nan
    return one.rate / other.rate - 1.0


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _check(totals: Sequence[Totals], weights: Mapping[str, float], sticky: bool) -> SampleRatio | None:
    if not sticky:
        return sample_ratio({each.variant: each.requests for each in totals}, weights)
    users = {each.variant: each.users for each in totals if each.users is not None}
    return sample_ratio(users, weights) if len(users) == len(totals) else None


def _rows(
    ranked: Sequence[Totals],
    lifts: Mapping[str, _Lift],
    weights: Mapping[str, float],
    alpha: float,
) -> Steps[tuple[Row, ...]]:
    lows, highs = rate_bounds(ranked, alpha=alpha)
    yield
    chances = probability_best(
        [each.reward / each.design_effect for each in ranked],
        [(each.impressions - each.reward) / each.design_effect for each in ranked],
    )
    requests, whole = sum(each.requests for each in ranked), math.fsum(weights.values())
    return tuple(
        Row(
            each.variant,
            each.requests,
            each.impressions,
            each.reward,
            _finite(each.rate),
            float(low),
            float(high),
            *lifts.get(each.variant, (None, None, None)),
            float(chance),
            each.requests / requests if requests else None,
            weights[each.variant] / whole,
            each.design_effect,
        )
        for each, low, high, chance in zip(ranked, lows, highs, chances, strict=True)
    )
