"""What is gone leaves memory: after days of churn a desk holds what it held before, to the bytes of all it has."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from hellinger.engine.desk import Desk
from hellinger.engine.drafts import DraftRow, GivenFeedback, Query
from hellinger.ledger import Ledger
from ledger_model import START

HOUR = 3_600_000
DAY = 24 * HOUR
ITEMS, RANKINGS, SEGMENTS, REMEMBERED = 600, 240, 4, 100
_CODE = ModuleType, type, FunctionType, BuiltinFunctionType, CodeType


def held(root: object) -> int:
    """Bytes of all that an object refers to, and what that refers to; classes and functions are everybody's."""
    seen, waiting, total = set[int](), [root], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _CODE):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            waiting += [] if one.base is None else [one.base]
            total += one.nbytes if one.base is None else 0
        else:
            total += sys.getsizeof(one)
            waiting += gc.get_referents(one)
    return total


class Site:
    """Items that live for a day, each with a tag of its own and an author's, shown in segments, by several policies."""

    def __init__(self) -> None:
        variants = {name: name for name in ("hellinger-ucb", "ucb1", "cold-start")}
        ledger = Ledger(cache=REMEMBERED)
        options: dict[str, Any] = {"window": 6 * HOUR, "forget_after": 12 * HOUR, "enough": 1, "lifetimes": True}
        self.desk = Desk(ledger, variants, seed=1, **options)
        self.rng = random.Random(1)
        self.added = self.seq = 0

    def write(self, drafts: Iterable[DraftRow]) -> int:
        placed = list(enumerate(drafts, self.seq + 1))
        self.seq += len(placed)
        self.desk.commit_own(placed)
        return len(placed)

    def hour(self, at: int, items: int) -> None:
        desk, rng = self.desk, self.rng
        new = []
        for _ in range(items):
            self.added += 1
            tags = [f"author {rng.randrange(50)}", f"tag {self.added}"]
            new.append({"id": f"item {self.added}", "tags": tags, "expires_at": at + DAY, "metadata": None})
        self.write(desk.describe(new, at))
        made = [desk.rank(Query(10, segment=f"s{rng.randrange(SEGMENTS)}"), at + j) for j in range(RANKINGS // 24)]
        self.write(made)
        shown = [(draft.event.key, item) for draft in made for item in draft.fields["items"]]
        given = [GivenFeedback(name, item, "click") for name, item in shown if rng.random() < 0.1]
        self.write(desk.sort(given, at + HOUR // 2).drafts)
        while self.write(desk.chores(at + HOUR // 2)):
            pass
        self.write(desk.learn(at + HOUR // 2))
        desk.finish()

    def day(self, number: int) -> int:
        for hour in range(24):
            burst = ITEMS // 3 if hour == 5 else 0
            self.hour(START + number * DAY + hour * HOUR, ITEMS // 24 + burst)
        return held(self.desk)


def test_after_a_month_of_churn_a_desk_holds_what_it_held_after_three_days() -> None:
    site = Site()
    days = [site.day(number) for number in range(15)]
    ledger = site.desk.ledger
    assert site.added > 9 * len(ledger.catalogue), "most items must be gone"
    assert len(ledger.catalogue.ids) < 2.5 * ITEMS, "slots must be used again"
    assert len(ledger.requests) == REMEMBERED
    assert site.desk.pools.by_segment >= 2 * SEGMENTS
    assert max(days[3:]) < 1.1 * days[2], days
