"""The items that the log speaks of: each has a slot, given once and never to another."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DELETED", "EXPIRED", "HIDDEN", "SHOWN", "STATES", "Catalogue", "grown"]

SHOWN, HIDDEN, EXPIRED, DELETED = range(4)
STATES = ("shown", "hidden", "expired", "deleted")

_COLUMNS: dict[str, Any] = {
    "since": np.int64,  # place in the log where the item began
    "said": np.int64,  # place in the log where it was last described
    "added_at": np.int64,
    "expires_at": np.int64,  # 0 for never
    "tags": np.int32,
    "state": np.int8,
    "digest": np.int64,  # of its last description, to tell whether another one says anything new
}


def grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array with room for so many, zeros behind what it held."""
    if size <= array.size:
        return array
    larger = np.zeros(max(size, 2 * array.size, 64), array.dtype)
    larger[: array.size] = array
    return larger


def digest(body: str) -> int:
    """A number for a text: 64 bits, never 0."""
    return int.from_bytes(blake2b(body.encode(), digest_size=8).digest(), "big", signed=True) or 1


class Catalogue:
    """Names, tags, states and dates of all items, by slot."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.slots: dict[str, int] = {}
        self.tag_sets: list[tuple[str, ...]] = [()]
        self._tag_numbers: dict[tuple[str, ...], int] = {(): 0}
        self.columns: dict[str, npt.NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in _COLUMNS.items()}
        self.live = 0
        """Contents that are shown."""

    def __len__(self) -> int:
        return len(self.slots)

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        return self.columns[column]

    def add(self, name: str, *, since: int, at: int) -> int:
        """A new item's slot."""
        slot = len(self.ids)
        if slot >= self.columns["since"].size:
            for column, array in self.columns.items():
                self.columns[column] = grown(array, slot + 1)
        self.ids.append(name)
        self.slots[name] = slot
        self.columns["since"][slot] = since
        self.columns["added_at"][slot] = at
        self.live += 1
        return slot

    def describe(self, slot: int, *, said: int, tags: tuple[str, ...], expires_at: int, body: str) -> None:
        """Take what was last said of an item: ``body`` is the text of the event."""
        self.columns["digest"][slot] = digest(body)
        self.columns["said"][slot] = said
        self.columns["tags"][slot] = self.know(tags)
        self.columns["expires_at"][slot] = expires_at

    def know(self, tags: tuple[str, ...]) -> int:
        """The number of a set of tags."""
        number = self._tag_numbers.get(tags)
        if number is None:
            number = self._tag_numbers[tags] = len(self.tag_sets)
            self.tag_sets.append(tags)
        return number

    def says(self, name: str, body: str) -> bool:
        """Whether the item's last description was this text."""
        slot = self.slots.get(name)
        return slot is not None and int(self.columns["digest"][slot]) == digest(body)

    def set_state(self, slot: int, state: int) -> bool:
        """Bring an item to a state; whether it was in another."""
        states = self.columns["state"]
        before = int(states[slot])
        if before == state:
            return False
        states[slot] = state
        self.live += (state == SHOWN) - (before == SHOWN)
        if state == DELETED:
            del self.slots[self.ids[slot]]
        return True

    def tags_of(self, slot: int) -> tuple[str, ...]:
        """An item's tags."""
        return self.tag_sets[int(self.columns["tags"][slot])]

    def kept(self) -> npt.NDArray[np.int64]:
        """Slots of all items that were not deleted, oldest first."""
        return np.flatnonzero(self.columns["state"][: len(self.ids)] != DELETED)
