"""What a pool returns about its items: rankings, one item, all of them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple

import numpy as np

from hellinger.errors import InputError
from hellinger.policies import Path
from hellinger.pool._ids import Id, IdT
from hellinger.pool._store import Floats, Slots

__all__ = ["Answer", "Ranked", "Stats", "Table", "plain"]


class Ranked(NamedTuple, Generic[IdT]):
    """An item in a ranking: its id, its index, and the counts behind it."""

    id: IdT
    score: float
    impressions: float
    rewards: float


class Stats(NamedTuple):
    """What is known of one item."""

    impressions: float
    rewards: float
    mean: float
    score: float
    age: float
    tags: frozenset[str]
    hidden: bool
    group: Path = ()
    prior: tuple[float, float] | None = None
    """Pseudo-counts a and a + b that are added to its counts; None where the policy learns no prior."""
    left: float | None = None
    """How many times more it can be shown, to half an octave; None where that is not known."""


class Table(NamedTuple):
    """A copy of what is known of every item at a moment; what becomes of the pool later does not change it."""

    items: Any
    names: list[Id] | None
    """Ids by place, where they are not in ``items``."""
    tag_sets: list[frozenset[str]]
    """Sets of tags by number."""
    scale: float
    score: Callable[[Any, Slots], Floats]
    """Computes indices, of the items at some places; those that a policy draws are NaN."""

    def order(self) -> Slots:
        """Places of all items, oldest first."""
        return np.argsort(self.items["seq"])

    def ids(self, places: Slots) -> list[Id]:
        """Ids of the items at some places."""
        if self.names is None:
            listed: list[Id] = self.items["key"][places].tolist()
            return listed
        return list(map(self.names.__getitem__, places.tolist()))

    def counts(self, column: str, places: Slots) -> Floats:
        """Impressions (``n``) or rewards (``s``) of the items at some places."""
        counts: Floats = self.items[column][places] * self.scale
        return counts


# Rows of a ranking as compiled code leaves them. Making Python objects of them is half of a ranking's time.
_WHOLE, _REAL = struct.Struct("=qdqq"), struct.Struct("=qddd")
_new, _RANKED = tuple.__new__, itertools.repeat(Ranked)  # a third of the time that Ranked(…) takes


class Answer:
    """The arrays that compiled code writes a ranking of k items to: places, and rows of id, index and counts.

    The row after the last begins with how many items have the index of the last one.
    """

    def __init__(self, k: int, most: int) -> None:
        if not (isinstance(k, (int, np.integer)) and k >= 1):
            raise InputError(f"`1 <= k` must hold, but got k={k!r}")
        self.k = min(int(k), most)
        self.found = 0
        self.slots: Slots = np.empty(self.k, np.int64)
        self.rows: Any = np.empty((self.k + 1, 4), np.int64)
        self.ones, self.zeros = np.ones(self.k), np.zeros(self.k)
        self._bytes = self.rows.reshape(-1).view(np.uint8).data
        self._ids, self._scores = self.rows[:, 0], self.rows[:, 1].view(np.float64)

    def places_of_last(self, found: int) -> int:
        """How many of so many places have the index of the last one."""
        scores = self._scores[:found]
        return int(np.count_nonzero(scores == scores[-1]))

    @property
    def tied(self) -> int:
        """How many items have the index of the last one."""
        tied: int = self.rows.item(self.k, 0)
        return tied

    def ranked(self, found: int, whole: bool, names: list[Id] | None) -> list[Ranked[Any]]:
        """The first so many; counts are ``whole`` numbers or floats, ids are in the rows or, by place, in ``names``."""
        rows: Iterable[Any] = (_WHOLE if whole else _REAL).iter_unpack(self._bytes[: found * _WHOLE.size])
        if names is not None:
            rows = [(names[slot], score, n, s) for slot, score, n, s in rows]
        return list(map(_new, _RANKED, rows))

    def columns(self, found: int, names: list[Id] | None) -> tuple[list[Any], list[float]]:
        """Ids and indices of the first so many; the ids are in the rows or, by place, in ``names``."""
        ids: list[Id] = self._ids[:found].tolist()
        if names is not None:
            ids = [names[place] for place in self._ids[:found].tolist()]
        return ids, self._scores[:found].tolist()


def plain(x: float) -> float:
    """The same number, written as a whole one where it is."""
    return int(x) if x.is_integer() else x
