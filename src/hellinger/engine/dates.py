"""When items expire, and which have expired that the log does not know of yet.

Items are kept by the minute in which they expire, and sorted when it has begun: very many items expire together ("at
midnight"), and to take each of them from a heap takes ten times as long.

However many expire together, one call takes up at most ``MOST`` of them. Where more are due, all dates are compared
with the clock once; while some have not had their turn, :meth:`Dates.shows` also looks at an item's own date, so that
it is exact at every moment: only what follows from it for others comes a part at a time.
"""

from __future__ import annotations

import heapq
from array import array
from itertools import count

import numpy as np
import numpy.typing as npt

from hellinger._arrays import distinct, grown
from hellinger.ledger import SHOWN, Catalogue, Changes, Slots

__all__ = ["Dates"]

MOST = 10_000
"""Dates that are taken up at once, while rankings wait: a millisecond. Others have their turn with the next ranking."""
SPARE = 10_000
"""Dates that may be out of date, beside as many as there are items shown, before they are dropped."""
_MINUTE = 60_000
"""Milliseconds."""
TO_LOG = 1_000
"""Items for which events are made at once."""
PART = 1 << 15
"""Items whose dates are compared with the clock at a time."""


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
        """By slot: whether an item is known to have expired that the log still says is shown."""
        self._over = 0
        """How many these are."""
        self._given = np.zeros(0, np.bool_)
        """Which of them :meth:`expire` has given."""
        self._unlogged = np.zeros(0, np.bool_)
        """Which of those are not in the log yet."""
        self._waiting = 0
        """How many these are."""
        self._late = 0
        """The time by which items have expired of which not all were given; 0 where all were."""
        self._minutes: dict[int, array[int]] = {}
        """Items by the minute in which they expire, or did before their date was changed."""
        self._heap: list[int] = []
        """The same minutes, and some that are no more."""
        self._begun: dict[int, tuple[Slots, Slots]] = {}
        """Items of minutes that have begun, in pieces; in each those first that expire first, and when they do."""
        self._firsts: list[tuple[int, int]] = []
        """When the first of each piece expires, and which it is; a heap, with some that are no more."""
        self._pieces = count()
        self._unclean: list[int] = []
        """Minutes from which dates that are out of date have yet to be dropped, in this round."""
        self._unclean_begun: list[int] = []
        """The same for pieces of minutes that have begun."""
        self._cleaning: tuple[int, array[int], npt.NDArray[np.bool_] | None] | None = None
        """The minute that is being cleaned, what is left of it, and which items it has beside these; None for none."""
        self._size = 0
        """How many items there are in all these."""
        self._note(np.flatnonzero(catalogue["state"][: len(catalogue.ids)] == SHOWN))

    def __len__(self) -> int:
        return self._size

    @property
    def shown(self) -> int:
        """How many items may be shown at most: exactly so many, unless some that are due have not had their turn."""
        return self._catalogue.live - self._over

    def shows(self, slots: Slots | slice) -> npt.NDArray[np.bool_]:
        """Which of these items may be shown: they are neither deleted nor hidden nor expired."""
        shown: npt.NDArray[np.bool_] = (self._catalogue["state"][slots] == SHOWN) & ~self.expired(slots)
        return shown

    def expired(self, slots: Slots | slice) -> npt.NDArray[np.bool_]:
        """Which of these items have expired, though the log still says that they are shown."""
        self._reach()
        found = self._expired[slots]
        return found | self._overdue(slots, self._late) if self._late else found

    def showing(self) -> npt.NDArray[np.bool_]:
        """By slot: which items may be shown."""
        size = self._reach()
        shown: npt.NDArray[np.bool_] = (self._catalogue["state"][:size] == SHOWN) & ~self._expired[:size]
        if self._late:
            left = np.flatnonzero(shown)
            shown[left] = ~self._overdue(left, self._late)
        return shown

    def _overdue(self, slots: Slots | slice, at: int) -> npt.NDArray[np.bool_]:
        """Which of these the log says are shown, though by their dates they have expired by this time."""
        ends = self.ends(slots)
        found: npt.NDArray[np.bool_] = (self._catalogue["state"][slots] == SHOWN) & (ends > 0) & (ends <= at)
        return found

    def _reach(self) -> int:
        """Have a place for every slot; how many there are."""
        size = len(self._catalogue.ids)
        self._expired, self._given = grown(self._expired, size), grown(self._given, size)
        self._unlogged = grown(self._unlogged, size)
        return size

    def follow(self, changes: Changes) -> None:
        """Forget what was known of changed items: their dates are looked up anew."""
        if not changes.items:
            return
        slots = np.array(sorted(changes.items), np.int64)
        self._reach()
        self._waiting -= int(np.count_nonzero(self._unlogged[slots]))
        self._over -= int(np.count_nonzero(self._expired[slots]))
        self._expired[slots] = self._given[slots] = self._unlogged[slots] = False
        self._note(slots[self._catalogue["state"][slots] == SHOWN])
        self._clean(4 * slots.size)

    @property
    def known(self) -> bool:
        """Whether there is an item that ever expires."""
        return self._size > 0

    @property
    def late(self) -> bool:
        """Whether items have expired that :meth:`expire` has yet to give."""
        return self._late > 0

    def due(self, at: int) -> bool:
        """Whether an item may expire by this time, or one that has expired was not given yet."""
        at = max(at, self._late)
        return bool(self._heap and self._heap[0] * _MINUTE <= at) or bool(self._firsts and self._firsts[0][0] <= at)

    def expire(self, at: int) -> Slots:
        """Slots of items that have expired by this time, each given once: ask again while some are :meth:`due`."""
        at = max(at, self._late)
        left, found = MOST, [np.empty(0, np.int64)]
        while left > 0 and self._heap and self._heap[0] * _MINUTE <= at:
            left -= self._begin(self._heap[0], left)
        left = MOST
        while left > 0 and self._firsts and self._firsts[0][0] <= at:
            _, piece = heapq.heappop(self._firsts)
            if piece not in self._begun:
                continue
            slots, dues = self._begun.pop(piece)
            stop = min(left, int(np.searchsorted(dues, at, "right")))
            self._keep(piece, slots[stop:], dues[stop:])
            self._size -= stop
            left -= stop
            slots, dues = slots[:stop], dues[:stop]
            fresh = distinct(slots[self._to_come(slots) & (self.ends(slots) == dues)])
            self._note_over(fresh[~self._expired[fresh]])
            self._given[fresh] = self._unlogged[fresh] = True
            self._waiting += fresh.size
            found.append(fresh)
        before, self._late = self._late, at if self.due(at) else 0
        if self._late and not before:
            self._compare(at)
        return distinct(np.concatenate(found))

    def _compare(self, at: int) -> None:
        """Note of all items which have expired by this time."""
        size = self._reach()
        for start in range(0, size, PART):  # what is worked out in between fits the processor's cache
            some = slice(start, min(size, start + PART))
            self._note_over(start + np.flatnonzero(self._overdue(some, at) & ~self._expired[some]))

    def _note_over(self, slots: Slots) -> None:
        self._expired[slots] = True
        self._over += slots.size

    def _begin(self, minute: int, most: int) -> int:
        """Sort so many items of a minute that has begun; how many there were."""
        if self._cleaning is not None and self._cleaning[0] == minute:
            self._leave_off()
        noted = self._minutes.get(minute, array("q"))
        slots = np.array(noted[-most:], np.int64)
        del noted[-most:]
        if not noted:
            self._minutes.pop(minute, None)
            heapq.heappop(self._heap)
        self._size -= slots.size
        current = self._current(slots, minute)
        ends = self.ends(current)
        order = np.argsort(ends, kind="stable")
        self._size += current.size
        self._keep(next(self._pieces), current[order], ends[order])
        return slots.size

    def _keep(self, piece: int, slots: Slots, dues: Slots) -> None:
        if slots.size:
            self._begun[piece] = slots, dues
            heapq.heappush(self._firsts, (int(dues[0]), piece))

    def _current(self, noted: Slots, minute: int) -> Slots:
        """Those of these items that still expire in a minute, each once."""
        slots = distinct(noted)
        current: Slots = slots[self._to_come(slots) & (self.ends(slots) // _MINUTE == minute)]
        return current

    def _clean(self, most: int) -> None:
        """Drop dates that are out of date where there are many, of items deleted long before them, some at a time."""
        while most > 0 and (self._cleaning is not None or self._size > 2 * self._catalogue.live + SPARE):
            if self._cleaning is not None:
                most -= self._clean_some(*self._cleaning, most)
            elif self._unclean_begun:
                most -= self._clean_piece(self._unclean_begun.pop())
            elif self._unclean:
                minute = self._unclean.pop()
                if minute in self._minutes:
                    noted, self._minutes[minute] = self._minutes[minute], array("q")
                    self._cleaning = minute, noted, None
            else:
                self._unclean, self._unclean_begun = list(self._minutes), list(self._begun)
                if not self._unclean and not self._unclean_begun:
                    break

    def _clean_some(self, minute: int, noted: array[int], kept: npt.NDArray[np.bool_] | None, most: int) -> int:
        """Look at so many dates of the minute that is being cleaned; how many there were."""
        slots = np.array(noted[-most:], np.int64)
        del noted[-most:]
        current = self._current(slots, minute)
        if noted or kept is not None:  # an item may be there again in another part
            kept = grown(np.zeros(0, np.bool_) if kept is None else kept, len(self._catalogue.ids))
            current = current[~kept[current]]
            kept[current] = True
        self._minutes[minute].frombytes(current.tobytes())
        self._size += current.size - slots.size
        self._cleaning = (minute, noted, kept) if noted else None
        if not self._minutes[minute] and self._cleaning is None:
            del self._minutes[minute]
        return max(1, slots.size)

    def _leave_off(self) -> None:
        """Put back what is left of the minute that is being cleaned."""
        if self._cleaning is not None:
            minute, noted, _ = self._cleaning
            self._minutes[minute].extend(noted)
            self._cleaning = None

    def _clean_piece(self, piece: int) -> int:
        if piece not in self._begun:
            return 1
        slots, dues = self._begun.pop(piece)
        current = self._to_come(slots) & (self.ends(slots) == dues)
        self._size -= int(np.count_nonzero(~current))
        self._keep(piece, slots[current], dues[current])
        return slots.size

    def _to_come(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Which of these the log says are shown, and :meth:`expire` has not given."""
        self._reach()
        shown: npt.NDArray[np.bool_] = (self._catalogue["state"][slots] == SHOWN) & ~self._given[slots]
        return shown

    def _note(self, slots: Slots) -> None:
        """Note when these items expire, those that ever do."""
        ends = self.ends(slots)
        dated = np.flatnonzero(ends)
        dated = dated[np.argsort(ends[dated], kind="stable")]
        minutes = ends[dated] // _MINUTE
        starts = np.flatnonzero(np.diff(minutes, prepend=-1))
        stops = np.append(starts, dated.size)[1:]
        for minute, start, stop in zip(minutes[starts].tolist(), starts.tolist(), stops.tolist(), strict=True):
            if minute not in self._minutes:
                self._minutes[minute] = array("q")
                heapq.heappush(self._heap, minute)
            self._minutes[minute].frombytes(slots[dated[start:stop]].tobytes())
        self._size += dated.size

    def to_log(self) -> list[int]:
        """Slots of expired items to be written to the log, each given once; ask again while there are any."""
        if not self._waiting:
            return []
        some = np.flatnonzero(self._unlogged[: len(self._catalogue.ids)])[:TO_LOG]
        self._unlogged[some] = False
        self._waiting -= some.size
        found: list[int] = some.tolist()
        return found

    def ends(self, slots: Slots | slice) -> Slots:
        """When each of these items expires; 0 for never."""
        dues: Slots = self._catalogue["expires_at"][slots]
        if self._age is None:
            return dues
        aged = self._catalogue["added_at"][slots] + self._age
        return np.where(dues > 0, np.minimum(dues, aged), aged)
