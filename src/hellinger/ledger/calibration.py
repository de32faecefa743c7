"""How true a model's predictions were: each is made before its impression is learned, and meets what that earned.

Rewards come later than impressions, so the prediction must be remembered until then. Of very much traffic a sample
is: once the memory is half full, the fewer rankings are taken in the fuller it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any
from zlib import crc32

import numpy as np

from hellinger.ledger.counts import Floats

__all__ = ["BINS", "Calibration"]

BINS = 25
"""Classes of predicted means: the j-th ends at 2^(j/2 − 12)."""
MOST = 20_000
"""Rankings that are remembered."""
_NONE = BINS
"""Instead of a class: not shown, or not known."""


class Calibration:
    """Sums by class of predictions; rankings wait until they can be rewarded no more."""

    def __init__(self) -> None:
        self.table = np.zeros((BINS, 3))
        """Sum of predictions, impressions and rewards in each class."""
        self._waiting: dict[str, tuple[int, bytearray]] = {}
        """By name of the ranking, in the order in which they came: until when, and the class at each position."""

    def __len__(self) -> int:
        return len(self._waiting)

    def show(self, name: str, at: int, until: int, positions: Sequence[int], means: Floats) -> None:
        """Items were shown at these positions of a ranking, with these predictions."""
        self._forget(at)
        entry = self._waiting.get(name)
        if entry is None:
            room = min(2.0 - 2.0 * len(self._waiting) / MOST, 1.0)
            if crc32(name.encode()) >= room * room * 2.0**32:
                return
            entry = self._waiting[name] = until, bytearray()
        classes = np.clip(np.ceil(2.0 * np.log2(np.maximum(means, 1e-9)) + 24.0), 0, BINS - 1).astype(np.intp)
        np.add.at(self.table, classes, np.stack([means, np.ones(means.size), np.zeros(means.size)], axis=1))
        known = entry[1]
        known.extend([_NONE] * (max(positions, default=-1) + 1 - len(known)))
        for position, kind in zip(positions, classes.tolist(), strict=True):
            known[position] = kind

    def reward(self, name: str, position: int, rise: float) -> None:
        """What was shown at a position has earned so much more."""
        entry = self._waiting.get(name)
        if entry is not None and position < len(entry[1]) and entry[1][position] != _NONE:
            self.table[entry[1][position], 2] += rise

    def _forget(self, now: int) -> None:
        """Let go of the oldest, where nothing can be earned any more."""
        gone = [name for name, (until, _) in islice(self._waiting.items(), 4) if until < now]
        for name in gone:
            del self._waiting[name]

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        waiting = [(name, until, classes.hex()) for name, (until, classes) in self._waiting.items()]
        return {"table": self.table.tolist(), "waiting": waiting}

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Calibration:
        """What :meth:`as_json` gave."""
        made = cls()
        made.table = np.array(fields["table"])
        made._waiting = {name: (until, bytearray.fromhex(text)) for name, until, text in fields["waiting"]}
        return made
