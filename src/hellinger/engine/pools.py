"""A pool for each variant and each segment that is ranked by itself, derived from ledger and overlay.

Items have their slots as ids in the pools, not their names.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger.engine.dates import Dates
from hellinger.engine.derived import AT_ONCE, MANY, PRIORS, SLICE, Derived, taken, together
from hellinger.engine.describing import features_of
from hellinger.engine.grouping import LeftItems
from hellinger.engine.lifetimes import left_of
from hellinger.engine.overlay import Overlay
from hellinger.engine.specs import ORDERS
from hellinger.ledger import COMMON, EXPIRED, HIDDEN, SHOWN, Changes, Columns, Floats, Ledger, Request, Slots
from hellinger.ledger.looks import Setting, Worth, lacks_by
from hellinger.ledger.modelled import Modelled, has_model, split_model
from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.pool import Departure, Leaving, Pool
from hellinger.pool.segments import enough_for

__all__ = ["LEARN", "SEGMENT_BYTES", "SLICE", "Pools"]

LEARN = 0.001
"""Seconds for which a model learns at once, while rankings wait."""
TOUCHED = 8 * SLICE
"""Items of all traffic that a segment's pool looks up at once: for each it does little."""
SEGMENT_BYTES = 1 << 30
ITEM_BYTES = 100
"""What an item takes in a pool, about."""
WORK = 500
"""Items and groups whose priors one event works out at once, while rankings wait; others follow in slices, each once
for all events that came meanwhile."""
SCORED = 20_000
"""Items of a pool in which every one is scored for a ranking, where groups or features tell of them and it is known
when they expire: half a millisecond."""
MET = 4_000
"""Items that a ranking asks a pool for at once, where many may have to be passed over."""


class Pools:
    """The items of a ledger in one :class:`Pool` for each variant, and in one more for each segment that decides.

    A pool has no numbers of its own. Who is in it, how often each item was shown and what it earned, how many
    impressions there were in all, and the prior: each is looked up in the ledger and the overlay whenever it may have
    changed, never added to. So a pool that has lived through a log equals one that is made at its end.

    When many items change, a pool looks them up when it is next asked to rank, or in :meth:`catch_up`, a slice at a
    time: with many segments there are many pools, and rankings by one need not wait for all others.

    What very many items are or count (a bulk load, a new prior, a new curve of positions, an import) takes effect in
    slices: until an item has had its turn it is ranked by what the pool knew of it before, as a replica does that has
    not got the event yet. But no ranking shows an item that is deleted, hidden or expired: while a pool may still have
    such items, each that it names is looked at, and passed over (:meth:`best`). A pool with nothing left to look up
    equals one made from the log, whatever was counted between two slices.

    Parameters
    ----------
    ledger, overlay
        What the log says, and this replica's rankings that it does not have yet.
    dates
        Which items may be shown: some have expired, though the log does not know it yet.
    variants
        Policy of each, as a spec.
    shared
        Variants that learn from the rankings of all, not from their own alone.
    hidden
        Those of them that rank unseen. Nobody waits for them: they look up what was shown when next asked to rank.
    enough
        Where a policy learns no prior: impressions that a segment needs to be ranked by its own counts; see
        ``hellinger.pool.enough_for``. Others rank every segment by what the log has learned of segments.
    segment_bytes
        Memory that the pools of segments may take, about, the same part for each variant; the busiest segments have
        pools: as of the last prior, or where a policy learns none, by the log.
    leaving
        When an item leaves a variant's pools by itself, by the counts of all traffic.
    segments
        Segments that may have pools; all if not given.
    positions
        What an impression is worth at each position: as learned, one each, or as given.
    ends
        Tells of an array of slots when the items expire, 0 for never, where policies are to know how long they have
        left (``hellinger.engine.lifetimes``). Pools of segments do not.
    coming
        Variants that are to have pools, in slices (:meth:`catch_up`): they are not ranked by yet. If not given, all
        have, at once.
    """

    def __init__(
        self,
        ledger: Ledger,
        overlay: Overlay,
        dates: Dates,
        variants: dict[str, str],
        *,
        shared: Collection[str] = (),
        hidden: Collection[str] = (),
        enough: float | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        leaving: Leaving | None = None,
        segments: Collection[str] | None = None,
        positions: Setting = "learned",
        ends: Callable[[Slots], Slots] | None = None,
        coming: Collection[str] | None = None,
    ) -> None:
        self.positions = positions
        overlay.set_worth(Worth(lacks_by(positions, ledger.curve[1])))
        self.ledger = ledger
        self.overlay = overlay
        self.dates = dates
        self.variants = variants
        self.shared = frozenset(shared)
        self.hidden = frozenset(hidden)
        self.enough = enough
        self.segment_bytes = segment_bytes
        self.leaving = leaving
        self.ends = ends
        self._only = segments
        self._departing: dict[str, dict[int, Departure]] = {
            name: {} for name in (variants if coming is None else coming)
        }
        """Items that have left a variant's pools by themselves, which the log does not know yet."""
        self._logged: set[tuple[str, int]] = set()
        """Those of them for which an event is on its way."""
        self.failure: Exception | None = None
        """Why a pool could not look something up: none can be relied upon any more."""
        self._left: dict[str, LeftItems] = {}
        """Items of groups that are in no pool of a variant any more."""
        self._of: dict[tuple[str, str], Derived] = {}
        """By variant and segment, ``""`` for all traffic."""
        self._laws: dict[str, SegmentLaw] = {}
        """What the log has learned of segments, by variant; of those whose policy learns a prior."""
        self._busy: dict[str, tuple[int, int, frozenset[str] | None]] = {}
        """By variant a place in the log, how many segments there is memory for, and the busiest there; None for all."""
        for variant in variants if coming is None else coming:
            self._make(variant, "")
        if coming is None:
            self.finish()

    @property
    def behind(self) -> int:
        """How much all pools together have to look up, but for what segments' pools look up when they rank."""
        return sum(derived.behind - derived.touched for derived in self._of.values())

    @property
    def by_segment(self) -> int:
        """How many of the pools are a segment's own."""
        return sum(bool(segment) for _, segment in self._of)

    @property
    def stale(self) -> bool:
        """Whether a ranking made now would be by what some pool knew before."""
        return any(derived.behind > derived.urgent for derived in self._of.values())

    def fresh(self, variants: dict[str, str], shared: Collection[str]) -> set[str]:
        """Those of these variants that need a new pool."""
        moved = self.shared ^ frozenset(shared)
        return {name for name, spec in variants.items() if self.variants.get(name) != spec or name in moved}

    def set_variants(
        self,
        variants: dict[str, str],
        shared: Collection[str],
        hidden: Collection[str] = (),
        made: Pools | None = None,
    ) -> None:
        """Rank for these variants from now on; those that rank and learn as they did keep their pools.

        ``made`` has the pools of others.
        """
        same = variants.keys() - self.fresh(variants, shared)
        shown = self.hidden.difference(hidden)
        self.variants, self.shared, self.hidden = variants, frozenset(shared), frozenset(hidden)
        self._of = {key: derived for key, derived in self._of.items() if key[0] in same}
        self._departing = {name: self._departing[name] if name in same else {} for name in variants}
        self._logged = {(name, slot) for name, slot in self._logged if name in same}
        self._laws = {name: law for name, law in self._laws.items() if name in same}
        for variant in variants:
            if variant in same:
                continue
            if made is None:
                self._make(variant, "")
                while self._of[variant, ""].number:  # nobody can be ranked before
                    self._look_up(variant, "", SLICE)
            else:
                self._of |= {key: derived for key, derived in made._of.items() if key[0] == variant}
                self._left[variant], self._departing[variant] = made._left[variant], made._departing[variant]
                self._laws |= {name: law for name, law in made._laws.items() if name == variant}
        for (variant, segment), derived in self._of.items():
            if variant in shown:  # until now it looked everything up when it was asked
                derived.pool.rounds = self._rounds(variant, segment)

    @property
    def lacks(self) -> Floats | None:
        """What an impression lacks to one in each zone of positions but the first; None where each is worth one."""
        return self.overlay.worth.lacks

    # Asking -------------------------------------------------------------------------------------------

    def of(self, variant: str) -> Pool:
        """A variant's pool for all traffic, up to date."""
        return self._update(variant, "")

    def as_it_is(self, variant: str) -> Pool:
        """A variant's pool for all traffic, whatever it has yet to look up: for who only looks."""
        return self._of[variant, ""].pool

    def deciding(self, variant: str, segment: str) -> Pool:
        """The pool that ranks for this segment, up to date: its own where it is ranked by itself.

        While that has very many items to look up, all traffic's pool ranks instead: with many segments, rankings would
        wait for one pool after the other.
        """
        pool = self.of(variant)
        if not segment or not self._decides(variant, segment):
            return pool
        if (variant, segment) not in self._of:
            self._make(variant, segment)
        derived = self._of[variant, segment]
        near = derived.touched <= TOUCHED and derived.number <= SLICE and not derived.many
        return self._update(variant, segment) if near else pool

    def passes_over(self, variant: str) -> bool:
        """Whether a variant's pools may name items that must not be shown, for :meth:`best` and :meth:`draw` to see."""
        return self.dates.late or self._of[variant, ""].many

    def best(
        self, variant: str, pool: Pool[Any], k: int, *, among: Sequence[int] | None = None, **asked: Any
    ) -> tuple[list[Any], list[float], int]:
        """The best k of one of a variant's pools that may be shown, counted nowhere; their indices, and the last tie.

        Where the pool may have others, it is asked for more than k, and those that it must not show are hidden until
        they are looked up. Where it has very many of them before the k-th that may be shown, or few may be shown at
        all, the others are looked at alone. The size of the tie is then not known, 0, unless it lies within what was
        seen.
        """
        if among is not None:
            asked["among"] = among
        if not self.passes_over(variant):
            names, scores = pool.pick(k, count=False, **asked)
            return names, scores, pool.tied
        if not self.dates.shown:
            return [], [], 0
        if among is not None:
            asked["among"] = self._showable(np.array(among, np.int64))
        size = 2 * k + 16 if among is not None or (pool.ranks_by_cells and not self._few_left(pool)) else MET + 1
        while size <= MET:
            names, scores = pool.pick(size, count=False, **asked)
            slots = np.array(names, np.int64)
            shown = self.dates.shows(slots)
            if not shown.all():
                pool.hide(slots[~shown])
            kept = np.flatnonzero(shown)
            if kept.size > k or slots.size < size:
                names, scores = [names[j] for j in kept.tolist()], [scores[j] for j in kept.tolist()]
                last = scores[min(k, len(scores)) - 1] if scores else 0.0
                open_ended = slots.size == size and scores[-1] == last
                tied = min(len(scores), 1) if pool.ties == "oldest" else 0 if open_ended else scores.count(last)
                return names[:k], scores[:k], tied
            size *= 4
        if among is None:
            asked["among"] = self._showable()
        names, scores = pool.pick(k, count=False, **asked)
        return names, scores, pool.tied

    def _few_left(self, pool: Pool[Any]) -> bool:
        """Whether so few items may be shown that to score them is less than to pass over all others of a pool."""
        return self.dates.shown <= min(SCORED, pool.eligible // 8)

    def draw(self, variant: str, pool: Pool[Any], k: int, rng: random.Random, **asked: Any) -> tuple[list[Any], int]:
        """K items of one of a variant's pools that may be shown, drawn uniformly, and of how many."""
        if self.passes_over(variant):
            among = asked.get("among")
            asked["among"] = self._showable(None if among is None else np.array(among, np.int64))
        return pool.draw(k, rng, **asked)

    def _showable(self, slots: Slots | None = None) -> Any:
        """Those of these items that may be shown; of all, as a mask."""
        return self.dates.showing() if slots is None else slots[self.dates.shows(slots)]

    def pick(
        self,
        variant: str,
        segment: str,
        k: int,
        *,
        count: bool,
        context: dict[str, Any] | None = None,
        **filters: Any,
    ) -> tuple[list[Any], Sequence[float], int]:
        """The best k for a segment, their indices, and the size of the last tie (``Pool.tied``).

        Counted, if so asked, in every pool that they concern. By a model, where the variant has one, for whom
        ``context`` describes: a model learns from the log alone, so what it shows counts for it when the log has it.
        """
        decides = self.deciding(variant, segment)
        count = count and self.variants[variant] not in ORDERS
        worth = None if self.lacks is None else self.overlay.worth.of(k)
        model = self.model(variant)
        if model is None:
            if not self.passes_over(variant):
                names, scores = decides.pick(k, count=count, worth=worth, **filters)
                tied, counted = decides.tied, True
            else:
                (names, scores, tied), counted = self.best(variant, decides, k, **filters), False
        else:
            names, scores = self._pick_by_model(model, self.of(variant), k, context, filters)
            tied, counted = 0, False
        if count and names and not counted:
            decides.record_many(names, self.overlay.worth.of(len(names)))
        if count and names:
            if segment:
                self._count_elsewhere(variant, segment, decides, names, self.overlay.worth.of(len(names)))
            self._collect(variant)
        return names, scores, tied

    @contextmanager
    def without(self, variant: str, ranking: Request) -> Iterator[Pool]:
        """The pool whose counts rank for a ranking's segment, as if that one had not been made.

        What it showed and has earned so far is taken back for the block, and looked up when the pool is next asked. A
        model keeps what it has learned of it.
        """
        pool = self.deciding(variant, ranking.segment)
        segment = ranking.segment if pool is not self._of[variant, ""].pool else ""
        slots = np.array(self.ledger.slots_of(ranking), np.int64)
        there = np.flatnonzero(slots >= 0)
        slots = slots[there]
        if not slots.size or self.variants[variant] in ORDERS:
            yield pool
            return
        n, s = self.sums(variant, slots, segment)
        if ranking.counted:
            shown = (self.overlay.worth if ranking.zoned else Worth()).of(len(ranking.items))[there]
        else:
            shown = np.array([float(j in (ranking.seen or ())) for j in there.tolist()])
        earned = np.array([ranking.earned(j) for j in there.tolist()]) if ranking.given else np.zeros(there.size)
        rounds = pool.rounds
        try:
            with self._failing():
                pool.set_counts(slots, np.maximum(n - shown, 0.0), np.maximum(s - earned, 0.0), skip_absent=True)
                pool.rounds = max(rounds - float(shown.sum()), 0.0)
            yield pool
        finally:
            self._of[variant, segment].counts.append(np.sort(slots))
            pool.rounds = rounds

    def model(self, variant: str) -> Modelled | None:
        """What ranks for a variant that has a model; None where counts do: it has none, or has very much to take in."""
        model = self.ledger.models.of.get(variant)
        if model is None:
            return None
        with self._failing():
            return model if model.settle(LEARN) else None

    def _pick_by_model(
        self, model: Modelled, pool: Pool[Any], k: int, context: dict[str, Any] | None, filters: dict[str, Any]
    ) -> tuple[list[Any], list[float]]:
        """The best k by a model, of those that the variant's pool offers."""
        if not self.dates.shown:
            return [], []
        catalogue = self.ledger.catalogue
        asked = {**filters}
        for what in ("exclude", "among"):
            if what in asked:
                slots = np.array(asked[what], np.int64)
                asked[what] = catalogue["since"][slots[slots >= 0]].tolist()
        if "among" in asked:
            asked["among"] = [since for since in asked["among"] if since in model.pool]
        size = k
        while True:
            if size > MET and "among" not in asked:
                known = catalogue["since"][np.flatnonzero(self._showable())]
                asked["among"] = known[model.pool.contains(known)]
            since, scores = model.pool.pick(size, context=context, count=False, **asked)
            slots = catalogue.find(np.array(since, np.int64))
            # an item may have left a moment ago, and the model not know it yet
            here = np.flatnonzero(slots >= 0)
            here = here[pool.offering(slots[here]) & self.dates.shows(slots[here])]
            if here.size >= k or len(since) < size:
                return slots[here[:k]].tolist(), [scores[j] for j in here[:k].tolist()]
            size *= 4  # what is left out is asked again: all together no more than a few times as many

    def _count_elsewhere(self, variant: str, segment: str, decides: Pool, names: list[Any], worth: Floats) -> None:
        for _, derived in self._counting(variant, segment):
            if derived.pool is decides:
                continue
            if derived.number:  # it looks them up later, when ledger or overlay have this ranking
                derived.expect(np.array(names, np.int64))
                derived.pool.rounds += float(worth.sum())
            else:
                derived.pool.record_many(names, worth)

    def each(self, *only: str) -> Iterator[tuple[str, str, Pool]]:
        """Every pool that ranks, with its variant and segment, ``""`` for all traffic; ``only`` one, if given.

        They have nothing left to look up.
        """
        if not only:
            self.finish()
        for variant, segment in [only] if only else self.ranking:
            for each in ("", segment) if segment else ("",):
                if each and not self._decides(variant, each):
                    break
                if (variant, each) not in self._of:
                    self._make(variant, each)
                while self._of[variant, each].behind:
                    self._look_up(variant, each, SLICE)
            else:
                yield variant, segment, self._update(variant, segment)

    @property
    def ranking(self) -> list[tuple[str, str]]:
        """Variant and segment of every pool that ranks, as far as they are made."""
        return sorted(key for key in self._of if not key[1] or self._decides(*key))

    def segments(self, variant: str) -> list[str]:
        """Segments that are ranked by themselves."""
        self.of(variant)  # how many items it has decides
        return [segment for segment in self.ledger.segments if self._decides(variant, segment)]

    def _decides(self, variant: str, segment: str) -> bool:
        if self._only is not None and segment not in self._only:
            return False
        law = self._laws.get(variant)
        if law is None:
            return self._has_enough(variant, segment)
        if not law.shifts or not self._rounds(variant, segment):
            return False
        return any(name == segment for name, _ in law.shifts[: self._most_segments(variant)])

    def _has_enough(self, variant: str, segment: str, part: float = 1.0) -> bool:
        """Whether a segment has this part of the impressions that it needs, and is one of those with memory for it."""
        needed = part * enough_for(self.enough, len(self._of[variant, ""].pool))
        return self._rounds(variant, segment) >= needed and self._is_busy(variant, segment)

    def _most_segments(self, variant: str) -> int:
        """How many segments of a variant have pools at most: those of all variants share the memory alike."""
        items, sharing = len(self._of[variant, ""].pool), sum(spec not in ORDERS for spec in self.variants.values())
        return self.segment_bytes // (ITEM_BYTES * max(1, items) * sharing)

    def _is_busy(self, variant: str, segment: str) -> bool:
        """Whether a segment is one of those with the most impressions in the log that there is memory for."""
        most, seq = self._most_segments(variant), self.ledger.seq
        if self._busy.get(variant, (0, 0))[:2] != (seq, most):
            busiest: frozenset[str] | None = None
            segments = self.ledger.segments
            if len(segments) >= most:  # rankings ask after each commit: nothing is added up where all have room
                sources = self.sources(variant)
                rounds = {name: self.ledger.rounds(variants=sources, segment=name) for name in segments}
                busiest = frozenset(sorted(rounds, key=lambda name: (-rounds[name], name))[:most])
            self._busy[variant] = seq, most, busiest
        busy = self._busy[variant][2]
        return busy is None or segment in busy

    def reads_features(self, variant: str) -> bool:
        """Whether the prior of a variant's pools knows what items are: where it learns one, and has no model."""
        pool = self._of[variant, ""].pool
        return pool.policy.rule.learns_prior and not has_model(self.variants[variant])

    def reads_dates(self, variant: str) -> bool:
        """Whether a variant's pool of all traffic knows how long items have left: its policy can use it, on counts."""
        rule = self._of[variant, ""].pool.policy.rule
        return self.ends is not None and rule.knows_lives and not has_model(self.variants[variant])

    def left(self, variant: str, slots: Slots) -> Floats | None:
        """How many rankings more these items can be in, as far as that is known; None where nobody asks."""
        if self.ends is None or not self.reads_dates(variant):
            return None
        return left_of(self.ledger, None if variant in self.shared else variant, self.ends(slots))

    # Following the ledger -----------------------------------------------------------------------------

    def follow(self, changes: Changes) -> None:
        """Be what ledger and overlay say after these changes."""
        if changes.forgotten:
            self._forget(np.array(sorted(changes.forgotten), np.int64))
        if changes.items or changes.described:
            self.expect(np.array(sorted(changes.items | changes.described), np.int64), changes.described)
        for derived in self._of.values() if changes.departed else ():
            derived.lose(changes.departed)
        for (variant, segment), parts in changes.counted.items():
            counted = together(parts)
            for learner in self._learners(variant):
                self._set_counts(learner, segment, counted, later=changes.phase)  # what a variant begins with is much
        for variant, segment in changes.priors:
            if (variant, segment) in self._of:
                self._set_prior(variant, segment)
        if changes.curve:
            self._set_lacks()
        for (variant, segment), derived in self._of.items() if changes.pace else ():
            if not segment and self.reads_dates(variant):
                derived.aged = len(self.ledger.catalogue.ids)

    def _set_lacks(self) -> None:
        """Count all impressions anew where the curve in force says that they are worth something else."""
        worth = Worth(lacks_by(self.positions, self.ledger.curve[1]))
        if not worth.same(self.overlay.worth):
            self.overlay.set_worth(worth)
            self.recount()

    def recount(self) -> None:
        """Look all counts up again: impressions are worth something else."""
        catalogue = self.ledger.catalogue
        there = catalogue["state"][: len(catalogue.ids)] <= HIDDEN
        for (variant, segment), derived in self._of.items():
            derived.expect_all(there, counts=True)
            derived.pool.rounds = self._rounds(variant, segment)
            derived.lose(chain(self._left[variant].groups, self.ledger.departed.items))  # read only if used

    def _forget(self, slots: Slots) -> None:
        """Let go of what is known of these slots at once: the items that have them now are others, or none."""
        for variant, departing in self._departing.items():
            self._collect(variant)
            for slot in slots.tolist():
                departing.pop(slot, None)
                self._logged.discard((variant, slot))
            self._note_left(variant, slots.tolist(), [()] * slots.size)
        for derived in self._of.values():
            here = slots[derived.pool.contains(slots)]
            if here.size:  # seldom: it was to be removed when it had expired
                derived.pool.remove(here, forget=True)

    def _note_left(self, variant: str, slots: list[int], groups: list[tuple[str, ...]]) -> None:
        """Note of which group each of these items has left, () for none, for every pool of a variant to look it up."""
        touched = self._left[variant].note(slots, groups)
        for (name, _), derived in self._of.items() if touched else ():
            if name == variant:
                derived.lose(touched)

    def expect(self, slots: Slots, described: Iterable[int] = ()) -> None:
        """Note that these items have changed, for every pool to look them up before it ranks."""
        for derived in self._of.values():
            derived.expect(slots, described)

    def show(self, ranking: Request, *, served: bool) -> None:
        """Count a ranking of the overlay; ``served``: its variant's own pools have counted it already."""
        variant, segment = ranking.whose
        learners = [name for name in self._learners(variant) if name != variant or not served]
        if learners:
            shown = together([np.array(ranking.slots, np.int64)])
            for name in learners:
                self._set_counts(name, segment, shown)

    def catch_up(self) -> Iterator[None]:
        """Let every pool look up what has changed, a slice at a time; rankings may be made between two slices."""
        for variant, segment in [(name, segment) for name in self.variants for segment in ("", *self.ledger.segments)]:
            key = variant, segment
            if (variant, "") not in self._of:  # it has stopped since the last slice, or is not to come
                continue
            if segment and key not in self._of and self._decides(*key):
                self._make(*key)
                yield
            # what all traffic has touched can wait while it is little: the next ranking of the segment looks it up
            slices = self._slices(key)
            while key in self._of and (self._of[key].touched > SLICE or self._of[key].behind > self._of[key].touched):
                if not slices:
                    break
                slices -= 1
                self._look_up(*key, SLICE)
                yield
            model = None if segment else self.ledger.models.of.get(variant)
            last = 0 if model is None else model.taken + len(model)  # what comes meanwhile has its turn next time
            while model is not None and len(model) and model.taken < last:
                with self._failing():
                    model.catch_up(LEARN)
                yield
                if self.ledger.models.of.get(variant) is not model:
                    break
            if segment and key in self._of and not self._stays(*key):
                del self._of[key]

    def _slices(self, key: tuple[str, str]) -> int:
        """Far more slices than a pool needs for all that it has to look up; what is more came meanwhile.

        That has its turn in the next round: rankings may touch items faster than a pool looks them up, and all others
        would never have a turn.
        """
        if key not in self._of:
            return 0
        derived = self._of[key]
        return 10 + 8 * (derived.behind + len(derived.pool)) // SLICE

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Rely on no pool any more after an error in the block: something was taken in by half."""
        try:
            yield
        except Exception as error:
            self.failure = error
            raise

    def finish(self) -> None:
        """:meth:`catch_up`, all at once."""
        for _ in self.catch_up():
            pass

    def _stays(self, variant: str, segment: str) -> bool:
        """Whether a segment's pool is kept: with half the impressions that it needs to decide, that it lasts."""
        if variant in self._laws:
            return self._decides(variant, segment)
        return self._has_enough(variant, segment, part=0.5)

    def _make(self, variant: str, segment: str) -> None:
        leaving, order = None if segment else self.leaving, ORDERS.get(self.variants[variant])
        if order is None:
            pool = Pool(split_model(self.variants[variant])[0], leaving=leaving, learn="given", weighted=True)
        else:  # items without counts are all alike: their order is that of ties
            pool = Pool("ucb1", ties=order, leaving=leaving)
        pool.bound_work(WORK, scored=SCORED)
        within = pool.shrink_to(self._of[variant, ""].pool) if segment and variant in self._laws else None
        if not segment:
            self._left[variant] = LeftItems()
        derived = self._of[variant, segment] = Derived(pool, within, self._left[variant])
        self._set_prior(variant, segment)
        catalogue, size = self.ledger.catalogue, len(self.ledger.catalogue.ids)
        state, group = catalogue["state"][:size], catalogue["group"][:size]
        derived.expect_all((state <= HIDDEN) | ((state == EXPIRED) & (group > 0)))
        derived.lose(chain(self._left[variant].groups, self.ledger.departed.items))  # read only if used
        pool.rounds = self._rounds(variant, segment)

    def _update(self, variant: str, segment: str) -> Pool:
        derived = self._of[variant, segment]
        if derived.many and len(derived.pool) < AT_ONCE:  # there is little else to rank
            self._look_up(variant, segment, SLICE)
        while derived.small or derived.counts or derived.few_groups or derived.touched or self.failure is not None:
            self._look_up(variant, segment, max(SLICE, derived.urgent), waiting=True)
        if variant in self.hidden:
            derived.pool.rounds = self._rounds(variant, segment)
        return derived.pool

    def _look_up(self, variant: str, segment: str, most: int, *, waiting: bool = False) -> None:
        """Let a pool look up at most so many of the items that have changed; ``waiting``: a ranking needs it now."""
        if self.failure is not None:
            raise self.failure
        derived = self._of[variant, segment]
        with self._failing():
            if derived.counts:
                slots, _ = taken(derived.counts, most)
                derived.pool.set_counts(slots, *self.sums(variant, slots, segment), skip_absent=True)
                self._collect(variant)
            elif derived.small or (derived.number and not waiting):
                self._place(variant, segment, *derived.take(most, few=waiting))
            elif derived.touched and derived.within is not None:
                derived.within.catch_up(PRIORS * most)
            elif derived.groups:
                self._set_departed(variant, segment, derived.some_groups(most))
            elif derived.aged:
                self._age(variant, derived, PRIORS * most)
            elif derived.later:
                self._place(variant, segment, derived.later.take(most), set())
            else:
                derived.pool.settle(PRIORS * most)

    def _wanted(self, variant: str, slots: Slots) -> npt.NDArray[np.bool_]:
        """Which of these items belong in a variant's pools."""
        gone, departing = self.ledger.gone.get(variant, {}), self._departing[variant]
        wanted: npt.NDArray[np.bool_] = (self.ledger.catalogue["state"][slots] <= HIDDEN) & ~self.dates.expired(slots)
        for left in (gone, departing):
            if len(left) > slots.size:
                wanted &= np.array([slot not in left for slot in slots.tolist()], np.bool_)
            elif left:
                wanted &= ~np.isin(slots, np.fromiter(left, np.int64, len(left)))
        return wanted

    def _age(self, variant: str, derived: Derived, most: int) -> None:
        """Look up how long about so many items have left by what was last said of the traffic."""
        stop = min(derived.aged, len(self.ledger.catalogue.ids))
        derived.aged = start = max(0, stop - most)
        slots = np.arange(start, stop)
        slots = slots[derived.pool.contains(slots)]
        if slots.size:
            derived.pool.set_left(slots, self.left(variant, slots))

    def _place(self, variant: str, segment: str, slots: Slots, described: set[int]) -> None:
        """Take in the items that belong in a pool with their counts, take out others, hide what is not to be shown."""
        pool, catalogue = self._of[variant, segment].pool, self.ledger.catalogue
        gone, departing = self.ledger.gone.get(variant, {}), self._departing[variant]
        state = catalogue["state"][slots]
        # a segment's pool knows features and groups from that of all traffic
        reads = self._of[variant, segment].within is None and self.reads_features(variant)
        ages = not segment and self.reads_dates(variant)
        if departing:
            for slot in [slot for slot in slots.tolist() if slot in departing]:
                if slot in gone or catalogue["state"][slot] > HIDDEN:
                    del departing[slot]
                    self._logged.discard((variant, slot))
        wanted = self._wanted(variant, slots)
        if not segment:
            self._note_place(variant, slots, ~wanted & (state <= EXPIRED))
        here = pool.contains(slots)
        if not (here | wanted).any():
            return
        if (here & ~wanted).any():
            pool.remove(slots[here & ~wanted], forget=True)
        changed = slots[here & wanted]
        if changed.size:
            other = np.array([slot for slot in changed.tolist() if slot in described], np.int64)
            if other.size:
                pool.retag(other, self._tags(other))
                pool.regroup(other, self._groups(other))
                if reads:
                    pool.describe(other, features_of(catalogue.features, other))
            if ages:
                pool.set_left(changed, self.left(variant, changed))
            pool.set_counts(changed, *self.sums(variant, changed, segment))
        fresh = slots[wanted & ~here]
        if fresh.size:
            n, s = self.sums(variant, fresh, segment)
            since = catalogue["since"][fresh]
            features = features_of(catalogue.features, fresh) if reads else None
            labels = {"tags": self._tags(fresh), "group": self._groups(fresh), "features": features}
            left = self.left(variant, fresh) if ages else None
            pool.add(fresh, n, s, **labels, left=left, fresh=False, order=since)
        if wanted.any():
            present = wanted & pool.contains(slots)  # a loaded one may have left at once
            hidden = state != SHOWN
            for which, change in ((hidden, pool.hide), (~hidden, pool.unhide)):
                if (which & present).any():
                    change(slots[which & present])
        if not segment:
            self._collect(variant)

    def _tags(self, slots: Slots) -> Any:
        catalogue = self.ledger.catalogue
        numbers = catalogue["tags"][slots]
        return [catalogue.tags.values[number] for number in numbers.tolist()] if numbers.any() else ()

    def _groups(self, slots: Slots) -> Any:
        catalogue = self.ledger.catalogue
        numbers = catalogue["group"][slots]
        return [catalogue.groups.values[number] or None for number in numbers.tolist()] if numbers.any() else None

    def _note_place(self, variant: str, slots: Slots, left: Any) -> None:
        """Note which of these items have left the variant's pools, where they have a group or had one."""
        catalogue = self.ledger.catalogue
        numbers = catalogue["group"][slots]
        if numbers.any() or self._left[variant]:
            groups = [catalogue.groups.values[number] for number in np.where(left, numbers, 0).tolist()]
            self._note_left(variant, slots.tolist(), groups)

    def _set_departed(self, variant: str, segment: str, groups: list[tuple[str, ...]]) -> None:
        """Let a pool know what the items have achieved that these groups have lost."""
        derived, since = self._of[variant, segment], self.ledger.catalogue["since"]
        items, (n, s) = self.ledger.departed.of(groups, self.sources(variant), segment, self.lacks)
        lost = [self._left[variant].slots(group, since) for group in groups]
        sizes = np.array([slots.size for slots in lost])
        more_n, more_s = self.sums(variant, np.concatenate(lost), segment)
        whose = np.repeat(np.arange(len(groups)), sizes)
        np.add.at(n, whose, more_n)
        np.add.at(s, whose, more_s)
        np.add.at(items, whose, ((more_n > 0) | (more_s > 0)).astype(np.float64))  # who was never shown tells nothing
        derived.pool.set_departed(groups, items, np.maximum(n, s), s)
        derived.groups.difference_update(groups)

    def _counting(self, variant: str, segment: str) -> Iterator[tuple[str, Derived]]:
        """The variant's pools that count what happens in this segment, each with its own segment."""
        for each in ("", segment) if segment else ("",):
            derived = self._of.get((variant, each))
            if derived is not None:
                yield each, derived

    def _set_counts(self, variant: str, segment: str, slots: Slots, *, later: bool = False) -> None:
        """Let items of the pools, and the pools as a whole, have the counts that ledger and overlay say.

        ``later``: in slices, however few they are here.
        """
        for each, derived in self._counting(variant, segment):
            if later or slots.size > MANY:
                derived.expect_later(slots)
            elif slots.size and variant in self.hidden:
                derived.counts.append(slots)
            elif slots.size:
                derived.pool.set_counts(slots, *self.sums(variant, slots, each), skip_absent=True)
            if variant not in self.hidden:
                derived.pool.rounds = self._rounds(variant, each)
            derived.lose(self._left[variant].of(slots))
        self._collect(variant)

    def _set_prior(self, variant: str, segment: str) -> None:
        fitted, derived = self.ledger.priors.get((variant, segment)), self._of[variant, segment]
        if derived.within is not None:
            self._obey(variant, segment)
        elif derived.pool.policy.rule.learns_prior:  # the variant may have had another policy
            if fitted is not None:
                slowly = len(derived.pool) > AT_ONCE
                derived.pool.set_prior(Prior.from_state(fitted[1]["prior"]), slowly=slowly)
            if not segment:
                self._laws[variant] = SegmentLaw.from_state(None if fitted is None else fitted[1].get("segments"))
                for name, each in list(self._of):
                    if name == variant and each:
                        self._obey(variant, each)

    def _obey(self, variant: str, segment: str) -> None:
        """Let a segment's pool rank by what the log has learned of segments."""
        derived, prior = self._of[variant, segment], self._of[variant, ""].pool.prior
        if derived.within is not None and derived.within.set_law(self._laws[variant], segment, prior or Prior()):
            derived.within.begin()

    # What the pools count -----------------------------------------------------------------------------

    def sources(self, variant: str) -> list[str]:
        """Variants whose counts this one learns from."""
        if self.variants[variant] in ORDERS:
            return []
        sources = self.ledger.sources(variant, shared=variant in self.shared)
        # rankings of the overlay may be the first of their variant
        return sorted({*sources, *self.variants}) if variant in self.shared else sources

    def sums(self, variant: str, slots: Slots, segment: str = "") -> Columns:
        """What the impressions of these items are worth, and their rewards, as a variant has to count them."""
        sources = self.sources(variant)
        n, s = self.ledger.sums(slots, variants=sources, segment=segment, lacks=self.lacks)
        if self.overlay.rankings:
            self.overlay.add_to(n, slots, sources, segment)
        return n, s

    def _rounds(self, variant: str, segment: str = "") -> float:
        sources = self.sources(variant)
        rounds = self.ledger.rounds(variants=sources, segment=segment, lacks=self.lacks)
        return rounds + self.overlay.rounds(sources, segment)

    def _learners(self, variant: str) -> list[str]:
        there = [name for name in self.variants if (name, "") in self._of]
        return there if variant == COMMON else [name for name in there if name == variant or name in self.shared]

    # Items that leave by themselves -------------------------------------------------------------------

    def departures(self) -> list[tuple[str, int, Departure]]:
        """Items that have left a variant's pools by themselves, each given once."""
        fresh = []
        for variant, left in self._departing.items():
            self._collect(variant)
            fresh += [(variant, slot, gone) for slot, gone in left.items() if (variant, slot) not in self._logged]
        self._logged.update((variant, slot) for variant, slot, _ in fresh)
        return fresh

    def departing(self, variant: str) -> list[int]:
        """Slots of items that have left a variant's pools by themselves, which the log does not know yet."""
        self._collect(variant)
        return list(self._departing[variant])

    def _collect(self, variant: str) -> None:
        gone = self._of[variant, ""].pool.departures()
        if gone:
            self._departing[variant].update((int(each.id), each) for each in gone)
            slots = np.array([int(each.id) for each in gone], np.int64)
            self._note_place(variant, slots, np.ones(slots.size, np.bool_))  # their groups know of them at once
            for (other, segment), derived in self._of.items():
                if other == variant and segment:
                    derived.expect(slots)

    def sweep(self) -> None:
        """Retire items that cannot win."""
        for variant in self.variants:
            self.of(variant).sweep()
            self._collect(variant)
