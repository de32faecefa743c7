"""One pool for each variant, kept in step with the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from hellinger.ledger import COMMON, DELETED, EXPIRED, HIDDEN, SHOWN, Ledger
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
        self.leaving = leaving or Leaving()
        self.of = {
            name: SegmentedPool(spec, enough=enough, seed=seed + number, leaving=leaving)
            for number, (name, spec) in enumerate(variants.items())
        }
        self._waiting: dict[tuple[str, str], tuple[list[int], list[float], list[float]]] = {}
        self._coming: dict[int, None] = {}
        self._departed: list[tuple[str, int, Departure]] = []
        self.dates: list[int] = []
        """Contents that have been given a date of expiry since this was last emptied."""
        for name in self.of:
            self._load(name)
        ledger.listener = self

    # What an event changes ----------------------------------------------------------------------------

    def appears(self, slot: int) -> None:
        """Show a content, new or again; many are put in place at once, by :meth:`settle` or when it matters."""
        if self._waiting:
            self.settle()
        self._coming[slot] = None

    def vanishes(self, slot: int) -> None:
        """Hide a content; one that has expired need not be kept."""
        self.settle()
        if self.ledger.catalogue["state"][slot] == EXPIRED:
            self.ends(slot)
            return
        name = self.ledger.catalogue.ids[slot]
        for pool in self.of.values():
            if name in pool:
                pool.hide(name)

    def ends(self, slot: int) -> None:
        """Take a content out."""
        self.settle()
        self._part()  # while names still mean what they meant
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
                self._put(variant, pool, [slot])

    def dated(self, slot: int) -> None:
        """Note that a content has a date of expiry."""
        self.dates.append(slot)

    def counted(self, variant: str, segment: str, slots: Sequence[int], n: Sequence[float], s: Sequence[float]) -> None:
        """Note counts, for :meth:`settle`."""
        if self._coming:  # they are put in place with what the ledger has of them, which is not this yet
            self.settle()
        waiting = self._waiting.get((variant, segment))
        if waiting is None:
            waiting = self._waiting[variant, segment] = ([], [], [])
        waiting[0].extend(slots)
        waiting[1].extend(n)
        waiting[2].extend(s)

    def settle(self) -> None:
        """Bring what was noted into the pools."""
        if self._coming:
            self._arrive()
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

    def _put(self, variant: str, pool: SegmentedPool, slots: list[int]) -> None:
        """Add contents with what they have achieved so far, which is no new experience."""
        held = self.ledger.catalogue
        self._fill(variant, pool, slots)
        hidden = [held.ids[slot] for slot in slots if held["state"][slot] == HIDDEN]
        if hidden:
            pool.hide(hidden)

    def _arrive(self) -> None:
        ids = self.ledger.catalogue.ids
        coming, self._coming = list(self._coming), {}
        for variant, pool in self.of.items():
            gone = self.ledger.gone.get(variant, ())
            back = [ids[slot] for slot in coming if ids[slot] in pool]
            if back:
                pool.unhide(back)
            known = set(back)
            self._put(variant, pool, [slot for slot in coming if ids[slot] not in known and slot not in gone])

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

    def _part(self) -> None:
        slots = self.ledger.catalogue.slots
        for variant, pool in self.of.items():
            for gone in pool.departures():
                slot = slots.get(str(gone.id))
                if slot is not None:  # deleted in the meantime otherwise
                    self._departed.append((variant, slot, gone))

    def departures(self) -> list[tuple[str, int, Departure]]:
        """Variant and slot of each content that has left a pool by itself since this was last asked."""
        self._part()
        state = self.ledger.catalogue["state"]
        gone, self._departed = self._departed, []
        return [one for one in gone if state[one[1]] != DELETED]

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
