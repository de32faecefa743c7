"""Very many items of which each is to be looked up once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hellinger._arrays import distinct, grown
from hellinger.ledger import Slots

__all__ = ["SlotSet"]


class SlotSet:
    """Slots, each once, with a mark for each: to add very many again and again takes neither a sort nor more memory."""

    def __init__(self) -> None:
        self._marks: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._end = 0
        """One more than the last slot that was ever here."""
        self._next = 0
        """Where to go on taking: what is added again and again keeps no other from its turn."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, slots: Slots) -> None:
        """Add these, some of which may be here."""
        if slots.size:
            self._reach(int(slots.max()) + 1)
            self._marks[slots] = True
            self._size = int(np.count_nonzero(self._marks[: self._end]))

    def add_all(self, marks: npt.NDArray[np.bool_]) -> None:
        """Add the slots that this is true of: where they are most of all, a fifth of the time."""
        self._reach(marks.size)
        self._marks[: marks.size] |= marks
        self._size = int(np.count_nonzero(self._marks[: self._end]))

    def _reach(self, end: int) -> None:
        self._end = max(self._end, end)
        self._marks = grown(self._marks, self._end)

    def take(self, most: int) -> Slots:
        """Take so many out; in order."""
        parts, left = [np.empty(0, np.int64)], min(most, self._size)
        while left:
            ahead = self._marks[self._next : self._end]
            first = int(ahead.argmax()) if ahead.size else 0
            if not ahead.size or not ahead[first]:
                self._next = 0
                continue
            start = self._next + first
            some = start + np.flatnonzero(self._marks[start : start + 4 * most])[:left]
            self._marks[some] = False
            self._next = int(some[-1]) + 1
            self._size -= some.size
            left -= some.size
            parts.append(some)
        return distinct(np.concatenate(parts))
