"""Pseudo-counts learned from the pool: one prior for all, and one for each tag set with enough data."""

from __future__ import annotations

from typing import Any

import numpy as np

from hellinger.policies._rule import Rule
from hellinger.policies.cold_start import fit_prior, learn
from hellinger.pool._layout import OWNER_SHIFT
from hellinger.pool._store import Floats, Store

__all__ = ["Prior"]

_START = (1.0, 50.0)
_GROWTH = 1.02
"""The prior is fitted again when the impressions have grown by this factor: its cost vanishes among the events."""
_PATIENCE = 1e-3
"""And not before so many impressions for each content that the fit must look at."""
_ENOUGH = 500
"""Contents with impressions that a tag set needs for a prior of its own."""
_MOST_STRATA = 32


class Prior:
    """Pseudo-counts (a, a + b) of each stratum, a stratum being the tag sets that share a prior.

    Between two fits the prior is fixed, so that grouped ranking is exact for it.
    """

    def __init__(self, rule: Rule | None, *, learned: bool = False) -> None:
        self.learned = learned or (rule is not None and rule.learns_prior)
        self._plain = rule is None or not rule.learns_prior
        """The fit alone, for rules that know no better."""
        self.focus = 1.0
        """How many times more plays the level is told of, for plays that go to few contents."""
        self.table: Floats = np.zeros((1, 2))
        self.tag_sets: list[int] = []
        """Tag sets with a stratum of their own, from stratum 1 on."""
        self._next = 0.0
        self.due = False
        if self.learned:
            self.table[0] = _START[0], sum(_START)

    def heed(self, rounds: float, cost: int) -> None:
        """Note how many impressions there have been, and how many contents a fit would look at one by one."""
        if self.learned and rounds >= self._next:
            self.due = True
            self._next = max(rounds * _GROWTH, rounds + 100.0, rounds + cost * _PATIENCE)

    def strata(self, tags: Any) -> Any:
        """The stratum of contents with these tag sets."""
        if not self.tag_sets:
            return 0
        numbers = np.zeros(max(int(tags.max(initial=0)), *self.tag_sets) + 1, np.int32)
        numbers[self.tag_sets] = np.arange(1, len(self.tag_sets) + 1)
        return numbers[tags]

    def rescale(self, scale: float) -> None:
        """Stored counts have been multiplied by this."""
        self._next *= scale

    def refresh(self, store: Store, tag_sets: list[frozenset[str]], scale: float = 1.0) -> None:
        """Fit the priors to the present counts; give tag sets with enough data their own.

        ``scale`` turns stored counts into present ones.
        """
        self.due = False
        self._choose_strata(store, tag_sets)
        stratum, s, n, weight = _histogram(store)
        table = np.empty_like(self.table)
        for k in range(len(table)):
            chosen = np.ones(s.size, bool) if k == 0 else stratum == k
            start = self.table[k, 0], self.table[k, 1] - self.table[k, 0]
            counts = s[chosen] * scale, n[chosen] * scale, weight[chosen]
            if self._plain:
                a, b = fit_prior(*counts, *start)
                table[k] = a, a + b
            else:
                found = learn(*counts, *start)
                table[k] = found[:2]
                if k == 0:
                    self.focus = found.focus
        self.table = table

    def _choose_strata(self, store: Store, tag_sets: list[frozenset[str]]) -> None:
        if len(tag_sets) == 1:
            return
        items = store.items
        shown = np.bincount(items["tags"][items["n"] > 0], minlength=len(tag_sets))
        order = np.argsort(-shown, kind="stable")[:_MOST_STRATA]
        chosen = [int(k) for k in order if shown[k] >= _ENOUGH]
        fresh = [k for k in chosen if k not in self.tag_sets][: _MOST_STRATA - len(self.tag_sets)]
        if fresh:
            self.tag_sets += fresh
            self.table = np.vstack([self.table, np.repeat(self.table[:1], len(fresh), axis=0)])
            self._enrol(store)

    def _enrol(self, store: Store) -> None:
        """Give each item the stratum of its tag set."""
        if not self.tag_sets:
            return
        items = store.items
        wanted = self.strata(items["tags"])
        moved = np.flatnonzero(items["stratum"] != wanted)
        items["stratum"] = wanted
        store.settle(moved)

    def state(self) -> list[object]:
        """What a snapshot needs beside the table."""
        return [self.tag_sets, self._next, self.due, self.focus]

    def restore(self, table: Floats, state: list[Any]) -> None:
        """Go on from a snapshot."""
        self.table = table
        self.tag_sets, self._next, self.due, self.focus = state

    def explain(self, tag_sets: list[frozenset[str]]) -> str:
        """The priors in words; nothing where none is learned."""
        if not self.learned:
            return ""
        names = ["all"] + ["+".join(sorted(tag_sets[k])) or "untagged" for k in self.tag_sets]
        texts = [f"{name} Beta({a:.3g}, {m - a:.3g})" for name, (a, m) in zip(names, self.table.tolist(), strict=True)]
        return "; prior learned: " + ", ".join(texts)


def _histogram(store: Store) -> tuple[Floats, Floats, Floats, Floats]:
    """Strata, reward sums and impressions that occur, and how many contents have each."""
    if store.grouped:
        cells = store.cells
        groups = store.state.groups[cells["owner"] >> OWNER_SHIFT]
        return groups["stratum"], groups["s"].copy(), cells["n"].copy(), cells["size"].astype(np.float64)
    items = store.items
    return items["stratum"], items["s"].copy(), items["n"].copy(), np.ones(len(store))
