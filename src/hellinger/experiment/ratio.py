r"""Whether traffic was split as intended, asked at every moment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hellinger.errors import require

__all__ = ["SampleRatio", "phased_ratio", "sample_ratio"]

_CONCENTRATIONS = (1e2, 1e3, 1e4, 1e5)
"""Prior laws from one that expects shares to be off by a twentieth to one that expects a six-hundredth."""
_ALARM = 0.001


class SampleRatio(NamedTuple):
    """Whether the split is what it was meant to be."""

    p_value: float
    """Anytime-valid: below p at any time at all with probability at most p, if the split is right."""
    alarm: bool
    worst: str
    """The variant whose share is furthest off, for its size."""
    share: float
    """What it got."""
    intended: float
    """What it was meant to get."""
    phase: int | None = None
    """The phase in which it is off most, the first being 0; None where there is but one set of weights."""


def sample_ratio(counts: Mapping[str, int], weights: Mapping[str, float], *, alarm: float = _ALARM) -> SampleRatio:
    r"""Test counts of assignments against the intended weights.

    .. math:: E = \frac{1}{4}\sum_{κ}\;
              \frac{Γ(κ)}{Γ(κ + N)}\prod_i \frac{Γ(κπ_i + n_i)}{Γ(κπ_i)\, π_i^{n_i}}

    is the likelihood of the counts under shares drawn from a Dirichlet law around π, over that under π itself: a
    martingale if every assignment falls to i with probability π(i), whatever was before, so that 1/E is a p-value at
    all times at once (Lindon & Malek 2022, with a mixture over κ in place of one). A chi-square test is right for one
    look. Repeated, it is certain to ring in the end, for its statistic exceeds every bound at some time (the law of
    the iterated logarithm).

    >>> sample_ratio({"a": 5000, "b": 5200}, {"a": 1, "b": 1}).alarm
    False
    >>> sample_ratio({"a": 5000, "b": 5500}, {"a": 1, "b": 1})
    SampleRatio(p_value=0.000139..., alarm=True, worst='a', share=0.476..., intended=0.5, phase=None)
    """
    found = _test(counts, weights)
    p_value = math.exp(-max(0.0, found.log_evidence))
    return SampleRatio(p_value, p_value < alarm, *found[1:])


class _Found(NamedTuple):
    log_evidence: float
    worst: str
    share: float
    intended: float


def _test(counts: Mapping[str, int], weights: Mapping[str, float]) -> _Found:
    require(set(counts) <= set(weights), "every variant has a weight", counts=list(counts), weights=list(weights))
    whole, total = math.fsum(weights.values()), sum(counts.values())
    require(0.0 < whole < math.inf and min(weights.values()) >= 0.0, "weights >= 0, not all 0", weights=dict(weights))
    require(min(counts.values(), default=0) >= 0, "0 <= counts", counts=dict(counts))
    pairs = {name: (counts.get(name, 0), weight / whole) for name, weight in weights.items()}

    def off(name: str) -> float:
        count, share = pairs[name]
        if share in (0.0, 1.0):
            return math.inf if count != total * share else 0.0
        return abs(count - total * share) / math.sqrt(max(total, 1) * share * (1.0 - share))

    worst = max(pairs, key=off)
    if math.isinf(off(worst)):
        log_evidence = math.inf
    else:
        live = [(count, share) for count, share in pairs.values() if 0.0 < share < 1.0]
        log_evidence = _log_sum([_evidence(live, total, kappa) for kappa in _CONCENTRATIONS], over=len(_CONCENTRATIONS))
    count, share = pairs[worst]
    return _Found(log_evidence, worst, count / total if total else 0.0, share)


def phased_ratio(
    phases: Sequence[tuple[Mapping[str, int], Mapping[str, float]]], *, alarm: float = _ALARM
) -> SampleRatio:
    r"""Test the counts of each phase against its own weights.

    Each phase has its own evidence, which is 1 until the phase begins. Phase k has the part 1/(k(k + 1)) of a bet of 1,
    and what is meant for phases to come is kept: the sum is a martingale too, and one that a long row of phases
    without fault does not wear down, as it would the product of their evidence. The phase that is named has the most.

    >>> ramp = [({"a": 20, "b": 1980}, {"a": 1, "b": 99}), ({"a": 870, "b": 1130}, {"a": 1, "b": 1})]
    >>> phased_ratio(ramp)
    SampleRatio(p_value=..., alarm=True, worst='a', share=0.435, intended=0.5, phase=1)
    """
    found = [_test(counts, weights) for counts, weights in phases]
    worst = max(range(len(found)), key=lambda place: found[place].log_evidence - math.log((place + 1) * (place + 2)))
    parts = [each.log_evidence - math.log(k * (k + 1)) for k, each in enumerate(found, 1)]
    p_value = math.exp(-max(0.0, _log_sum([*parts, -math.log(len(found) + 1)])))
    return SampleRatio(p_value, p_value < alarm, *found[worst][1:], worst)


def _evidence(pairs: list[tuple[int, float]], total: int, kappa: float) -> float:
    if not pairs:
        return 0.0
    terms = [math.lgamma(kappa * p + n) - math.lgamma(kappa * p) - n * math.log(p) for n, p in pairs]
    return math.fsum([*terms, math.lgamma(kappa), -math.lgamma(kappa + total)])


def _log_sum(logs: list[float], *, over: int = 1) -> float:
    top = max(logs)
    return top if math.isinf(top) else top + math.log(math.fsum(math.exp(value - top) for value in logs) / over)
