"""Leaving the pool: when an item has been shown enough, is beyond hope, or is too old."""

from __future__ import annotations

import math
from typing import Generic, Literal, NamedTuple

from hellinger.errors import require
from hellinger.pool._ids import IdT

__all__ = ["Departure", "Leaving", "Reason"]

Reason = Literal["graduated", "outclassed", "expired"]


class Departure(NamedTuple, Generic[IdT]):
    """An item that has left, why, and what it had achieved."""

    id: IdT
    reason: Reason
    impressions: float
    rewards: float
    age: float


class Leaving(NamedTuple):
    """When an item leaves the pool; a rule that is None never applies.

    Attributes
    ----------
    impressions
        ``graduated`` once shown so often.
    share
        ``outclassed`` once its upper bound is below this share of the pool's best mean, among items with
        at least ``proven`` impressions. Looked at by ``Pool.sweep``.
    age
        ``expired`` once so long in the pool, in the units of ``Pool.advance``.
    proven
        Impressions an item needs for its mean to count as the pool's best.
    """

    impressions: float | None = None
    share: float | None = None
    age: float | None = None
    proven: float = 100

    def check(self) -> Leaving:
        """Return this, or raise where a figure makes no sense."""
        require(self.impressions is None or self.impressions >= 1, "1 <= impressions", impressions=self.impressions)
        require(self.share is None or 0 < self.share <= 1, "0 < share <= 1", share=self.share)
        require(self.age is None or 0 < self.age < math.inf, "0 < age", age=self.age)
        require(self.proven >= 1, "1 <= proven", proven=self.proven)
        return self
