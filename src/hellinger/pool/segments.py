"""Segments of users: one catalogue, counts of their own for each segment, pooled counts until there are enough."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger import policies
from hellinger.errors import require
from hellinger.pool._ids import Id
from hellinger.pool.pool import Names, Pool, Ranked

__all__ = ["SegmentedPool"]


class SegmentedPool:
    """Pools with one catalogue: one over all users, and one for each segment that has been seen.

    A segment is ranked by its own counts once it has given ``enough`` impressions; before, by the pooled ones.
    Whichever ranks, impressions and rewards count in both.

    Parameters
    ----------
    policy
        As for :class:`Pool`.
    enough
        Impressions that a segment needs before its own counts decide; ten for each content if not given.
    **options
        As for :class:`Pool`, for every one of the pools.

    Examples
    --------
    >>> pool = SegmentedPool("hellinger-ucb", enough=1000)
    >>> pool.add(["a", "b"])
    >>> pool.record("a", "mobile", impressions=600, rewards=60)
    >>> pool.record("b", "mobile", impressions=600, rewards=30)
    >>> pool.record("b", "desktop", impressions=500, rewards=150)
    >>> [pool.rank(1, segment)[0].id for segment in ("mobile", "desktop", "tablet")]
    ['a', 'b', 'b']
    """

    def __init__(
        self, policy: str | policies.Policy = "cold-start", *, enough: float | None = None, **options: Any
    ) -> None:
        require(enough is None or enough >= 0, "0 <= enough", enough=enough)
        require(options.get("leaving") is None, "a segmented pool's contents leave by remove", leaving=options)
        self.enough = enough
        self.pooled = Pool(policy, **options)
        self.segments: dict[str, Pool] = {}
        self._policy, self._options = policy, options

    def add(self, ids: Id | Names, *, tags: Any = ()) -> None:
        """Add contents to the catalogue; all or none."""
        before = set(self.pooled.ids) if self.segments else set()
        self.pooled.add(ids, tags=tags)
        for pool in self.segments.values():
            new = [name for name in self.pooled.ids if name not in before]
            pool.add(new, tags=[self.pooled.stats(name).tags for name in new])

    def remove(self, ids: Id | Names) -> None:
        """Take contents out of the catalogue; all or none."""
        names = listed(ids)
        for pool in self._all():
            pool.remove(names)

    def hide(self, ids: Id | Names) -> None:
        """Leave contents out of every ranking."""
        names = listed(ids)
        for pool in self._all():
            pool.hide(names)

    def unhide(self, ids: Id | Names) -> None:
        """Bring hidden contents back."""
        names = listed(ids)
        for pool in self._all():
            pool.unhide(names)

    def advance(self, by: float) -> None:
        """Let time pass in every pool."""
        for pool in self._all():
            pool.advance(by)

    def record(self, name: Id, segment: str, *, impressions: int = 0, rewards: float = 0.0) -> None:
        """Count impressions and rewards of one content in one segment."""
        own = self.segment(segment)
        own.record(name, impressions=impressions, rewards=rewards)  # refuses what the pooled counts would accept
        self.pooled.record(name, impressions=impressions, rewards=rewards)

    def record_many(self, ids: Names, segment: str, impressions: npt.ArrayLike = 0, rewards: npt.ArrayLike = 0) -> None:
        """Count impressions and rewards of many contents in one segment; all or none."""
        names = listed(ids)
        self.segment(segment).record_many(names, impressions, rewards)
        self.pooled.record_many(names, impressions, rewards)

    def rank(self, k: int, segment: str, **filters: Any) -> list[Ranked]:
        """Return the best k for this segment, by its own counts if it has enough of them."""
        return self.deciding(segment).rank(k, **filters)

    def serve(self, k: int, segment: str, *, count: bool = True, **filters: Any) -> list[Ranked]:
        """:meth:`rank`, and count an impression of each, in the segment and pooled."""
        decides = self.deciding(segment)
        ranked = decides.serve(k, count=count, **filters)
        if count:
            other = self.pooled if decides is not self.pooled else self.segment(segment)
            other.record_many([content.id for content in ranked], 1)
        return ranked

    def deciding(self, segment: str) -> Pool:
        """The pool whose counts rank for this segment."""
        own = self.segments.get(segment)
        enough = 10 * len(self.pooled) if self.enough is None else self.enough
        return self.pooled if own is None or own.rounds < enough else own

    def segment(self, segment: str) -> Pool:
        """A segment's own pool, made when first asked for."""
        if segment not in self.segments:
            require(isinstance(segment, str), "a segment is a string", segment=segment)
            own = Pool(self._policy, **self._options)
            names = self.pooled.ids
            stats = [self.pooled.stats(name) for name in names]
            own.add(names, tags=[content.tags for content in stats])
            own.hide([name for name, content in zip(names, stats, strict=True) if content.hidden])
            own.advance(self.pooled.time)
            self.segments[segment] = own
        return self.segments[segment]

    def __len__(self) -> int:
        return len(self.pooled)

    def _all(self) -> Iterable[Pool]:
        return [self.pooled, *self.segments.values()]


def listed(ids: Id | Names) -> Any:
    """Ids that can be gone through more than once."""
    return ids if isinstance(ids, (int, str, list, tuple, range, np.ndarray)) else list(ids)
