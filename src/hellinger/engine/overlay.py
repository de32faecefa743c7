"""A replica's own rankings that the log does not have yet: counted already, beside what the log says."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger.ledger import Floats, Request, Slots, joined

__all__ = ["Overlay"]

_MOST = 500
"""Rankings that may wait to be counted."""


class _Shown:
    """How often each item was shown, by slot; what is added and removed is counted when it is asked for, or is much."""

    __slots__ = ("_less", "_more", "_n", "rounds")

    def __init__(self) -> None:
        self._n: npt.NDArray[np.intc] = np.zeros(0, np.intc)
        self.rounds = 0
        self._more: list[array[int]] = []
        self._less: list[array[int]] = []

    def add(self, slots: array[int]) -> None:
        self.rounds += len(slots)
        self._more.append(slots)

    def remove(self, slots: array[int]) -> None:
        self.rounds -= len(slots)
        self._less.append(slots)
        if len(self._less) > _MOST:
            self._count()

    def _count(self) -> None:
        for parts, amount in ((self._more, np.intc(1)), (self._less, np.intc(-1))):
            if parts:
                slots = joined(parts)
                slots = slots[slots >= 0]  # an item that was asked for may be unknown to a new ledger
                self._n = grown(self._n, int(slots.max(initial=-1)) + 1)
                np.add.at(self._n, slots, amount)
                parts.clear()

    def of(self, slots: Slots) -> npt.NDArray[np.intc]:
        self._count()
        self._n = grown(self._n, int(slots.max(initial=-1)) + 1)
        return self._n[slots]


class Overlay:
    """Rankings that are answered, or about to be, and not in the log yet.

    A ranking is in the overlay from when it is made until the log has it; then the ledger counts it instead. What a
    pool counts is at all times the ledger's count and the overlay's.
    """

    def __init__(self) -> None:
        self.rankings: dict[str, Request] = {}
        """By name; all of them count."""
        self._shown: dict[tuple[str, str], _Shown] = {}

    def __len__(self) -> int:
        return len(self.rankings)

    def __contains__(self, name: object) -> bool:
        return name in self.rankings

    def add(self, name: str, ranking: Request) -> None:
        """Count a ranking."""
        self.rankings[name] = ranking
        if ranking.counted and ranking.slots:
            for key in _keys(ranking):
                if key not in self._shown:
                    self._shown[key] = _Shown()
                self._shown[key].add(ranking.slots)

    def remove(self, name: str) -> bool:
        """Count a ranking no longer, for the ledger does; whether it was here."""
        ranking = self.rankings.pop(name, None)
        if ranking is None:
            return False
        if ranking.counted and ranking.slots:
            for key in _keys(ranking):
                self._shown[key].remove(ranking.slots)
        return True

    def look_up(self, slots_of: Callable[[Request], object]) -> None:
        """Let every ranking have its slots looked up anew, after items were forgotten."""
        rankings, self.rankings, self._shown = self.rankings, {}, {}
        for name, ranking in rankings.items():
            slots_of(ranking)
            self.add(name, ranking)

    def rounds(self, variants: Iterable[str], segment: str = "") -> int:
        """Impressions of some variants, in one segment or in all traffic."""
        return sum(self._shown[key].rounds for name in variants if (key := (name, segment)) in self._shown)

    def add_to(self, n: Floats, slots: Slots, variants: Iterable[str], segment: str = "") -> None:
        """Add the impressions of these items to an array."""
        for name in variants:
            shown = self._shown.get((name, segment))
            if shown is not None and shown.rounds:
                n += shown.of(slots)


def _keys(ranking: Request) -> tuple[tuple[str, str], ...]:
    variant, segment = ranking.whose
    return ((variant, ""), ranking.whose) if segment else (ranking.whose,)
