"""The items that the log speaks of: each has a slot, which another may have once it is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from hellinger._arrays import grown
from hellinger.ledger.numbering import Names, Numbering

__all__ = ["DELETED", "EXPIRED", "HIDDEN", "SHOWN", "STATES", "Catalogue"]

SHOWN, HIDDEN, EXPIRED, DELETED = range(4)
STATES = ("shown", "hidden", "expired", "deleted")

_COLUMNS: dict[str, Any] = {
    "since": np.int64,  # place in the log where the item began, 0 for a free slot
    "said": np.int64,  # place in the log where it was last described
    "added_at": np.int64,
    "expires_at": np.int64,  # 0 for never
    "left_at": np.int64,  # when it expired or was deleted; 0 for never, or where an older snapshot does not say
    "tags": np.int32,
    "group": np.int32,
    "state": np.int8,
    "digest": np.int64,  # of its last description, to tell whether another one says anything new
}


def digest(body: str) -> int:
    """A number for a text: 64 bits, never 0."""
    return int.from_bytes(blake2b(body.encode(), digest_size=8).digest(), "big", signed=True) or 1


class Catalogue:
    """Names, tags, states and dates of all items, by slot.

    A slot is a matter of this catalogue alone: another one of the same log may have other slots for the same items.
    What is known of an item everywhere is ``since``, the place in the log where it was added.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.slots: dict[str, int] = {}
        self.left: dict[int, int] = {}
        """Items that have expired or were deleted and are not forgotten, in that order: slot by ``since``."""
        self.free: list[int] = []
        """Slots of forgotten items, for new ones."""
        self.version = 0
        """How often items were forgotten: what remembers slots from an earlier version has to look them up again."""
        self.tags = Numbering()
        """Sets of tags, by the numbers that the column ``tags`` has."""
        self.dropped_groups: list[Names] = []
        """Groups that no item has any more, since the ledger last looked."""
        self.groups = Numbering(self.dropped_groups.append)
        """Groups, each from broad to narrow, by the numbers that the column ``group`` has."""
        self.features: dict[int, str] = {}
        """What items are, by slot, as JSON; of those that say it."""
        self.columns: dict[str, npt.NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in _COLUMNS.items()}
        self.live = 0
        """Items that are shown."""
        self.newest = 0
        """Where in the log the last item was added."""
        self._added: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """The places in the log where items were added, in order, those of forgotten items too; longer than used."""
        self._added_slots: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """The slots that they were given."""
        self._additions = 0
        """How many there are."""
        self._guesses: npt.NDArray[np.int64] = np.zeros(64, np.int64)
        """The slot of the item that was last added at a place with these lowest bits: nearly always the one sought."""

    def __len__(self) -> int:
        return len(self.slots)

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        return self.columns[column]

    def add(self, name: str, *, since: int, at: int) -> int:
        """A new item's slot."""
        if self.free:
            slot = self.free.pop()
            self.ids[slot] = name
            self.columns["state"][slot] = SHOWN
        else:
            slot = len(self.ids)
            if slot >= self.columns["since"].size:
                for column, array in self.columns.items():
                    self.columns[column] = grown(array, slot + 1)
            self.ids.append(name)
            self.tags.items[0] += 1
            self.groups.items[0] += 1
        self.slots[name] = slot
        self._note_addition(since, slot)
        self.columns["since"][slot] = self.newest = since
        self.columns["added_at"][slot] = at
        self.live += 1
        return slot

    def _note_addition(self, since: int, slot: int) -> None:
        if self._additions == self._added.size:
            if self._additions >= 2 * len(self.ids):
                self._index()
            self._added = grown(self._added, self._additions + 1)
            self._added_slots = grown(self._added_slots, self._additions + 1)
        self._added[self._additions] = since
        self._added_slots[self._additions] = slot
        self._additions += 1
        if 2 * self._additions > self._guesses.size:
            self._guess()
        self._guesses[since & (self._guesses.size - 1)] = slot

    def _index(self) -> None:
        """Have the places of the present items alone in the index."""
        since = self.added()
        slots = np.argsort(since, kind="stable")
        slots = slots[since[slots] > 0]
        self._added, self._added_slots, self._additions = since[slots], slots, slots.size
        self._guess()

    def _guess(self) -> None:
        self._guesses = np.zeros(1 << (4 * self._additions + 63).bit_length(), np.int64)
        self._guesses[self._added[: self._additions] & (self._guesses.size - 1)] = self._added_slots[: self._additions]

    def find(self, added: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Slots of the items that were added at these places in the log; −1 for one that was deleted or forgotten."""
        if not self._additions:
            return np.full(added.size, -1)
        since, state = self.columns["since"], self.columns["state"]
        slots: npt.NDArray[np.int64] = self._guesses[added & (self._guesses.size - 1)]
        wrong = np.flatnonzero(since[slots] != added)
        if wrong.size:
            places = np.searchsorted(self._added[: self._additions], added[wrong])
            slots[wrong] = self._added_slots[np.minimum(places, self._additions - 1)]
        # the slot of one that was forgotten may be another's by now
        gone = (since[slots] != added) if wrong.size else np.zeros(added.size, np.bool_)
        gone |= state[slots] == DELETED
        slots[gone] = -1
        return slots

    def describe(
        self, slot: int, *, said: int, tags: Names, expires_at: int, body: str, group: Names = (), features: str = ""
    ) -> bool:
        """Take what was last said of an item; whether tags, group or features are others. ``body`` is the event's."""
        self.columns["digest"][slot] = digest(body)
        self.columns["said"][slot] = said
        self.columns["expires_at"][slot] = expires_at
        before = self.columns["tags"][slot], self.columns["group"][slot], self.features.get(slot, "")
        self.label(slot, tags, group)
        if features:
            self.features[slot] = features
        else:
            self.features.pop(slot, None)
        return before != (self.columns["tags"][slot], self.columns["group"][slot], features)

    def label(self, slot: int, tags: Names, group: Names) -> None:
        """Give an item these tags and this group; those that it had are let go where no other item has them."""
        self.columns["tags"][slot] = self.tags.move(int(self.columns["tags"][slot]), tags)
        self.columns["group"][slot] = self.groups.move(int(self.columns["group"][slot]), group)

    def restore(
        self, ids: list[str], tags: Sequence[Names], groups: Sequence[Names] = (), features: Iterable[str | None] = ()
    ) -> None:
        """Go on from a snapshot, with these names, tag sets, groups and features; the columns are there already."""
        self.ids = ids
        self.slots = {name: slot for slot, name in enumerate(ids)}
        state, since = self.columns["state"], self.columns["since"]
        self.live = int((state == SHOWN).sum())
        self.newest = int(since.max(initial=0))
        self._index()
        left = np.flatnonzero(state == EXPIRED)
        left = left[np.argsort(self.columns["left_at"][left], kind="stable")]
        self.left = dict(zip(since[left].tolist(), left.tolist(), strict=True))
        self.tags.restore(tags, self.columns["tags"])
        self.groups.restore(groups, self.columns["group"])
        self.features = {slot: text for slot, text in enumerate(features) if text}
        for name, array in self.columns.items():  # now, not when rankings wait for the next item
            self.columns[name] = grown(array, len(ids) + 1)

    def says(self, name: str, body: str) -> bool:
        """Whether the item's last description was this text."""
        slot = self.slots.get(name)
        return slot is not None and int(self.columns["digest"][slot]) == digest(body)

    def set_state(self, slot: int, state: int, at: int) -> bool:
        """Bring an item to a state at a time; whether it was in another."""
        states = self.columns["state"]
        before = int(states[slot])
        if before == state:
            return False
        states[slot] = state
        self.live += (state == SHOWN) - (before == SHOWN)
        if state == DELETED:
            del self.slots[self.ids[slot]]
            self.label(slot, self.tags_of(slot), ())
            self.features.pop(slot, None)
        since, gone = int(self.columns["since"][slot]), state in (EXPIRED, DELETED)
        self.left.pop(since, None)
        self.columns["left_at"][slot] = at if gone else 0
        if gone:
            self.left[since] = slot
        return True

    def forget(self, added: Iterable[int]) -> list[int]:
        """Let go of the items that were added at these places in the log and have left; the slots that they had."""
        self.version += 1
        slots = [slot for since in added if (slot := self.left.pop(since, -1)) >= 0]
        for slot in slots:
            if self.slots.get(self.ids[slot]) == slot:
                del self.slots[self.ids[slot]]
            self.ids[slot] = ""
            self.label(slot, (), ())
            self.features.pop(slot, None)
            for column in self.columns.values():
                column[slot] = 0
            self.columns["state"][slot] = DELETED
        self.free += slots
        return slots

    def tags_of(self, slot: int) -> Names:
        """An item's tags."""
        return self.tags.values[int(self.columns["tags"][slot])]

    def group_of(self, slot: int) -> Names:
        """An item's group, from broad to narrow; empty for none."""
        return self.groups.values[int(self.columns["group"][slot])]

    def features_of(self, slot: int) -> dict[str, Any] | None:
        """What an item is; None where nobody said it."""
        text = self.features.get(slot)
        return None if text is None else orjson.loads(text)

    def added(self) -> npt.NDArray[np.int64]:
        """Where in the log the item of each slot was added, 0 for a free slot; a copy, which stays as it is."""
        return self.columns["since"][: len(self.ids)].copy()

    def present(self) -> npt.NDArray[np.int64]:
        """Slots of all items that were not deleted."""
        return np.flatnonzero(self.columns["state"][: len(self.ids)] != DELETED)
