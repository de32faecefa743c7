"""One pool for each variant, derived from ledger and overlay. Items have their slots as ids in it, not their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from hellinger.engine.overlay import Overlay
from hellinger.ledger import COMMON, HIDDEN, SHOWN, Changes, Columns, Ledger, Request, Slots
from hellinger.policies import Prior
from hellinger.pool import Departure, Leaving, Pool, SegmentedPool

__all__ = ["Learning", "Pools"]

Learning = Literal["isolated", "shared"]


class Pools:
    """The items of a ledger in one :class:`SegmentedPool` for each variant.

    A pool has no numbers of its own. Who is in it, how often each item was shown and what it earned, how many
    impressions there were in all, and the prior: each is looked up in the ledger and the overlay whenever it may have
    changed, never added to. So a pool that has lived through a log equals one that is made at its end.

    Parameters
    ----------
    ledger, overlay
        What the log says, and this copy's rankings that it does not have yet.
    expired
        Slots of items that have expired, which the log does not know yet; looked at whenever items change.
    variants
        Policy of each, as a spec.
    learning
        ``"isolated"``: a variant learns from its own rankings; ``"shared"``: all learn from all.
    enough
        Impressions that a segment needs to be ranked by its own counts.
    leaving
        When an item leaves a variant's pool by itself.
    """

    def __init__(
        self,
        ledger: Ledger,
        overlay: Overlay,
        expired: set[int],
        variants: dict[str, str],
        *,
        learning: Learning = "isolated",
        enough: float | None = None,
        leaving: Leaving | None = None,
    ) -> None:
        self.ledger = ledger
        self.overlay = overlay
        self.expired = expired
        self.learning: Learning = learning
        self.of = {
            name: SegmentedPool(spec, enough=enough, leaving=leaving, learn="given") for name, spec in variants.items()
        }
        self._departing: dict[str, dict[int, Departure]] = {name: {} for name in variants}
        """Items that have left a variant's pool by themselves, which the log does not know yet."""
        self._logged: set[tuple[str, int]] = set()
        """Those of them for which an event is on its way."""
        slots = np.flatnonzero(ledger.catalogue["state"][: len(ledger.catalogue.ids)] <= HIDDEN)
        for variant, pool in self.of.items():
            self._set_prior(variant, "")
            for segment in ledger.segments:
                if self._rounds(variant, segment):
                    pool.segment(segment)
                    self._set_prior(variant, segment)
            self._place(variant, slots)
            for segment, own in pool.segments.items():
                own.rounds = self._rounds(variant, segment)
            pool.pooled.rounds = self._rounds(variant)

    # Following the ledger -----------------------------------------------------------------------------

    def follow(self, changes: Changes) -> None:
        """Be what ledger and overlay say after these changes."""
        if changes.items or changes.retagged:
            slots = np.array(sorted(changes.items | changes.retagged), np.int64)
            for variant in self.of:
                self._place(variant, slots, changes.retagged)
        for (variant, segment), parts in changes.counted.items():
            counted = _distinct(parts)
            for learner in self._learners(variant):
                self._set_counts(learner, segment, counted)
        for variant, segment in changes.priors:
            if variant in self.of:
                self._set_prior(variant, segment)

    def show(self, ranking: Request, *, served: bool) -> None:
        """Count a ranking of the overlay; ``served``: its variant's own pool has counted it already."""
        variant, segment = ranking.whose
        learners = [name for name in self._learners(variant) if name != variant or not served]
        if learners:
            shown = _distinct([np.array(ranking.slots, np.int64)])
            for name in learners:
                self._set_counts(name, segment, shown)

    def _place(self, variant: str, slots: Slots, retagged: Iterable[int] = ()) -> None:
        """Take in the items that belong in a variant's pool, take out the others, and hide what is not to be shown."""
        pool, catalogue = self.of[variant], self.ledger.catalogue
        self._collect(variant)
        gone, departing = self.ledger.gone.get(variant, {}), self._departing[variant]
        for slot in [slot for slot in slots.tolist() if slot in departing]:
            if slot in gone or catalogue["state"][slot] > HIDDEN:
                del departing[slot]
                self._logged.discard((variant, slot))
        wanted = catalogue["state"][slots] <= HIDDEN
        out = gone.keys() | departing.keys()
        if out:
            wanted &= ~np.isin(slots, list(out))
        here = pool.contains(slots)
        if (here & ~wanted).any():
            pool.remove(slots[here & ~wanted])
        changed = slots[here & wanted]
        if retagged and (other := changed[np.isin(changed, list(retagged))]).size:
            pool.retag(other, self._tags(other))
        self._load(variant, slots[wanted & ~here])
        hidden = (catalogue["state"][slots] != SHOWN) | np.isin(slots, list(self.expired))
        present = pool.contains(slots)  # a loaded one may have left at once
        for which, change in ((hidden, pool.hide), (~hidden, pool.unhide)):
            if (which & present).any():
                change(slots[which & present])

    def _load(self, variant: str, slots: Slots) -> None:
        if not slots.size:
            return
        pool = self.of[variant]
        parts = {segment: self.sums(variant, slots, segment) for segment in pool.segments}
        n, s = self.sums(variant, slots)
        order = self.ledger.catalogue["since"][slots]
        pool.load(slots, n, s, tags=self._tags(slots), parts=parts, fresh=False, order=order)
        self._collect(variant)

    def _tags(self, slots: Slots) -> Any:
        catalogue = self.ledger.catalogue
        numbers = catalogue["tags"][slots]
        return [catalogue.tag_sets[number] for number in numbers.tolist()] if numbers.any() else ()

    def _set_counts(self, variant: str, segment: str, slots: Slots) -> None:
        """Let items of a variant's pool, and the pool as a whole, have the counts that ledger and overlay say."""
        pool = self.of[variant]
        if segment and segment not in pool.segments:
            pool.segment(segment)
            self._set_prior(variant, segment)
        here = slots[pool.contains(slots)]
        if here.size:
            if segment:
                pool.segments[segment].set_counts(here, *self.sums(variant, here, segment))
            pool.set_counts(here, *self.sums(variant, here))
            self._collect(variant)
        if segment:
            pool.segments[segment].rounds = self._rounds(variant, segment)
        pool.pooled.rounds = self._rounds(variant)

    def _set_prior(self, variant: str, segment: str) -> None:
        fitted, pool = self.ledger.priors.get((variant, segment)), self.of[variant]
        if fitted is not None and pool.pooled.policy.rule.learns_prior:  # the variant may have had another policy
            (pool.segment(segment) if segment else pool.pooled).prior = Prior.from_state(fitted[1]["prior"])

    # What the pools count -----------------------------------------------------------------------------

    def sources(self, variant: str) -> list[str]:
        """Variants whose counts this one learns from."""
        if self.learning == "shared":
            return sorted({*self.of, *self.ledger.variants, COMMON})
        return [variant, COMMON]

    def sums(self, variant: str, slots: Slots, segment: str = "") -> Columns:
        """Impressions and rewards of these items, as a variant has to count them."""
        sources = self.sources(variant)
        n, s = self.ledger.sums(slots, variants=sources, segment=segment)
        if self.overlay.rankings:
            self.overlay.add_to(n, slots.tolist(), sources, segment)
        return n, s

    def _rounds(self, variant: str, segment: str = "") -> float:
        sources = self.sources(variant)
        return self.ledger.rounds(variants=sources, segment=segment) + self.overlay.rounds(sources, segment)

    def _learners(self, variant: str) -> list[str]:
        if variant == COMMON or self.learning == "shared":
            return list(self.of)
        return [variant] if variant in self.of else []

    # Items that leave by themselves -------------------------------------------------------------------

    def departures(self) -> list[tuple[str, int, Departure]]:
        """Items that have left a variant's pool by themselves, each given once."""
        fresh = []
        for variant, left in self._departing.items():
            self._collect(variant)
            fresh += [(variant, slot, gone) for slot, gone in left.items() if (variant, slot) not in self._logged]
        self._logged.update((variant, slot) for variant, slot, _ in fresh)
        return fresh

    def departing(self, variant: str) -> list[int]:
        """Slots of items that have left a variant's pool by themselves, which the log does not know yet."""
        self._collect(variant)
        return list(self._departing[variant])

    def _collect(self, variant: str) -> None:
        for gone in self.of[variant].departures():
            self._departing[variant][int(gone.id)] = gone

    def sweep(self) -> None:
        """Retire items that cannot win."""
        for pool in self.of.values():
            pool.sweep()

    def each(self) -> Iterable[tuple[str, str, Pool]]:
        """Every pool with its variant and segment, ``""`` for all traffic."""
        for variant, pool in self.of.items():
            yield variant, "", pool.pooled
            for segment in sorted(pool.segments):
                yield variant, segment, pool.segments[segment]


def _distinct(parts: list[Slots]) -> Slots:
    """The slots of these arrays, each once and in order; for some hundreds in a fraction of ``np.unique``'s time."""
    slots = np.sort(parts[0] if len(parts) == 1 else np.concatenate(parts))
    if slots.size > 1:
        slots = slots[np.concatenate(([True], slots[1:] != slots[:-1]))]
    return slots
