"""What items of a group had achieved when they were forgotten: it still tells something of the group's other items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from hellinger.ledger.counts import Columns, Counts, Floats
from hellinger.ledger.numbering import Names

__all__ = ["Departed"]

Key = tuple[str, str]
"""Variant and segment."""


class Departed:
    """Sums of forgotten items by group, for as long as a group has items."""

    def __init__(self) -> None:
        self.items: dict[Names, int] = {}
        """How many items each group has lost."""
        self.sums: dict[Key, dict[Names, tuple[float, float]]] = {}
        """Their impressions and rewards, by variant and segment."""

    def add(self, groups: Sequence[Names], slots: Sequence[int], counts: Mapping[Key, Counts], size: int) -> None:
        """Note items of these groups that are about to be forgotten, by slot; in a catalogue of so many."""
        for group in groups:
            self.items[group] = self.items.get(group, 0) + 1
        places = np.asarray(slots, np.intp)
        for key, each in counts.items():
            n, s = each.of(places, size)
            for j in np.flatnonzero((n != 0) | (s != 0)).tolist():
                sums = self.sums.setdefault(key, {})
                before = sums.get(groups[j], (0.0, 0.0))
                sums[groups[j]] = before[0] + float(n[j]), before[1] + float(s[j])

    def drop(self, group: Names) -> None:
        """Let go of a group that no item has any more."""
        if self.items.pop(group, 0):
            for sums in self.sums.values():
                sums.pop(group, None)

    def of(self, groups: Sequence[Names], variants: Iterable[str], segment: str) -> tuple[Floats, Columns]:
        """How many items these groups have lost; their impressions and rewards over some variants, in one segment."""
        items = np.array([self.items.get(group, 0) for group in groups], np.float64)
        n, s = np.zeros(len(groups)), np.zeros(len(groups))
        for variant in set(variants):
            sums = self.sums.get((variant, segment))
            if sums:
                n += [sums.get(group, (0.0, 0.0))[0] for group in groups]
                s += [sums.get(group, (0.0, 0.0))[1] for group in groups]
        return items, (n, s)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "items": sorted(self.items.items()),
            "sums": [(*key, sorted(self.sums[key].items())) for key in sorted(self.sums) if self.sums[key]],
        }

    @classmethod
    def of_json(cls, raw: Mapping[str, Any]) -> Self:
        """What :meth:`as_json` gave; nothing from an older snapshot."""
        made = cls()
        made.items = {tuple(group): items for group, items in raw.get("items", ())}
        made.sums = {
            (variant, segment): {tuple(group): tuple(pair) for group, pair in sums}
            for variant, segment, sums in raw.get("sums", ())
        }
        return made
