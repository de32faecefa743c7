"""Segments of users: one catalogue, and counts of their own for each segment beside those of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger import policies
from hellinger.errors import require
from hellinger.models import Features
from hellinger.policies import Prior
from hellinger.policies.segments import LEAST_ROUNDS, SegmentLaw, drawn, fit_segments
from hellinger.pool._checks import Names
from hellinger.pool._ids import Id
from hellinger.pool._membership import listed_groups
from hellinger.pool._within import Within
from hellinger.pool.departures import Departure, Leaving
from hellinger.pool.pool import Pool
from hellinger.pool.rows import Ranked

__all__ = ["SegmentedPool", "enough_for"]


class SegmentedPool:
    """Pools with one catalogue: one over all users, and one for each segment that has been seen.

    Where the policy learns a prior, as ``cold-start`` does, an item's counts in a segment shrink to what it has
    elsewhere, as strongly as the counts of all items and segments tell: see :mod:`hellinger.policies.segments`. Where
    they tell nothing, the pooled counts rank. Another policy ranks a segment by its own counts once it has given
    ``enough`` impressions, at least one; before, by the pooled ones. Whichever ranks, impressions and rewards
    count in both.

    Parameters
    ----------
    policy
        As for :class:`Pool`.
    enough
        Where the policy learns no prior: impressions that a segment needs before its own counts decide; ten for each
        item if not given.
    leaving
        When an item leaves by itself, by the pooled counts.
    **options
        As for :class:`Pool`, for every one of the pools.

    Examples
    --------
    >>> pool = SegmentedPool("cold-start", seed=0)
    >>> pool.add(range(10))
    >>> for item in range(10):
    ...     pool.record(item, "north", impressions=500, rewards=80 - 8 * item)
    ...     pool.record(item, "south", impressions=500, rewards=60 if item == 9 else 10)
    >>> [pool.rank(1, segment)[0].id for segment in ("north", "south", "west")]
    [0, 9, 0]
    >>> pool.law.variance
    1.0
    """

    def __init__(
        self,
        policy: policies.PolicyLike = "cold-start",
        *,
        enough: float | None = None,
        leaving: Leaving | None = None,
        **options: Any,
    ) -> None:
        require(enough is None or enough >= 0, "0 <= enough", enough=enough)
        self.enough = enough
        self.pooled = Pool(policy, leaving=leaving, **options)
        require(self.pooled.model is None, "pools of segments have no model", model=self.pooled.model)
        self.segments: dict[str, Pool] = {}
        self._within: dict[str, Within] = {}
        self._law = SegmentLaw()
        self._learned_at = self.pooled.prior
        """The prior at which the law was learned."""
        self._departures: list[Departure] = []

    def add(
        self,
        ids: Id | Names,
        impressions: npt.ArrayLike = 0,
        rewards: npt.ArrayLike = 0,
        *,
        tags: Any = (),
        group: Any = None,
        features: Features | Sequence[Features | None] | None = None,
        parts: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]] | None = None,
        fresh: bool = True,
        order: npt.ArrayLike | None = None,
    ) -> None:
        """Add items, never shown or with what they have achieved in all and in some segments; all or none.

        ``parts`` has impressions and rewards by segment, each a share of the whole; everything else is as for
        ``Pool.add``. What features tell is learned from all users, and a segment's prior begins there.
        """
        names = listed([ids] if isinstance(ids, (int, str)) else ids)
        sets = tags if isinstance(tags, (str, list, tuple)) else list(tags)
        groups = listed_groups(group)
        shares = dict(parts or {})
        for segment in shares:
            self.segment(segment)
        done: list[Pool] = []
        try:
            for segment, pool in self.segments.items():
                n, s = shares.get(segment, (0, 0))
                pool.add(names, n, s, tags=sets, group=groups, fresh=fresh, order=order)
                done.append(pool)
            self.pooled.add(
                names, impressions, rewards, tags=sets, group=groups, features=features, fresh=fresh, order=order
            )
        except ValueError:
            for pool in done:
                pool.remove(names, forget=True)
            raise
        self._follow()

    def remove(self, ids: Id | Names, *, forget: bool = False) -> None:
        """Take items out of the catalogue; all or none. See ``Pool.remove``."""
        names = listed(ids)
        for pool in self._all():
            pool.remove(names, forget=forget)

    def hide(self, ids: Id | Names) -> None:
        """Leave items out of every ranking."""
        names = listed(ids)
        for pool in self._all():
            pool.hide(names)

    def unhide(self, ids: Id | Names) -> None:
        """Bring hidden items back."""
        names = listed(ids)
        for pool in self._all():
            pool.unhide(names)

    def retag(self, ids: Id | Names, tags: Any) -> None:
        """Give items other tags; all or none."""
        names = listed([ids] if isinstance(ids, (int, str)) else ids)
        sets = tags if isinstance(tags, (str, list, tuple)) else list(tags)
        for pool in self._all():
            pool.retag(names, sets)

    def regroup(self, ids: Id | Names, group: Any) -> None:
        """Give items other groups; all or none."""
        names = listed([ids] if isinstance(ids, (int, str)) else ids)
        groups = listed_groups(group)
        for pool in self._all():
            pool.regroup(names, groups)

    def describe(self, ids: Id | Names, features: Features | Sequence[Features | None] | None) -> None:
        """Give items other features, one dict for all or one for each; all or none."""
        self.pooled.describe([ids] if isinstance(ids, (int, str)) else listed(ids), features)

    # What segments tell -------------------------------------------------------------------------------

    @property
    def law(self) -> SegmentLaw:
        """What was learned of segments; nothing where the policy learns no prior."""
        return self._law

    @law.setter
    def law(self, law: SegmentLaw) -> None:
        self._law = law.check()
        for segment in self._within:
            self._obey(segment)

    def fit(self) -> SegmentLaw:
        """Return what the present counts tell of segments. Changes nothing."""
        pooled, prior = self.pooled, self.pooled.prior
        if prior is None:
            return SegmentLaw()
        rounds = {segment: pool.rounds for segment, pool in self.segments.items()}
        names = sorted(
            (name for name in rounds if rounds[name] >= LEAST_ROUNDS), key=lambda name: (-rounds[name], name)
        )
        total = sum(int(np.count_nonzero(self.segments[name]._store.items["n"])) for name in names)
        columns = []
        over = pooled._store.state.items
        for place, name in enumerate(names):
            pool = self.segments[name]
            items = pool._store.items
            shown = np.flatnonzero((items["n"] > 0) & drawn(items["seq"], total))
            others = over[pooled._store.ids.by_key(over, items["key"][shown])]
            s, n = items["s"][shown] * pool._scale, items["n"][shown] * pool._scale
            other_s, other_n = others["s"] * pooled._scale - s, others["n"] * pooled._scale - n
            columns.append((np.full(s.size, place), s, n, other_s, other_n))
        if not columns:
            return SegmentLaw()
        which, s, n, other_s, other_n = (np.concatenate(part) for part in zip(*columns, strict=True))
        return fit_segments(names, which, s, n, (other_s, other_n), prior, self._law)

    def learn(self) -> None:
        """Set the pooled prior, and what segments tell, to what the present counts give."""
        self.pooled.learn()
        self._learned_at, self.law = self.pooled.prior, self.fit()

    def _obey(self, segment: str) -> None:
        """Let a segment's pool rank by the law."""
        if self._within[segment].set_law(self._law, segment, self.pooled.prior or Prior()):
            self._within[segment].refresh(self.segments[segment]._store, self.segments[segment]._scale)

    def advance(self, by: float) -> None:
        """Let time pass in every pool."""
        for pool in self._all():
            pool.advance(by)
        self._follow()

    def record(self, name: Id, segment: str, *, impressions: float = 0, rewards: float = 0.0) -> None:
        """Count impressions and rewards of one item in one segment."""
        own = self.segment(segment)
        own.record(name, impressions=impressions, rewards=rewards)  # refuses what the pooled counts would accept
        self.pooled.record(name, impressions=impressions, rewards=rewards)
        self._follow()

    def record_many(
        self, ids: Names, segment: str = "", impressions: npt.ArrayLike = 0, rewards: npt.ArrayLike = 0
    ) -> None:
        """Count impressions and rewards of many items in one segment, or of users in none; all or none."""
        names = listed(ids)
        if segment:
            self.segment(segment).record_many(names, impressions, rewards)
        self.pooled.record_many(names, impressions, rewards)
        self._follow()

    def set_counts(self, ids: Names, impressions: npt.ArrayLike, rewards: npt.ArrayLike, *, segment: str = "") -> None:
        """Set the counts of items in one segment, or over all users; all or none. See ``Pool.set_counts``."""
        (self.segment(segment) if segment else self.pooled).set_counts(listed(ids), impressions, rewards)
        self._follow()

    def rank(self, k: int, segment: str = "", **filters: Any) -> list[Ranked]:
        """Return the best k for this segment, by its own counts if it has enough of them; options as for ``Pool``."""
        return self.deciding(segment).rank(k, **filters)

    def serve(
        self, k: int, segment: str = "", *, count: bool = True, worth: npt.ArrayLike | None = None, **filters: Any
    ) -> list[Ranked]:
        """:meth:`rank`, and count an impression of each, or its ``worth``, in the segment and pooled."""
        decides = self.deciding(segment)
        other = self._other(decides, segment) if count else None
        ranked = decides.serve(k, count=count, worth=worth, **filters)
        self._served(other, [] if other is None else [item.id for item in ranked], worth)
        return ranked

    def pick(
        self, k: int, segment: str = "", *, count: bool = True, worth: npt.ArrayLike | None = None, **filters: Any
    ) -> tuple[list[Id], list[float]]:
        """:meth:`serve`, for callers that need ids and indices alone, each as a list."""
        decides = self.deciding(segment)
        other = self._other(decides, segment) if count else None
        names, scores = decides.pick(k, count=count, worth=worth, **filters)
        self._served(other, names, worth)
        return names, scores

    def _other(self, decides: Pool, segment: str) -> Pool | None:
        """The pool besides the one that ranks that is to know of it; made before items may leave by being shown."""
        if not segment:
            return None
        return self.segment(segment) if decides is self.pooled else self.pooled

    def _served(self, other: Pool | None, names: list[Id], worth: npt.ArrayLike | None) -> None:
        """Count these, which one pool has, in the other."""
        if other is not None and names:
            other.record_many(names, 1 if worth is None else other._checks.places(worth, len(names)))
        self._follow()

    def sweep(self) -> None:
        """Let items go that are beyond hope by the pooled counts."""
        self.pooled.sweep()
        self._follow()

    def departures(self) -> list[Departure]:
        """Items that have left by themselves since this was last asked, by the pooled counts."""
        gone, self._departures = self._departures, []
        return gone

    def _follow(self) -> None:
        """Let the segments' pools follow where items have left the pooled one."""
        if self.pooled.learning == "auto" and self.pooled.prior is not self._learned_at:
            self._learned_at, self.law = self.pooled.prior, self.fit()
        gone = self.pooled.departures()
        if gone:
            self._departures += gone
            for pool in self.segments.values():
                pool.remove([departure.id for departure in gone])

    def deciding(self, segment: str) -> Pool:
        """The pool whose counts rank for this segment."""
        own = self.segments.get(segment)
        if own is None:
            return self.pooled
        if segment in self._within:
            if self._law.of(segment) is None:
                return self.pooled
            if self._within[segment].told is not self.pooled.prior:
                self._obey(segment)
            self._within[segment].catch_up()
            return own
        return self.pooled if own.rounds < enough_for(self.enough, len(self.pooled)) else own

    def segment(self, segment: str) -> Pool:
        """A segment's own pool, made when first asked for."""
        if segment not in self.segments:
            require(isinstance(segment, str), "a segment is a string", segment=segment)
            self.segments[segment] = self.pooled.blank()
            self.segments[segment].leaving = Leaving()  # items leave by the pooled counts
            if self.pooled.prior is not None:
                self.segments[segment].learning = "given"
                self._within[segment] = self.segments[segment].shrink_to(self.pooled)
                self._obey(segment)
        return self.segments[segment]

    def __len__(self) -> int:
        return len(self.pooled)

    def __contains__(self, name: object) -> bool:
        return name in self.pooled

    def contains(self, ids: Names) -> npt.NDArray[np.bool_]:
        """Whether each of these is in the catalogue."""
        return self.pooled.contains(ids)

    def _all(self) -> Iterable[Pool]:
        return [self.pooled, *self.segments.values()]


def enough_for(enough: float | None, items: int) -> float:
    """Impressions that a segment needs before its own counts decide, where no prior is learned; at least one."""
    return max(1.0, 10 * items if enough is None else enough)


def listed(ids: Id | Names) -> Any:
    """Ids that can be gone through more than once."""
    return ids if isinstance(ids, (int, str, list, tuple, range, np.ndarray)) else list(ids)
