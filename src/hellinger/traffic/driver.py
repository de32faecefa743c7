"""A world played over HTTP: as many connections as asked for, at a chosen rate or as fast as it goes."""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from hellinger.client import AsyncClient, ClientError, Feedback, NewItem, Ranking
from hellinger.errors import require
from hellinger.traffic.tally import Baseline, SentCounts, differences
from hellinger.world.laws import SiteItem
from hellinger.world.users import DAY, Change, Reaction, Visit, World

__all__ = ["Driver", "Pace", "Report"]

_ADDED = 2000
"""Items added at a time: a stop waits for no more than these."""
_CATCH_UP = 5.0
"""Seconds that replicas of a service have to see what others have counted."""

Job = Callable[[], Awaitable[None]]


class Pace(NamedTuple):
    """How fast, and for how long.

    Attributes
    ----------
    rate
        Pages a second on average; None for as fast as it goes.
    connections
        Requests under way at once, at most.
    requests, seconds
        When to stop, whichever comes first; None for never.
    batch
        Feedback sent together.
    """

    rate: float | None = None
    connections: int = 8
    requests: int | None = None
    seconds: float | None = None
    batch: int = 50

    def check(self) -> Pace:
        """Return this, or raise where it makes no sense."""
        require(self.rate is None or self.rate > 0, "0 < rate", rate=self.rate)
        require(1 <= self.connections <= 10_000, "1 <= connections <= 10000", connections=self.connections)
        require(self.requests is None or self.requests >= 0, "0 <= requests", requests=self.requests)
        require(self.seconds is None or self.seconds >= 0, "0 <= seconds", seconds=self.seconds)
        require(1 <= self.batch <= 1000, "1 <= batch <= 1000", batch=self.batch)
        return self


class Report(NamedTuple):
    """What came of it."""

    sent: SentCounts
    seconds: float
    differences: list[str] | None
    """Between what was sent and what was counted; None where nobody looked."""


class Driver:
    """Plays a world against the service behind a client.

    Parameters
    ----------
    client
        With retries of its own.
    world
        Who comes, and what they do.
    pace
        How fast.
    weights
        Points of each kind of feedback on the service, for what is expected of it.
    verify
        Whether to compare, at the end, what was sent with what was counted.
    add
        Whether the world's items are to be added first.
    progress
        Called with what was sent so far, after every ranking.
    """

    def __init__(
        self,
        client: AsyncClient,
        world: World,
        pace: Pace,
        *,
        weights: Mapping[str, float] | None = None,
        verify: bool = False,
        add: bool = True,
        progress: Callable[[SentCounts], None] | None = None,
    ) -> None:
        self.client = client
        self.world = world
        self.pace = pace.check()
        self.verify = verify
        self.sent = SentCounts(weights=weights)
        self._weights = weights
        self._add = add
        self._progress = progress
        self._stopping = asyncio.Event()
        self._confirmed = False
        self._name = f"traffic/{world.seed}/{time.time_ns()}"
        self._due: list[tuple[int, int, Feedback]] = []
        self._pushed = 0
        self._batch: list[Feedback] = []
        self._seen: list[tuple[str, str]] = []
        self._doubtful: deque[tuple[Visit, list[str]]] = deque()
        """Requests whose answer was never seen."""
        self._unsent: deque[list[Feedback]] = deque()
        self._unseen: deque[list[tuple[str, str]]] = deque()
        self._chances = random.Random(f"{world.seed}/aborts")
        self._typical = 0.005

    def stop(self) -> None:
        """Begin no further request; what is under way is brought to its end."""
        self._stopping.set()

    async def run(self) -> Report:
        """Play until the pace says so, or :meth:`stop`."""
        answer = (await self.client.experiment()).raw
        self._confirmed = answer.get("counting") == "confirmed"
        self.sent = SentCounts(weights=self._weights, confirmed=self._confirmed)
        before = await self._counted() if self.verify else None
        items = iter(self.world.items if self._add else ())
        while not self._stopping.is_set() and (some := list(islice(items, _ADDED))):
            await self._put(some)
        began = time.perf_counter()
        queue: asyncio.Queue[Job] = asyncio.Queue(self.pace.connections)
        workers = [asyncio.create_task(self._work(queue)) for _ in range(self.pace.connections)]
        try:
            await self._play(queue, began)
            await queue.join()
            await self._finish(queue)
            await queue.join()
            seconds = time.perf_counter() - began
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        found = None
        if before is not None:
            found = await self._resolve() or await self._compare(before)
        return Report(self.sent, seconds, found)

    # Playing ------------------------------------------------------------------------------------------

    async def _play(self, queue: asyncio.Queue[Job], began: float) -> None:
        pace, world = self.pace, self.world
        speed = None if pace.rate is None else pace.rate * DAY / 1000.0 / world.users.visits  # of simulated time
        for visit in islice(world.visits(), pace.requests):
            if self._stopping.is_set():
                return
            if speed is not None:
                await self._sleep_until(began + (visit.at - world.start) / speed / 1000.0, began)
            if self._stopping.is_set() or self._over(began):
                return
            for change in world.changes(visit.at):
                await queue.put(self._changing(change))
            while self._due and self._due[0][0] <= visit.at:
                self._batch.append(heapq.heappop(self._due)[2])
                if len(self._batch) >= pace.batch:
                    await self._send(queue)
            if speed is not None:  # at a chosen rate word is passed on as it comes
                await self._send(queue)
            await queue.put(self._visiting(visit))

    async def _sleep_until(self, when: float, began: float) -> None:
        """Wait for the next visit, while word of earlier ones goes on arriving; a stop ends it."""
        if self.pace.seconds is not None:
            when = min(when, began + self.pace.seconds)
        rest = when - time.perf_counter()
        if rest > 0.0005:
            try:
                await asyncio.wait_for(self._stopping.wait(), rest)
            except TimeoutError:
                return

    def _over(self, began: float) -> bool:
        return self.pace.seconds is not None and time.perf_counter() - began >= self.pace.seconds

    async def _send(self, queue: asyncio.Queue[Job]) -> None:
        batch, self._batch = self._batch, []
        seen, self._seen = self._seen, []
        if seen:
            await queue.put(lambda: self._confirm(seen))
        if batch:
            await queue.put(lambda: self._feed(batch))

    async def _finish(self, queue: asyncio.Queue[Job]) -> None:
        """Deliver what is still on its way."""
        while self._due:
            self._batch.append(heapq.heappop(self._due)[2])
            if len(self._batch) >= self.pace.batch:
                await self._send(queue)
        await self._send(queue)

    async def _work(self, queue: asyncio.Queue[Job]) -> None:
        while True:
            job = await queue.get()
            try:
                await job()
            except ClientError:
                self.sent.failures += 1
            finally:
                queue.task_done()

    # Jobs ---------------------------------------------------------------------------------------------

    def _visiting(self, visit: Visit) -> Job:
        return lambda: self._visit(visit)

    def _changing(self, change: Change) -> Job:
        return lambda: self._put([change.item]) if change.comes else self._expire(change.item)

    async def _visit(self, visit: Visit) -> None:
        exclude = self.world.excluded(visit)
        began = time.perf_counter()
        asked = self._ask(visit, exclude)
        try:
            if visit.fate == "aborted":
                ranking = await asyncio.wait_for(asked, self._chances.random() * self._typical)
            else:
                ranking = await asked
        except TimeoutError:
            self.sent.aborted += 1
            self._doubtful.append((visit, exclude))
            return
        except ClientError:
            self._doubtful.append((visit, exclude))
            raise
        spent = time.perf_counter() - began
        self.sent.latencies.append(spent)
        self._typical += 0.05 * (spent - self._typical)
        self._answered(visit, ranking)

    async def _ask(self, visit: Visit, exclude: list[str]) -> Ranking:
        key = f"{self._name}/{visit.number}"
        context = self.world.context(visit)
        return await self.client.rank(self.world.users.k, user=visit.user, exclude=exclude, key=key, context=context)

    def _answered(self, visit: Visit, ranking: Ranking) -> None:
        self.sent.ranked(ranking)
        if visit.fate == "read":
            looked, reactions = self.world.react(visit, ranking.ids)
            if self._confirmed:
                self._seen += [(ranking.ranking_id, item) for item in looked]
            for reaction in reactions:
                self._pushed += 1
                heapq.heappush(self._due, (reaction.arrives, self._pushed, _feedback(ranking.ranking_id, reaction)))
        else:
            self.sent.abandoned += 1
        if self._progress is not None:
            self._progress(self.sent)

    async def _feed(self, batch: list[Feedback]) -> None:
        try:
            outcome = await self.client.feedback(batch)
        except ClientError:
            self._unsent.append(batch)
            raise
        for event in batch:
            self.sent.fed_back(event.ranking_id, event.item, event.kind)
        self.sent.outcome += outcome

    async def _confirm(self, seen: list[tuple[str, str]]) -> None:
        try:
            outcome = await self.client.impressions(seen)
        except ClientError:
            self._unseen.append(seen)
            raise
        for request, item in seen:
            self.sent.saw(request, item)
        self.sent.seen += outcome

    async def _put(self, items: list[SiteItem]) -> None:
        await self.client.add_items([_new(item) for item in items])
        self.sent.added += len(items)

    async def _expire(self, item: SiteItem) -> None:
        await self.client.add_items([_new(item, datetime.now(UTC))])
        self.sent.expired += 1

    # Verifying ----------------------------------------------------------------------------------------

    async def _resolve(self) -> list[str]:
        """Find out what became of requests without an answer: asked again under the same key, they count once."""
        try:
            while self._doubtful:
                visit, exclude = self._doubtful[0]
                self.sent.ranked(await self._ask(visit, exclude))
                self._doubtful.popleft()
                self.sent.resolved += 1
            while self._unseen:
                await self._confirm(self._unseen[0])
                self._unseen.popleft()
            while self._unsent:
                await self._feed(self._unsent[0])
                self._unsent.popleft()
        except ClientError as error:
            return [f"what became of {len(self._doubtful)} requests cannot be found out: {error}"]
        return []

    async def _counted(self) -> Baseline:
        experiment = await self.client.experiment()
        return Baseline.of(experiment, [item async for item in self.client.items()])

    async def _compare(self, before: Baseline) -> list[str]:
        until = time.monotonic() + _CATCH_UP
        while True:
            found = differences(before, await self._counted(), self.sent)
            if not found or time.monotonic() > until:
                return found
            await asyncio.sleep(0.5)


def _new(item: SiteItem, expires_at: datetime | None = None) -> NewItem:
    return NewItem(item.id, item.tags, expires_at, group=item.group, features=item.features)


def _feedback(request: str, reaction: Reaction) -> Feedback:
    happened = datetime.fromtimestamp(reaction.happened / 1000, UTC)
    return Feedback(request, reaction.item, reaction.kind, at=happened)
