"""A desk without a service around it: what it drafts is committed at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft, DraftRow, item_draft
from hellinger.events import Event, Logged
from hellinger.ledger import Ledger

__all__ = ["START", "DrivenDesk"]

START = 1_700_000_000_000
"""When everything begins, in milliseconds since 1970."""
BLOCK = 10_000


class DrivenDesk:
    """A desk and its log; the items' names are the numbers from 0."""

    def __init__(self, policy: str, items: int, *, keep: bool = False, **options: Any) -> None:
        self.desk = Desk(Ledger(), {"a": policy}, **options)
        self.events: list[Logged] | None = [] if keep else None
        """The log, where it is kept."""
        self._seq = 0
        for first in range(0, items, BLOCK):
            names = range(first, min(first + BLOCK, items))
            more: dict[str, Any] = {"tags": [], "expires_at": None, "metadata": None}
            self.write([item_draft({"id": str(j), **more}, START) for j in names])

    def write(self, drafts: Iterable[Draft | DraftRow]) -> None:
        """Commit drafts in the order given."""
        placed = []
        for draft in drafts:
            self._seq += 1
            placed.append((self._seq, draft))
            if self.events is not None:
                self.events.append(Logged(self._seq, *Event(*draft[0])))
        self.desk.commit_own(placed)

    def shown_before(self, mean: float, seed: int = 0) -> None:
        """Give every item a past: about so many impressions, and rewards by a rate of its own."""
        rng = np.random.default_rng(seed)
        count = len(self.desk.ledger.catalogue)
        n = rng.poisson(rng.exponential(mean, count))
        s = rng.binomial(n, rng.beta(2.0, 30.0, count))
        for first in range(0, count, BLOCK):
            rows = [
                {"item": str(j), "impressions": int(n[j]), "rewards": float(s[j]), "from": None, "to": None}
                for j in range(first, min(first + BLOCK, count))
            ]
            fields = {"batch": f"{first}", "variant": None, "segment": None, "rows": rows}
            self.write([Draft.of(f"import/{first}", "import", START, fields)])
        self.write(self.desk.learn(START))
        self.desk.finish()
