"""A simulated site: pages of slots, clicks, counts refreshed in batches, contents that come and go."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger._jit import entry, helper, jit
from hellinger.families import _dispatch as families
from hellinger.policies import _rule
from hellinger.policies._rule import Rule
from hellinger.pool import _merge
from hellinger.pool._groups import mix
from hellinger.pool._prior import Prior
from hellinger.pool._store import Floats, Slots, Store

__all__ = ["Site", "live"]


class Site(NamedTuple):
    """What happens on a simulated site.

    Attributes
    ----------
    contents
        How many are in the pool at any time.
    batch
        Impressions between two refreshes of the counts.
    arrivals
        Contents that come, and oldest ones that go, every ``day`` impressions; 0 for a pool that stays.
    repeats
        How often a batch shows the same contents; 1 where all its impressions are of different ones.
    """

    contents: int
    batch: int
    arrivals: int = 0
    day: int = 0
    repeats: int = 1


@helper
def _draw(seed: int, content: int, impression: Any) -> float:
    """Decides a content's so-manieth impression, alike whichever policy gave it."""
    return float(mix(mix(mix(seed) + np.uint64(content)) + np.uint64(impression)) >> np.uint64(11)) * 2.0**-53


@jit
def _show(items: Any, slots: Slots, rates: Floats, seed: int, repeats: int) -> float:
    """Give each of these contents so many impressions; returns the clicks. A content's key says which it is."""
    clicks = 0.0
    for j in range(slots.size):
        item = items[slots[j]]
        for _ in range(repeats):
            click = _draw(seed, item["key"], np.int64(item["n"])) < rates[item["key"]]
            item["n"] += 1.0
            if click:
                item["s"] += 1.0
                clicks += 1.0
    return clicks


@jit
def _thompson(family: Any, items: Any, shift: Floats, rng: Any, out: Floats) -> None:
    """Draw each content's rate from its posterior under a learned prior."""
    for i in range(out.size):
        out[i] = families.posterior_draw(family, rng, items[i]["s"] + shift[0] - 1.0, items[i]["n"] + shift[1] - 2.0)


def live(
    rule: Rule | None, site: Site, rates: Floats, marks: list[int], seed: int, *, learned: bool = False
) -> list[float]:
    """Clicks after each of ``marks`` impressions when this rule fills the slots; without one, the true rates do.

    The first contents in ``rates`` fill the pool, the others are those to come. ``learned`` gives Thompson
    sampling the prior that a rule that learns one has anyhow.
    """
    held = site.contents
    merging = rule is not None and rule.separable
    store = Store(grouped=merging)
    store.add(np.arange(held), held, n=0.0, s=0.0, tags=0, stratum=0, born=0.0)
    prior = Prior(rule, learned=learned)
    rng = np.random.default_rng(seed)
    wide = site.batch // site.repeats
    slots, rows, values = np.empty(wide, np.int64), np.empty((wide, 4), np.int64), np.empty(held)
    everything, everyone = np.empty(0, np.bool_), np.arange(held)
    merge: Any = None
    shown, clicks, come, next_day = 0, 0.0, held, site.day if site.arrivals else math.inf
    out: list[float] = []
    while len(out) < len(marks):
        if shown >= next_day:
            next_day += site.day
            _renew(store, np.arange(come - held, come - held + site.arrivals) % held, come)
            come += site.arrivals
        if prior.due:
            prior.refresh(store, [frozenset()])
        total = float(store.items["n"].sum()) if prior.learned and site.arrivals else float(shown)
        tie = (seed * 0x9E3779B97F4A7C15 + shown * 0xD1B54A32D192ED03) & ((1 << 62) - 1)
        if merging:
            query = (rule, store.state, prior.table, total * prior.focus + 1.0, everything, tie, False, slots, rows)
            if merge is None:
                merge = entry(_merge.merge, *query)
            merge(*query)
        else:
            if rule is None:
                values = rates[store.items["key"]]
            elif learned:
                _thompson(rule.family, store.items, prior.table[0], rng, values)
            else:
                _rule.fill(rule, store.items["s"].copy(), store.items["n"].copy(), total + 1.0, rng, values)
            best = np.argpartition(values, held - wide)[held - wide :] if wide < held else everyone
            slots[:] = best
        clicks += _show(store.state.items, slots, rates, seed, site.repeats)
        store.settle(slots)
        shown += site.batch
        prior.heed(float(shown), held if not merging else 0)
        while len(out) < len(marks) and shown >= marks[len(out)]:
            out.append(clicks)
    return out


def _renew(store: Store, slots: Slots, first: int) -> None:
    """Put contents not seen before into these places."""
    items = store.state.items
    items["n"][slots], items["s"][slots] = 0.0, 0.0
    items["key"][slots] = np.arange(first, first + slots.size)
    store.settle(slots)
