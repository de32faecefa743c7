"""Random lives of a pool whose work is bounded and done in slices, against a pool made at once from what is there."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np

from hellinger import Pool
from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.pool import _membership

__all__ = ["SlicedLife"]

LAW = SegmentLaw(0.05, 30.0, 0.5, (("s", 0.2),))
SHARES: list[tuple[float, ...]] = [(), (0.5,), (0.3, 0.3), (0.2, 0.3, 0.3)]
KINDS = "abc"


def _effects() -> Any:
    pool = Pool[int](seed=1)
    pool.add(range(200), group=[f"g{j % 9}" for j in range(200)], features=[{"kind": KINDS[j % 3]} for j in range(200)])
    pool.record_many(range(200), np.full(200, 300), np.where(np.arange(200) % 3, 60, 5))
    effects = pool.fit().effects
    assert effects is not None
    return effects


class SlicedLife:
    """Items come, go, change their group, are shown and age; priors come slowly or at once; a segment's pool follows.

    When nothing is left to settle, every score, prior and ranking is that of a pool made at once.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lives, self.featured = self._chance(0.5), self._chance(0.5)
        self.pool, self.segment = self._new(), self._new()
        self.within: Any = None
        self.scored = int(self.rng.choice([10, 1000]))
        self.bounded = self._chance(0.8)
        if self.bounded:
            self.pool.bound_work(int(self.rng.choice([0, 1, 4, 12])), scored=self.scored)
        self.items: dict[int, dict[str, Any]] = {}
        self.numbers = 0
        self.prior: Prior | None = None
        self.effects = _effects() if self.featured else None
        self.many = int(self.rng.choice([1, 2, 3, 1024]))
        """Groups below another beyond which all hear the same."""
        self.compared = 0

    def live(self, turns: int = 60) -> SlicedLife:
        """Live so many turns, comparing now and then."""
        with mock.patch.object(_membership, "CROWD", 6), mock.patch.object(_membership, "MANY", self.many):
            self._add(12)
            for turn in range(turns):
                self._turn()
                if turn % 6 == 5 and self.prior is not None:
                    self._compare()
        return self

    def _chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    @staticmethod
    def _new() -> Pool[int]:
        return Pool[int](learn="given", seed=3)

    def _group(self) -> tuple[str, ...] | None:
        depth = int(self.rng.integers(0, 4))
        return tuple(f"l{self.rng.integers(0, 2 + level)}" for level in range(depth)) or None

    def _left(self) -> float:
        return float(2 ** self.rng.uniform(2, 9)) if self.lives and self._chance(0.5) else math.nan

    def _labels(self, ids: list[int]) -> dict[str, Any]:
        labels: dict[str, Any] = {"group": [self.items[one]["group"] for one in ids]}
        if self.lives:
            labels["left"] = [self.items[one]["left"] for one in ids]
        if self.featured:
            labels["features"] = [self.items[one]["features"] for one in ids]
        return labels

    def _add(self, count: int) -> None:
        ids = list(range(self.numbers, self.numbers + count))
        self.numbers += count
        for one in ids:
            features = {"kind": KINDS[int(self.rng.integers(3))]}
            counts = {"n": 0, "s": 0, "own_n": 0, "own_s": 0}
            self.items[one] = {"group": self._group(), "left": self._left(), "features": features} | counts
        first = self._chance(0.5)
        if first:
            self.segment.add(ids)
        self.pool.add(ids, **self._labels(ids))
        if not first:
            self.segment.add(ids)

    def _record(self, ids: list[int]) -> None:
        n = self.rng.integers(1, 60, len(ids))
        s = self.rng.binomial(n, self.rng.uniform(0, 0.5, len(ids)))
        self.pool.record_many(ids, n, s)
        here = self._chance(0.5)
        if here:
            self.segment.record_many(ids, n, s)
        for one, more_n, more_s in zip(ids, n.tolist(), s.tolist(), strict=True):
            item = self.items[one]
            item["n"], item["s"] = item["n"] + more_n, item["s"] + more_s
            if here:
                item["own_n"], item["own_s"] = item["own_n"] + more_n, item["own_s"] + more_s

    def _turn(self) -> None:
        rng, live = self.rng, list(self.items)
        ids = [int(one) for one in rng.choice(live, min(len(live), int(rng.integers(1, 6))), replace=False)]
        what = int(rng.integers(0, 11))
        if what == 0:
            self._add(int(rng.integers(1, 8)))
        elif what == 1 and len(live) > 8:
            for pool in (self.pool, self.segment):
                pool.remove(ids, forget=True)
            for one in ids:
                del self.items[one]
        elif what in (2, 3):
            self._record(ids)
        elif what == 4:
            for one in ids:
                self.items[one]["group"] = self._group()
            self.pool.regroup(ids, [self.items[one]["group"] for one in ids])
        elif what == 5 and self.lives:
            for one in ids:
                self.items[one]["left"] = self._left()
            self.pool.set_left(ids, [self.items[one]["left"] for one in ids])
        elif what in (6, 7):
            shares = SHARES[int(rng.integers(4))]
            effects = self.effects if self._chance(0.5) else None
            self.prior = Prior(
                float(rng.uniform(0.5, 3)), float(rng.choice([20, 40])), plays=10.0, shares=shares, effects=effects
            )
            self.pool.set_prior(self.prior, slowly=self._chance(0.7))
        elif what == 8 and self.within is None and self.prior is not None:
            self.within = self.segment.shrink_to(self.pool)
            if self.within.set_law(LAW, "s", self.prior):
                self.within.begin()
            self.segment.bound_work(2)
        elif what == 9:
            self._settle()
        elif what == 10 and self.within is not None:
            self.within.catch_up(int(rng.integers(1, 9)))
        self._obey(self.within, self.pool)
        if self._chance(0.3):
            self._settle()
        self.pool.rank(3, seed=1)

    def _settle(self) -> None:
        if self.pool.unsettled:
            self.pool.settle(int(self.rng.integers(1, 9)))

    @staticmethod
    def _obey(within: Any, pool: Pool[int]) -> None:
        if within is not None and within.told is not pool.prior and within.set_law(LAW, "s", pool.prior):
            within.begin()

    def _compare(self) -> None:
        assert self.prior is not None
        for _ in range(10_000):
            if not self.pool.unsettled:
                break
            self.pool.settle(5)
        assert not self.pool.unsettled, "slices come to an end"
        ids, fresh = self.pool.ids, self._new()
        if self.bounded:
            fresh.bound_work(1 << 40, scored=self.scored)
        n, s, own_n, own_s = ([self.items[one][what] for one in ids] for what in ("n", "s", "own_n", "own_s"))
        order = np.sort(self.pool._store.items["seq"])
        fresh.add(ids, n, s, order=order, **self._labels(ids))
        fresh.set_prior(self.prior)
        fresh._present = self.pool._present
        assert np.array_equal(self.pool.scores(ids), fresh.scores(ids))
        assert [one.id for one in self.pool.rank(6, seed=9)] == [one.id for one in fresh.rank(6, seed=9)]
        if self.within is not None:
            for _ in range(10_000):
                if not self.within.behind:
                    break
                self.within.catch_up(5)
            follower = self._new()
            follower.add(ids, own_n, own_s)
            within = follower.shrink_to(fresh)
            within.set_law(LAW, "s", self.prior)
            within.refresh(follower._store, 1.0)
            assert [self.segment.stats(one).prior for one in ids] == [follower.stats(one).prior for one in ids]
            assert self.within.informed == within.informed
        self.compared += 1
