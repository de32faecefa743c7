"""Items in the pool of a segment: the prior of each is what the pool of all traffic knows of it from elsewhere.

The mathematics is that of :mod:`hellinger.policies.segments`. What an item has elsewhere is what it has in all traffic
less what it has here, so that its prior is a function of the counts in both pools, whatever has happened before. As
with groups, priors are rounded to *classes*, the strata of the cells: the odds of the mean to a 16th of an octave above
that of the whole (a quarter below it), the strength to half an octave. An item of which nothing is known anywhere has
exactly the prior of the segment.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._arrays import distinct
from hellinger._jit import borrowed, brief, entry, inline
from hellinger.errors import InputError
from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.pool._membership import Membership
from hellinger.pool._store import Floats, ItemStore, Slots
from hellinger.pool._tree import KNOWN

__all__ = ["Touched", "Within"]

_ABOVE, _BELOW = 16, 4
"""Steps in an octave of means above that of the whole, and below it."""
_TOP, _BOTTOM = 6 * _ABOVE, 6 * _BELOW
_MEANS = _TOP + 1 + _BOTTOM
_STRENGTHS = 28
"""Half octaves, from one impression on."""
_PART = 1 << 11
"""Items of one event that are looked up together at most."""


class _Law(NamedTuple):
    """A segment's law as compiled code has it: mean and strength of the whole, variance, and the segment's odds."""

    mean: float
    strength: float
    variance: float
    odds: float


class Touched:
    """Items of the pool of all traffic whose counts or prior have changed, for pools of segments to look up.

    Every pool has its place in this list; what all have looked up is let go, and so is what is too much to be worth
    keeping: a pool that has missed it looks everything up.
    """

    def __init__(self, most: int = 1 << 17) -> None:
        self.most = most
        self.parts: list[Slots] = []
        self.size = 0
        """Of the parts, together."""
        self.start = 0
        """How many parts were let go before the first one here."""
        self.noted = 0
        """How many items were ever noted."""

    @property
    def end(self) -> int:
        """The place after the last part."""
        return self.start + len(self.parts)

    def note(self, keys: Slots) -> None:
        """Add items by their keys."""
        self.parts += [keys[start : start + _PART] for start in range(0, keys.size, _PART)]
        self.size += keys.size
        self.noted += keys.size
        while self.size > self.most:
            self.trim(self.start + (len(self.parts) + 1) // 2)

    def trim(self, place: int) -> None:
        """Let go of what is before this place."""
        gone = max(min(place - self.start, len(self.parts)), 0)
        self.size -= sum(part.size for part in self.parts[:gone])
        del self.parts[:gone]
        self.start += gone

    def since(self, place: int, most: int) -> tuple[Slots, int]:
        """About so many items from this place on, some often, and the place after them; the place is not let go."""
        some, size = [np.empty(0, np.int64)], 0
        while place < self.end and size < most:
            some.append(self.parts[place - self.start])
            size += some[-1].size
            place += 1
        return np.concatenate(some), place


@inline
def _level(stratum: int) -> int:
    """Where an item of this stratum is counted: 0 for one of which nothing is known, then by strength."""
    return 0 if stratum == 0 else 1 + (stratum - 1) // _MEANS


@inline
def _class(m: float, p: float, mean: float) -> int:
    """The stratum of a prior; from 1 on, for 0 is that of items of which nothing is known."""
    m = min(max(m, 1e-9), 1.0 - 1e-9)
    x = math.log2(m * (1.0 - mean) / (mean * (1.0 - m)))
    if x >= 0.0:
        place = min(math.floor(x * _ABOVE + 0.5), _TOP)
    else:
        place = min(math.floor(0.5 - x * _BELOW), _BOTTOM)
        place += _TOP if place > 0 else 0
    strength = math.floor(2.0 * math.log2(max(p, 1.0)) + 0.5)
    return 1 + min(strength, _STRENGTHS - 1) * _MEANS + place


@brief
def widen(
    items: Any,
    slots: Slots,
    scale: float,
    over: Any,
    places: Slots,
    over_scale: float,
    relative: Floats,
    law: _Law,
    weights: Slots,
    moved: Slots,
) -> Any:
    """Write the stratum of each of these items by what the other pool has of it; returns how many have moved.

    ``places``: where they are in the other pool, −1 for nowhere. ``relative``: odds and strength of its strata, those
    of its own prior taken as one.
    """
    items, over, relative, weights = borrowed(items), borrowed(over), borrowed(relative), borrowed(weights)
    whole = law.odds * law.mean / (1.0 - law.mean)
    count = 0
    for j in range(slots.size):
        item = items[slots[j]]
        stratum = 0
        if places[j] >= 0:
            other = over[places[j]]
            n = max(max(other["n"], other["s"]) * over_scale - max(item["n"], item["s"]) * scale, 0.0)
            s = max(other["s"] * over_scale - item["s"] * scale, 0.0)
            mean, strength = law.mean, law.strength
            told = other["stratum"] >= KNOWN  # others are of the pool's own prior, however long they live
            if told:  # what its group knows, relative to the whole
                x = relative[other["stratum"], 0] * mean / (1.0 - mean)
                mean, strength = x / (1.0 + x), strength * relative[other["stratum"], 1]
            if n > 0.0 or s > 0.0 or told:
                k = strength + max(n, s)
                m = (mean * strength + s) / k
                x = law.odds * m / (1.0 - m)
                m = x / (1.0 + x)
                stratum = _class(m, 1.0 / (1.0 / k + law.variance * m * (1.0 - m)), whole / (1.0 + whole))
        if item["stratum"] != stratum:
            weights[_level(item["stratum"])] -= 1
            weights[_level(stratum)] += 1
            item["stratum"] = stratum
            moved[count] = slots[j]
            count += 1
    return count


class Within(Membership):
    """The priors of a segment's items; groups are those of the pool of all traffic.

    ``pooled`` is that pool: its ``_store``, ``_members`` and ``_scale`` are asked for. ``store`` is the segment's own.
    """

    def __init__(self, pooled: Any, store: ItemStore, scale: float) -> None:
        super().__init__()
        self.pooled = pooled
        self._store = store
        self._scale = scale
        if pooled._members.touched is None:
            pooled._members.watch(pooled._store, Touched())
        self._seen = 0
        """The place in what has been touched up to which items have been looked up."""
        self._known = 0
        """How many had been noted up to there."""
        self._unread = 0
        """Places, from the first on, whose items are all to be looked up, whatever was touched."""
        self._skip()
        self._law: _Law | None = None
        self.told: Prior | None = None
        """The prior of all traffic with which the law was set."""
        self._weights = np.zeros(1 + _STRENGTHS, np.int64)
        """How many items there are of each strength."""
        self._weights[0] = len(store)
        self._informed: float | None = None
        self._widen: Any = None

    def __len__(self) -> int:
        return 1  # every count has an effect on the item's prior

    @property
    def informed(self) -> float:
        """Impressions that the priors are worth beyond that of an item of which nothing is known, all together."""
        if self._informed is None:
            levels = 2.0 ** (0.5 * np.arange(_STRENGTHS)) - self.table[0, 1]
            self._informed = max(float((self._weights[1:] * levels).sum()), 0.0)
        return self._informed

    # The law ------------------------------------------------------------------------------------------

    def set_law(self, law: SegmentLaw, segment: str, prior: Prior) -> bool:
        """Rank by this law; ``prior`` is that of all traffic. Returns whether items are right only after a new look."""
        self.told = prior
        shift, before = law.of(segment), self._law
        self._law = None if shift is None else _Law(law.mean, law.strength, law.variance, 2.0**shift)
        if self._law is None:  # nobody ranks by it
            self.table = np.full((1 + _STRENGTHS * _MEANS, 4), (*prior[:2], 0.0, 1.0))
        elif self._law != before:
            self.table = _table(self._law)
        self._informed = None
        a, strength = self.table[0, :2].tolist()
        self.prior = Prior(a, strength, prior.focus, prior.plays)
        return self._law is not None and self._law != before

    @property
    def unsettled(self) -> int:
        """Nothing: what is to be looked up is :attr:`behind`."""
        return 0

    @property
    def behind(self) -> int:
        """How many items have to be looked up, those counted twice that were touched twice."""
        touched = self.pooled._members.touched
        if self._seen < touched.start:  # not all that was touched is known any more
            self.begin()
        return self._unread + int(touched.noted - self._known)

    def begin(self) -> None:
        """Let all items be looked up, in :meth:`catch_up`.

        From the last place to the first: an item that is added is right at once, and when one is removed the last,
        which has had its turn, takes its place.
        """
        self._skip()
        self._unread = len(self._store)

    def _skip(self) -> None:
        touched = self.pooled._members.touched
        self._seen, self._known = touched.end, touched.noted

    def catch_up(self, most: int | None = None) -> None:
        """Look up about so many of the items that have to be, or all."""
        left = self.behind if most is None else most
        while left > 0 and self.behind:
            if self._unread:
                stop = min(self._unread, len(self._store))
                self._unread = start = max(0, stop - left)
                places, left = np.arange(start, stop), left - (stop - start)
            else:
                keys, self._seen = self.pooled._members.touched.since(self._seen, left)
                self._known += keys.size
                places, left = self._store.ids.by_key(self._store.state.items, distinct(keys)), left - keys.size
            self.revise(self._store, places[places >= 0])

    # As of every membership ---------------------------------------------------------------------------

    def set_prior(
        self, prior: Prior | None, store: ItemStore, scale: float, steps: Any = None, *, slowly: bool = False
    ) -> None:
        """Nothing: the law says what the prior is."""

    def refresh(self, store: ItemStore, scale: float) -> None:
        """Look every item up."""
        self._scale = scale
        self.begin()
        self.catch_up()

    def revise(self, store: ItemStore, slots: Slots, nodes: Any = None) -> None:
        """Let these items have the priors that both pools' counts give."""
        del nodes
        if self._law is None or not slots.size:
            return
        other, items = self.pooled, store.state.items
        over = other._store.state.items
        places = other._store.ids.by_key(over, items["key"][slots])
        moved = np.empty(slots.size, np.int64)
        relative = other._members.relative
        query = items, slots, self._scale, over, places, other._scale, relative, self._law, self._weights, moved
        if self._widen is None:
            self._widen = entry(widen, *query)
        count = self._widen(*query)
        if count:
            self._informed = None
            store.settle(moved[:count])

    def numbers(self, paths: Any, kinds: Any, tag_sets: Any) -> None:
        """None: groups are those of the pool of all traffic."""

    def join(self, store: ItemStore, slots: Slots, nodes: Any, scale: float, steps: Any = None) -> None:
        """Take items in."""
        del nodes, steps
        self._scale, self._informed = scale, None
        self._weights += self._levels_of_items(store, slots)
        self.revise(store, slots)

    def leave(self, store: ItemStore, slots: Slots, *, remember: bool) -> npt.NDArray[np.int32]:
        """Let items go."""
        del remember
        self._informed = None
        self._weights -= self._levels_of_items(store, slots)
        return np.empty(0, np.int32)

    def _levels_of_items(self, store: ItemStore, slots: Slots) -> Slots:
        """How many of these items there are of each strength."""
        strata = store.state.items["stratum"][slots].astype(np.int64)
        levels = np.where(strata == 0, 0, 1 + (strata - 1) // _MEANS)
        return np.bincount(levels, minlength=self._weights.size)

    def set_lives(self, store: ItemStore, slots: Slots, lives: Any) -> None:
        """Nothing: how long items live concerns the pool of all traffic alone."""

    def path(self, slot: int) -> tuple[str, ...]:
        """The group of an item, as the pool of all traffic has it."""
        store = self.pooled._store
        place = int(store.ids.by_key(store.state.items, self._store.state.items["key"][slot : slot + 1])[0])
        return self.pooled._members.path(place) if place >= 0 else ()

    def set_departed(self, store: ItemStore, paths: Any, sums: Any, scale: float) -> None:
        """Nothing: groups are those of the pool of all traffic."""

    def state(self) -> dict[str, Any]:
        """Refused: a segment's pool is nothing without that of all traffic."""
        raise InputError("a pool that is saved must stand alone, but got the pool of a segment")

    def memory(self, count: int) -> int:
        """Bytes in use, but for what the pool of all traffic has."""
        return int(self.table.nbytes)

    def explain(self) -> str:
        """The law in words."""
        if self._law is None or self.prior is None:
            return super().explain()
        a, strength, *_ = self.prior
        return (
            "; the prior of an item is what it has elsewhere, and its log-odds here vary by "
            f"{math.sqrt(self._law.variance):.2g}; that of one never shown is Beta({a:.3g}, {strength - a:.3g})"
        )


def _table(law: _Law) -> Floats:
    """Pseudo-counts a and a + b of every class; how long items live is not known."""
    odds = law.odds * law.mean / (1.0 - law.mean)
    mean = odds / (1.0 + odds)
    unknown = 1.0 / (1.0 / law.strength + law.variance * mean * (1.0 - mean))
    number = np.arange(_STRENGTHS * _MEANS)
    p, step = 2.0 ** (0.5 * (number // _MEANS)), number % _MEANS
    octaves = np.where(step <= _TOP, step / _ABOVE, (_TOP - step) / _BELOW)
    x = 2.0**octaves * odds
    table = np.zeros((1 + number.size, 4))
    table[1:, 0], table[1:, 1] = p * x / (1.0 + x), p
    table[0, :2] = mean * unknown, unknown
    table[:, 3] = 1.0
    return table
