"""One plain sentence about an experiment, and never a rash one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hellinger.experiment._crossing import finish
from hellinger.experiment._sides import Side
from hellinger.experiment.names import display_name
from hellinger.experiment.ratio import SampleRatio
from hellinger.experiment.sequences import evidence_steps, rate_bounds
from hellinger.experiment.totals import Totals

__all__ = ["Duel", "Verdict", "judge"]

ENOUGH_REQUESTS = 100
"""Requests a variant needs before there is a verdict on it."""
ENOUGH_REWARD = 30
"""Reward the two first need together: either may well have none, and then is the worse."""
_FACTORS = [1.25**k for k in range(1, 16)]
"""How many times the present data a forecast may ask for."""


class Duel(NamedTuple):
    """Two variants, the one that did better first."""

    one: Totals
    other: Totals
    sides: tuple[Side, Side]
    """The same two over the phases they share, made comparable."""
    lift: float
    ends: tuple[float, float] | None
    """Of the lift, anytime-valid; where they are wanted."""
    evidence: float
    """Logarithm of the evidence that the first's rate is the higher."""


class Verdict(NamedTuple):
    """What an experiment says."""

    kind: str
    """``empty``, ``single``, ``split`` (is off), ``early``, ``open``, ``leader`` or ``order`` (are certain)."""
    sentence: str


def judge(ranked: Sequence[Totals], duels: Sequence[Duel], check: SampleRatio | None, alpha: float) -> Verdict:
    """Say what is certain about what was earned so far, and that what comes may differ.

    ``duels`` are those of the leader with all others, in their order, and then those of each other with the next.

    A variant leads another when the evidence exceeds v(v − 1)/α with v variants: with probability 1 − α no
    pair ever has that in the wrong order, so that no such sentence is ever wrong about the rates so far, whichever
    variant happens to lead and however often one reads it.
    """
    if check is not None and check.alarm:
        phase = "" if check.phase is None else " in one of the phases"
        return Verdict(
            "split",
            f"The split is off{phase}: {display_name(check.worst)} got {_percent(check.share, 1)} % of the traffic "
            f"where {_percent(check.intended, 1)} % was intended (p < 0.001); find out why before trusting any figure.",
        )
    if not any(each.impressions for each in ranked):
        if len(ranked) == 1:
            return Verdict("empty", f"{display_name(ranked[0].variant)} ranks all traffic; no impressions yet.")
        return Verdict("empty", "Nothing to compare yet: there are no impressions.")
    if len(ranked) == 1:
        return Verdict("single", _alone(ranked[0], alpha))
    if thin := _too_little(ranked):
        return Verdict("early", f"Too early to say: {thin}.")

    others = len(ranked) - 1
    threshold = math.log(len(ranked) * others / alpha)
    leading, rest = duels[:others], duels[others:]
    first = leading[0]
    if all(duel.evidence > threshold for duel in leading):
        lead = f"{_lead(first)} so far; chance does not explain it."
        if all(duel.evidence > threshold for duel in rest):
            return Verdict("order", f"{lead} A slower learner may still close in.")
        return Verdict("leader", f"{lead} The order of the others is open, and a slower learner may still close in.")
    return Verdict("open", f"Too early to say: {_open(leading, threshold)}.")


def _alone(only: Totals, alpha: float) -> str:
    """What the only variant earned, and the interval of its rate."""
    low, high = (float(end[0]) for end in rate_bounds([only], alpha=alpha))
    digits = _digits(min(only.rate or high, high - low))
    ends = f"{_percent(low, digits)}–{_percent(high, digits)} %"
    rate = _percent(only.rate, digits)
    return f"{display_name(only.variant)} ranks all traffic; its reward rate is {rate} % ({ends})."


def _too_little(ranked: Sequence[Totals]) -> str:
    """What there is too little of, in words; empty where there is enough."""
    # imported counts have no requests; their impressions will do
    thinnest = min(ranked, key=lambda each: each.requests or each.impressions)
    if (thinnest.requests or thinnest.impressions) < ENOUGH_REQUESTS:
        number = _counted(thinnest.requests, "request")
        return f"{display_name(thinnest.variant)} has had {number}, and {ENOUGH_REQUESTS} are wanted"
    first, second = ranked[:2]
    if (reward := first.reward + second.reward) < ENOUGH_REWARD:
        names = f"{display_name(first.variant)} and {display_name(second.variant)}"
        return f"{names} have a reward of {reward:.4g} between them, and {ENOUGH_REWARD} is wanted"
    return ""


def _lead(duel: Duel) -> str:
    names = f"{display_name(duel.one.variant)} leads {display_name(duel.other.variant)}"
    return names if math.isinf(duel.lift) else f"{names} by {_interval(duel)}"


def _open(leading: Sequence[Duel], threshold: float) -> str:
    first = leading[0]
    ahead, behind = display_name(first.one.variant), display_name(first.other.variant)
    if math.isnan(first.lift):
        return f"{ahead} and {behind} have not had impressions at the same time"
    if first.lift <= 0.0:
        return f"{ahead} and {behind} are level so far"
    by = f" by {_interval(first)}" if math.isfinite(first.lift) else ""
    if first.ends is not None and first.ends[0] > 0.0:
        return f"{ahead} is ahead of {behind}{by}, but one of {len(leading) + 1} variants may look so by chance"
    more = _more_requests(leading, threshold)
    hope = f"at these rates about {more:,} more requests would tell" if more else "telling would take far more data"
    return f"{ahead} is ahead of {behind}{by}, which may be chance; {hope}"


def _more_requests(leading: Sequence[Duel], threshold: float) -> int:
    """How many more requests would make the leader certain if all went on as it has; 0 for too many."""
    pairs = [(duel.sides[0].grown(factor), duel.sides[1].grown(factor)) for factor in _FACTORS for duel in leading]
    evidence = finish(evidence_steps(pairs))
    certain = evidence.reshape(len(_FACTORS), len(leading)).min(axis=1) > threshold
    if not certain.any():
        return 0
    requests = sum(duel.other.requests for duel in leading) + leading[0].one.requests
    more = requests * (_FACTORS[int(certain.argmax())] - 1.0)
    unit = int(10 ** math.floor(math.log10(max(more, 1.0))))
    return math.ceil(more / unit) * unit


# Figures ---------------------------------------------------------------------------------------------


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _percent(value: float, digits: int) -> str:
    text = f"{100.0 * value:,.{digits}f}"
    return text.replace("-", "−") if text.strip("-0.") else text.lstrip("-")


def _digits(finest: float) -> int:
    """Digits of a percentage that show a difference of this size."""
    return sum(finest < limit for limit in (0.01, 0.001, 0.0001))


def _interval(duel: Duel) -> str:
    """A lift and its ends, in as many digits as tell them apart."""
    low, high = duel.ends or (duel.lift, duel.lift)
    digits = _digits(min(abs(duel.lift), high - low))
    value = _percent(duel.lift, digits)
    if not math.isfinite(high):
        return f"{value} % (at least {_percent(low, digits)} %)"
    joint = "–" if low >= 0.0 else " to "
    return f"{value} % ({_percent(low, digits)}{joint}{_percent(high, digits)} %)"
