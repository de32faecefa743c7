"""Tag sets by number: an item has the number of its set, and a set that no item has any more is forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from hellinger.errors import InputError

__all__ = ["TagSets"]

Numbers = npt.NDArray[np.int32]
_NO_TAGS: frozenset[str] = frozenset()
_shared: WeakValueDictionary[frozenset[str], frozenset[str]] = WeakValueDictionary()
"""Sets that some pool has: a service has the same in the pools of all its variants and segments."""


class TagSets:
    """The tag sets of a pool. Number 0 is the empty set, always."""

    def __init__(self) -> None:
        self.sets: list[frozenset[str]] = [_NO_TAGS]
        """The set of each number; empty where the number is free."""
        self._number = {_NO_TAGS: 0}
        self._items = [0]
        """How many items have each."""
        self._free: list[int] = []
        self._having: dict[str, int | set[int]] = {}
        """The sets that have a tag; most are in one, and a set of one number is large."""

    def __len__(self) -> int:
        return len(self._number)

    def take(self, tags: Iterable[str] | Sequence[Iterable[str]], count: int) -> Numbers:
        """Number the sets of so many items, and note that they have them.

        ``tags`` are one set for all, or one set for each.
        """
        listed: list[Any] = [tags] if isinstance(tags, str) else list(tags)
        if all(isinstance(tag, str) for tag in listed):
            listed = [listed]
        elif len(listed) != count:
            raise InputError(f"`tags` must be one set for all or one for each of {count} ids, but got {len(listed)}")
        if set(map(type, listed)) == {tuple}:  # many items have few sets among them
            met = {given: _checked(given) for given in dict.fromkeys(listed)}
            sets = list(map(met.__getitem__, listed))
        else:
            sets = list(map(_checked, listed))
        if count == 0:
            return np.empty(0, np.int32)
        for new in {one: None for one in sets if one not in self._number}:
            self._enter(new)
        numbers = [self._number[one] for one in sets]
        for number, times in Counter(numbers).items():
            self._items[number] += times * count // len(numbers)
        return np.broadcast_to(np.array(numbers, np.int32), (count,))

    def drop(self, numbers: Numbers) -> None:
        """Note that items no longer have these sets; a set without items is forgotten."""
        for number, times in Counter(numbers.tolist()).items():
            self._items[number] -= times
            if self._items[number] == 0 and number != 0:
                tags = self.sets[number]
                del self._number[tags]
                for tag in tags:
                    having = self._having[tag]
                    if isinstance(having, int) or len(having) == 1:
                        del self._having[tag]
                    else:
                        having.remove(number)
                self.sets[number] = _NO_TAGS
                self._free.append(number)

    def having(self, tags: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which sets have one of these tags, by number."""
        found = np.zeros(len(self.sets), np.bool_)
        for tag in _checked(tags):
            having = self._having.get(tag, ())
            found[having if isinstance(having, int) else list(having)] = True
        return found

    def copy(self) -> TagSets:
        """The same sets, to go their own way."""
        other = TagSets()
        other.sets, other._number, other._items = list(self.sets), dict(self._number), list(self._items)
        other._free = list(self._free)
        other._having = {tag: each if isinstance(each, int) else set(each) for tag, each in self._having.items()}
        return other

    def state(self) -> list[list[str] | None]:
        """The sets by number for a snapshot, None where one is free."""
        return [sorted(tags) if self._number.get(tags) == number else None for number, tags in enumerate(self.sets)]

    def restore(self, state: list[list[str] | None], numbers: Numbers) -> None:
        """Go on from a snapshot, with items that have these sets."""
        self.sets = [_NO_TAGS] * len(state)
        self._items = np.bincount(numbers, minlength=len(state)).tolist()
        self._free = [number for number, tags in enumerate(state) if tags is None]
        for number, tags in enumerate(state):
            if tags:
                self._set(number, frozenset(tags))

    def _enter(self, tags: frozenset[str]) -> None:
        if not self._free:
            self._free.append(len(self.sets))
            self.sets.append(_NO_TAGS)
            self._items.append(0)
        self._set(self._free.pop(), tags)

    def _set(self, number: int, tags: frozenset[str]) -> None:
        tags = self.sets[number] = _shared.setdefault(tags, tags)
        self._number[tags] = number
        for tag in tags:
            having = self._having.get(tag)
            if having is None:
                self._having[tag] = number
            elif isinstance(having, int):
                self._having[tag] = {having, number}
            else:
                having.add(number)


def _checked(tags: Iterable[str]) -> frozenset[str]:
    found = frozenset([tags] if isinstance(tags, str) else tags)
    for tag in found:
        if not isinstance(tag, str):
            raise InputError(f"`tag` must be a string, but got {tag!r}")
    return found
