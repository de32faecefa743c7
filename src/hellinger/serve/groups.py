"""What variants have learned of groups: how much they tell, and which stand out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from hellinger.engine.desk import Desk
from hellinger.pool import Pool

__all__ = ["SHOWN", "GroupsLearned"]

SHOWN = 20
"""Groups that are listed of each variant, those that stand out most first."""
_FRESH = 5.0
"""Seconds for which an answer is given again: a million items take some milliseconds of a processor."""
_PLACES = ("groups", "the groups within these", "the groups within those")


class GroupsLearned:
    """What each variant that learns from groups has learned, looked up in a thread, one after the other."""

    def __init__(self, desk: Callable[[], Desk]) -> None:
        self._desk = desk
        self._known: dict[str, tuple[float, Pool[Any], dict[str, Any] | None]] = {}
        self._busy = asyncio.Lock()

    async def find(self, variants: list[str]) -> list[dict[str, Any]]:
        """Of these variants, those that rank by groups: one with a model does not, nor does one that has stopped."""
        pools = self._desk().pools
        found = []
        async with self._busy:
            self._known = {name: known for name, known in self._known.items() if name in pools.variants}
            for name in variants:
                if name not in pools.variants or name in pools.ledger.models.of:
                    continue
                pool, at = pools.as_it_is(name), time.monotonic()
                known = self._known.get(name)
                if known is None or known[1] is not pool or at - known[0] >= _FRESH:
                    named = len(pools.ledger.catalogue.groups.values) > 1
                    answer = await asyncio.to_thread(_learned, name, pools.variants[name], pool, named)
                    known = self._known[name] = (at, pool, answer)
                if known[2] is not None:
                    found.append(known[2])
        return found


def _learned(variant: str, policy: str, pool: Pool[Any], named: bool) -> dict[str, Any] | None:
    """What one has learned; None where there are no groups, or nothing is learned from them."""
    prior = pool.prior
    if prior is None:
        return None
    levels = pool.group_levels()
    if not levels and not named:
        return None
    groups = [each._asdict() for each in pool.group_effects(SHOWN)]
    of_tags = bool(groups) and not any(each["group"] for each in groups)
    return {
        "variant": variant,
        "policy": policy,
        "rate": prior.a / prior.strength,
        "levels": [{"share": share, "groups": number} for share, number in levels],
        "sentence": _sentence([share for share, _ in levels], of_tags),
        "groups": groups,
    }


def _sentence(shares: list[float], of_tags: bool) -> str:
    """The shares in words."""
    if not any(shares):
        return "Groups do not tell click rates apart so far: each item is ranked as if it had none."
    places = ("sets of tags",) if of_tags else (*_PLACES, *["still narrower groups"] * len(shares))
    parts = [f"{100 * share:.0f} % lies between {place}" for share, place in zip(shares, places, strict=False) if share]
    rest = f"{100 * (1.0 - sum(shares)):.0f} % between the items of one"
    return f"Of what makes click rates differ, {', '.join(parts)}, and {rest}."
