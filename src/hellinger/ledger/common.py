"""What a variant begins with: copies of what all others have counted, as of one place in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from hellinger.ledger.catalogue import DELETED
from hellinger.ledger.counts import Counts, SegmentCounts, Slots
from hellinger.ledger.looks import ZONES

if TYPE_CHECKING:
    from hellinger.ledger.ledger import Ledger

__all__ = ["PART", "CommonCounts"]

PART = 1 << 13
"""Items that are added up at once, while rankings wait: a millisecond or two."""


class CommonCounts:
    """The sum of the counts of some variants, by segment; made in :meth:`steps`, between which the ledger must stay."""

    def __init__(self, ledger: Ledger, variants: list[str]) -> None:
        self._ledger = ledger
        self._variants = variants
        self.seq = ledger.seq
        """The place in the log that they are of."""
        self.by_segment: dict[str, tuple[Counts, Slots]] = {}
        """The counts, and which items have any; ``""`` for all traffic."""

    def steps(self) -> Iterator[None]:
        """Add them up, some thousand items at a time."""
        ledger, variants = self._ledger, self._variants
        # a deleted item has counts in a ledger that has lived through it alone
        size = len(ledger.catalogue.ids)
        present = ledger.catalogue["state"][:size] != DELETED
        for segment in ("", *ledger.segments):
            begun = SegmentCounts() if segment else Counts()
            slots = ledger.slots_with(variants, segment, among=present)
            chosen = [counts for name in variants if (counts := ledger.counts.get((name, segment))) is not None]
            late = np.zeros(len(ZONES) - 1, np.int64)
            yield
            for first in range(0, slots.size, PART):
                some = slots[first : first + PART]
                begun.add(some, *ledger.sums(some, variants=variants, segment=segment))
                zones = [behind for counts in chosen if len(behind := counts.behind(some, size))]
                for more in zones[1:]:
                    zones[0] += more  # a copy, as each is
                if zones and zones[0].any():
                    late += zones[0].sum(axis=0)
                    begun.set_behind(some, zones[0], late.tolist())
                yield
            self.by_segment[segment] = begun, slots
