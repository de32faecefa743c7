"""What a log says of a policy: a value, an interval, how much of the log speaks of it, and on what assumption."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

__all__ = ["Estimate", "disagreement"]

FEW = 30.0
"""An effective sample below which nothing is said."""
SLACK = 1e-9
"""Rounding by which a value may be outside its interval."""
LITTLE = 0.5
"""A share of unsupported mass above which nothing is said."""


class Estimate(NamedTuple):
    """What a policy would have earned for a unit: a ranking, or a row where rankings are not given."""

    value: float
    low: float
    """Both ends of the interval: at all times at once the value is between them, with probability 1 − alpha."""
    high: float
    effective_sample: float
    """(Σw)²/Σw²: so many units of the policy's own would say as much."""
    unsupported: float
    """Share of what the policy would show that the log could not have; the interval is widened by it."""
    assumption: str
    """On what the interval rests, beside right propensities."""
    estimator: str
    units: int
    mean_weight: float
    """Mean of the weights: 1 is expected."""
    weight_low: float
    """Both ends of an interval for the mean weight."""
    weight_high: float
    logged: float
    """What was logged, of the same units."""
    difference: float
    """The value less what was logged."""
    difference_low: float
    """Both ends of an interval for the difference, unit by unit."""
    difference_high: float
    lift_low: float
    """What the relative difference is at least, and at most."""
    lift_high: float
    refusal: str = ""
    """Why the log cannot answer; empty where it can."""

    @property
    def verdict(self) -> str:
        """Whether it is safe to switch, in one sentence.

        >>> from hellinger import evaluate
        >>> evaluate.ips([0, 1] * 500, [0.5] * 1000, [0.5] * 1000).verdict
        'not decided: between -1.6 % and +1.6 % of what was logged'
        """
        if self.refusal:
            return f"no answer: {self.refusal}"
        if self.lift_low > 0.0:
            return f"safe to switch: at least {_percent(self.lift_low)}"
        if self.lift_high < 0.0:
            return f"do not switch: at most {_percent(self.lift_high)}"
        if math.isinf(self.lift_high):
            return f"not decided: at least {_percent(self.lift_low)} of what was logged, no upper end"
        return f"not decided: between {_percent(self.lift_low)} and {_percent(self.lift_high)} of what was logged"

    @property
    def weights_agree(self) -> bool:
        """Whether the mean weight may be 1, as it is where propensities are right and the log has full support."""
        return self.weight_low <= 1.0 <= self.weight_high


def refusal(effective: float, units: int, unsupported: float, mean_weight: float, weight_low: float) -> str:
    """Why a log cannot answer, in words; empty where it can."""
    if units == 0:
        return "the log has no rankings"
    if weight_low > 1.0:
        return (
            f"the mean weight is {mean_weight:.3g}, at least {weight_low:.3g}, where 1 is expected: the propensities "
            "are not those by which this log was made"
        )
    if unsupported > LITTLE:
        return f"{100 * unsupported:.0f} % of what it would show was never shown"
    if effective < FEW:
        return (
            f"the weights leave an effective sample of {effective:.3g} of {units:,} (mean weight {mean_weight:.3g}): "
            f"at least {FEW:.0f} are needed"
        )
    return ""


def disagreement(estimates: Sequence[Estimate]) -> str:
    """Whose value is outside its interval, or whose intervals have nothing in common: an assumption is wrong.

    Empty where there is nothing of the kind.

    >>> disagreement([])
    ''
    """
    answered = [each for each in estimates if not each.refusal]
    for each in answered:
        if not each.low - SLACK <= each.value <= each.high + SLACK:
            return (
                f"the value of {each.estimator}, {each.value:.4g}, is outside its interval ({_between(each)}): "
                "its assumption does not hold"
            )
    for one, other in combinations(answered, 2):
        if one.high < other.low or other.high < one.low:
            return (
                f"{one.estimator} and {other.estimator} disagree ({_between(one)} and {_between(other)}): "
                "an assumption of one of them does not hold"
            )
    return ""


def _between(estimate: Estimate) -> str:
    return f"{estimate.low:.4g} … {estimate.high:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"
