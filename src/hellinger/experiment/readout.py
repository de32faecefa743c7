"""What the figures of an experiment say: a leaderboard, a check of the split, and one plain sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hellinger.errors import require
from hellinger.experiment._crossing import Steps, finish
from hellinger.experiment._sides import Side, pooled, shares, sides, standardised
from hellinger.experiment.best import probability_best
from hellinger.experiment.ratio import SampleRatio, phased_ratio, sample_ratio
from hellinger.experiment.sequences import evidence_steps, lift_steps, rate_bounds
from hellinger.experiment.totals import Phase, Totals
from hellinger.experiment.verdict import Duel, Verdict, judge

__all__ = ["Readout", "Row", "readout", "readout_steps"]

_Lift = tuple[float | None, float | None, float | None]


class Row(NamedTuple):
    """One variant's line of the leaderboard. What is not known yet is None."""

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
    """Of all requests, final or not."""
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
    totals: Sequence[Totals] | Sequence[Phase],
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
        What was counted of each variant, or a sequence of phases, a new one from each change of the weights. Rankings
        count once their reward is final (:class:`Totals`). With phases, variants are compared within each, so that one
        that had its traffic on good days is not taken for better; rates are over all phases.
    weights
        How traffic was meant to be split, as for :class:`~hellinger.experiment.Split`; evenly unless given. Phases have
        their own.
    control
        The variant that lifts are over; the last one (of the last phase) unless given.
    alpha
        An interval ever misses what it is for with at most this probability.
    sticky
        Whether users kept their variant. Requests of one user then fall together, and the check of the split counts
        ``Totals.users`` instead; without them there is none. Intervals are for users at large where there are
        ``Totals.clusters``.

    Examples
    --------
    >>> result = readout([
    ...     Totals("hellinger-ucb", 100_000, 2_000_000, 123_000),
    ...     Totals("kl-ucb", 100_200, 2_004_000, 100_200),
    ... ])
    >>> result.sentence
    'Hellinger-UCB leads KL-UCB by 23 % (21–25 %) so far; chance does not explain it. A slower learner may ...'
    """
    return finish(readout_steps(totals, weights=weights, control=control, alpha=alpha, sticky=sticky))


def readout_steps(
    totals: Sequence[Totals] | Sequence[Phase],
    *,
    weights: Mapping[str, float] | None = None,
    control: str | None = None,
    alpha: float = 0.05,
    sticky: bool = False,
) -> Steps[Readout]:
    """:func:`readout` in steps of about a millisecond, for an event loop that has other things to do as well."""
    require(0.0 < alpha < 1.0, "0 < alpha < 1", alpha=alpha)
    phases, single = _phases(totals, weights)
    counts = pooled(phases)
    names = [each.variant for each in counts]
    require(control is None or control in names, "the control is one of the variants", control=control, variants=names)
    if not counts:
        return Readout((), None, alpha, None, judge((), (), None, alpha))

    def compared(one: Totals, other: Totals) -> tuple[Side, Side]:
        if single:
            return Side.of(one), Side.of(other)
        return sides(phases, one.variant, other.variant)

    alike = {each.variant: (each.reward, float(each.impressions)) for each in counts}
    if not single:
        alike = dict.fromkeys(alike, (0.0, 0.0)) | standardised(phases)
    ranked = sorted(counts, key=lambda each: _place(each, *alike[each.variant]))
    if control is None:
        control = next(phase.totals[-1].variant for phase in reversed(phases) if phase.totals)
    against = next(each for each in counts if each.variant == control)
    latest = phases[-1].weights
    # what has stopped is not to be decided any more, but where one goes on alone, the others say why
    running = [each for each in ranked if latest.get(each.variant, 0.0) > 0.0]
    if len(running) < 2:
        running = ranked[:1] + [
            each
            for each in ranked[1:]
            if latest.get(each.variant, 0.0) > 0.0 or all(side.impressions for side in compared(ranked[0], each))
        ]
    duels, lifts = yield from _compare(ranked, running, against, compared, alpha)
    check = _check(phases, single, sticky)
    yield
    rows = yield from _rows(ranked, lifts, shares(phases), alike, alpha)
    return Readout(rows, against.variant, alpha, check, judge(running, duels, check, alpha))


def _phases(
    totals: Sequence[Totals] | Sequence[Phase], weights: Mapping[str, float] | None
) -> tuple[Sequence[Phase], bool]:
    """The phases, and whether they are but counts with one set of weights."""
    phases = [each for each in totals if isinstance(each, Phase)]
    if not phases:
        counts = tuple(each for each in totals if isinstance(each, Totals))
        weights = dict.fromkeys((each.variant for each in counts), 1.0) if weights is None else weights
        phases = [Phase(weights, counts)]
    else:
        require(weights is None, "phases have weights of their own", weights=weights)
        require(len(phases) == len(totals), "totals are all phases, or none is", phases=len(phases), given=len(totals))
    for phase in phases:
        phase.check()
    return phases, not isinstance(totals[0], Phase) if totals else True


def _place(each: Totals, reward: float, impressions: float) -> float:
    """Where a variant ranks; the last are those that nothing is known of."""
    return (-reward / impressions if impressions else 1.0) if each.impressions else math.inf


def _compare(
    ranked: Sequence[Totals],
    running: Sequence[Totals],
    control: Totals,
    compared: Callable[[Totals, Totals], tuple[Side, Side]],
    alpha: float,
) -> Steps[tuple[list[Duel], dict[str, _Lift]]]:
    """The leader against every other and each against the next, and everyone's lift over the control."""
    pairs = [(running[0], other) for other in running[1:]] + list(pairwise(running[1:]))
    over = [one for one in ranked if one is not control]
    if not over:
        return [], {}
    both = [compared(one, other) for one, other in pairs]
    with_control = [compared(one, control) for one in over]
    bounds = yield from lift_steps([*with_control, *both[:1]], alpha)
    ends = [(float(low), float(high)) for low, high in zip(*bounds, strict=True)]
    lifts: dict[str, _Lift] = {
        one.variant: (_finite(_lift(*pair)), low, _finite(high))
        for one, pair, (low, high) in zip(over, with_control, ends, strict=False)
    }
    evidence = (yield from evidence_steps(both)) if both else ()
    duels = [
        Duel(one, other, both[place], _lift(*both[place]), ends[-1] if place == 0 else None, float(evidence[place]))
        for place, (one, other) in enumerate(pairs)
    ]
    return duels, lifts


def _lift(one: Side, other: Side) -> float:
    if not one.impressions or not other.impressions:
        return math.nan
    if other.rate == 0.0:
        return math.inf if one.rate > 0.0 else math.nan
    return one.rate / other.rate - 1.0


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _check(phases: Sequence[Phase], single: bool, sticky: bool) -> SampleRatio | None:
    found = []
    for phase in phases:
        counts = {each.variant: each.users if sticky else each.drawn for each in phase.totals}
        known = {variant: count for variant, count in counts.items() if count is not None}
        if len(known) < len(counts):
            return None
        found.append((known, phase.weights))
    return sample_ratio(*found[0]) if single else phased_ratio(found)


def _rows(
    ranked: Sequence[Totals],
    lifts: Mapping[str, _Lift],
    intended: Mapping[str, float],
    alike: Mapping[str, tuple[float, float]],
    alpha: float,
) -> Steps[tuple[Row, ...]]:
    lows, highs = rate_bounds(ranked, alpha=alpha)
    yield
    counts = [(each.design_effect, *alike[each.variant]) for each in ranked]
    chances = probability_best(
        [reward / effect for effect, reward, _ in counts],
        [max(impressions - reward, 0.0) / effect for effect, reward, impressions in counts],
    )
    requests = sum(each.drawn for each in ranked)
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
            each.drawn / requests if requests else None,
            intended[each.variant],
            each.design_effect,
        )
        for each, low, high, chance in zip(ranked, lows, highs, chances, strict=True)
    )
