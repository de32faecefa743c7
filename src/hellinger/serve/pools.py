"""One pool for each variant, kept in step with the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from hellinger.ledger import COMMON, EXPIRED, HIDDEN, SHOWN, Ledger
from hellinger.pool import Leaving, SegmentedPool

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
        self.leaving = leaving or Leaving()
        self.of = {
            name: SegmentedPool(spec, enough=enough, seed=seed + number, leaving=leaving)
            for number, (name, spec) in enumerate(variants.items())
        }
        self._new: list[int] = []
        self._waiting: dict[tuple[str, str], tuple[list[int], list[float], list[float]]] = {}
        self.dates: list[int] = []
        """Contents that have been given a date of expiry since this was last emptied."""
        for name in self.of:
            self._load(name)
        ledger.listener = self

    # What an event changes ----------------------------------------------------------------------------

    def begins(self, slot: int) -> None:
        """Note a new content, for :meth:`settle`: many at once cost little more than one."""
        self._new.append(slot)

    def appears(self, slot: int) -> None:
        """Show a content again."""
        self.settle()
        name = self.ledger.catalogue.ids[slot]
        for variant, pool in self.of.items():
            if name in pool:
                pool.unhide(name)
            elif slot not in self.ledger.gone.get(variant, ()):
                self._put(variant, pool, slot)

    def vanishes(self, slot: int) -> None:
        """Hide a content; one that has expired need not be kept."""
        if self.ledger.catalogue["state"][slot] == EXPIRED:
            self.ends(slot)
            return
        self.settle()
        name = self.ledger.catalogue.ids[slot]
        for pool in self.of.values():
            if name in pool:
                pool.hide(name)

    def ends(self, slot: int) -> None:
        """Take a content out."""
        self.settle()
        for variant in self.of:
            self.left(variant, slot)

    def left(self, variant: str, slot: int) -> None:
        """Take a content out of one pool."""
        self.settle()
        pool, name = self.of.get(variant), self.ledger.catalogue.ids[slot]
        if pool is not None and name in pool:
            pool.remove(name)

    def retagged(self, slot: int) -> None:
        """Put a content back with its new tags."""
        self.settle()
        name = self.ledger.catalogue.ids[slot]
        for variant, pool in self.of.items():
            if name in pool:
                pool.remove(name)
                self._put(variant, pool, slot)

    def dated(self, slot: int) -> None:
        """Note that a content has a date of expiry."""
        self.dates.append(slot)

    def counted(self, variant: str, segment: str, slots: Sequence[int], n: Sequence[float], s: Sequence[float]) -> None:
        """Note counts, for :meth:`settle`."""
        waiting = self._waiting.get((variant, segment))
        if waiting is None:
            waiting = self._waiting[variant, segment] = ([], [], [])
        waiting[0].extend(slots)
        waiting[1].extend(n)
        waiting[2].extend(s)

    def settle(self) -> None:
        """Bring the new contents and the counts noted into the pools."""
        if self._new:
            new, self._new = self._new, []
            held = self.ledger.catalogue
            names, tags = [held.ids[slot] for slot in new], [held.tags_of(slot) for slot in new]
            for pool in self.of.values():
                pool.load(names, 0, 0, tags=tags)
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        ids = self.ledger.catalogue.ids
        for (variant, segment), (slots, n, s) in waiting.items():
            names = [ids[slot] for slot in slots]
            for learner in self._learners(variant):
                _record(self.of[learner], names, segment, n, s)

    def served(self, variant: str, segment: str, items: list[str]) -> None:
        """Tell the others that learn of impressions which the variant's own pool has counted."""
        if self.learning == "shared":
            for name, pool in self.of.items():
                if name != variant:
                    _record(pool, items, segment, [1.0] * len(items), [0.0] * len(items))

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

    def _put(self, variant: str, pool: SegmentedPool, slot: int) -> None:
        """Add one content with what it has achieved so far, which is no new experience."""
        held = self.ledger.catalogue
        self._fill(variant, pool, [slot])
        if held["state"][slot] == HIDDEN:
            pool.hide(held.ids[slot])

    def _load(self, variant: str) -> None:
        held, pool = self.ledger.catalogue, self.of[variant]
        slots = np.flatnonzero(held["state"][: len(held.ids)] <= HIDDEN)
        gone = self.ledger.gone.get(variant)
        if gone:
            slots = slots[~np.isin(slots, list(gone))]
        self._fill(variant, pool, slots.tolist())
        hidden = slots[held["state"][slots] == HIDDEN].tolist()
        if hidden:
            pool.hide([held.ids[slot] for slot in hidden])
        totals = self.ledger.series.totals
        everything = np.arange(len(held.ids))
        rounds = sum(totals[name][1] for name in self._sources(variant) if name in totals)
        rounds += float(self.ledger.sums(everything, variants=[COMMON])[0].sum())
        pool.pooled.rounds = rounds
        for segment, own in pool.segments.items():
            own.rounds = float(self.ledger.sums(everything, variants=self._sources(variant), segment=segment)[0].sum())

    def _fill(self, variant: str, pool: SegmentedPool, slots: list[int]) -> None:
        """Load contents with their counts, in all and by segment, without counting them as new experience."""
        if not slots:
            return
        held = self.ledger.catalogue
        names = [held.ids[slot] for slot in slots]
        numbers = held["tags"][slots]
        tags: Any = [held.tag_sets[number] for number in numbers.tolist()] if numbers.any() else ()
        sources = self._sources(variant)
        n, s = self.ledger.sums(slots, variants=sources)
        parts = {}
        for segment in self.ledger.segments:
            parts[segment] = self.ledger.sums(slots, variants=sources, segment=segment)
        shares = {segment: part for segment, part in parts.items() if part[0].any() or segment in pool.segments}
        pool.load(names, n, s, tags=tags, parts=shares, fresh=False)

    def eligible(self, variant: str) -> np.ndarray[Any, Any]:
        """Slots that a variant may show."""
        held = self.ledger.catalogue
        slots = np.flatnonzero(held["state"][: len(held.ids)] == SHOWN)
        gone = self.ledger.gone.get(variant)
        return slots[~np.isin(slots, list(gone))] if gone else slots


def _record(pool: SegmentedPool, names: list[str], segment: str, n: Sequence[float], s: Sequence[float]) -> None:
    """Count what concerns contents that are in the pool; the ledger has the others."""
    try:
        pool.record_many(names, segment, n, s)
    except ValueError:
        held = [j for j, name in enumerate(names) if name in pool]
        if len(held) == len(names):
            raise
        pool.record_many([names[j] for j in held], segment, [n[j] for j in held], [s[j] for j in held])
