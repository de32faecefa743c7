"""Who fills a site's pages: a policy with plain counts, a pool, one player for each segment, or the true rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper
from hellinger.errors import require
from hellinger.policies import Policy, _rule, next_fit
from hellinger.pool import Pool, SegmentedPool
from hellinger.world.site import Player, Site

__all__ = ["CountsPlayer", "LifetimesPlayer", "Oracle", "PoolPlayer", "SegmentPlayers", "SegmentedPlayer", "largest"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MASK = (1 << 62) - 1


@helper
def largest(index: Floats, k: int, chosen: Ints) -> None:
    """Positions of the k largest, best first, ties to the lowest position."""
    taken = 0
    for i in range(index.size):
        if taken < k or index[i] > index[chosen[k - 1]]:
            j = taken if taken < k else k - 1
            while j > 0 and index[chosen[j - 1]] < index[i]:
                chosen[j] = chosen[j - 1]
                j -= 1
            chosen[j] = i
            taken = min(k, taken + 1)


class CountsPlayer:
    """A policy that scores every place; ties go to the lowest.

    Parameters
    ----------
    policy
        Its horizon set where it needs one.
    items
        How many places there are.
    rng
        For a policy that draws.
    init
        Impressions that every place is given first.
    """

    def __init__(self, policy: Policy, items: int, *, rng: Any = None, init: int = 0) -> None:
        self._policy = policy
        self._rule = policy.rule.begin(items)
        self._rng = rng
        self._init = init
        self._opening: int | None = None
        self._given = np.zeros(items)
        self._index = np.empty(items)
        self.sums, self.pulls = np.zeros(items), np.zeros(items)
        self.rounds = 0
        """Impressions counted, those of items that have left included."""

    def choose(self, slots: int, segments: Ints) -> Ints:
        """Places with the largest index: the same on every page, unless the policy draws."""
        out = np.zeros((segments.size, slots), np.int64)
        if self._opening is None:
            self._opening = self._init * -(-self._index.size // slots)
        self._rule = self._rule._learned(self.sums, self.pulls, float(self.rounds))
        scored = False
        for page in out:
            if self._opening > 0:
                self._opening -= 1
                self._index[:] = np.where(self._given < self._init, -np.arange(self._index.size), -math.inf)
            elif not scored or self._rule.random:
                self._score(self.rounds + 1.0)
                scored = True
            largest(self._index, slots, page)
            self._given[page] += 1.0
        return out

    def _score(self, t: float) -> None:
        _rule.fill(self._rule, self.sums, self.pulls, t, self._rng, self._index)
        if not self._policy.own:
            self._policy.check_numbers(self.sums, self.pulls, t, self._index)

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Count these."""
        np.add.at(self.sums, places, rewards)
        np.add.at(self.pulls, places, impressions)
        if self._policy.remembers:
            require(impressions == 1, "a policy that remembers sees one impression at a time", impressions=impressions)
            for j, (place, reward) in enumerate(zip(places.tolist(), rewards.tolist(), strict=True), 1):
                _rule.observe(self._rule, place, reward, float(self.rounds + j))
        self.rounds += impressions * places.size

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        require(not self._policy.remembers, "items stay where a policy remembers", policy=self._policy.spec)
        self.sums[places] = self.pulls[places] = 0.0


class PoolPlayer:
    """A :class:`~hellinger.Pool` whose ids are the places; a prior is fitted between two rankings, as it falls due.

    ``groups`` and ``features`` are those of all items, of those to come too. Items that leave go on informing their
    groups, and tell what features are worth, as in a pool that learns by itself.
    """

    def __init__(
        self,
        policy: Policy,
        items: int,
        *,
        seed: int = 0,
        groups: Sequence[Any] | None = None,
        features: Sequence[Any] | None = None,
    ) -> None:
        self._pool = Pool(policy, learn="given")
        self._groups = groups
        self._features = features
        self._here = np.arange(items)
        self._departed: dict[Any, list[float]] = {}
        """How many items have left each group, their impressions and their rewards."""
        self._add(self._here, self._here)
        self._seed = seed
        self._rounds = 0
        self._since = 0

    def choose(self, slots: int, segments: Ints) -> Ints:
        """The pool's ranking, the same on every page."""
        pool, prior = self._pool, self._pool.prior
        if prior is not None and prior.plays + self._since >= next_fit(prior.plays):
            pool.learn()
            self._since = 0
        tie = (self._seed * 0x9E3779B97F4A7C15 + self._rounds * 0xD1B54A32D192ED03) & _MASK
        if self._features is None:
            return pool.pick_places(slots, seed=tie)[None]
        return np.array(pool.pick(slots, seed=tie, count=False)[0])[None]

    def _add(self, places: Ints, items: Ints) -> None:
        def of(what: Sequence[Any] | None) -> Any:
            return None if what is None else [what[item] for item in items.tolist()]

        self._pool.add(places, group=of(self._groups), features=of(self._features))

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Count these."""
        if self._features is None:
            self._pool.record_places(places, impressions, rewards)
        else:
            self._pool.record_many(places, impressions, rewards)
        self._rounds += impressions * places.size
        self._since += impressions * places.size

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        left = self._leaving(places)
        if self._features is not None:
            self._pool.remove(places)
            self._add(places, items)
        else:
            self._pool.set_counts(places, 0, 0)
            if self._groups is not None:
                self._pool.regroup(places, [self._groups[item] for item in items.tolist()])
        self._here[places] = items
        if left:
            self._pool.set_departed(list(left), *zip(*left.values(), strict=True))

    def _leaving(self, places: Ints) -> dict[Any, list[float]]:
        """The groups of items that leave now, and what all that have left them had."""
        left: dict[Any, list[float]] = {}
        if self._groups is None:
            return left
        for place in places.tolist():
            group, known = self._groups[self._here[place]], self._pool.stats(place)
            if group is not None and known.impressions > 0:
                had = self._departed.setdefault(group, [0.0, 0.0, 0.0])
                had[:] = had[0] + 1.0, had[1] + known.impressions, had[2] + known.rewards
                left[group] = had
        return left


class LifetimesPlayer(PoolPlayer):
    """A pool that is told how many pages each item has left.

    On a site with arrivals an item leaves at the end of a day that is known when it comes. An item is on a page once at
    most, so it can be shown as many times more as there are pages until then: days that it has left, times the pages of
    a day so far. Time passes with impressions there, so that the first page tells how many a day has.
    """

    def __init__(self, policy: Policy, site: Site, *, seed: int = 0) -> None:
        super().__init__(policy, site.items, seed=seed)
        self._site = site
        self._places = np.arange(site.items)
        self._last_day = self._day_of(self._places)
        self._pages = 0

    def _day_of(self, items: Ints) -> Ints:
        """The days until the end of which these items are there: the oldest leave first."""
        return items // max(self._site.arrivals, 1) + 1

    def choose(self, slots: int, segments: Ints) -> Ints:
        """The pool's ranking, the same on every page."""
        if self._site.arrivals and self._rounds:
            days = self._rounds / self._site.day
            self._pool.set_left(self._places, np.maximum(self._last_day - days, 0.0) * (self._pages / days))
        self._pages += segments.size
        return super().choose(slots, segments)

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        super().renew(places, items)
        self._last_day[places] = self._day_of(items)


class SegmentedPlayer:
    """A :class:`~hellinger.pool.SegmentedPool` whose ids are the places; what it learns is fitted as for a pool."""

    def __init__(self, policy: Policy, items: int, *, seed: int = 0) -> None:
        self.pool = SegmentedPool(policy, learn="given")
        self.pool.add(np.arange(items))
        self._seed = seed
        self._rounds = 0
        self._since = 0

    def choose(self, slots: int, segments: Ints) -> Ints:
        """What the pool ranks for each page's segment, the same on all pages of one."""
        pool, prior = self.pool, self.pool.pooled.prior
        if prior is not None and prior.plays + self._since >= next_fit(prior.plays):
            pool.learn()
            self._since = 0
        tie = (self._seed * 0x9E3779B97F4A7C15 + self._rounds * 0xD1B54A32D192ED03) & _MASK
        out = np.empty((segments.size, slots), np.int64)
        for segment in np.unique(segments).tolist():
            out[segments == segment] = pool.pick(slots, str(segment), count=False, seed=tie)[0]
        return out

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Count these."""
        for segment in np.unique(segments).tolist():
            mine = segments == segment
            self.pool.record_many(places[mine], str(segment), impressions, rewards[mine])
        self._rounds += impressions * places.size
        self._since += impressions * places.size

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        for segment in ("", *self.pool.segments):
            self.pool.set_counts(places, 0, 0, segment=segment)


class SegmentPlayers:
    """A player for each segment, which learns from that segment's pages alone."""

    def __init__(self, players: Sequence[Player]) -> None:
        self._players = players

    def choose(self, slots: int, segments: Ints) -> Ints:
        """What each page's own player chooses."""
        out = np.empty((segments.size, slots), np.int64)
        for segment in np.unique(segments):
            mine = segments == segment
            out[mine] = self._players[segment].choose(slots, segments[mine])
        return out

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Hand each what happened in its segment."""
        for segment in np.unique(segments):
            mine = segments == segment
            self._players[segment].record(places[mine], impressions, rewards[mine], segments[mine])

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        for player in self._players:
            player.renew(places, items)


class Oracle:
    """Shows the places whose items have the largest true rates."""

    def __init__(self, rates: Floats, items: int) -> None:
        self._rates = rates
        self._here = rates[:items].copy()
        self._best: Ints | None = None

    def choose(self, slots: int, segments: Ints) -> Ints:
        """The best, the same on every page."""
        if self._best is None:
            self._best = np.zeros(slots, np.int64)
            largest(self._here, slots, self._best)
        return self._best[None]

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """It knows."""

    def renew(self, places: Ints, items: Ints) -> None:
        """Look at the new rates."""
        self._here[places] = self._rates[items]
        self._best = None
