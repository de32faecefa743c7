"""How the shadows of an experiment stand: what each would have earned, and whether it is safe to promote it."""

from __future__ import annotations

import math
from typing import Any

from hellinger.engine.allocation import Allocation
from hellinger.evaluate import Estimate, disagreement
from hellinger.evaluate.evaluator import Evaluator
from hellinger.ledger import Ledger
from hellinger.ledger.shadows import LARGEST, Moments, ShadowShare

__all__ = ["shadows"]

ALPHA = 0.05
"""All intervals of a shadow hold together, at all times, with probability 1 − α."""
ITEMS = (
    "an item earns the same in all rankings, but for how much its position is looked at; what nobody has shown since "
    "counts as nothing earned"
)
"""What the estimate from other rankings rests on."""
_FIELDS = (
    "estimator",
    "assumption",
    "units",
    "value",
    "low",
    "high",
    "difference",
    "difference_low",
    "difference_high",
    "lift_low",
    "lift_high",
    "mean_weight",
    "effective_sample",
    "unsupported",
    "refusal",
)


def shadows(ledger: Ledger, name: str, allocation: Allocation, at: int) -> list[dict[str, Any]]:
    """Each shadow of an experiment: figures of rankings whose reward is final at a time, and what they say."""
    return [_shadow(ledger, name, shadow, spec, at) for shadow, spec in allocation.shadows.items()]


def _shadow(ledger: Ledger, name: str, shadow: str, spec: str, at: int) -> dict[str, Any]:
    whole = made = 0
    settled = ShadowShare()
    for place in _places(ledger, name, shadow, spec):
        its = ledger.series.shadows.get((place, shadow))
        whole += sum(shares.requests for (phase, _), shares in ledger.series.shares.items() if phase == place)
        if its is not None:
            made += its.requests
            settled.add(its.settled(at))
    weighed = _estimate("ips", settled.weighed, None)
    looked = _estimate("position_based", settled.looked, LARGEST)._replace(estimator="items", assumption=ITEMS)
    told = [weighed, *([looked] if looked.units else [])]
    best, apart = _best(told), disagreement(told)
    answered, some = not best.refusal and not apart, settled.requests > 0
    return {
        "shadow": shadow,
        "policy": spec,
        "requests": made,
        "settled_requests": settled.requests,
        "share": made / whole if whole else None,
        "same": settled.same / settled.requests if some else None,
        "same_place": settled.placed / settled.requests if some else None,
        "logged": _finite(best.logged),
        "rate": _finite(best.value) if answered else None,
        "low": _finite(best.low) if answered else None,
        "high": _finite(best.high) if answered else None,
        "lift_low": _finite(best.lift_low) if answered else None,
        "lift_high": _finite(best.lift_high) if answered else None,
        "safe": answered and best.lift_low > 0.0,
        "estimator": best.estimator,
        "assumption": best.assumption,
        "unsupported": best.unsupported if some else None,
        "sentence": f"No answer: {apart}." if apart else _sentence(best, made, settled.requests),
        "estimates": [
            {field: _finite(value) if isinstance(value := getattr(each, field), float) else value for field in _FIELDS}
            | {"sentence": each.verdict}
            for each in told
        ],
    }


def _places(ledger: Ledger, name: str, shadow: str, spec: str) -> list[int]:
    """The experiment's phases up to the last in which this shadow has been there, with this policy all the time."""
    found: list[int] = []
    for phase in reversed([phase for phase in ledger.phases if phase["name"] == name]):
        if phase.get("shadows", {}).get(shadow) != spec:
            break
        found.append(phase["seq"])
    return found


def _estimate(estimator: str, moments: Moments, largest: float | None) -> Estimate:
    units, *sums = moments.numbers
    return Evaluator.summed(estimator, int(units), sums[:3], sums[3:], largest=largest, alpha=ALPHA / 2.0).estimate()


def _best(told: list[Estimate]) -> Estimate:
    """The first that decides, else the first that answers; they hold together, so that either may be chosen."""
    answered = [each for each in told if not each.refusal]
    decided = [each for each in answered if each.lift_low > 0.0 or each.lift_high < 0.0]
    return (decided or answered[-1:] or told[-1:])[0]


def _sentence(best: Estimate, made: int, settled: int) -> str:
    """Whether it is safe to promote it, in words."""
    if not made:
        return "It has ranked nothing yet."
    if not settled:
        return "No ranking that it has ranked is final yet: feedback may still come."
    if not best.units:
        return (
            "No answer: no ranking says with what chance it showed what it did, since its policy draws at random or "
            "its ties were not counted."
        )
    if best.refusal:
        return f"No answer: {best.refusal}."
    if best.lift_low > 0.0:
        return f"Safe to promote: at least {best.lift_low:+.1%} over what was shown."
    if best.lift_high < 0.0:
        return f"Do not promote: at most {best.lift_high:+.1%} against what was shown."
    high = "no upper end" if math.isinf(best.lift_high) else f"at most {best.lift_high:+.1%}"
    return f"Not decided: at least {best.lift_low:+.1%} against what was shown, {high}."


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
