"""How often each item had which reward: what policies need that know no law of rewards but their bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hellinger._arrays import grown
from hellinger.errors import InputError, require
from hellinger.families import Family
from hellinger.policies import Rule
from hellinger.pool._store import Floats, Slots

__all__ = ["LEVELS", "RewardLevels"]

LEVELS = 16
"""Rewards are told apart by so many levels, evenly from nothing to the largest."""


class RewardLevels:
    """Counts of each item's rewards on a fixed grid of levels, by slot.

    A reward between two levels is shared out between both such that its mean stays. That only spreads rewards, so that
    K_inf, an expectation of concave functions at its largest, is never more than that of the rewards themselves: an
    upper bound stays one. Counts whose single rewards are not known, of several impressions at once, are spread as far
    as can be, over nothing and the largest.
    """

    def __init__(self, family: Family) -> None:
        low, self.top = family.mean_bounds
        require(low == 0.0 and math.isfinite(self.top), "rewards are from 0 to a largest one", family=family)
        self._counts: Floats = np.zeros((0, LEVELS))

    def of(self, slots: Slots, n: Floats, s: Floats) -> Floats:
        """What these events add to the levels, a row each: impressions, and what was earned.

        A reward of at most the largest, for one impression or none, is a single one; without an impression it belongs
        to one that was counted before, and had no reward.
        """
        rows = np.zeros((slots.size, LEVELS))
        single = (n <= 1.0) & (s <= self.top)
        place = np.clip(s / self.top, 0.0, None) * (LEVELS - 1)
        left = np.minimum(np.floor(place), LEVELS - 2).astype(np.int64)
        share = np.where(single, place - left, s / self.top)
        left[~single] = 0
        right = np.where(single, left + 1, LEVELS - 1)
        each = np.arange(slots.size)
        rewards = np.where(single & (s > 0.0), 1.0, 0.0)
        np.add.at(rows, (each, left), np.where(single, rewards * (1.0 - share), 0.0))
        np.add.at(rows, (each, right), np.where(single, rewards * share, share))
        rows[:, 0] += n - rows.sum(axis=1)
        return rows

    def check(self, slots: Slots, rows: Floats) -> None:
        """Raise where an item would have more rewards than impressions."""
        places, where = np.unique(slots, return_inverse=True)
        more = np.zeros((places.size, LEVELS))
        np.add.at(more, where, rows)
        there = places < len(self._counts)
        more[there] += self._counts[places[there]]
        if (more[:, 0] < -1e-9).any():
            raise InputError(
                "an impression must have one reward at most where a policy looks at single rewards, but an item would "
                "have more rewards than impressions: add up what an impression earns before it is recorded"
            )

    def add(self, slots: Slots, rows: Floats) -> None:
        """Count these, which were checked."""
        self._reach(slots)
        np.add.at(self._counts, slots, rows)

    def set(self, slots: Slots, n: Floats, s: Floats) -> None:
        """Set the counts of items to sums of which no single reward is known."""
        self._reach(slots)
        rows = np.zeros((slots.size, LEVELS))
        rows[:, -1] = s / self.top
        rows[:, 0] = n - rows[:, -1]
        self._counts[slots] = rows

    def _reach(self, slots: Slots) -> None:
        size = int(slots.max(initial=-1)) + 1
        if size > len(self._counts):
            flat = grown(self._counts.reshape(-1), size * LEVELS)
            self._counts = flat[: flat.size // LEVELS * LEVELS].reshape(-1, LEVELS)

    def compact(self, falling: Slots, count: int) -> None:
        """Follow items that move: those at these places have left, of so many, the last one into each in turn."""
        for slot in falling.tolist():
            count -= 1
            self._counts[slot] = self._counts[count]
            self._counts[count] = 0.0

    def blank(self, count: int) -> None:
        """Nothing counted, for so many items."""
        self._counts = np.zeros((count, LEVELS))

    def rule(self, rule: Any, slots: Slots) -> Rule:
        """The rule with what these items had, in this order; only levels that an item ever had."""
        counts = np.maximum(self._counts[slots], 0.0)
        counts[counts < 1e-9] = 0.0  # what rounding leaves of nothing
        order = np.argsort(counts == 0.0, axis=1, kind="stable")
        below = self.top * (1.0 - np.arange(LEVELS) / (LEVELS - 1))
        made: Rule = rule._replace(
            below=np.ascontiguousarray(below[order]),
            counts=np.take_along_axis(counts, order, axis=1),
            used=np.count_nonzero(counts, axis=1).astype(np.int64),
        )
        return made

    def memory(self, count: int) -> int:
        """Bytes in use for so many items."""
        return 8 * LEVELS * count

    def table(self, count: int) -> Floats:
        """The counts of so many items."""
        return self._counts[:count]

    def restore(self, counts: Floats) -> None:
        """Go on from a table."""
        self._counts = counts
