"""With what chance a variant would show what was shown: over ties, exploration, the random share, and its own draws."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Query
from hellinger.engine.drawn_places import DrawnPlaces, beta_law, logit_law
from hellinger.engine.exploring import PLAIN, Listed
from hellinger.engine.specs import ORDERS, draws, policy_of
from hellinger.policies.simple import EpsilonGreedy
from hellinger.policies.thompson import LaplaceThompson, Thompson
from hellinger.pool import Pool

__all__ = ["DRAWS", "VariantChances", "drawn_chance"]

DRAWS = 400
"""Rankings that are drawn where a chance has no closed form: its error is then up to 1/40."""


def drawn_chance(seen: int, draws: int, *, made: bool) -> float:
    """The chance of a place of which so many of all draws had the item there.

    ``made``: whether the variant has made the ranking itself. That ranking is then one more draw, one that had the item
    there: (seen + 1)/(draws + 1), which is never 0. A weight has this chance below the line, and is nearly unbiased:
    with chance p the mean of 1/(that) is (1 − (1 − p)^(draws + 1))/p. Of a variant that did not make it the share of
    draws is unbiased, above the line, and 0 where none has the item there.

    >>> drawn_chance(0, 400, made=False), drawn_chance(3, 399, made=True)
    (0.0, 0.01)
    """
    return (seen + 1) / (draws + 1) if made else seen / draws


class VariantChances:
    """What the variants of a desk would show at this moment, as the chance of what was shown.

    By a policy with an index chances are exact: over the order of ties, what is explored and the random share. So they
    are for Thompson sampling (:mod:`hellinger.engine.drawn_places`) and for ε-greedy. Of a policy that draws by a
    model, and of any other that draws, rankings are drawn and counted.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.error = 0.0
        """The largest error of a chance so far, where it is not exact: relative by a grid, absolute by draws."""
        self.rare = 0
        """Places that no draw had the item at, though the variant may show it: none of the chances is exact there."""
        self._drawn: dict[str, DrawnPlaces] = {}

    def of(self, variant: str, query: Query, slots: Sequence[int], *, made: bool | None = None) -> list[float | None]:
        """The chance of each item, by its slot, at its place; None where it is not known.

        ``made``: whether this variant has made the ranking (:func:`drawn_chance`). Where nobody says so, a place that
        no draw had the item at is not known.
        """
        desk, segment = self.desk, query.segment or ""
        pool, spec = desk.pools.deciding(variant, segment), desk.variants[variant]
        offered = [pool.offers(slot) for slot in slots]
        filters = desk.filters(variant, query)
        greedy = self._greedy(variant, spec, pool, query, slots, filters, made)
        share = desk.random_share
        if not share:
            return [p if here else 0.0 for p, here in zip(greedy, offered, strict=True)]
        eligible = pool.draw(1, random.Random(0), **filters)[1] if filters else pool.eligible
        uniform = share / max(eligible, 1)
        mixed = [p if p is None else uniform + (1.0 - share) * p for p in greedy]
        return [p if here else 0.0 for p, here in zip(mixed, offered, strict=True)]

    def _greedy(
        self,
        variant: str,
        spec: str,
        pool: Pool,
        query: Query,
        slots: Sequence[int],
        filters: dict[str, Any],
        made: bool | None,
    ) -> list[float | None]:
        """The chances but for the random share."""
        desk = self.desk
        if draws(spec) and spec not in ORDERS:
            return self._random(variant, pool, query, slots, filters, made)
        how = desk.explores(variant)
        asked = {"seed": 0, "context": query.context, **filters}
        chosen, scores, tied = desk.pools.pick(variant, query.segment or "", query.k + how.more, count=False, **asked)
        if ORDERS.get(spec) == "oldest":
            return [float(j < len(chosen) and chosen[j] == slot) for j, slot in enumerate(slots)]
        listed = Listed(scores, tied, query.k, how)
        known = dict(zip(chosen, scores, strict=True))
        if missing := [slot for slot in slots if slot not in known and pool.offers(slot)]:
            model = desk.pools.model(variant)
            found = pool.scores(missing) if model is None else desk.scores(model, missing, query.context)
            known.update(zip(missing, found.tolist(), strict=True))
        return listed.chances([known.get(slot, math.nan) for slot in slots])

    def _random(
        self,
        variant: str,
        pool: Pool,
        query: Query,
        slots: Sequence[int],
        filters: dict[str, Any],
        made: bool | None,
    ) -> list[float | None]:
        policy = policy_of(self.desk.variants[variant])
        rule = None if policy is None or self.desk.pools.model(variant) is not None else policy.rule
        if isinstance(rule, (Thompson, LaplaceThompson, EpsilonGreedy)):
            everyone, _ = pool.draw(len(pool), random.Random(0), **filters)
            place = {one.id: j for j, one in enumerate(everyone)}
            s = np.array([one.rewards for one in everyone], float)
            n = np.maximum(np.array([one.impressions for one in everyone], float), s)
            numbers = [place.get(slot, -1) for slot in slots]
            if isinstance(rule, EpsilonGreedy):
                return _epsilon_greedy(rule, n, s, numbers, query.k, len(pool), pool.rounds + 1.0)
            if isinstance(rule, Thompson) or n.min(initial=1.0) > 0.0:
                law = beta_law if isinstance(rule, Thompson) else logit_law
                found, error = self._drawn.setdefault(variant, DrawnPlaces(law)).chances(n, s, numbers)
                self.error = max(self.error, error)
                return list(found)
        asked = {"context": query.context, **filters}
        seen: Counter[tuple[int, Any]] = Counter()
        for seed in range(DRAWS):
            chosen, _, _ = self.desk.pools.pick(variant, query.segment or "", query.k, count=False, seed=seed, **asked)
            seen.update(enumerate(chosen))
        self.error = max(self.error, 0.5 / math.sqrt(DRAWS))
        counts = [seen[j, slot] for j, slot in enumerate(slots)]
        self.rare += sum(not count and pool.offers(slot) for count, slot in zip(counts, slots, strict=True))
        if made is None:
            return [count / DRAWS or None for count in counts]
        return [drawn_chance(count, DRAWS, made=made) for count in counts]


def _epsilon_greedy(
    rule: EpsilonGreedy, n: Any, s: Any, numbers: list[int], k: int, arms: int, t: float
) -> list[float | None]:
    """The best mean with probability 1 − ε, else any order."""
    epsilon = rule.epsilon if rule.decay == 0.0 else min(1.0, rule.decay * arms / t)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(n > 0.0, s / n, math.inf)
    if not n.size:
        return [0.0] * len(numbers)
    best = np.sort(means)[::-1][:k].tolist()
    listed = Listed(best, int(np.count_nonzero(means == best[-1])), k, PLAIN)
    found = listed.chances(means[numbers].tolist())
    return [None if p is None else epsilon / n.size + (1.0 - epsilon) * p for p in found]
