"""A world played against a desk, with its own time instead of the clock's: months in seconds.

Everything goes through the code that serves requests: :meth:`Desk.rank` ranks and counts, :meth:`Desk.sort` sorts
feedback, :meth:`Desk.commit` takes in what the log has got, in the log's order. Only the waiting is left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from hellinger.engine.desk import Desk
from hellinger.engine.drafts import DraftRow, GivenFeedback, Query
from hellinger.events import Row
from hellinger.store import Store
from hellinger.traffic.contents import Content
from hellinger.traffic.world import World

__all__ = ["Log", "Played", "play"]

_CHORES = 3_600_000
"""Milliseconds between two deliveries of items, and two looks at what has expired."""

Progress = Callable[[int], None]
"""Told the time that has been reached."""


class Played(NamedTuple):
    """What was played."""

    requests: int
    impressions: int
    feedback: int


class Log:
    """Gives events their places, and writes them to a store many at a time; without one it only counts.

    Nobody else may write meanwhile: an event's place is known before it is written, and checked when it is.
    """

    def __init__(self, seq: int, store: Store | None = None, *, size: int = 8192) -> None:
        self.seq = seq
        self._store = store
        self._size = size
        self._waiting: list[Row] = []

    def place(self, draft: DraftRow) -> tuple[int, DraftRow]:
        """The event's place, and the draft itself."""
        self.seq += 1
        if self._store is not None:
            self._waiting.append(draft[0])
            if len(self._waiting) >= self._size:
                self.flush()
        return self.seq, draft

    def flush(self) -> None:
        """Write what waits."""
        if self._store is None or not self._waiting:
            return
        events, self._waiting = self._waiting, []
        first = self.seq - len(events) + 1
        found = self._store.append(events, first - 1).seqs
        if found != list(range(first, self.seq + 1)):
            raise RuntimeError(f"events {first} to {self.seq} have other places in the log: somebody else writes to it")


def play(world: World, desk: Desk, until: int, *, log: Log | None = None, progress: Progress | None = None) -> Played:
    """Play the world from its start until a time; what has not arrived by then never does.

    Parameters
    ----------
    log
        Where events go; nowhere if not given.
    progress
        Told the time reached, some hundred times in all.
    """
    return _Player(world, desk, log or Log(desk.ledger.seq)).play(until, progress)


class _Player:
    def __init__(self, world: World, desk: Desk, log: Log) -> None:
        self.world = world
        self.desk = desk
        self.log = log
        self.drafts: list[DraftRow] = []
        self.due: list[tuple[int, int, GivenFeedback]] = []

    def play(self, until: int, progress: Progress | None) -> Played:
        world, desk, due = self.world, self.desk, self.due
        self._describe([(content, None) for content in world.contents], world.start)
        told = chores = world.start
        requests = impressions = feedback = 0
        for visit in world.visits():
            at = visit.at
            if at > until:
                break
            if due and due[0][0] <= at:
                feedback += self._deliver(at)
            if at - chores > _CHORES:
                chores = at
                self._renew(at)
            draft = desk.rank(Query(world.plan.k, visit.user, None, world.excluded(visit)), at)
            self.drafts.append(draft)
            items = draft.fields["items"]
            requests += 1
            impressions += len(items)
            if visit.fate != "aborted":
                name = draft.event.key
                for reaction in world.react(visit, items)[1]:
                    what = GivenFeedback(name, reaction.item, reaction.kind, happened=reaction.happened)
                    heapq.heappush(due, (reaction.arrives, len(due), what))
            if progress is not None and at - told > (until - world.start) / 200:
                told = at
                progress(at)
        feedback += self._deliver(until)
        self._renew(until)
        self._commit(until)
        self.log.flush()
        return Played(requests, impressions, feedback)

    def _renew(self, at: int) -> None:
        """Contents that have come, those that have gone, and what follows from it."""
        changes = self.world.changes(at)
        if changes:
            self._describe([(change.content, None if change.comes else at) for change in changes], at)
        self.drafts += self.desk.chores(at)

    def _describe(self, contents: list[tuple[Content, int | None]], at: int) -> None:
        items = [
            {"id": content.id, "tags": sorted(content.tags), "expires_at": expires_at, "metadata": None}
            for content, expires_at in contents
        ]
        self.drafts += self.desk.describe(items, at)
        self._commit(at)

    def _deliver(self, at: int) -> int:
        """Hand over the feedback that has arrived; how much."""
        given = []
        while self.due and self.due[0][0] <= at:
            given.append(heapq.heappop(self.due)[2])
        once = {(one.request, one.item, one.kind): one for one in given}  # as the log would have it
        self.drafts += self.desk.sort(list(once.values()), at).drafts
        self._commit(at)
        return len(given)

    def _commit(self, at: int) -> None:
        drafts, self.drafts = self.drafts, []
        self.desk.commit_own([self.log.place(draft) for draft in drafts])
        if learned := self.desk.learn(at):
            self.desk.commit_own([self.log.place(draft) for draft in learned])
