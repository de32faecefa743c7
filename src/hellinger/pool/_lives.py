"""How long items live: how many times more each can be shown, rounded so that items still share cells.

Where groups and features tell nothing of items, the classes are the strata of the cells, as those of groups are
otherwise (see ``_tree``). Where both are known, every item is scored.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger.errors import require

__all__ = ["LEFT", "Lives", "life_classes"]

Floats = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int8]

_STEPS, _OCTAVES = 2, 40
LEFT: Floats = np.append(0.0, 2.0 ** (np.arange(_STEPS * _OCTAVES + 1) / _STEPS))
"""Impressions by class: 0 where it is not known when an item leaves, then from one on in half octaves."""


def life_classes(left: Any, count: int) -> Classes:
    """The class of so many items that can be shown so many times more; None, or not a number, where nobody knows."""
    given = np.full(1, math.nan) if left is None else np.asarray(left, np.float64)
    fits = given.ndim == 0 or given.shape in ((1,), (count,))
    require(fits, "left is one number for all or one for each", ids=count, left=given.shape)
    known = ~np.isnan(given)
    require(bool((given[known] >= 0).all()), "0 <= left", left=left)
    steps = np.rint(_STEPS * np.log2(np.clip(np.where(known, given, 1.0), 1.0, 2.0**_OCTAVES)))
    return np.broadcast_to(np.where(known, 1 + steps, 0).astype(np.int8), count)


class Lives:
    """What is left of the life of the item at each place, by classes."""

    def __init__(self) -> None:
        self.classes: Classes = np.empty(0, np.int8)
        """Empty before something is known of any."""
        self._told = 0
        """Of how many items something is known."""

    @property
    def known(self) -> bool:
        """Whether something is known of an item."""
        return self._told > 0

    def of(self, start: int, stop: int) -> Classes:
        """The classes of the items at these places."""
        out = np.zeros(stop - start, np.int8)
        told = self.classes[start:stop]
        out[: told.size] = told
        return out

    def set(self, slots: npt.NDArray[np.int64], classes: Classes, count: int) -> npt.NDArray[np.bool_]:
        """Note the classes of some of so many items; returns which are others now."""
        if not self.known and not classes.any():
            return np.zeros(slots.size, np.bool_)
        if self.classes.size < count:
            size = self.classes.size
            self.classes = grown(self.classes, count)
            self.classes[size:] = 0
        before = self.classes[slots]
        self._told += int(np.count_nonzero(classes)) - int(np.count_nonzero(before))
        other: npt.NDArray[np.bool_] = before != classes
        self.classes[slots] = classes
        return other

    def left(self, slot: int) -> float | None:
        """How many times more the item at a place can be shown; None where that is not known."""
        return float(LEFT[self.classes[slot]]) if slot < self.classes.size and self.classes[slot] else None

    def table(self, a: float, strength: float) -> Floats:
        """Pseudo-counts, impressions left and what counts weigh, of every class; one row where nothing is known."""
        left = LEFT if self.known else LEFT[:1]
        return np.column_stack([np.full(left.size, a), np.full(left.size, strength), left, np.ones(left.size)])

    def compact(self, falling: npt.NDArray[np.int64], count: int) -> None:
        """Follow the items, of which those at these places were taken out of so many."""
        if not self.known:
            return
        for slot in falling.tolist():
            count -= 1
            self._told -= int(self.classes[slot] != 0)
            self.classes[slot] = self.classes[count]
            self.classes[count] = 0

    def blank(self) -> Lives:
        """The same, apart."""
        other = Lives()
        other.restore(self.classes.copy())
        return other

    def restore(self, classes: Classes) -> None:
        """Have these classes."""
        self.classes, self._told = classes, int(np.count_nonzero(classes))
