"""Counts, ids and arrival numbers as users give them: as arrays, or an error that states the rule and the value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger._jit import entry
from hellinger.errors import InputError, require
from hellinger.families import Family
from hellinger.pool._ids import IdT
from hellinger.pool._store import Floats, Slots, first_wrong
from hellinger.pool.rows import plain

__all__ = ["Checks", "Names", "arrivals", "check_seed", "single", "sized"]

Names: TypeAlias = Iterable[IdT] | npt.NDArray[np.integer[Any]]


class Checks:
    """Checks of counts under one family of rewards."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.low, self.high = family.mean_bounds
        self._first_wrong = entry(first_wrong, np.empty(0), np.empty(0), True)
        self.weighted = False
        """Whether an impression was ever worth other than one: an item may then have earned more than its impressions
        are worth, and all that can be checked is that it was shown."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of rewards over impressions."""
        return self.low, math.inf if self.weighted else self.high

    def one(self, impressions: float, rewards: float) -> tuple[float, float]:
        """Impressions and rewards of one event."""
        n, s = float(impressions), float(rewards)
        if not 0.0 <= n < math.inf:
            raise InputError(f"`0 <= impressions < inf` must hold, but got impressions={impressions!r}")
        self._reward(s)
        self.weighted = self.weighted or n != math.floor(n)
        return n, s

    def many(self, impressions: npt.ArrayLike, rewards: npt.ArrayLike, size: int) -> tuple[Floats, Floats]:
        """The same of so many events."""
        pair = []
        for name, given in (("impressions", impressions), ("rewards", rewards)):
            try:
                array = np.asarray(given, np.float64)
            except (TypeError, ValueError):
                raise InputError(f"`{name}` must be a number or an array of numbers, but got {given!r}") from None
            if array.shape not in ((), (size,)):
                raise InputError(f"`{name}` must have one entry for each of {size} ids, but got shape {array.shape}")
            pair.append(np.ascontiguousarray(array) if array.ndim else np.full(size, array))
        n, s = pair
        bad_n, bad_s, whole = self._first_wrong(n, s, self.low < 0)
        if bad_n >= 0:
            raise InputError(f"`0 <= impressions < inf` must hold, but got impressions={float(n[bad_n])!r}")
        if bad_s >= 0:
            self._reward(float(s[bad_s]))
        self.weighted = self.weighted or not whole
        return n, s

    def places(self, worth: npt.ArrayLike, size: int) -> Floats:
        """What an impression is worth in each of so many places, the last figure for all further ones."""
        array = np.asarray(worth, np.float64)
        good = array.ndim == 1 and array.size > 0 and bool(((array >= 0.0) & (array < math.inf)).all())
        require(good, "worth has a number for each place, 0 <= worth < inf", worth=worth)
        self.weighted = self.weighted or bool((array != np.floor(array)).any())
        if array.size < size:
            array = np.concatenate([array, np.full(size - array.size, array[-1])])
        return array[:size]

    def totals(self, impressions: npt.ArrayLike, rewards: npt.ArrayLike, size: int) -> tuple[Floats, Floats]:
        """The counts of so many items, each of which must be possible by itself."""
        n, s = self.many(impressions, rewards, size)
        wrong, shown = s != 0, n > 0
        low, high = self.bounds
        wrong[shown] = (s[shown] < low * n[shown]) | (s[shown] > high * n[shown])
        if wrong.any():
            self.refuse(float(s[wrong][0]), float(n[wrong][0]))
        return n, s

    def refuse(self, s: float, n: float) -> None:
        """Raise for rewards that so many impressions cannot have."""
        if self.weighted and n == 0:
            raise InputError(f"`0 < impressions` must hold for rewards, but got rewards={plain(s)!r} for impressions=0")
        raise InputError(
            f"`{self.low:g} <= rewards/impressions <= {self.high:g}` must hold for {self.family}, "
            f"but got rewards={plain(s)!r} for impressions={plain(n)!r}"
        )

    def _reward(self, s: float) -> None:
        if not math.isfinite(s) or (s < 0 and self.low >= 0):
            raise InputError(f"`0 <= rewards` must hold for {self.family}, but got {s!r}")


def arrivals(order: npt.ArrayLike, size: int) -> Slots:
    """Arrival numbers of so many items."""
    numbers = np.asarray(order)
    if numbers.shape != (size,) or (size and numbers.dtype.kind not in "iu"):
        raise InputError(f"`order` must have a whole number for each of {size} ids, but got {order!r}")
    return numbers.astype(np.int64)


def check_seed(seed: Any) -> None:
    """Raise for what is no seed."""
    require(isinstance(seed, (int, np.integer)) and not isinstance(seed, bool), "seed is a whole number", seed=seed)


def single(name: Any) -> Any:
    """One id, of Python's own type."""
    return name if isinstance(name, (str, bool)) else int(name)


def sized(ids: Names) -> Any:
    """Ids that have a number."""
    if isinstance(ids, (str, bytes)):
        raise InputError(f"`ids` must be a list, but got {ids!r}")
    return ids if isinstance(ids, (list, tuple, range, np.ndarray)) else list(ids)
