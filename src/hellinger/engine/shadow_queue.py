"""Rankings that shadows are to rank too, after their answers are sent: so many as leave other rankings their time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft, Query
from hellinger.engine.journal import Journal
from hellinger.events import now

__all__ = ["GAP", "LIMIT", "SHARE", "ShadowQueue", "pause_after"]

log = logging.getLogger(__name__)

LIMIT = 20
"""Rankings that may wait; one that comes while there are so many is left out."""
REST = 0.005
"""Seconds before the first of some: their answers are on their way by then."""
GAP = 0.01
"""Least seconds from one to the next: a hundred a second tell enough, and the log grows by no more events."""
SHARE = 0.2
"""Most of the loop's time that they may take, however long one of them takes."""


def pause_after(seconds: float) -> float:
    """How long to rest after one that has taken so many seconds.

    >>> pause_after(0.0002), pause_after(0.05)
    (0.01, 0.2)
    """
    return max(GAP, seconds * (1.0 / SHARE - 1.0))


class ShadowQueue:
    """Rankings of this replica that wait for the shadows of their experiments.

    Which are left out where there are too many depends on the load, and never on what a ranking earns. What is waiting
    when the service ends is left out too: shadows are compared by the rankings that the log says they have ranked.

    Parameters
    ----------
    desk
        Gives that of the moment.
    journal
        Takes what shadows would have shown.
    """

    def __init__(self, desk: Callable[[], Desk], journal: Journal) -> None:
        self._desk = desk
        self._journal = journal
        self._waiting: deque[tuple[Query, Draft]] = deque()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, query: Query, made: Draft) -> bool:
        """Have a ranking ranked by shadows that the log has; whether there is room for it."""
        if len(self._waiting) >= LIMIT:
            return False
        self._waiting.append((query, made))
        self._some.set()
        return True

    async def run(self) -> None:
        """Rank what is waiting, one after the other, without end."""
        while True:
            if not self._waiting:
                self._some.clear()
                await self._some.wait()
                await asyncio.sleep(REST)
            begun = time.perf_counter()
            try:
                self._take(*self._waiting.popleft())
            except Exception:
                log.exception("a shadow could not rank")
            await asyncio.sleep(pause_after(time.perf_counter() - begun))

    def _take(self, query: Query, made: Draft) -> None:
        desk, journal = self._desk(), self._journal
        if journal.failure is not None or journal.away or journal.waiting >= journal.limit:
            return
        try:
            draft = desk.shadow(query, made, now())
        except Exception as error:
            if desk.pools.failure is not None:
                journal.fail(error)
            raise
        if draft is None:
            return
        requests, holds = desk.ledger.requests, [made.event.key]
        requests.pin(holds)  # until the log has it and it is counted
        try:
            journal.write((draft,), holds=holds).add_done_callback(_retrieve)
        except BaseException:
            requests.release(holds)
            raise


def _retrieve(written: asyncio.Future[list[int | None]]) -> None:
    """Nobody waits for it: where the store is away, the ranking is left out."""
    if not written.cancelled():
        written.exception()
