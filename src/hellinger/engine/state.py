"""What a replica of the service knows: the fold of the log, and its own rankings that the log does not have yet."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from hellinger.engine.dates import Dates
from hellinger.engine.overlay import Overlay
from hellinger.engine.pools import LEARN, SEGMENT_BYTES, Pools
from hellinger.ledger import Changes, Ledger, Request, joined
from hellinger.ledger.ledger import Placed
from hellinger.ledger.looks import Setting
from hellinger.pool import Leaving

__all__ = ["HOUR", "State"]

HOUR = 3_600_000


class State:
    """Ledger and overlay, and what is derived from the two: dates of expiry and pools.

    There is one way in: :meth:`commit` applies what the log has got, and everything derived follows the changes. A
    state with an empty overlay equals one made from the log alone, to the bit.
    """

    def __init__(
        self,
        ledger: Ledger,
        variants: dict[str, str],
        *,
        shared: Collection[str] = (),
        hidden: Collection[str] = (),
        enough: float | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        leaving: Leaving | None = None,
        segments: Collection[str] | None = None,
        positions: Setting = "learned",
        lifetimes: bool = False,
    ) -> None:
        by_pool = None if leaving is None else leaving._replace(age=None)
        age = None if leaving is None or leaving.age is None else round(leaving.age * HOUR)
        self.ledger = ledger
        self.overlay = Overlay()
        self.dates = Dates(ledger.catalogue, age)
        self._rules: dict[str, Any] = {
            "enough": enough,
            "segment_bytes": segment_bytes,
            "leaving": by_pool,
            "segments": segments,
            "positions": positions,
            "ends": self.dates.ends if lifetimes else None,
        }
        self.pools = Pools(ledger, self.overlay, self.dates, variants, shared=shared, hidden=hidden, **self._rules)
        self.coming: Pools | None = None
        """Pools of variants that are to rank once these have looked everything up."""
        self.made = 0
        """Rankings made since the log was last applied, those included that count only when the log has them."""

    def commit(self, events: Iterable[Placed]) -> Changes:
        """Apply the next events of the log; what they changed.

        Where this raises nothing of the state can be relied upon any more: it has to be made anew from the log.
        """
        ledger, overlay = self.ledger, self.overlay
        before = ledger.seq
        changes = ledger.apply(events, overlay.rankings)
        if changes.forgotten:
            overlay.look_up(ledger.slots_of)
        others: defaultdict[tuple[str, str], list[array[int]]] = defaultdict(list)
        for name, ranking in changes.rankings:
            # of a ranking that was in the overlay, what ledger and overlay say together stays the same
            if not overlay.remove(name) and ranking.counted:
                others[ranking.whose].append(ledger.slots_of(ranking))
        for whose, shown in others.items():  # an array for each ranking would take longer than to look its items up
            slots = joined(shown)
            changes.counted[whose].append(slots[slots >= 0])
        ledger.models.learn(LEARN)  # what takes longer they learn between rankings
        self.dates.follow(changes)
        worth = overlay.worth
        self.pools.follow(changes)
        if self.coming is not None:
            self.coming.follow(changes)
            if overlay.worth is not worth:
                self.coming.recount()
        if ledger.seq != before:
            self.made = 0
        return changes

    def open(self, name: str, ranking: Request, *, served: bool) -> None:
        """Count a ranking before the log has it; ``served``: its variant's own pool has counted it already."""
        self.overlay.add(name, ranking)
        if ranking.counted and ranking.slots and not (served and not self.pools.shared):
            self.pools.show(ranking, served=served)
        if self.coming is not None and ranking.counted and ranking.slots:
            self.coming.show(ranking, served=False)

    def prepare(self, variants: dict[str, str], shared: Collection[str], hidden: Collection[str] = ()) -> None:
        """Begin to make the pools that these variants need and that are not there."""
        fresh = self.pools.fresh(variants, shared)
        self.coming = Pools(
            self.ledger,
            self.overlay,
            self.dates,
            variants,
            shared=shared,
            hidden=hidden,
            coming=fresh,
            **self._rules,
        )

    def expire(self, at: int) -> None:
        """Show no more what has expired by this time, before the log has it.

        Of very many, pools are told of some at once: ask again while any are due.
        """
        if self.dates.due(at):
            expired = self.dates.expire(at)
            for pools in (self.pools, self.coming):
                if pools is not None:
                    pools.expect(expired)

    def request(self, name: str) -> Request | None:
        """A ranking, if it is in memory; it is used now, and is forgotten last when there are too many."""
        return self.ledger.requests.get(name) or self.overlay.rankings.get(name)

    def find(self, name: str) -> Request | None:
        """The same without noting the use."""
        return self.ledger.requests.find(name) or self.overlay.rankings.get(name)
