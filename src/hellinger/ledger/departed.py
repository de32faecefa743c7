"""What items of a group had achieved when they were forgotten: it still tells something of the group's other items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from hellinger.ledger.counts import Columns, Counts, Floats
from hellinger.ledger.looks import ZONES
from hellinger.ledger.numbering import Names

__all__ = ["Departed"]

_NOTHING = (0.0, 0.0, *[0.0] * (len(ZONES) - 1), 0.0)

Key = tuple[str, str]
"""Variant and segment."""


class Departed:
    """Sums of forgotten items by group, for as long as a group has items."""

    def __init__(self) -> None:
        self.items: dict[Names, int] = {}
        """How many items each group has lost."""
        self.sums: dict[Key, dict[Names, tuple[float, ...]]] = {}
        """By variant and segment: impressions, rewards, impressions in each zone of positions but the first, and of how
        many items."""

    def add(self, groups: Sequence[Names], slots: Sequence[int], counts: Mapping[Key, Counts], size: int) -> None:
        """Note items of these groups that are about to be forgotten, by slot; in a catalogue of so many."""
        for group in groups:
            self.items[group] = self.items.get(group, 0) + 1
        places = np.asarray(slots, np.intp)
        names = list(dict.fromkeys(groups))
        number = {group: j for j, group in enumerate(names)}
        whose = np.array([number[group] for group in groups], np.intp)
        for key, each in counts.items():
            n, s = each.of(places, size)
            known = (n != 0) | (s != 0)
            if not known.any():
                continue
            late = each.behind(places, size)
            rows = np.column_stack([n, s, late if len(late) else np.zeros((n.size, len(ZONES) - 1)), known])
            whole = np.zeros((len(names), len(_NOTHING)))
            np.add.at(whole, whose[known], rows[known])  # sums are exact in whatever order
            sums = self.sums.setdefault(key, {})
            for j in np.unique(whose[known]).tolist():
                before = sums.get(names[j], _NOTHING)
                sums[names[j]] = tuple([a + b for a, b in zip(before, whole[j].tolist(), strict=True)])

    def drop(self, group: Names) -> None:
        """Let go of a group that no item has any more."""
        if self.items.pop(group, 0):
            for sums in self.sums.values():
                sums.pop(group, None)

    def of(
        self, groups: Sequence[Names], variants: Iterable[str], segment: str, lacks: Floats | None = None
    ) -> tuple[Floats, Columns]:
        """How many shown items these groups have lost; their impressions and rewards over some variants, in a segment.

        One that several variants have shown counts for each, as far as the group has lost so many.

        With ``lacks`` what the impressions are worth: see :meth:`hellinger.ledger.ledger.Ledger.sums`.
        """
        lost = np.array([self.items.get(group, 0) for group in groups], np.float64)
        whole = np.zeros((len(groups), len(_NOTHING)))
        for variant in sorted(set(variants)):
            sums = self.sums.get((variant, segment))
            if sums:
                whole += [sums.get(group, _NOTHING) for group in groups]
        n = whole[:, 0] if lacks is None else whole[:, 0] - whole[:, 2:-1] @ lacks
        return np.minimum(lost, whole[:, -1]), (n.copy(), whole[:, 1].copy())

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
            (variant, segment): {tuple(group): made._completed(tuple(group), pair) for group, pair in sums}
            for variant, segment, sums in raw.get("sums", ())
        }
        return made

    def _completed(self, group: Names, sums: list[float]) -> tuple[float, ...]:
        """Sums of a snapshot, which may not say of how many items they are."""
        return tuple(sums) if len(sums) == len(_NOTHING) else (*sums, float(self.items.get(group, 0)))
