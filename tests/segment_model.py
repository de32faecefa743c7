"""The prior of an item in a segment, in plain Python: step by step from what it has elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw

__all__ = ["agrees", "prior_in", "rounded", "unknown"]


def rounded(law: SegmentLaw, shift: float, k: float, mean: float, nudge: float = 0.0) -> tuple[float, float]:
    """Mean and strength of an item's prior in a segment: k impressions' worth and a mean elsewhere; step by step."""

    def moved(m: float) -> float:
        odds = 2**shift * m / (1 - m)
        return odds / (1 + odds)

    whole, here = moved(law.mean), moved(mean)
    strength = 1 / (1 / k + law.variance * here * (1 - here))
    octaves = math.log2(here / (1 - here) * (1 - whole) / whole)
    octaves += nudge
    steps = 16 if octaves >= 0 else 4
    near = math.copysign(min(math.floor(abs(octaves) * steps + 0.5) / steps, 6), octaves)
    odds = 2**near * whole / (1 - whole)
    half = min(math.floor(2 * math.log2(max(strength, 1)) + 0.5), 27)
    return odds / (1 + odds), 2 ** (half / 2)


def unknown(law: SegmentLaw, segment: str) -> tuple[float, float]:
    """Mean and strength of the prior of an item of which nothing is known anywhere."""
    shift = law.of(segment)
    assert shift is not None
    odds = 2**shift * law.mean / (1 - law.mean)
    mean = odds / (1 + odds)
    return mean, 1 / (1 / law.strength + law.variance * mean * (1 - mean))


def prior_in(
    law: SegmentLaw, segment: str, pooled: Prior, item: tuple[float, float], n: float, s: float, nudge: float = 0.0
) -> tuple[float, float]:
    """Mean and strength of an item's prior in a segment, from n impressions and s rewards elsewhere.

    ``pooled`` is the prior of all traffic, ``item`` the item's own there: pseudo-counts a and a + b.
    """
    shift = law.of(segment)
    assert shift is not None
    if not n > 0 and not s > 0 and item == pooled[:2]:
        return unknown(law, segment)
    a, p = item
    base, own = pooled.a / (pooled.strength - pooled.a), a / (p - a)
    odds = own / base * law.mean / (1 - law.mean)
    mean, strength = odds / (1 + odds), law.strength * p / pooled.strength
    k = strength + max(n, s)
    return rounded(law, shift, k, (mean * strength + s) / k, nudge)


def agrees(found: tuple[float, float] | None, *known: Any) -> bool:
    """Whether pseudo-counts are those of :func:`prior_in`; at the border of two classes, of either."""
    assert found is not None
    expected: Callable[..., tuple[float, float]] = prior_in
    wanted = [expected(*known, nudge=nudge) for nudge in (0.0, 1e-9, -1e-9)]
    return any(math.isclose(found[1], p) and math.isclose(found[0], m * p) for m, p in wanted)
