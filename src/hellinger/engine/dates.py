"""When items expire, and which have expired that the log does not know of yet."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger.ledger import SHOWN, Catalogue, Changes, Slots

__all__ = ["Dates"]

MOST = 10_000
"""Items that expire at once, while rankings wait: some ten milliseconds. What is left expires with the next ranking."""
SPARE = 10_000
"""Dates that may be out of date, beside as many as there are items shown, before they are dropped."""
TO_LOG = 1_000
"""Items for which events are made at once."""


class Dates:
    """Dates of expiry of a catalogue's items, in order.

    Parameters
    ----------
    catalogue
        Whose items.
    age
        Milliseconds after which every item expires, whatever its own date; None for never.
    """

    def __init__(self, catalogue: Catalogue, age: int | None = None) -> None:
        self._catalogue = catalogue
        self._age = age
        self._expired = np.zeros(0, np.bool_)
        """By slot: whether an item has expired that the log still says is shown."""
        self._unlogged: dict[int, None] = {}
        """Those of them, in order, that are not in the log yet."""
        self._heap: list[tuple[int, int]] = []
        self._begin()

    def _begin(self) -> None:
        """Look up the dates of all items."""
        slots = np.flatnonzero(self._catalogue["state"][: len(self._catalogue.ids)] == SHOWN)
        self._heap = list(self._dues(slots[np.argsort(self.ends(slots), kind="stable")]))

    def expired(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Which of these items have expired, though the log still says that they are shown."""
        self._expired = grown(self._expired, len(self._catalogue.ids))
        found: npt.NDArray[np.bool_] = self._expired[slots]
        return found

    def follow(self, changes: Changes) -> None:
        """Forget what was known of changed items: their dates are looked up anew."""
        if not changes.items:
            return
        slots = np.array(sorted(changes.items), np.int64)
        for slot in slots[self.expired(slots)].tolist():
            self._unlogged.pop(slot, None)
        self._expired[slots] = False
        for entry in self._dues(slots[self._catalogue["state"][slots] == SHOWN]):
            heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * self._catalogue.live + SPARE:  # of items deleted long before their date
            self._begin()

    @property
    def known(self) -> bool:
        """Whether there is an item that ever expires."""
        return bool(self._heap)

    def due(self, at: int) -> bool:
        """Whether an item may expire by this time."""
        return bool(self._heap) and self._heap[0][0] <= at

    def expire(self, at: int) -> Slots:
        """Slots of items that have expired by this time, each given once."""
        entries: list[tuple[int, int]] = []
        while self.due(at) and len(entries) < MOST:
            entries.append(heapq.heappop(self._heap))
        dues, slots = np.array(entries, np.int64).reshape(-1, 2).T
        current = (self._catalogue["state"][slots] == SHOWN) & ~self.expired(slots) & (self.ends(slots) == dues)
        fresh: Slots = np.unique(slots[current])
        self._expired[fresh] = True
        self._unlogged.update(dict.fromkeys(fresh.tolist()))
        return fresh

    def to_log(self) -> list[int]:
        """Slots of expired items to be written to the log, each given once; ask again while there are any."""
        some = list(islice(self._unlogged, TO_LOG))
        for slot in some:
            del self._unlogged[slot]
        return some

    def ends(self, slots: Slots) -> Slots:
        """When each of these items expires; 0 for never."""
        dues: Slots = self._catalogue["expires_at"][slots]
        if self._age is None:
            return dues
        aged = self._catalogue["added_at"][slots] + self._age
        return np.where(dues > 0, np.minimum(dues, aged), aged)

    def _dues(self, slots: Slots) -> Iterable[tuple[int, int]]:
        """When these items expire, those that ever do."""
        dues = self.ends(slots)
        some = np.flatnonzero(dues)
        pairs: Iterator[tuple[int, int]] = zip(dues[some].tolist(), slots[some].tolist(), strict=True)
        return pairs
