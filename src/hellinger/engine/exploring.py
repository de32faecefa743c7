r"""Exploration near the last place: near-ties in random order, and one place for one of the items that follow.

A ranking of k places looks at the best k + m items, its *list*. Three random things make the page of it, one after
the other, none of which looks at who has which index beyond its rule:

1. Items of equal index come in uniformly random order: an item of a tie of T is at each of its places with chance 1/T.
2. The *zone* are all of the list whose index is within a share δ of the k-th. Its places are filled from the whole
   zone in uniformly random order.
3. In a share s of rankings one place, each with chance 1/k, is given to one of the m that the page does not show.

So the chance of a place has a closed form, which is logged: with C the places of an item's tie in the list, a … b those
of the zone,

.. math:: p_j = \frac1T \Big[\big(1 - \tfrac sk\big)\, D_j + \tfrac{s}{k m}\, |C|\, h\Big]

where D is \|C\|/(b − a) for a tie in the zone and j there, else 1 for j in C, and h is the chance of an item of C to be
left over: (b − k)/(b − a) in the zone, 1 after it, 0 before. Ties lie in the zone as a whole or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from hellinger.engine.draws import Draws

__all__ = ["PLAIN", "Exploring", "Listed"]


class Exploring(NamedTuple):
    """How rankings explore, beside a share that is drawn from all items."""

    near: float = 0.0
    """Items whose index is within this share of the last place's are drawn at random."""
    share: float = 0.0
    """Share of rankings in which one place is given to one of the items that follow."""
    items: int = 20
    """How many of those that follow the last place may be drawn, by either."""

    @property
    def more(self) -> int:
        """Items beyond the last place that a ranking has to look at."""
        return self.items if self.near > 0.0 or self.share > 0.0 else 0


PLAIN = Exploring()
"""Rankings that do not explore."""


class Listed:
    """The best k + m items by their indices, best first, and what may be shown of them.

    Parameters
    ----------
    scores
        Index of each.
    tied
        How many items have the index of the last one; 0 where it is not known.
    k
        Places.
    how
        How rankings explore.

    Examples
    --------
    >>> listed = Listed([0.9, 0.5, 0.49, 0.2], 1, 2, Exploring(near=0.05))
    >>> listed.chances([0.9, 0.49]), listed.order(Draws(1, 0, 0))
    ([1.0, 0.5], ([0, 2], -1))
    """

    def __init__(self, scores: Sequence[float], tied: int, k: int, how: Exploring) -> None:
        self.places = min(k, len(scores))
        self._rest = len(scores) - self.places
        self._share = how.share if self._rest else 0.0
        self._stretches: dict[float, tuple[int, int, int]] = {}
        """Of each index: where its tie begins and ends in the list, and how large it is; 0 where it is not known."""
        first = 0
        for score, same in groupby(scores):
            last = first + sum(1 for _ in same)
            self._stretches[score] = first, last, last - first if last < len(scores) else tied
            first = last
        self._zone = self._near(scores, how.near) if scores else (0, 0)
        self._shuffles = how.near > 0.0  # a tie is in random order already

    def _near(self, scores: Sequence[float], near: float) -> tuple[int, int]:
        level = scores[self.places - 1]
        first, last, _ = self._stretches[level]
        if near > 0.0 and math.isfinite(level):
            width = near * abs(level)
            while first and abs(scores[first - 1] - level) <= width:
                first -= 1
            while last < len(scores) and abs(scores[last] - level) <= width:
                last += 1
        return first, last

    def order(self, draws: Draws) -> tuple[list[int], int]:
        """Which of the list is shown at each place, and which place has one that follows; −1 for none."""
        order, k = list(range(self.places + self._rest)), self.places
        first, last = self._zone
        for j in range(first, k) if self._shuffles else ():
            other = j + int(draws.random() * (last - j))
            order[j], order[other] = order[other], order[j]
        place = -1
        if self._share > 0.0 and draws.random() < self._share:
            place = int(draws.random() * k)
            order[place] = order[k + int(draws.random() * self._rest)]
        return order[:k], place

    def chances(self, shown: Sequence[float]) -> list[float | None]:
        """The chance of an item with such an index at each place; None where the size of its tie is not known."""
        found: list[float | None] = []
        (begin, end), k = self._zone, self.places
        kept = 1.0 - self._share / k if k else 1.0
        for j, score in enumerate(shown):
            first, last, tied = self._stretches.get(score, (0, 0, 1))
            count = last - first
            if not count or j >= k:
                found.append(0.0)
                continue
            if not tied:
                found.append(None)
                continue
            left = 0.0
            if begin <= first < end:
                stays = count / (end - begin) if j >= begin else 0.0
                left = (end - k) / (end - begin)
            else:
                stays = 1.0 if first <= j < last else 0.0
                left = 1.0 if first >= end else 0.0
            given = self._share / (k * self._rest) * count * left if self._rest else 0.0
            found.append((kept * stays + given) / tied)
        return found
