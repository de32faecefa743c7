"""Lists of names that many items share, each kept once and known by a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Names", "Numbering"]

Names = tuple[str, ...]


class Numbering:
    """Tag sets, or groups: the number of each, for as long as an item has it; 0 is the empty one.

    Which number a list has is a matter of this numbering alone: another one of the same log may have others.
    """

    def __init__(self, dropped: Callable[[Names], None] | None = None) -> None:
        self.values: list[Names] = [()]
        """The list of each number; empty where the number is free."""
        self.items: list[int] = [0]
        """How many items have each."""
        self._numbers: dict[Names, int] = {(): 0}
        self._free: list[int] = []
        self._dropped = dropped
        """Called with what is let go."""

    def move(self, before: int, names: Names) -> int:
        """Let an item have these names instead of those of a number; their number.

        Names that no item has any more are let go.
        """
        number = self._numbers.get(names)
        if number == before:
            return before
        if number is None:
            if self._free:
                number = self._free.pop()
                self.values[number] = names
            else:
                number = len(self.values)
                self.values.append(names)
                self.items.append(0)
            self._numbers[names] = number
        self.items[number] += 1
        self.items[before] -= 1
        if before and not self.items[before]:
            del self._numbers[self.values[before]]
            if self._dropped is not None:
                self._dropped(self.values[before])
            self._let_go(before)
        return number

    def _let_go(self, number: int) -> None:
        self.values[number] = ()
        self._free.append(number)

    def restore(self, values: Sequence[Sequence[str]], column: npt.NDArray[np.int32]) -> None:
        """Go on from a snapshot: the list of each number, and the number of each item."""
        self.values = [tuple(names) for names in values] or [()]
        self.items = np.bincount(column, minlength=len(self.values)).tolist()
        self._numbers, self._free = {(): 0}, []
        for number in range(1, len(self.values)):
            if self.items[number]:
                self._numbers[self.values[number]] = number
            else:  # free, or only deleted items had it
                self._let_go(number)
