"""A pool's prior as compiled code reads it, and the fit to a pool's counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from hellinger.policies import Prior, fit_prior
from hellinger.pool._layout import OWNER_SHIFT
from hellinger.pool._store import Floats, ItemStore

__all__ = ["Strata", "fit"]


class Strata:
    """Pseudo-counts (a, a + b) of each stratum: the tag sets that share a prior. Zeros where none is learned.

    A prior is fixed until the next is set, so that grouped ranking is exact for it.
    """

    def __init__(self, prior: Prior | None) -> None:
        self.prior = prior
        self.table: Floats = np.zeros((1, 2)) if prior is None else np.array(prior.table)
        strata = () if prior is None else prior.strata
        self.numbers = {frozenset(stratum.tags): number for number, stratum in enumerate(strata, 1)}
        """Stratum of each tag set that has one of its own; the others have stratum 0."""

    def of(self, tag_sets: list[frozenset[str]], tags: Any) -> Any:
        """The stratum of items with these tag sets, given by number."""
        if not self.numbers:
            return 0
        stratum = np.zeros(len(tag_sets), np.int8)
        for number in np.unique(tags).tolist() if tags.size < len(tag_sets) else range(len(tag_sets)):
            stratum[number] = self.numbers.get(tag_sets[number], 0)
        return stratum[tags]

    def assign(self, store: ItemStore, tag_sets: list[frozenset[str]], before: Strata) -> None:
        """Give each item its stratum, and move it to the cell of its counts there.

        A stratum that has another number than before is renumbered as a whole. Only items whose tag set got a stratum
        of its own, or lost it, are moved: of a million items to move each would take 0.2 s.
        """
        column = store.items["stratum"]
        numbers = np.zeros(1 + len(before.numbers), np.int8)
        for tags, number in before.numbers.items():
            numbers[number] = self.numbers.get(tags, 0)
        moved = np.flatnonzero(((numbers == 0) & (np.arange(numbers.size) > 0))[column])
        column[moved] = 0
        store.settle(moved)
        if (numbers != np.arange(numbers.size)).any():
            store.renumber(numbers)
        wanted = np.broadcast_to(self.of(tag_sets, store.items["tags"]), column.shape)
        moved = np.flatnonzero(column != wanted)
        column[moved] = wanted[moved]
        store.settle(moved)

    def explain(self) -> str:
        """The priors in words; nothing where none is learned."""
        if self.prior is None:
            return ""
        names = ["all", *("+".join(stratum.tags) or "untagged" for stratum in self.prior.strata)]
        texts = [f"{name} Beta({a:.3g}, {m - a:.3g})" for name, (a, m) in zip(names, self.table.tolist(), strict=True)]
        return "; prior learned: " + ", ".join(texts)


def fit(store: ItemStore, tag_sets: list[frozenset[str]], scale: float = 1.0) -> Prior:
    """The prior that the present counts give; ``scale`` turns stored counts into present ones."""
    if store.grouped and not store.hidden and len(tag_sets) == 1:  # cells know all, and are fewer than the items
        cells = store.cells
        groups = store.state.groups[cells["owner"] >> OWNER_SHIFT]
        return fit_prior(groups["s"] * scale, cells["n"] * scale, items=cells["size"])
    items = store.items
    return fit_prior(items["s"] * scale, store.pulls * scale, tags=items["tags"], tag_sets=tag_sets)
