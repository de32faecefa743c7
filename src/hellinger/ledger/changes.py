"""What a batch of events changed in the ledger: everything derived from the ledger follows from it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from hellinger.ledger.requests import Request

__all__ = ["Changes"]

Slots = npt.NDArray[np.int64]


class Changes:
    """Where the ledger is no longer what it was before a batch; the ledger itself has the new values.

    Attributes
    ----------
    items
        Slots of items that were added, or whose state, date or place in a variant's pool may be another.
    described
        Slots of items with other tags, another group or other features.
    forgotten
        Slots whose items were forgotten, among ``items`` too: new items may have them already.
    departed
        Groups of which an item was forgotten.
    rankings
        Rankings that were counted one by one, by name; items of others are in ``counted``.
    counted
        Slots with other counts, by variant and segment, but for those of ``rankings``.
    priors
        Variants and segments with another prior.
    phase
        Whether a phase of the experiment has begun.
    curve
        Whether another curve says how much positions are looked at.
    pace
        Whether it was said anew how many rankings are made, and so how long items have left.
    """

    __slots__ = (
        "counted",
        "curve",
        "departed",
        "described",
        "forgotten",
        "items",
        "pace",
        "phase",
        "priors",
        "rankings",
    )

    def __init__(self) -> None:
        self.items: set[int] = set()
        self.described: set[int] = set()
        self.forgotten: set[int] = set()
        self.departed: set[tuple[str, ...]] = set()
        self.rankings: list[tuple[str, Request]] = []
        self.counted: defaultdict[tuple[str, str], list[Slots]] = defaultdict(list)
        self.priors: set[tuple[str, str]] = set()
        self.phase = False
        self.curve = False
        self.pace = False
