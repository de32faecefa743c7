"""Counts over a sliding window: a ring of time buckets, each remembering what was counted in it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.pool._store import ItemStore

__all__ = ["Bucket", "Window", "forget"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Bucket(NamedTuple):
    """What was counted in one stretch of time: items by key and arrival, and how much each."""

    key: Ints
    seq: Ints
    n: Floats
    s: Floats


class Window:
    """``buckets`` stretches of time, ``length`` together; the present one is the last.

    Parameters
    ----------
    length
        How far back counts reach, in the units of ``Pool.advance``.
    buckets
        Into how many stretches: a count is forgotten between ``length`` and ``length·(1 − 1/buckets)`` later.
    """

    def __init__(self, length: float, buckets: int) -> None:
        require(0 < length < float("inf"), "0 < window", window=length)
        require(buckets >= 1, "1 <= buckets", buckets=buckets)
        self.length = length
        self.buckets = buckets
        self.ring: deque[Bucket] = deque()
        self.started = 0
        """Number of the present bucket since time 0."""
        self._open: list[Bucket] = []

    def note(self, key: Ints, seq: Ints, n: Floats, s: Floats) -> None:
        """Remember counts in the present bucket."""
        self._open.append(Bucket(key, seq, n, s))
        if len(self._open) > 4096:
            self._open = [_together(self._open)]

    def expired(self, time: float) -> Iterator[Bucket]:
        """Move on to this time; yields the buckets that fall out of the window."""
        number = int(time // (self.length / self.buckets))
        for _ in range(min(number - self.started, self.buckets)):
            self.ring.append(_together(self._open))
            self._open = []
            if len(self.ring) >= self.buckets:
                yield self.ring.popleft()
        self.started = number

    def all(self) -> list[Bucket]:
        """Every bucket, oldest first, the present one last."""
        return [*self.ring, _together(self._open)]

    def restore(self, buckets: list[Bucket], started: int) -> None:
        """Set the buckets, as :meth:`all` gave them."""
        *past, present = buckets
        self.ring, self._open, self.started = deque(past), [present], started


def forget(bucket: Bucket, store: ItemStore, owed: dict[int, float], bounds: tuple[float, float]) -> float:
    """Subtract what was counted in a bucket; how many impressions were of items still here.

    A reward may outlast its impression: the excess is set aside in ``owed``, by arrival number.
    """
    slots, present = store.still(bucket.key, bucket.seq)
    items = store.state.items
    n = items["n"][slots] - bucket.n[present]
    n[n < 1e-9] = 0.0  # sums of fractions are rounded
    s = items["s"][slots] - bucket.s[present]
    if owed:
        for j, seq in enumerate(bucket.seq[present].tolist()):
            if seq in owed:
                paid = min(owed[seq], float(bucket.s[present][j]))
                s[j] += paid
                owed[seq] -= paid
                if not owed[seq] > 0:
                    del owed[seq]
    most = np.where(n > 0, bounds[1] * n if bounds[1] < math.inf else s, 0.0)
    for j in np.flatnonzero(s > most).tolist():
        seq = int(items["seq"][slots[j]])
        owed[seq] = owed.get(seq, 0.0) + float(s[j] - most[j])
    least = np.full(n.size, bounds[0])
    least[n == 0] = 0.0
    least[n > 0] *= n[n > 0]
    items["n"][slots], items["s"][slots] = n, np.clip(s, np.minimum(least, most), most)
    store.settle(slots)
    return float(bucket.n[present].sum())


def _together(parts: list[Bucket]) -> Bucket:
    """One bucket with one entry for each item."""
    if not parts:
        none = np.empty(0)
        return Bucket(none.astype(np.int64), none.astype(np.int64), none, none)
    seq = np.concatenate([part.seq for part in parts])
    key = np.concatenate([part.key for part in parts])
    found, first, inverse = np.unique(seq, return_index=True, return_inverse=True)
    n: Any = np.bincount(inverse, np.concatenate([part.n for part in parts]), found.size)
    s: Any = np.bincount(inverse, np.concatenate([part.s for part in parts]), found.size)
    return Bucket(key[first], found, n, s)
