"""When items expire, and which have expired that the log does not know of yet.

Items are kept by the second in which they expire, and sorted when it has begun: very many items expire together ("at
midnight"), and to take each of them from a heap takes ten times as long.
"""

from __future__ import annotations

import heapq
from array import array
from itertools import islice

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger.ledger import SHOWN, Catalogue, Changes, Slots

__all__ = ["Dates"]

_NONE = np.empty(0, np.int64)
MOST = 10_000
"""Items that expire at once, while rankings wait: a millisecond or two. What is left expires with the next ranking."""
SPARE = 10_000
"""Dates that may be out of date, beside as many as there are items shown, before they are dropped."""
_SECOND = 1000
"""Milliseconds."""
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
        self._seconds: dict[int, array[int]] = {}
        """Items by the second in which they expire, or did before their date was changed."""
        self._heap: list[int] = []
        """The same seconds."""
        self._begun: Slots = _NONE
        """Items of the seconds that have begun, those first that expire first."""
        self._dues: Slots = _NONE
        """When each of them expires, as of when its second began."""
        self._size = 0
        """How many items there are in all these."""
        self._begin()

    def __len__(self) -> int:
        return self._size

    def _begin(self) -> None:
        """Look up the dates of all items."""
        self._seconds, self._heap, self._size = {}, [], 0
        self._begun = self._dues = _NONE
        self._note(np.flatnonzero(self._catalogue["state"][: len(self._catalogue.ids)] == SHOWN))

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
        self._note(slots[self._catalogue["state"][slots] == SHOWN])
        if self._size > 2 * self._catalogue.live + SPARE:  # of items deleted long before their date
            self._begin()

    @property
    def known(self) -> bool:
        """Whether there is an item that ever expires."""
        return self._size > 0

    def due(self, at: int) -> bool:
        """Whether an item may expire by this time."""
        return bool(self._heap and self._heap[0] * _SECOND <= at) or bool(self._dues.size and self._dues[0] <= at)

    def expire(self, at: int) -> Slots:
        """Slots of items that have expired by this time, each given once."""
        self._begin_seconds(at)
        stop = min(MOST, int(np.searchsorted(self._dues, at, "right")))
        slots, dues = self._begun[:stop], self._dues[:stop]
        self._begun, self._dues = self._begun[stop:], self._dues[stop:]
        self._size -= stop
        fresh: Slots = np.unique(slots[self._shown(slots) & (self.ends(slots) == dues)])
        self._expired[fresh] = True
        self._unlogged.update(dict.fromkeys(fresh.tolist()))
        return fresh

    def _begin_seconds(self, at: int) -> None:
        """Sort the items of the seconds that have begun by this time."""
        begun = [self._begun]
        while self._heap and self._heap[0] * _SECOND <= at:
            begun.append(np.array(self._seconds.pop(heapq.heappop(self._heap)), np.int64))
        if len(begun) > 1:
            slots = np.concatenate(begun)
            ends = self.ends(slots)
            current = self._shown(slots) & (ends > 0)
            order = np.argsort(ends[current], kind="stable")
            self._begun, self._dues = slots[current][order], ends[current][order]
            self._size -= slots.size - self._begun.size

    def _shown(self, slots: Slots) -> npt.NDArray[np.bool_]:
        shown: npt.NDArray[np.bool_] = (self._catalogue["state"][slots] == SHOWN) & ~self.expired(slots)
        return shown

    def _note(self, slots: Slots) -> None:
        """Note when these items expire, those that ever do."""
        ends = self.ends(slots)
        dated = np.flatnonzero(ends)
        dated = dated[np.argsort(ends[dated], kind="stable")]
        seconds, starts = np.unique(ends[dated] // _SECOND, return_index=True)
        stops = np.append(starts, dated.size)[1:]
        for second, start, stop in zip(seconds.tolist(), starts.tolist(), stops.tolist(), strict=True):
            if second not in self._seconds:
                self._seconds[second] = array("q")
                heapq.heappush(self._heap, second)
            self._seconds[second].frombytes(slots[dated[start:stop]].tobytes())
        self._size += dated.size

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
