"""When items expire, and which have expired that the log does not know of yet."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from hellinger.ledger import SHOWN, Catalogue, Changes

__all__ = ["Dates"]


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
        self.expired: set[int] = set()
        """Slots of items that have expired, which the log still says are shown."""
        self._logged: set[int] = set()
        """Those of them for which an event is on its way."""
        self._heap = list(self._dues(np.flatnonzero(catalogue["state"][: len(catalogue.ids)] == SHOWN)))
        heapq.heapify(self._heap)

    def follow(self, changes: Changes) -> None:
        """Forget what was known of changed items: their dates are looked up anew."""
        if not changes.items:
            return
        self.expired -= changes.items
        self._logged -= changes.items
        slots = np.array(sorted(changes.items), np.int64)
        for entry in self._dues(slots[self._catalogue["state"][slots] == SHOWN]):
            heapq.heappush(self._heap, entry)

    def due(self, at: int) -> bool:
        """Whether an item may expire by this time."""
        return bool(self._heap) and self._heap[0][0] <= at

    def expire(self, at: int) -> list[int]:
        """Slots of items that have expired by this time, each given once."""
        fresh = []
        while self.due(at):
            due, slot = heapq.heappop(self._heap)
            if slot not in self.expired and self._catalogue["state"][slot] == SHOWN and self._due(slot) == due:
                self.expired.add(slot)
                fresh.append(slot)
        return fresh

    def to_log(self) -> list[int]:
        """Slots of expired items that the log is to be told of, each given once."""
        fresh = sorted(self.expired - self._logged)
        self._logged.update(fresh)
        return fresh

    def _due(self, slot: int) -> int:
        return next((due for due, _ in self._dues(np.array([slot]))), 0)

    def _dues(self, slots: npt.NDArray[np.int64]) -> Iterable[tuple[int, int]]:
        """When these items expire, those that ever do."""
        dues = self._catalogue["expires_at"][slots]
        if self._age is not None:
            aged = self._catalogue["added_at"][slots] + self._age
            dues = np.where(dues > 0, np.minimum(dues, aged), aged)
        some = np.flatnonzero(dues)
        pairs: Iterator[tuple[int, int]] = zip(dues[some].tolist(), slots[some].tolist(), strict=True)
        return pairs
