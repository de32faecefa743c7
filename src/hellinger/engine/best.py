"""Which items of an experiment are the best, with a given confidence, from the counts of the ledger."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.identification import arriving_bounds, certainty
from hellinger.ledger import SHOWN, Floats, Ledger, Shares, Slots

__all__ = ["BestItems", "BestQuestion", "BestRow", "BestStanding", "warm_bounds"]

MARKS = 4
"""Copies of the impressions that are kept, at most: an item takes four bytes in each, for each variant."""
SLACK = 60_000
"""Milliseconds for which feedback may be on its way to this replica after its time is over."""
_FRESH = 5.0
"""Seconds for which an answer is given again: a million items take about a second of a processor."""
_KNOWN = 32
"""Answers that are remembered."""


class BestQuestion(NamedTuple):
    """What is asked: the ``best`` of the items that these variants have shown, but for a chance of ``delta``."""

    variants: tuple[str, ...]
    best: int
    delta: float
    epsilon: float = 0.0


class BestRow(NamedTuple):
    """An item that leads."""

    id: str
    certain: bool
    impressions: float
    worth: float
    """What these count by where they were shown: as many as they are, where positions do not matter."""
    rewards: float
    unsettled: float
    """Impressions that may still be rewarded, at most."""
    low: float
    high: float


class BestStanding(NamedTuple):
    """How sure the best are."""

    items: int
    """Those that may be shown."""
    certain: int
    contending: int
    """Neither surely among the best nor surely not."""
    impressions: float
    unsettled: float
    """Of the impressions, how many may still be rewarded, at most."""
    rows: list[BestRow]
    """The best as far as is known: the certain ones first, then by their rates so far."""


def warm_bounds() -> None:
    """Have compiled what an answer needs: while it is asked for, rankings would wait for that."""
    one = np.ones(1)
    for weighted in (False, True):
        arriving_bounds(one, one, one, places=np.ones(1, np.int64), delta=0.5, weighted=weighted)


class _Mark(NamedTuple):
    """What had been shown at a time."""

    at: int
    impressions: dict[str, npt.NDArray[np.int32]]
    """By variant, of each slot."""
    added: Slots
    rankings: dict[tuple[int, str], int]
    """By phase and variant."""


class _Source(NamedTuple):
    """What is read of one variant."""

    n: Floats
    s: Floats
    late: npt.NDArray[np.int32]
    """Impressions in each zone of positions but the first; no rows where nobody has any."""
    shown: npt.NDArray[np.int32] | None
    """Impressions at the mark; None where there were none."""
    waiting: int
    """Rankings from before the mark that are not final."""


class BestItems:
    """Answers which items are the best, in a thread, one question after the other.

    Counts are of the moment: an impression whose reward is not final may still be rewarded. The ledger knows how many
    *rankings* of a variant are final, not which impressions of an item. So what each item had been shown is copied now
    and then. Once all rankings from before such a mark are final, an item's impressions since then are all that can
    still be rewarded; before that, those and at most one for each older ranking that is not final. The upper bounds
    take every one of them as rewarded, the lower ones none. Marks are this replica's own and begin when it starts.
    """

    def __init__(self, ledger: Callable[[], Ledger], *, window: int, at: int) -> None:
        self._current = ledger
        self._every = max(1_000, window // (MARKS - 1))
        self._known: dict[BestQuestion, tuple[float, BestStanding]] = {}
        self._busy = asyncio.Lock()
        self._begin(at)

    def _begin(self, at: int) -> None:
        self._ledger = self._current()
        self._marks = [self._mark(at)]
        self._known.clear()

    def _mark(self, at: int) -> _Mark:
        ledger = self._ledger
        shown = {
            variant: n.astype(np.int32) for variant in ledger.variants for n, _ in ledger.views([variant])
        }  # more impressions of one item than 2³¹ are as good as none
        rankings = {key: shares.requests for key, shares in ledger.series.shares.items()}
        return _Mark(at, shown, ledger.catalogue.added(), rankings)

    def rotate(self, at: int) -> None:
        """Let time pass."""
        if self._current() is not self._ledger:  # made anew from the log, with other slots
            self._begin(at)
        elif at - self._marks[-1].at >= self._every:
            self._marks = [*self._marks[-(MARKS - 1) :], self._mark(at)]

    async def find(self, question: BestQuestion, at: int, *, lacks: Floats | None = None) -> BestStanding:
        """How sure the best are, at most some seconds ago.

        ``lacks`` is what an impression lacks to one in each zone of positions but the first.
        """
        async with self._busy:
            self.rotate(at)
            known = self._known.get(question)
            if known is None or time.monotonic() - known[0] >= _FRESH:
                known = time.monotonic(), await self._judge(question, at, lacks)
                self._known.pop(question, None)
                self._known[question] = known
                while len(self._known) > _KNOWN:
                    del self._known[next(iter(self._known))]
        return known[1]

    async def _judge(self, question: BestQuestion, at: int, lacks: Floats | None) -> BestStanding:
        ledger, catalogue = self._ledger, self._ledger.catalogue
        # what is final is looked up before the counts are read: whatever comes meanwhile is taken as not final
        mark, waiting = self._best_mark(question.variants, at)
        sources = [
            _Source(n, s, late, mark.impressions.get(variant), waiting[variant])
            for variant in question.variants
            for (n, s), late in zip(ledger.views([variant]), ledger.late_views([variant]), strict=True)
        ]
        added = catalogue.added()
        slots = np.flatnonzero((catalogue["state"][: added.size] == SHOWN) & ~self._left(question.variants, added.size))
        found = await asyncio.to_thread(_standing, question, sources, (mark.added, added), slots, lacks)
        same: npt.NDArray[np.bool_] = catalogue["since"][found.slots] == added[found.slots]
        rows = [
            BestRow(catalogue.ids[slot], bool(certain), *numbers)
            for slot, certain, numbers, still in zip(
                found.slots.tolist(), found.certain.tolist(), found.numbers.T.tolist(), same.tolist(), strict=True
            )
            if still  # a slot may have got another item meanwhile
        ]
        return BestStanding(slots.size, *found.counts, rows)

    def _left(self, variants: Sequence[str], size: int) -> npt.NDArray[np.bool_]:
        """Whether the item of each slot has left the pools of all these variants."""
        left = np.ones(size, np.bool_)
        for variant in variants:
            gone = self._ledger.gone.get(variant, {})
            its = np.zeros(size, np.bool_)
            its[np.fromiter(gone, np.int64, len(gone))] = True
            left &= its
        return left

    def _best_mark(self, variants: Sequence[str], at: int) -> tuple[_Mark, dict[str, int]]:
        """The newest mark with only final rankings before it, else the oldest; rankings before it that are not."""
        final = {key: shares.settled(at - SLACK).requests for key, shares in self._shares(variants)}
        for mark in reversed(self._marks):
            waiting = dict.fromkeys(variants, 0)
            for (phase, variant), made in mark.rankings.items():
                if variant in waiting:
                    waiting[variant] += max(0, made - final.get((phase, variant), 0))
            if not any(waiting.values()):
                break
        return mark, waiting

    def _shares(self, variants: Sequence[str]) -> list[tuple[tuple[int, str], Shares]]:
        return [(key, shares) for key, shares in self._ledger.series.shares.items() if key[1] in variants]


class _Found(NamedTuple):
    """What the thread finds: of all items, and of those that lead."""

    counts: tuple[int, int, float, float]
    slots: Slots
    certain: npt.NDArray[np.bool_]
    numbers: Floats


def _standing(
    question: BestQuestion, sources: list[_Source], places: tuple[Slots, Slots], slots: Slots, lacks: Floats | None
) -> _Found:
    """In a thread, from the ledger's own arrays: rewards are read first, so that each has its impression."""
    before, added = places
    s, n, u, lacking = np.zeros((4, slots.size))
    for each in sources:
        s += each.s[slots]
    known = slots[slots < before.size]
    known = known[before[known] == added[known]]  # other slots have other items now
    where = np.searchsorted(slots, known)
    for each in sources:
        shown = each.n[slots].copy()
        earlier = np.zeros(slots.size)
        if each.shown is not None:
            here = known < each.shown.size
            earlier[where[here]] = each.shown[known[here]]
        n += shown
        if lacks is not None and len(each.late):
            lacking += each.late[slots] @ lacks
        u += np.minimum(shown, np.maximum(0.0, shown - earlier) + each.waiting)
    s, worth = np.clip(s, 0.0, n), n - lacking
    most = np.minimum(n, s + u)
    weighted = bool(lacking.any())
    lower, upper = arriving_bounds(s, most, worth, places=added[slots], delta=question.delta, weighted=weighted)
    certain, excluded = certainty(lower, upper, best=question.best, epsilon=question.epsilon)
    rates = np.divide(s, worth, out=np.zeros(slots.size), where=n > 0.0)
    order = np.lexsort((added[slots], -rates, ~certain))[: question.best]
    sure = int(certain.sum())
    counts = sure, slots.size - sure - int(excluded.sum()), float(n.sum()), float(u.sum())
    return _Found(counts, slots[order], certain[order], np.stack([n, worth, s, u, lower, upper])[:, order])
