"""A world played against a desk, with its own time instead of the clock's: months in seconds.

Everything goes through the code that serves requests: :meth:`Desk.rank` ranks and counts, :meth:`Desk.sort` sorts
feedback, :meth:`Desk.commit` takes in what the log has got, in the log's order. Only the waiting is left out.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from hellinger.engine.desk import Desk
from hellinger.engine.drafts import DraftRow, GivenFeedback, Query
from hellinger.events import Row
from hellinger.store import Store
from hellinger.world.laws import SiteItem
from hellinger.world.site import Floats, Ints
from hellinger.world.users import World

__all__ = ["DeskPlayer", "Log", "Played", "play"]

_CHORES = 3_600_000
"""Milliseconds between two deliveries of items, and two looks at what has expired."""

Progress = Callable[[int], None]
"""Called with the time that has been reached."""


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
        Called with the time reached, some hundred times in all.
    """
    return _Player(world, desk, log or Log(desk.ledger.seq)).play(until, progress)


class _AtDesk:
    """What everybody does who plays against a desk: describe items, and commit drafts in the log's order."""

    def __init__(self, desk: Desk, log: Log) -> None:
        self.desk = desk
        self.log = log
        self.drafts: list[DraftRow] = []

    def _describe(self, items: Iterable[tuple[SiteItem, int | None]], at: int) -> None:
        """Add items, or say when they expire."""
        described = [
            {"id": item.id, "tags": sorted(item.tags), "expires_at": expires_at, "metadata": None}
            | ({"group": list(item.group)} if item.group else {})
            | ({"features": item.features} if item.features else {})
            for item, expires_at in items
        ]
        self.drafts += self.desk.describe(described, at)
        self._commit(at)

    def _deliver(self, given: list[GivenFeedback], at: int) -> None:
        """Hand over feedback."""
        once = {(one.request, one.item, one.kind): one for one in given}  # as the log would have it
        self.drafts += self.desk.sort(list(once.values()), at).drafts
        self._commit(at)

    def _commit(self, at: int) -> None:
        drafts, self.drafts = self.drafts, []
        self.desk.commit_own([self.log.place(draft) for draft in drafts])
        if learned := self.desk.learn(at):
            self.desk.commit_own([self.log.place(draft) for draft in learned])
        for model in self.desk.ledger.models.of.values():  # whatever the clock says: the same seed, the same months
            model.catch_up()
        self.desk.finish()


class DeskPlayer(_AtDesk):
    """The service as a player of a simulated :class:`~hellinger.world.site.Site`, a page a second; clicks are feedback.

    The desk counts impressions when it ranks, as its settings say, and rewards when the site reads them.

    ``ends``: when an item expires, by its number, where the desk is told so as the item comes. ``segments``: of users,
    as the site has them; rankings have none where all users are of one.
    """

    def __init__(
        self,
        desk: Desk,
        items: int,
        *,
        start: int = 0,
        ends: Callable[[int], int | None] | None = None,
        segments: int = 1,
    ) -> None:
        super().__init__(desk, Log(desk.ledger.seq))
        self._at = start
        self._ends = ends
        self._named = segments > 1
        self._here = [SiteItem(f"item-{number}", 0.0) for number in range(items)]
        self._place = {item.id: place for place, item in enumerate(self._here)}
        self._rankings: list[deque[str]] = [deque() for _ in range(items)]
        """By place, the rankings whose feedback has not been read."""
        self._describe([(item, self._end(number)) for number, item in enumerate(self._here)], start)

    def _end(self, number: int) -> int | None:
        return None if self._ends is None else self._ends(number)

    def choose(self, slots: int, segments: Ints) -> Ints:
        """What the desk ranks for one user after the other."""
        rows = []
        for segment in segments.tolist():
            self._at += 1000
            draft = self.desk.rank(Query(slots, segment=str(segment) if self._named else None), self._at)
            self.drafts.append(draft)
            rows.append([self._place[item] for item in draft.fields["items"]])
            for place in rows[-1]:
                self._rankings[place].append(draft.event.key)
        self._commit(self._at)
        return np.array(rows)

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Send the clicks."""
        given = []
        for place, reward in zip(places.tolist(), rewards.tolist(), strict=True):
            rankings = [self._rankings[place].popleft() for _ in range(impressions)]
            given += [GivenFeedback(name, self._here[place].id, "click") for name in rankings[: round(reward)]]
        self._deliver(given, self._at)

    def renew(self, places: Ints, items: Ints) -> None:
        """Let the old items expire, and add the new."""
        for place, number in zip(places.tolist(), items.tolist(), strict=True):
            old, new = self._here[place], SiteItem(f"item-{number}", 0.0)
            self._here[place], self._rankings[place] = new, deque()
            self._place[new.id] = place
            self._describe([(old, self._at), (new, self._end(number))], self._at)
        self.drafts += self.desk.chores(self._at)
        self._commit(self._at)


class _Player(_AtDesk):
    def __init__(self, world: World, desk: Desk, log: Log) -> None:
        super().__init__(desk, log)
        self.world = world
        self.due: list[tuple[int, int, GivenFeedback]] = []

    def play(self, until: int, progress: Progress | None) -> Played:
        world, desk, due = self.world, self.desk, self.due
        self._describe([(item, None) for item in world.items], world.start)
        reported = chores = world.start
        requests = impressions = feedback = 0
        for visit in world.visits():
            at = visit.at
            if at > until:
                break
            if due and due[0][0] <= at:
                feedback += self._arrived(at)
            if at - chores > _CHORES:
                chores = at
                self._renew(at)
            query = Query(world.users.k, visit.user, None, world.excluded(visit), context=world.context(visit))
            draft = desk.rank(query, at)
            self.drafts.append(draft)
            items = draft.fields["items"]
            requests += 1
            impressions += len(items)
            if visit.fate != "aborted":
                name = draft.event.key
                for reaction in world.react(visit, items)[1]:
                    what = GivenFeedback(name, reaction.item, reaction.kind, happened=reaction.happened)
                    heapq.heappush(due, (reaction.arrives, len(due), what))
            if progress is not None and at - reported > (until - world.start) / 200:
                reported = at
                progress(at)
        feedback += self._arrived(until)
        self._renew(until)
        self._commit(until)
        self.log.flush()
        return Played(requests, impressions, feedback)

    def _renew(self, at: int) -> None:
        """Items that have come, those that have gone, and what follows from it."""
        changes = self.world.changes(at)
        if changes:
            self._describe([(change.item, None if change.comes else at) for change in changes], at)
        self.drafts += self.desk.chores(at)

    def _arrived(self, at: int) -> int:
        """Hand over the feedback that has arrived; how much."""
        given = []
        while self.due and self.due[0][0] <= at:
            given.append(heapq.heappop(self.due)[2])
        self._deliver(given, at)
        return len(given)
