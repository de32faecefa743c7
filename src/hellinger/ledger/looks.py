"""Rewards by position where chance alone ordered the items: what tells how much each position is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress, islice
from operator import eq
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MOST", "STEP", "ZONES", "Looks", "Setting", "Worth", "lacks_by", "lacks_of", "ties_of", "zones_of"]

MOST = 50
"""Positions that are told apart where rewards are counted."""
STEP = 1 / 256
"""What an impression is worth is a multiple of this, so that sums are exact in whatever order."""
ZONES = (0, 1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30)
"""First position, from 0, of each stretch in which an item's impressions are counted together."""

Setting = str | Sequence[float]
"""``"learned"``, ``"none"``, or what an impression is worth at each position."""

_Floats = npt.NDArray[np.float64]
_BITS = [1 << j for j in range(MOST)]


@lru_cache(1024)
def zones_of(k: int) -> npt.NDArray[np.int64]:
    """The zone of each of k positions."""
    return np.searchsorted(ZONES, np.arange(k), side="right") - 1


def lacks_of(worth: Sequence[float]) -> _Floats:
    """What an impression lacks to one in each zone but the first, where it is worth so much at each position.

    In a zone it is worth the mean of its positions, in whole steps, at least one; beyond the last as much as there.

    >>> (1 - lacks_of([1.0, 0.5, 0.25])[:4]).tolist()
    [0.5, 0.25, 0.25, 0.25]
    """
    zones, steps, last = zones_of(len(worth)), [], 1.0
    for zone in range(1, len(ZONES)):
        own = np.asarray(worth, np.float64)[zones == zone]
        last = float(own.mean()) if own.size else last
        steps.append(max(1, round(last / STEP)))
    return 1.0 - np.array(steps) * STEP


def lacks_by(setting: Setting, curve: Mapping[str, Any]) -> _Floats | None:
    """What an impression lacks to one in each zone but the first, by a setting and the fields of the curve in force.

    None where each is worth one.
    """
    if setting == "none":
        return None
    worth = curve.get("worth", ()) if setting == "learned" else setting
    lacks = lacks_of([float(each) for each in worth])
    return lacks if lacks.any() else None


class Worth:
    """What an impression is worth at each position, by what it lacks to one in each zone but the first."""

    def __init__(self, lacks: _Floats | None = None) -> None:
        self.lacks = lacks
        """None where each is worth one."""
        self._known: dict[int, tuple[_Floats, float]] = {}

    def same(self, other: Worth) -> bool:
        """Whether each is worth the same by another."""
        if self.lacks is None or other.lacks is None:
            return self.lacks is other.lacks
        return bool((self.lacks == other.lacks).all())

    def of(self, size: int) -> _Floats:
        """The worth at each of so many positions; not to be changed."""
        return self.both(size)[0]

    def both(self, size: int) -> tuple[_Floats, float]:
        """The same, and its sum."""
        known = self._known.get(size)
        if known is None:
            lacks = np.zeros(1) if self.lacks is None else np.concatenate([[0.0], self.lacks])
            worth = 1.0 - lacks[zones_of(size) if self.lacks is not None else np.zeros(size, np.int64)]
            known = self._known[size] = worth, float(worth.sum())
        return known


def ties_of(fields: Mapping[str, Any], *, falling: bool = False) -> int:
    """Which neighbours of a ranking to be logged are in random order: bit j for positions j and j + 1, from 0.

    All are in a ranking drawn at random; else those of equal index, whose order is drawn, but for a fixed order.
    ``falling`` indices need not all be compared where the first is the last.

    >>> bin(ties_of({"random": False, "policy": "cold-start", "scores": [0.5, 0.5, 0.5, 0.2, 0.1, 0.1]}))
    '0b10011'
    """
    scores: Sequence[float | None] = fields.get("scores", ())
    fixed = fields.get("policy") == "fixed"
    if fields.get("random") or (falling and scores and scores[0] == scores[-1] and not fixed):
        return (1 << max(min(len(scores), MOST + 1) - 1, 0)) - 1
    if fixed:
        return 0
    return sum(compress(_BITS, map(eq, scores, islice(scores, 1, None))))


class Looks:
    """Rewards by position, for each stretch of positions whose items were in random order.

    Items of such a stretch have the same expected rate at each of its positions, whatever they are; so what its
    positions earned is in proportion to how much each is looked at. Only rewards matter: of a stretch that earned
    nothing nothing is learned.
    """

    def __init__(self) -> None:
        self.rewards: dict[tuple[int, int], list[float]] = {}
        """By first position, from 0, and the one after the last: rewards of each position between."""
        self.total = 0.0

    def note(self, ties: int, position: int, reward: float) -> None:
        """Count what a position of a ranking with these ties has earned."""
        if position >= MOST:
            return
        first = (~ties & (1 << position) - 1).bit_length()  # after the last bit below that is not set
        above = ties >> position
        end = min(position + (~above & above + 1).bit_length(), MOST)  # at the first bit from here that is not set
        if end - first < 2:
            return
        rewards = self.rewards.get((first, end))
        if rewards is None:
            rewards = self.rewards[first, end] = [0.0] * (end - first)
        rewards[position - first] += reward
        self.total += reward

    def as_json(self) -> list[Any]:
        """All numbers, as JSON can hold them; :meth:`of` reads them back."""
        return [[first, end, rewards] for (first, end), rewards in sorted(self.rewards.items())]

    @classmethod
    def of(cls, rows: Iterable[Any]) -> Looks:
        """What :meth:`as_json` gave."""
        looks = cls()
        for first, end, rewards in rows:
            looks.rewards[first, end] = list(rewards)
            looks.total += sum(rewards)
        return looks
