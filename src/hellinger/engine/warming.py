"""Compiling what a policy's first rankings need before they are asked for."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np

from hellinger.engine.dates import Dates
from hellinger.engine.drafts import Draft
from hellinger.engine.overlay import Overlay
from hellinger.engine.pools import Pools
from hellinger.events import Logged
from hellinger.ledger import Ledger, placed
from hellinger.ledger.counts import SegmentCounts
from hellinger.ledger.modelled import has_model, split_model, warm
from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.pool import Pool, SegmentedPool

__all__ = ["warm_policies"]


@cache
def _with_features() -> Prior:
    """A prior that was fitted to items whose features tell all."""
    pool = Pool[int]("cold-start", learn="given")
    kinds: list[Any] = [{"kind": "ab"[j % 2], "length": j} for j in range(60)]
    pool.add(range(60), 50, [30 * (j % 2) + j % 3 for j in range(60)], features=kinds)
    return pool.fit()


@cache
def _warm_any() -> None:
    """Have compiled what every policy needs once there are more items, or counts of segments."""
    pool, many = Pool[int]("ucb1"), np.arange(200)
    pool.add(many, many, many // 3)
    counts = SegmentCounts()
    counts.add(many, np.ones(many.size), np.zeros(many.size))
    counts.clear(many)


@cache
def _warm_learning() -> None:
    """Have compiled what is needed to learn of groups and of segments, and to rank by it."""
    pool, items = SegmentedPool("cold-start"), np.arange(60)
    parts: dict[str, Any] = {"a": (30, items % 7), "b": (30, items % 5)}
    pool.add(items, 90, items % 7 + items % 5, group=[f"g{j}" for j in range(6) for _ in range(10)], parts=parts)
    pool.learn()
    pool.pooled.prior = Prior(shares=(0.5,))
    pool.law = SegmentLaw(0.05, 30.0, 0.5, (("a", 0.2), ("b", 0.1)))
    pool.record(0, "a", impressions=1)
    pool.rank(1, "b")


def warm_policies(specs: Collection[str]) -> None:
    """Have the kernels of these policies compiled, on items of its own: it may run beside a service, in a thread."""
    _warm_any()
    ledger = Ledger()
    fields = {"id": "a", "tags": ["t"], "expires_at": None}
    ledger.apply(placed([Logged(1, *Draft.of("item/1", "item", 0, fields).event)]))
    variants = {str(number): spec for number, spec in enumerate(specs)}
    pools = Pools(ledger, Overlay(), Dates(ledger.catalogue), variants, enough=0)
    for variant, spec in variants.items():
        pool = pools.of(variant)
        pool.pick(1)
        pool.pick(1, exclude=[1], tags=["t"])
        pool.pick(1, among=[0], count=False)
        pool.hide([0])
        pool.unhide([0])
        pool.set_counts([0], [1], [1])
        pool.scores([0])
        if pool.policy.rule.learns_prior:
            _warm_learning()
            pool.prior = Prior(shares=(0.5,))
            pool.set_counts([0], [2], [1])
            pool.group_effects()
            if pools.reads_features(variant):
                pool.describe([0], {"kind": "a"})
                pool.prior = _with_features()
        pool.remove([0])
        if has_model(spec):
            warm(*split_model(spec))
