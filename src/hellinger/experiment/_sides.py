r"""Two variants side by side, over phases in which the weights differed.

If a variant gets more of its traffic on good days than another, its rate is the higher for that alone (Simpson's
paradox). So a request counts with a weight c, known before anyone clicks: in a phase that meant to give the two the
shares π₁ and π₂,

.. math:: c_1 = \min(1, π_2/π_1), \qquad c_2 = \min(1, π_1/π_2),

which makes the phase as large for one as for the other. What is compared is Σ cμ / Σ cK, K being a request's
impressions: for two of equal weights in all phases the plain rates, otherwise nearly the ratio of Mantel and Haenszel.

The rewards cY are at most K like those they are made of, so that all of ``_mixture`` holds for them: the bets are the
same, and stake less where one of the two has much more traffic. Nothing need be equal between phases, neither rates nor
lifts. A further phase costs little; a product of mixtures, one for every phase, would pay for each of them, and suppose
one lift for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hellinger.experiment.totals import Clusters, Pages, Phase, Totals

__all__ = ["Side", "pooled", "shares", "sides", "standardised"]


class Side(NamedTuple):
    """A variant as one side of a comparison: sums over its requests, each with its weight c."""

    units: float
    """Requests, or impressions where requests are not known; not weighted."""
    impressions: float
    reward: float
    squares: float
    largest: float
    """No request had more impressions."""
    most: float
    """Nor more weighted reward."""
    clusters: Clusters | None = None
    growth: float = 1.0
    """How many times the users are supposed to be those that were counted; 1 but in forecasts."""

    @property
    def rate(self) -> float:
        """Reward an impression; NaN before the first."""
        return self.reward / self.impressions if self.impressions else math.nan

    @classmethod
    def of(cls, totals: Totals, weight: float = 1.0) -> Side:
        """The counts of one phase."""
        pages = totals.pages or Pages(totals.impressions, totals.reward, 1)
        clusters = totals.clusters and Clusters(*(weight * column for column in totals.clusters))
        return cls(
            pages.units,
            weight * totals.impressions,
            weight * totals.reward,
            weight * weight * pages.squares,
            pages.largest,
            weight * pages.top,
            clusters,
        )

    def grown(self, factor: float) -> Side:
        """As it would be with so many times the requests, all being as it is."""
        return self._replace(
            units=factor * self.units,
            impressions=factor * self.impressions,
            reward=factor * self.reward,
            squares=factor * self.squares,
            growth=factor * self.growth,
        )


def _added(parts: Sequence[Side]) -> Side:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Side(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return Side(
        math.fsum(part.units for part in parts),
        math.fsum(part.impressions for part in parts),
        math.fsum(part.reward for part in parts),
        math.fsum(part.squares for part in parts),
        max(part.largest for part in parts),
        max(part.most for part in parts),
        _bucketed(parts),
    )


def _bucketed(parts: Sequence[Side] | Sequence[Totals]) -> Clusters | None:
    """Buckets of several phases: a user has the same one in all."""
    known = [part.clusters for part in parts if part.clusters is not None]
    if not known or any(part.clusters is None and part.impressions for part in parts):
        return None
    impressions, reward = (np.sum(columns, axis=0) for columns in zip(*known, strict=True))
    return Clusters(impressions, reward)


def sides(phases: Sequence[Phase], one: str, other: str) -> tuple[Side, Side]:
    """Two variants over the phases that meant both to have traffic, made comparable."""
    ones, others = [], []
    for phase in phases:
        mine, its = phase.weights.get(one, 0.0), phase.weights.get(other, 0.0)
        if mine > 0.0 and its > 0.0:
            counts = {each.variant: each for each in phase.totals}
            ones.append(Side.of(counts.get(one, _nothing(one)), min(1.0, its / mine)))
            others.append(Side.of(counts.get(other, _nothing(other)), min(1.0, mine / its)))
    return _added(ones), _added(others)


def _nothing(variant: str) -> Totals:
    return Totals(variant, 0, 0, 0.0)


def pooled(phases: Sequence[Phase]) -> list[Totals]:
    """Each variant's counts over all phases."""
    found: dict[str, list[Totals]] = {}
    for phase in phases:
        for each in phase.totals:
            found.setdefault(each.variant, []).append(each)
    return [_summed(parts) for parts in found.values()]


def _summed(parts: Sequence[Totals]) -> Totals:
    if len(parts) == 1:
        return parts[0]
    pages = None
    if any(part.pages for part in parts):
        known = [part.pages or Pages(part.impressions, part.reward, 1) for part in parts]
        pages = Pages(
            sum(page.units for page in known),
            math.fsum(page.squares for page in known),
            max(page.largest for page in known),
            max(page.top for page in known),
        )
    users = [part.users for part in parts if part.users is not None]
    return Totals(
        parts[0].variant,
        sum(part.requests for part in parts),
        sum(part.impressions for part in parts),
        math.fsum(part.reward for part in parts),
        pages,
        sum(users) if len(users) == len(parts) else None,
        _bucketed(parts),
        sum(part.drawn for part in parts),
    )


def standardised(phases: Sequence[Phase]) -> dict[str, tuple[float, float]]:
    """Each variant's reward, and the impressions it would have taken had all phases been alike.

    Only phases with several variants count. An impression in a phase with twice the rate counts twice. The quotient
    ranks variants by how much better they did than the others on the same days: of two, that is first whose
    Mantel–Haenszel ratio is above 1.
    """
    found: dict[str, list[tuple[float, float, int]]] = {}
    for phase in phases:
        shown = [each for each in phase.totals if each.impressions]
        if len(shown) < 2:
            continue
        rate = math.fsum(each.reward for each in shown) / sum(each.impressions for each in shown)
        for each in shown:
            found.setdefault(each.variant, []).append((each.reward, rate * each.impressions, each.impressions))
    sums = {variant: [math.fsum(column) for column in zip(*parts, strict=True)] for variant, parts in found.items()}
    reward = math.fsum(each[0] for each in sums.values())
    whole = math.fsum(each[2] for each in sums.values())
    # where nothing was ever rewarded all phases are alike
    return {variant: (y, mean * whole / reward if reward else n) for variant, (y, mean, n) in sums.items()}


def shares(phases: Sequence[Phase]) -> Mapping[str, float]:
    """What share of all requests each variant was meant to have; before the first, that of the last phase."""
    sizes = [sum(each.drawn for each in phase.totals) for phase in phases]
    if not any(sizes):
        sizes = [0] * (len(phases) - 1) + [1]
    found: dict[str, float] = {}
    for size, phase in zip(sizes, phases, strict=True):
        whole = math.fsum(phase.weights.values())
        for variant, weight in phase.weights.items():
            found[variant] = found.get(variant, 0.0) + size / sum(sizes) * (weight / whole)
    return found
