"""A replica's own rankings that the log does not have yet: counted already, beside what the log says."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

import numpy as np

from hellinger._arrays import grown
from hellinger.ledger import Floats, Request, Slots, joined
from hellinger.ledger.looks import Worth

__all__ = ["Overlay"]

_MOST = 500
"""Rankings that may wait to be counted."""
_ONE = Worth()


class _Shown:
    """What each item's impressions are worth, by slot; what comes and goes is counted when asked for, or when much."""

    __slots__ = ("_less", "_more", "_n", "rounds")

    def __init__(self) -> None:
        self._n: Floats = np.zeros(0)
        self.rounds = 0.0
        self._more: list[tuple[array[int], Floats]] = []
        self._less: list[tuple[array[int], Floats]] = []

    def add(self, slots: array[int], worth: Floats, rounds: float) -> None:
        self.rounds += rounds
        self._more.append((slots, worth))

    def remove(self, slots: array[int], worth: Floats, rounds: float) -> None:
        self.rounds -= rounds
        self._less.append((slots, worth))
        if len(self._less) > _MOST:
            self._count()

    def _count(self) -> None:
        for parts, sign in ((self._more, 1.0), (self._less, -1.0)):
            if parts:
                slots = joined([slots for slots, _ in parts])
                worth = sign * np.concatenate([worth for _, worth in parts])
                if slots.min() < 0:  # an item that was asked for may be unknown to a new ledger
                    slots, worth = slots[slots >= 0], worth[slots >= 0]
                self._n = grown(self._n, int(slots.max(initial=-1)) + 1)
                np.add.at(self._n, slots, worth)
                parts.clear()

    def of(self, slots: Slots) -> Floats:
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
        self.worth = _ONE
        self._shown: dict[tuple[str, str], _Shown] = {}

    def __len__(self) -> int:
        return len(self.rankings)

    def __contains__(self, name: object) -> bool:
        return name in self.rankings

    def add(self, name: str, ranking: Request) -> None:
        """Count a ranking."""
        self.rankings[name] = ranking
        if ranking.counted and ranking.slots:
            worth = self._worth(ranking)
            for key in _keys(ranking):
                if key not in self._shown:
                    self._shown[key] = _Shown()
                self._shown[key].add(ranking.slots, *worth)

    def remove(self, name: str) -> bool:
        """Count a ranking no longer, for the ledger does; whether it was here."""
        ranking = self.rankings.pop(name, None)
        if ranking is None:
            return False
        if ranking.counted and ranking.slots:
            worth = self._worth(ranking)
            for key in _keys(ranking):
                self._shown[key].remove(ranking.slots, *worth)
        return True

    def look_up(self, slots_of: Callable[[Request], object]) -> None:
        """Let every ranking have its slots looked up anew, after items were forgotten."""
        rankings, self.rankings, self._shown = self.rankings, {}, {}
        for name, ranking in rankings.items():
            slots_of(ranking)
            self.add(name, ranking)

    def set_worth(self, worth: Worth) -> None:
        """Let impressions be worth something else."""
        rankings, self.rankings, self._shown, self.worth = self.rankings, {}, {}, worth
        for name, ranking in rankings.items():
            self.add(name, ranking)

    def _worth(self, ranking: Request) -> tuple[Floats, float]:
        return (self.worth if ranking.zoned else _ONE).both(len(ranking.slots))

    def rounds(self, variants: Iterable[str], segment: str = "") -> float:
        """What the impressions of some variants are worth, in one segment or in all traffic."""
        return sum(self._shown[key].rounds for name in variants if (key := (name, segment)) in self._shown)

    def shown(self, slot: int, variants: Iterable[str]) -> int:
        """How often some variants have shown an item, whatever that is worth."""
        counted = [each for each in self.rankings.values() if each.counted and each.variant in variants]
        return sum(each.slots.count(slot) for each in counted)

    def add_to(self, n: Floats, slots: Slots, variants: Iterable[str], segment: str = "") -> None:
        """Add what the impressions of these items are worth to an array."""
        for name in variants:
            shown = self._shown.get((name, segment))
            if shown is not None:
                n += shown.of(slots)


def _keys(ranking: Request) -> tuple[tuple[str, str], ...]:
    variant, segment = ranking.whose
    return ((variant, ""), ranking.whose) if segment else (ranking.whose,)
