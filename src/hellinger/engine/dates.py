"""When items expire, and which have expired that the log does not know of yet.

Items are kept by the minute in which they expire, and sorted when it has begun: very many items expire together ("at
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
"""Items that expire at once, while rankings wait: some ten milliseconds. What is left expires with the next ranking."""
SPARE = 10_000
"""Dates that may be out of date, beside as many as there are items shown, before they are dropped."""
_MINUTE = 60_000
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
        self._minutes: dict[int, array[int]] = {}
        """Items by the minute in which they expire, or did before their date was changed."""
        self._heap: list[int] = []
        """The same minutes, and some that are no more."""
        self._unclean: list[int] = []
        """Minutes from which dates that are out of date have yet to be dropped, in this round."""
        self._begun: Slots = _NONE
        """Items of the minutes that have begun, those first that expire first."""
        self._dues: Slots = _NONE
        """When each of them expires, as of when its minute began."""
        self._size = 0
        """How many items there are in all these."""
        self._note(np.flatnonzero(catalogue["state"][: len(catalogue.ids)] == SHOWN))

    def __len__(self) -> int:
        return self._size

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
        self._clean(4 * slots.size)

    @property
    def known(self) -> bool:
        """Whether there is an item that ever expires."""
        return self._size > 0

    def due(self, at: int) -> bool:
        """Whether an item may expire by this time."""
        return bool(self._heap and self._heap[0] * _MINUTE <= at) or bool(self._dues.size and self._dues[0] <= at)

    def expire(self, at: int) -> Slots:
        """Slots of items that have expired by this time, each given once."""
        self._begin_minutes(at)
        stop = min(MOST, int(np.searchsorted(self._dues, at, "right")))
        slots, dues = self._begun[:stop], self._dues[:stop]
        self._begun, self._dues = self._begun[stop:], self._dues[stop:]
        self._size -= stop
        fresh: Slots = np.unique(slots[self._shown(slots) & (self.ends(slots) == dues)])
        self._expired[fresh] = True
        self._unlogged.update(dict.fromkeys(fresh.tolist()))
        return fresh

    def _begin_minutes(self, at: int) -> None:
        """Sort the items of the minutes that have begun by this time."""
        fresh = []
        while self._heap and self._heap[0] * _MINUTE <= at:
            fresh.append(self._current(heapq.heappop(self._heap)))
        if fresh:
            self._clean_begun()
            slots = np.concatenate([self._begun, *fresh])
            ends = self.ends(slots)
            order = np.argsort(ends, kind="stable")
            self._size += slots.size - self._begun.size
            self._begun, self._dues = slots[order], ends[order]

    def _current(self, minute: int) -> Slots:
        """Take out the items of a minute; those that still expire then, each once."""
        noted = np.array(self._minutes.pop(minute, ()), np.int64)
        self._size -= noted.size
        slots = np.unique(noted)
        current: Slots = slots[self._shown(slots) & (self.ends(slots) // _MINUTE == minute)]
        return current

    def _clean(self, most: int) -> None:
        """Drop dates that are out of date where there are many, of items deleted long before them, some at a time."""
        while most > 0 and self._size > 2 * self._catalogue.live + SPARE:
            if not self._unclean:
                self._clean_begun()
                self._unclean = list(self._minutes)
            if not self._unclean:
                break
            minute = self._unclean.pop()
            most -= len(self._minutes.get(minute, ()))
            kept = self._current(minute)
            if kept.size:
                self._minutes[minute] = array("q", kept.tobytes())
                self._size += kept.size

    def _clean_begun(self) -> None:
        current = self._shown(self._begun) & (self.ends(self._begun) == self._dues)
        self._size -= current.size
        self._begun, self._dues = self._begun[current], self._dues[current]
        self._size += self._begun.size

    def _shown(self, slots: Slots) -> npt.NDArray[np.bool_]:
        shown: npt.NDArray[np.bool_] = (self._catalogue["state"][slots] == SHOWN) & ~self.expired(slots)
        return shown

    def _note(self, slots: Slots) -> None:
        """Note when these items expire, those that ever do."""
        ends = self.ends(slots)
        dated = np.flatnonzero(ends)
        dated = dated[np.argsort(ends[dated], kind="stable")]
        minutes, starts = np.unique(ends[dated] // _MINUTE, return_index=True)
        stops = np.append(starts, dated.size)[1:]
        for minute, start, stop in zip(minutes.tolist(), starts.tolist(), stops.tolist(), strict=True):
            if minute not in self._minutes:
                self._minutes[minute] = array("q")
                heapq.heappush(self._heap, minute)
            self._minutes[minute].frombytes(slots[dated[start:stop]].tobytes())
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
