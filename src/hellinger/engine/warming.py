"""Compiling what a policy's first rankings need before they are asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from hellinger.engine import learning
from hellinger.engine.best import warm_bounds
from hellinger.engine.dates import Dates
from hellinger.engine.drafts import Draft
from hellinger.engine.overlay import Overlay
from hellinger.engine.pools import Pools
from hellinger.engine.state import State
from hellinger.events import Logged
from hellinger.ledger import Ledger, placed
from hellinger.ledger.counts import SegmentCounts
from hellinger.ledger.modelled import has_model, split_model, warm
from hellinger.policies import Prior
from hellinger.pool import Pool

__all__ = ["compile_apart", "warm_policies"]


@cache
def _with_features() -> Prior:
    """A prior that was fitted to items whose features tell all."""
    pool = Pool[int]("cold-start", learn="given")
    kinds: list[Any] = [{"kind": "ab"[j % 2], "length": j} for j in range(60)]
    pool.add(range(60), 50, [30 * (j % 2) + j % 3 for j in range(60)], features=kinds)
    return pool.fit()


@cache
def _learn(spec: str) -> None:
    """Have a policy learn a prior, of groups and segments too, rank a segment by it, and forget an item."""
    ledger, size = Ledger(), 120
    state = State(ledger, {"a": spec})

    def log(kind: str, fields: dict[str, Any]) -> None:
        seq = ledger.seq + 1
        state.commit(placed([Logged(seq, *Draft.of(f"{kind}/{seq}", kind, 0, fields).event)]))

    for j in range(size):
        log("item", {"id": f"{j}", "tags": [f"t{j % 12}"], "expires_at": None})
    for segment in ("s", "t"):
        rows = [
            {"item": f"{j}", "impressions": 50 + j, "rewards": float(3 * (j % 12) + 9 * (segment > "s") * (j % 3))}
            for j in range(size)
        ]
        log("import", {"batch": segment, "variant": "a", "segment": segment, "rows": [row | _EVER for row in rows]})
    for wanted in learning.due(state):
        log("prior", learning.fit(wanted, 0).fields)
    state.pools.finish()
    pool = state.pools.of("a")
    for prior in (Prior(shares=(0.5,)), Prior()):  # as for very many items
        while pool.unsettled:
            pool.settle(size)
        pool.set_prior(prior, slowly=True)
    for segment in ("", "s"):
        state.pools.pick("a", segment, 1, count=True)
    log("state", {"id": "0", "state": "deleted"})
    log("forget", {"since": [1]})
    state.pools.finish()


_EVER = {"from": None, "to": None}


@cache
def _warm_any() -> None:
    """Have compiled what every policy needs once there are more items, or counts of segments."""
    pool, many = Pool[int]("ucb1"), np.arange(200)
    pool.add(many, many, many // 3)
    counts = SegmentCounts()
    counts.add(many, np.ones(many.size), np.zeros(many.size))
    counts.clear(many)


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
            pool.prior = Prior(shares=(0.5,))
            pool.set_counts([0], [2], [1])
            pool.group_effects()
            _learn(spec)
            if pools.reads_features(variant):
                pool.describe([0], {"kind": "a"})
                pool.prior = _with_features()
        pool.remove([0])
        if has_model(spec):
            warm(*split_model(spec))


@cache
def compile_apart(specs: frozenset[str]) -> None:
    """Have what these policies need compiled and kept on disk by another process, where it is not there yet.

    The compiler keeps some ten megabytes for each kernel for as long as its process lives: 600 MB for four policies.
    Where the other process fails, this one compiles for itself when it comes to it.
    """
    kept = import_module("hellinger._jit")  # no import statement: this room compiles nothing itself
    try:
        with kept.loading():
            _warm(specs)
    except kept.NotKeptError:
        subprocess.run([sys.executable, "-m", __spec__.name, *sorted(specs)], stdin=subprocess.DEVNULL, check=False)


def _warm(specs: Collection[str]) -> None:
    warm_policies(specs)
    warm_bounds()


if __name__ == "__main__":
    _warm(sys.argv[1:])
