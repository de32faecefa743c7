"""Who fills a site's pages: a policy with plain counts, a pool, one player for each segment, or the true rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper
from hellinger.policies import Policy, _rule, next_fit
from hellinger.pool import Pool
from hellinger.world.site import Player

__all__ = ["CountsPlayer", "Oracle", "PoolPlayer", "SegmentPlayers", "largest"]

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
        self._rule = policy.rule
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
        self.rounds += impressions * places.size

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        self.sums[places] = self.pulls[places] = 0.0


class PoolPlayer:
    """A :class:`~hellinger.Pool` whose ids are the places; a prior is fitted between two rankings, as it falls due.

    ``groups`` are those of all items, of those to come too.
    """

    def __init__(self, policy: Policy, items: int, *, seed: int = 0, groups: Sequence[Any] | None = None) -> None:
        self._pool = Pool(policy, learn="given")
        self._pool.add(np.arange(items), group=None if groups is None else list(groups[:items]))
        self._groups = groups
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
        return pool.pick_places(slots, seed=tie)[None]

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Count these."""
        self._pool.record_places(places, impressions, rewards)
        self._rounds += impressions * places.size
        self._since += impressions * places.size

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        self._pool.set_counts(places, 0, 0)
        if self._groups is not None:
            self._pool.regroup(places, [self._groups[item] for item in items.tolist()])


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
