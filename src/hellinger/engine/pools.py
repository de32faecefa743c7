"""One pool for each variant, kept in step with the ledger. Contents have their slots as ids in it, not their names."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hellinger.ledger import COMMON, EXPIRED, HIDDEN, Floats, Ledger, Slots
from hellinger.pool import Departure, Leaving, SegmentedPool

__all__ = ["Learning", "Pools"]

Learning = Literal["isolated", "shared"]


class Pools:
    """The contents of a ledger in one :class:`SegmentedPool` for each variant, told of every change.

    Parameters
    ----------
    ledger
        What the pools start from, and whose listener they become.
    variants
        Policy of each, as a spec.
    learning
        ``"isolated"``: a variant learns from its own rankings; ``"shared"``: all learn from all.
    enough
        Impressions that a segment needs to be ranked by its own counts.
    leaving
        When a content leaves a variant's pool.
    """

    def __init__(
        self,
        ledger: Ledger,
        variants: dict[str, str],
        *,
        learning: Learning = "isolated",
        seed: int = 0,
        enough: float | None = None,
        leaving: Leaving | None = None,
    ) -> None:
        self.ledger = ledger
        self.learning: Learning = learning
        self.of = {
            name: SegmentedPool(spec, enough=enough, seed=seed + number, leaving=leaving)
            for number, (name, spec) in enumerate(variants.items())
        }
        self._waiting: dict[tuple[str, str], list[tuple[Slots, Floats, Floats, float]]] = {}
        """Counts by variant and segment that the pools do not know of yet."""
        self._coming: list[int] = []
        """Contents that have appeared and are not in the pools yet."""
        self._leaving: dict[str, dict[int, Departure]] = {name: {} for name in variants}
        """Contents that have left a variant's pool by themselves, before the log has it."""
        self._told: set[tuple[str, int]] = set()
        self.dates: list[int] = []
        """Contents that have been shown, or whose date of expiry has changed, since this was last emptied."""
        for name in self.of:
            self._load(name)
        ledger.listener = self

    # What an event changes ----------------------------------------------------------------------------

    def appears(self, slot: int) -> None:
        """Show a content, new or again."""
        self._coming.append(slot)
        self.dates.append(slot)

    def vanishes(self, slot: int) -> None:
        """Hide a content; one that has expired need not be kept."""
        if self.ledger.catalogue["state"][slot] == EXPIRED:
            self.ends(slot)
        else:
            self.cover(slot)

    def cover(self, slot: int) -> None:
        """Leave a content out of rankings."""
        self._come()
        for pool in self.of.values():
            if slot in pool:
                pool.hide(slot)

    def uncover(self, slot: int) -> None:
        """Take :meth:`cover` back."""
        for pool in self.of.values():
            if slot in pool:
                pool.unhide(slot)

    def ends(self, slot: int) -> None:
        """Take a content out."""
        self.settle()
        self._collect()
        for variant in self.of:
            self.left(variant, slot)

    def left(self, variant: str, slot: int) -> None:
        """Take a content out of one pool."""
        self.settle()
        pool = self.of.get(variant)
        if pool is not None:
            self._leaving[variant].pop(slot, None)
            self._told.discard((variant, slot))
            if slot in pool:
                pool.remove(slot)

    def retagged(self, slot: int) -> None:
        """Put a content back with its new tags."""
        self.settle()
        for variant, pool in self.of.items():
            if slot in pool:
                pool.remove(slot)
                self._fill(variant, pool, [slot])
        self.dates.append(slot)

    def dated(self, slot: int) -> None:
        """Note that a content's date of expiry is another now."""
        self.dates.append(slot)

    def counted(self, variant: str, segment: str, slots: Slots, n: Floats, s: Floats, gone: float) -> None:
        """Note counts, for :meth:`settle`."""
        self._come()  # before the ledger has these counts, or they would come in twice
        self._waiting.setdefault((variant, segment), []).append((slots, n, s, gone))

    def settle(self) -> None:
        """Bring what was noted into the pools."""
        self._come()
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        for (variant, segment), noted in waiting.items():
            *columns, gone = zip(*noted, strict=True)
            slots, n, s = map(np.concatenate, columns)
            for learner in self._learners(variant):
                _record(self.of[learner], slots, segment, n, s, sum(gone))

    def _come(self) -> None:
        """Bring contents into the pools that have appeared, many at once."""
        if not self._coming:
            return
        self._collect()
        coming, self._coming = list(dict.fromkeys(self._coming)), []
        for variant, pool in self.of.items():
            out = self.ledger.gone.get(variant, {}).keys() | self._leaving[variant].keys()
            back = [slot for slot in coming if slot in pool]
            if back:
                pool.unhide(back)
            self._fill(variant, pool, [slot for slot in coming if slot not in pool and slot not in out])

    def departures(self) -> list[tuple[str, int, Departure]]:
        """Contents that have left a variant's pool by themselves, each told of once."""
        self._collect()
        fresh = [
            (variant, slot, gone)
            for variant, left in self._leaving.items()
            for slot, gone in left.items()
            if (variant, slot) not in self._told
        ]
        self._told.update((variant, slot) for variant, slot, _ in fresh)
        return fresh

    def _collect(self) -> None:
        """Note what has left."""
        for variant, pool in self.of.items():
            for gone in pool.departures():
                self._leaving[variant][int(gone.id)] = gone

    def served(self, variant: str, segment: str, slots: list[int]) -> None:
        """Tell the others that learn of impressions which the variant's own pool has counted."""
        if self.learning == "shared":
            places, ones, zeros = np.array(slots, np.int64), np.ones(len(slots)), np.zeros(len(slots))
            for name, pool in self.of.items():
                if name != variant:
                    _record(pool, places, segment, ones, zeros)

    def _learners(self, variant: str) -> list[str]:
        if variant == COMMON or self.learning == "shared":
            return list(self.of)
        return [variant] if variant in self.of else []

    # Contents -----------------------------------------------------------------------------------------

    def _sources(self, variant: str) -> list[str]:
        """Variants whose counts this one learns from."""
        if self.learning == "shared":
            return list({name for name, _ in self.ledger.counts})
        return [variant, COMMON]

    def _load(self, variant: str) -> None:
        held, pool = self.ledger.catalogue, self.of[variant]
        slots = np.flatnonzero(held["state"][: len(held.ids)] <= HIDDEN)
        gone = self.ledger.gone.get(variant)
        if gone:
            slots = slots[~np.isin(slots, list(gone))]
        self._fill(variant, pool, slots.tolist())
        self._set_rounds(variant)

    def _set_rounds(self, variant: str) -> None:
        """Let a variant's pools have had as many impressions as the ledger says."""
        pool, sources = self.of[variant], self._sources(variant)
        pool.pooled.rounds = self.ledger.rounds(variants=sources)
        for segment in self.ledger.segments:
            rounds = self.ledger.rounds(variants=sources, segment=segment)
            if rounds or segment in pool.segments:
                pool.segment(segment).rounds = rounds

    def _fill(self, variant: str, pool: SegmentedPool, slots: list[int]) -> None:
        """Load contents with their counts, in all and by segment, without counting them as new experience."""
        if not slots:
            return
        held = self.ledger.catalogue
        numbers = held["tags"][slots]
        tags: Any = [held.tag_sets[number] for number in numbers.tolist()] if numbers.any() else ()
        sources = self._sources(variant)
        n, s = self.ledger.sums(slots, variants=sources)
        parts = {}
        for segment in self.ledger.segments:
            parts[segment] = self.ledger.sums(slots, variants=sources, segment=segment)
        shares = {segment: part for segment, part in parts.items() if part[0].any() or segment in pool.segments}
        pool.load(np.array(slots, np.int64), n, s, tags=tags, parts=shares, fresh=False)
        hidden = [slots[j] for j in np.flatnonzero(held["state"][slots] == HIDDEN).tolist() if slots[j] in pool]
        if hidden:
            pool.hide(hidden)


def _record(pool: SegmentedPool, slots: Slots, segment: str, n: Floats, s: Floats, gone: float = 0.0) -> None:
    """Count what concerns contents that are in the pool; of the others it is enough to know how many there were."""
    try:
        pool.record_many(slots, segment, n, s)
    except ValueError:
        held = np.array([slot in pool for slot in slots.tolist()])
        if held.all():
            raise
        pool.record_many(slots[held], segment, n[held], s[held])
        gone += float(n[~held].sum())
    if gone:
        pool.pass_over(gone, segment)
