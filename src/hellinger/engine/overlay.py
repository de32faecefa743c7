"""A copy's own rankings that the log does not have yet: counted already, beside what the log says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from hellinger.ledger import Floats, Request

__all__ = ["Overlay"]

_MOST = 10_000


class _Shown:
    """How often each item was shown, added up when it is asked for."""

    __slots__ = ("_counter", "_less", "_more", "rounds")

    def __init__(self) -> None:
        self.rounds = 0
        self._more: list[int] = []
        self._less: list[int] = []
        self._counter: Counter[int] = Counter()

    def add(self, slots: Sequence[int]) -> None:
        self.rounds += len(slots)
        self._more.extend(slots)
        if len(self._more) > _MOST:
            self._add_up()

    def remove(self, slots: Sequence[int]) -> None:
        self.rounds -= len(slots)
        self._less.extend(slots)
        if len(self._less) > _MOST:
            self._add_up()

    def counter(self) -> Counter[int]:
        if self._more or self._less:
            self._add_up()
        return self._counter

    def _add_up(self) -> None:
        if self.rounds == 0:
            self._counter.clear()
        else:
            self._counter.update(self._more)
            self._counter.subtract(self._less)
            for slot in set(self._less):
                if not self._counter[slot]:
                    del self._counter[slot]
        self._more.clear()
        self._less.clear()


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
                shown = self._shown.get(key)
                if shown is None:
                    shown = self._shown[key] = _Shown()
                shown.add(ranking.slots)

    def remove(self, name: str) -> Request:
        """Count a ranking no longer: the ledger does."""
        ranking = self.rankings.pop(name)
        if ranking.counted and ranking.slots:
            for key in _keys(ranking):
                self._shown[key].remove(ranking.slots)
        return ranking

    def rounds(self, variants: Iterable[str], segment: str = "") -> int:
        """Impressions of some variants, in one segment or in all traffic."""
        return sum(self._shown[key].rounds for name in variants if (key := (name, segment)) in self._shown)

    def add_to(self, n: Floats, slots: Sequence[int], variants: Iterable[str], segment: str = "") -> None:
        """Add the impressions of these items to an array."""
        for name in variants:
            shown = self._shown.get((name, segment))
            if shown is not None and (counter := shown.counter()):
                n += np.array([counter.get(slot, 0) for slot in slots], np.float64)


def _keys(ranking: Request) -> Iterable[tuple[str, str]]:
    variant, segment = ranking.whose
    return ((variant, ""), (variant, segment)) if segment else ((variant, ""),)
