"""A copy's own rankings that the log does not have yet: counted already, beside what the log says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import numpy as np

from hellinger.ledger import Floats, Request

__all__ = ["Overlay"]

_MOST = 10_000


class _Shown:
    """How often each item was shown: what was added less what was removed, both counted when they are asked for."""

    __slots__ = ("_added", "_gone", "_less", "_more", "_removed", "rounds")

    def __init__(self, slots: Iterable[int] = ()) -> None:
        self._added = Counter(slots)
        self._removed: Counter[int] = Counter()
        self.rounds = self._added.total()
        self._gone = 0
        self._more: list[Sequence[int]] = []
        self._less: list[Sequence[int]] = []

    def add(self, slots: Sequence[int]) -> None:
        self.rounds += len(slots)
        self._more.append(slots)

    def remove(self, slots: Sequence[int]) -> bool:
        """Remove impressions; whether so many were removed that they had better be counted anew."""
        self.rounds -= len(slots)
        self._less.append(slots)
        self._gone += len(slots)
        return self._gone > max(_MOST, self.rounds)

    def of(self, slots: Sequence[int]) -> Floats:
        self._added.update(chain.from_iterable(self._more))
        self._removed.update(chain.from_iterable(self._less))
        self._more.clear()
        self._less.clear()
        added, removed = self._added.get, self._removed.get
        return np.array([added(slot, 0) - removed(slot, 0) for slot in slots], np.float64)


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
                if self._shown[key].remove(ranking.slots):
                    left = (each.slots for each in self.rankings.values() if each.counted and key in _keys(each))
                    self._shown[key] = _Shown(chain.from_iterable(left))
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

    def add_to(self, n: Floats, slots: Sequence[int], variants: Iterable[str], segment: str = "") -> None:
        """Add the impressions of these items to an array."""
        for name in variants:
            shown = self._shown.get((name, segment))
            if shown is not None and shown.rounds:
                n += shown.of(slots)


def _keys(ranking: Request) -> tuple[tuple[str, str], ...]:
    variant, segment = ranking.whose
    return ((variant, ""), ranking.whose) if segment else (ranking.whose,)
