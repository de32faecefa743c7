"""Items of groups that have left a variant's pools: their groups go on knowing what they achieved."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hellinger.ledger import Slots

__all__ = ["LeftItems"]

Group = tuple[str, ...]


class LeftItems:
    """Which items have left, by group; that of a deleted item is unknown, and it counts no more."""

    def __init__(self) -> None:
        self._group: dict[int, Group] = {}
        self._slots: dict[Group, set[int]] = {}
        self._arrays: dict[Group, Slots] = {}
        """The same in order, for groups that were asked for: feedback of one item asks for all of its group."""

    def __len__(self) -> int:
        return len(self._group)

    @property
    def groups(self) -> Iterable[Group]:
        """Groups that items have left."""
        return self._slots.keys()

    def note(self, slots: Iterable[int], groups: Iterable[Group]) -> set[Group]:
        """Note of which group each of these has left, ``()`` for none; groups of which something may be another."""
        touched = set()
        for slot, group in zip(slots, groups, strict=True):
            before = self._group.get(slot, ())
            touched |= {before, group}
            if before == group:
                continue
            self._arrays.pop(before, None)
            self._arrays.pop(group, None)
            if before:
                del self._group[slot]
                self._slots[before].discard(slot)
                if not self._slots[before]:
                    del self._slots[before]
            if group:
                self._group[slot] = group
                self._slots.setdefault(group, set()).add(slot)
        return touched - {()}

    def of(self, slots: Slots) -> set[Group]:
        """Groups that some of these have left."""
        return {self._group[slot] for slot in self._group.keys() & slots.tolist()} if self._group else set()

    def count(self, group: Group) -> int:
        """How many have left a group."""
        return len(self._slots.get(group, ()))

    def slots(self, group: Group, since: Slots) -> Slots:
        """Those that have left a group, oldest first: ``since`` has their places in the log."""
        found = self._arrays.get(group)
        if found is None:
            slots = np.array(list(self._slots.get(group, ())), np.int64)
            if not slots.size:
                return slots
            found = self._arrays[group] = slots[np.argsort(since[slots])]
        return found
