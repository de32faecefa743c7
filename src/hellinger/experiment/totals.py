"""What was counted of a variant: all that a readout needs, whenever it is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.errors import require

__all__ = ["Clusters", "Pages", "Phase", "Totals"]

Floats = npt.NDArray[np.float64]

_SLACK = 1e-9
"""Rounding allowed to sums of graded rewards, relative."""


class Pages(NamedTuple):
    """How rewards lie together in requests: one user clicks much, the next not at all.

    Folded one event at a time: a request adds 1 to ``units``; when its reward goes from y to y + d, ``squares`` grows
    by d(2y + d). Impressions that came without their requests (imported counts) are pages of one: they add their
    number to ``units`` and their reward to ``squares``.
    """

    units: int
    """Requests, and impressions without one."""
    squares: float
    """Sum over requests of the squared reward of the request."""
    largest: int
    """Most impressions a request has had so far."""
    most: float | None = None
    """Most reward a request has had so far; what is not known is taken to be ``largest``."""

    @property
    def top(self) -> float:
        """What no request's reward was above."""
        return float(self.largest) if self.most is None else self.most

    def check(self, impressions: int, reward: float) -> None:
        """Refuse what no requests can have added up to."""
        require(self.units >= 0, "0 <= units", units=self.units)
        require(self.units > 0 or impressions == 0, "0 < units where 0 < impressions", units=self.units)
        require(self.largest >= 1 or impressions == 0, "1 <= largest", largest=self.largest)
        require(0.0 <= self.top <= self.largest, "0 <= most <= largest", most=self.top, largest=self.largest)
        require(
            impressions <= self.units * self.largest,
            "impressions <= units * largest",
            impressions=impressions,
            units=self.units,
            largest=self.largest,
        )
        slack = _SLACK * (1.0 + self.squares)
        least = reward * reward / self.units if self.units else 0.0
        require(
            least - slack <= self.squares <= self.top * reward + slack,
            "reward²/units <= squares <= most * reward",
            squares=self.squares,
            reward=reward,
            units=self.units,
            most=self.top,
        )


class Clusters(NamedTuple):
    """Sums by bucket of users, for a sticky split, where the unit is the user.

    Users are hashed into a fixed number of buckets (1,024 will do), by the same hash for every variant and for the
    whole experiment. Users are independent of each other, so buckets are; memory does not grow with their number.
    """

    impressions: Floats
    """Impressions of the users of each bucket."""
    reward: Floats
    """Their reward."""

    def check(self, impressions: float, reward: float) -> None:
        """Refuse what does not add up to the totals."""
        n, y = self
        require(n.ndim == 1 and n.shape == y.shape, "one sum a bucket", impressions=n.shape, reward=y.shape)
        slack = _SLACK * (1.0 + impressions)
        require(bool(np.all((y >= -slack) & (y <= n + slack))), "0 <= reward <= impressions in every bucket")
        for what, sums, total in (("impressions", n, impressions), ("reward", y, reward)):
            whole = float(sums.sum())
            require(abs(whole - total) <= slack, f"buckets add up to the {what}", buckets=whole, total=total)


class Totals(NamedTuple):
    """Counts of one variant. An impression's reward is between 0 and 1.

    A ranking counts, in every field but ``users`` and ``assigned``, only once its reward is final, that is once the
    window in which feedback is attributed to it has passed. A younger ranking has had less time to earn than an older
    one: counted at once, it makes rates too low, and a variant whose users answer later, or whose traffic has just
    grown, looks worse than it is.

    >>> Totals("ucb1", requests=10, impressions=200, reward=9).rate
    0.045
    """

    variant: str
    requests: int
    impressions: int
    reward: float
    pages: Pages | None = None
    """How rewards lie together; without it the impressions of a request are taken for independent of each other."""
    users: int | None = None
    """Different users, where the split is sticky: what the check of the split has to count then. With several phases, a
    user counts in the first one they are seen in and in no other: coming again is no new draw."""
    clusters: Clusters | None = None
    """Sums by bucket of users, where the split is sticky; without them the requests of a user are taken for independent
    of each other."""
    assigned: int | None = None
    """Rankings the split has given to this variant, whether their reward is final or not: what the check of the split
    counts where the split is not sticky. ``requests`` unless given, and then an alarm comes a window later."""

    @property
    def drawn(self) -> int:
        """Rankings that the split has given it, final or not."""
        return self.requests if self.assigned is None else self.assigned

    @property
    def rate(self) -> float:
        """Reward an impression; NaN before the first."""
        return self.reward / self.impressions if self.impressions else math.nan

    @property
    def design_effect(self) -> float:
        """Variance of the reward over what it would be were impressions independent: 1 + (slots − 1)·correlation.

        Never below 1, and 1 where it is not known.
        """
        independent = self.reward * (1.0 - self.rate) if self.impressions else 0.0
        if independent <= 0.0:
            return 1.0
        if self.clusters is not None:
            used = int(np.count_nonzero(self.clusters.impressions))
            apart = self.clusters.reward - self.rate * self.clusters.impressions
            return max(1.0, float(apart @ apart) * used / max(used - 1, 1) / independent)
        if self.pages is None:
            return 1.0
        return max(1.0, (self.pages.squares - self.reward * self.reward / self.pages.units) / independent)

    def check(self) -> None:
        """Refuse what cannot have been counted."""
        require(self.requests >= 0, "0 <= requests", requests=self.requests, variant=self.variant)
        require(self.impressions >= 0, "0 <= impressions", impressions=self.impressions, variant=self.variant)
        require(
            0.0 <= self.reward <= self.impressions,
            "0 <= reward <= impressions",
            reward=self.reward,
            impressions=self.impressions,
            variant=self.variant,
        )
        for what, number in (("users", self.users), ("assigned", self.assigned)):
            require(number is None or number >= 0, f"0 <= {what}", **{what: number}, variant=self.variant)
        if self.pages is not None:
            self.pages.check(self.impressions, self.reward)
        if self.clusters is not None:
            self.clusters.check(self.impressions, self.reward)


class Phase(NamedTuple):
    """A part of an experiment in which the weights did not change, and what was counted in it."""

    weights: Mapping[str, float]
    """How traffic was meant to be split, as for :class:`~hellinger.experiment.Split`."""
    totals: tuple[Totals, ...]
    """A ranking belongs to the phase it was made in, whenever its reward came."""

    def check(self) -> None:
        """Refuse what is no phase."""
        names = [each.variant for each in self.totals]
        require(len(set(names)) == len(names), "variants differ", variants=names)
        require(set(names) <= set(self.weights), "every variant has a weight", variants=names, weights=[*self.weights])
        for each in self.totals:
            each.check()
