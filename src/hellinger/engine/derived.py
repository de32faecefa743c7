"""A pool, and what it has yet to look up in ledger and overlay."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
import numpy.typing as npt

from hellinger._arrays import distinct
from hellinger.engine.grouping import LeftItems
from hellinger.engine.slot_set import SlotSet
from hellinger.ledger import Slots
from hellinger.pool import Pool
from hellinger.pool._within import Within

__all__ = ["AT_ONCE", "PRIORS", "SLICE", "Derived", "taken", "together"]

SLICE = 500
"""Items that a pool takes in at once, while rankings wait: a millisecond or two."""
AT_ONCE = 2_000
"""Items that have changed, or whose counts or priors are others by one event, and that are looked up at once; where
there are more, in slices."""
PRIORS = 8
"""Items whose prior is worked out in the time that one is looked up in."""
MANY = 20_000
"""Items that some groups have lost; where there are more, rankings do not wait until what they knew is added up."""


class Derived:
    """A pool, and the items that it has yet to look up in ledger and overlay."""

    __slots__ = (
        "_few",
        "_many",
        "aged",
        "counts",
        "described",
        "groups",
        "later",
        "left",
        "pool",
        "small",
        "within",
    )

    def __init__(self, pool: Pool, within: Within | None = None, left: LeftItems | None = None) -> None:
        self.pool = pool
        self.left = LeftItems() if left is None else left
        """Items of groups that are in no pool of the variant any more."""
        self.within = within
        """What a segment's pool knows from the one of all traffic; None where its own counts are all that it has."""
        self._many = SlotSet()
        """Items that changed together with very many others: no ranking waits for them."""
        self._few: list[Slots] = []
        """Others, for which rankings wait: few."""
        self.small = 0
        """How many these are, those counted twice that are there twice."""
        self.described: set[int] = set()
        """Those of them whose tags, group or features are others."""
        self.groups: set[tuple[str, ...]] = set()
        """Groups whose items that have left may have achieved something else than the pool knows."""
        self.counts: list[Slots] = []
        """Items whose counts alone are to be looked up before it ranks."""
        self.later = SlotSet()
        """Items whose counts alone are to be looked up: very many, and rankings do not wait for them."""
        self.aged = 0
        """Slots, from the first on, of items whose lives are to be looked up."""

    @property
    def number(self) -> int:
        """How many items have changed that it has yet to look up, about."""
        return self.small + len(self._many)

    @property
    def behind(self) -> int:
        """How much it has to look up: items and groups, and items of all traffic."""
        items = self.number + sum(slots.size for slots in self.counts) + len(self.later)
        return items + len(self.groups) + self.pool.unsettled + self.touched + self.aged

    @property
    def urgent(self) -> int:
        """How much of it a ranking waits for: who is in the pool and what is shown, but for what is very much."""
        items = self.small + sum(slots.size for slots in self.counts)
        return items + (len(self.groups) if self.few_groups else 0)

    @property
    def few_groups(self) -> bool:
        """Whether there are groups to be looked up that rankings wait for: few, which have lost few items."""
        if not 0 < len(self.groups) <= SLICE or self.many:
            return False
        return sum(map(self.left.count, self.groups)) <= MANY

    def some_groups(self, most: int) -> list[tuple[str, ...]]:
        """So many of the groups to be looked up, fewer where they have lost very many items."""
        some, room = [], PRIORS * most
        for group in islice(self.groups, most):
            some.append(group)
            room -= self.left.count(group)
            if room < 0:
                break
        return some

    @property
    def many(self) -> bool:
        """Whether rankings do not wait for all items that have changed: they are too many."""
        return len(self._many) > 0

    @property
    def touched(self) -> int:
        """Items to be looked up in the pool of all traffic."""
        return 0 if self.within is None else self.within.behind

    def lose(self, groups: Iterable[tuple[str, ...]]) -> None:
        """Note that these groups may have lost others; a segment's pool knows groups from that of all traffic."""
        if self.within is None:
            self.groups.update(groups)

    def expect(self, slots: Slots, described: Iterable[int] = ()) -> None:
        """Note that these items have changed."""
        self.described.update(described)
        if slots.size > AT_ONCE:
            self._many.add(slots)
            return
        self._few.append(slots)
        self.small += slots.size
        if self.small > AT_ONCE:
            self._many.add(np.concatenate(self._few))
            self._few, self.small = [], 0

    def expect_all(self, marks: npt.NDArray[np.bool_], *, counts: bool = False) -> None:
        """Note that all items that this is true of have changed, by slot; or their counts alone."""
        if np.count_nonzero(marks) <= AT_ONCE:
            self.expect(np.flatnonzero(marks))
        else:
            (self.later if counts else self._many).add_all(marks)

    def expect_later(self, slots: Slots) -> None:
        """Note that the counts of these items have changed."""
        if slots.size <= AT_ONCE:
            self.expect(slots)
        else:
            self.later.add(slots)

    def take(self, most: int, *, few: bool = False) -> tuple[Slots, set[int]]:
        """So many of the items that have changed, or of the few, and those of them that are described otherwise.

        Neither wait for the others to become none: each has half.
        """
        slots, small = taken(self._few, most if few or not self.many else most - most // 2)
        self.small -= small
        if not few and self.many:
            slots = together([slots, self._many.take(most - small)])
        described = self.described.intersection(slots.tolist()) if self.described else set()
        self.described -= described
        return slots, described


def taken(arrays: list[Slots], most: int) -> tuple[Slots, int]:
    """Take so many slots out of these arrays, in order; how many, those counted twice that were there twice."""
    some, count, whole = [np.empty(0, np.int64)], 0, 0
    while whole < len(arrays) and count < most:
        first = arrays[whole]
        if first.size > most - count:
            arrays[whole] = first[most - count :]
            first = first[: most - count]
        else:
            whole += 1
        some.append(first)
        count += first.size
    del arrays[:whole]
    return together(some), count


def together(parts: list[Slots]) -> Slots:
    """The slots of these arrays, each once and in order."""
    return distinct(parts[0] if len(parts) == 1 else np.concatenate(parts))
