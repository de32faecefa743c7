"""Compiling what a policy's first rankings need before they are asked for."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from hellinger.engine.dates import Dates
from hellinger.engine.drafts import Draft
from hellinger.engine.overlay import Overlay
from hellinger.engine.pools import Pools
from hellinger.events import Logged
from hellinger.ledger import Ledger, placed
from hellinger.ledger.modelled import has_model, split_model, warm
from hellinger.policies import Prior
from hellinger.pool import Pool

__all__ = ["warm_policies"]


@cache
def _with_features() -> Prior:
    """A prior that was fitted to items whose features tell all."""
    pool = Pool[int]("cold-start", learn="given")
    kinds: list[Any] = [{"kind": "ab"[j % 2], "length": j} for j in range(60)]
    pool.add(range(60), 50, [30 * (j % 2) + j % 3 for j in range(60)], features=kinds)
    return pool.fit()


def warm_policies(specs: Collection[str]) -> None:
    """Have the kernels of these policies compiled, on items of its own: it may run beside a service, in a thread."""
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
            pool.prior = Prior(shares=(0.5,))
            pool.set_counts([0], [2], [1])
            pool.group_effects()
            if pools.reads_features(variant):
                pool.describe([0], {"kind": "a"})
                pool.prior = _with_features()
        pool.remove([0])
        if has_model(spec):
            warm(*split_model(spec))
