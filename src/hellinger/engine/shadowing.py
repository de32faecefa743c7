"""What a shadow would have shown instead of a ranking, and what each place of that ranking says of it.

A shadow ranks a request that a variant has answered, as if that ranking had not been made: its impressions, and what
they have earned meanwhile, are taken back for the moment. Otherwise a shadow would keep away from what was just shown,
or know what came of it.

Items of equal index are shown in random order, so an item of a tie is at each of the tie's places with probability
1/(its size). With q(a, j) the shadow's chance to show item a at position j and p(a, j) that of the variant, the weight
of a place is q/p (item-position weights), whatever an item earns. Where the variant never draws what the shadow would
show, that says nothing.

By the position-based model, with θ the chance of a look at a position, an item's place in one ranking also tells of its
place in another. A shadow that would show item b at position i is *owed* θ_i looks at b. The next ranking that shows b,
this one or a later one, pays: at position j by at most ``LARGEST``·θ_j looks, with the weight looks/θ_j. Weights are
known before the reward is, and the shadow chose b before: so the sum of weights times rewards has the mean that the
places paid would have earned, however both policies learn. What is never paid counts as nothing earned.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from hellinger.engine.drafts import Draft, Query
from hellinger.engine.positions import looks_by
from hellinger.engine.specs import ORDERS
from hellinger.engine.state import State
from hellinger.events import logged_chances
from hellinger.ledger import Request
from hellinger.ledger.shadows import LARGEST

__all__ = ["Owed", "would_show"]

MOST = 100_000
"""Items that looks may be owed at; beyond, the oldest debts are never paid."""


class Owed:
    """Looks that a shadow is owed, by item: the place in the log where it was added.

    This replica's own memory, no part of what the log says: which weights are written depends on it, as on a draw. A
    ranking pays what was owed when it was made: later choices may know what came of it.
    """

    def __init__(self) -> None:
        self._looks: dict[int, float] = {}
        self._fresh: deque[tuple[int, dict[int, float]]] = deque()
        """What was chosen lately, and when."""

    def pay(
        self, wanted: dict[int, float], at: int, shown: Sequence[int], most: Sequence[float], now: int
    ) -> list[float]:
        """What a ranking made at a time pays at each of its items, at most so much, of what is owed and wanted."""
        while self._fresh and self._fresh[0][0] <= at:
            for item, looks in self._fresh.popleft()[1].items():
                self._looks[item] = self._looks.get(item, 0.0) + looks
        paid = []
        for item, limit in zip(shown, most, strict=True):
            looks = min(wanted.get(item, 0.0), limit)
            if looks:
                wanted[item] -= looks
            more = min(self._looks.get(item, 0.0), limit - looks)
            if more:
                self._looks[item] -= more
                if not self._looks[item]:
                    del self._looks[item]
            paid.append(looks + more)
        self._fresh.append((now, {item: looks for item, looks in wanted.items() if looks}))
        while len(self._looks) > MOST:
            del self._looks[next(iter(self._looks))]
        return paid


class _Page(NamedTuple):
    """What a shadow would show, and its index for what was shown."""

    slots: Sequence[Any]
    scores: Sequence[float]
    tied: int
    """Of how many items the last places were drawn; 0 where equal indices do not say who else might be there."""
    own: Mapping[int, float]
    """The shadow's index of items that were shown and that it might show too."""

    def ranges(self) -> dict[float, tuple[int, int, int]]:
        """For each index on the page: the first of its places, the one after the last, and how many items have it."""
        found, first = {}, 0
        for score, same in groupby(self.scores):
            last = first + len(list(same))
            found[score] = first, last, last - first
            first = last
        if self.scores:
            first, last, _ = found[self.scores[-1]]
            found[self.scores[-1]] = first, last, self.tied
        return found


def would_show(
    state: State,
    shadow: tuple[str, str],
    query: Query,
    made: Draft,
    request: Request,
    filters: dict[str, Any],
    *,
    owed: Owed,
    at: int,
) -> dict[str, Any]:
    """What a shadow (name and policy) would have shown for a query instead of a ranking, as its event has it."""
    size, slots = len(request.items), state.ledger.slots_of(request)
    page = _page(state, *shadow, query, made.event.key, request, filters)
    places = _places(page, slots)
    same = math.fsum(chance * (last - first) for first, last, chance in places) / size
    here = [chance if first <= j < last else 0.0 for j, (first, last, chance) in enumerate(places)]
    weights: list[float] | None = None
    chances = logged_chances(made.fields)
    if chances is not None and None not in chances:
        weights = [0.0 if q == 0.0 else q / p for q, p in zip(here, chances, strict=True) if p is not None]
    since = state.ledger.catalogue["since"]
    looked = looks_by(state.pools.positions, state.ledger, size)
    wanted = {int(since[slot]): look for slot, look in zip(page.slots, looked, strict=False)}
    shown = [int(since[slot]) if slot >= 0 else 0 for slot in slots]
    paid = owed.pay(wanted, request.at, shown, [LARGEST * look for look in looked], at)
    return {
        "same": same,
        "placed": math.fsum(here) / size,
        "weights": weights,
        "looks": [look / seen for look, seen in zip(paid, looked, strict=True)],
        "mass": math.fsum(paid) / math.fsum(looked),
    }


def _page(
    state: State, shadow: str, spec: str, query: Query, name: str, request: Request, filters: dict[str, Any]
) -> _Page:
    pools = state.pools
    seed = int.from_bytes(blake2b(f"{name}/{shadow}".encode(), digest_size=7).digest(), "little")
    if not len(pools.of(shadow)):
        return _Page([], [], 0, {})
    if pools.model(shadow) is not None:
        asked = {"seed": seed, "context": query.context, **filters}
        slots, scores, _ = pools.pick(shadow, request.segment, query.k, count=False, **asked)
        return _Page(slots, scores, 0, {})
    with pools.without(shadow, request) as pool:
        slots, scores, tied = pools.best(shadow, pool, query.k, seed=seed, **filters)
        if spec == "fixed" or (spec not in ORDERS and pool.policy.rule.random):
            return _Page(slots, scores, 0, {})
        shown = np.array(state.ledger.slots_of(request), np.int64)
        shown = shown[pool.offering(shown)]
        return _Page(slots, scores, tied, dict(zip(shown.tolist(), pool.scores(shown).tolist(), strict=True)))


def _places(page: _Page, shown: Sequence[int]) -> list[tuple[int, int, float]]:
    """Where the shadow would show each of these items: a range of positions from 0, and the chance of each of them.

    Where it is not known who else might have been at a place, the page that was drawn stands for all others.
    """
    ranges, drawn = page.ranges(), {slot: place for place, slot in enumerate(page.slots)}
    found = []
    for slot in shown:
        first, last, size = ranges.get(page.own.get(slot, math.nan), (0, 0, 0))
        if size:
            found.append((first, last, 1.0 / size))
        elif slot in drawn:
            found.append((drawn[slot], drawn[slot] + 1, 1.0))
        else:
            found.append((0, 0, 0.0))
    return found
