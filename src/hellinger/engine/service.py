"""The running service: desk, journal and store together, and what has to be done from time to time."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import hmac
import logging
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from hellinger.engine import learning, positions
from hellinger.engine.allocation import Allocation
from hellinger.engine.best import warm_bounds
from hellinger.engine.counters import Counters
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft, FeedbackRow, Query, Sorted
from hellinger.engine.experiments import Experiments
from hellinger.engine.exploring import Exploring
from hellinger.engine.feedback import points
from hellinger.engine.journal import FAR, SLICE, Journal, NotAppliedError, explained, pause
from hellinger.engine.settings import Settings
from hellinger.engine.shadow_queue import ShadowQueue
from hellinger.engine.snapshots import WORTH, Snapshots
from hellinger.engine.state import HOUR
from hellinger.engine.warming import compile_apart
from hellinger.errors import require
from hellinger.events import Logged, now
from hellinger.experiment import Split
from hellinger.ledger import Ledger, Request, UnknownKindError, recovery
from hellinger.pool import Leaving
from hellinger.store import Store, StoreError, StoreUnavailableError, open_store

__all__ = ["FeedbackOutcome", "Service", "Status", "make_desk"]

log = logging.getLogger(__name__)

T = TypeVar("T")

CHORES = 0.25
"""Seconds between two rounds of chores."""
PATIENCE = 2.0
"""Seconds that a reading of the log may take."""
RECALLS = 4
"""Readings at once that rankings and feedback wait for."""
_REQUEST = re.compile(r"[A-Za-z0-9_-]{22}").fullmatch
"""What every request's name looks like: see ``hellinger.events.new_request``."""
PART = 1_000
"""Feedback, or rows of an import, that are classified at once, while rankings wait: a millisecond. Items and feedback
that are written at once: some ten milliseconds."""
WRITING = 1.0
"""Seconds of writing what is due, such as items that left, after which other chores have their turn."""
SWEEP = 60.0
"""Seconds between two looks for items beyond hope."""
PACE = 60.0
"""Seconds between two events of this replica's that say how much traffic there is: where another's clock is wrong by
hours, each finds at every look that what the other has said does not hold."""


class FeedbackOutcome(NamedTuple):
    """What became of feedback or confirmations."""

    accepted: int
    duplicate: int
    late: int
    unknown: int
    rejected: list[tuple[int, str]]


class Status(NamedTuple):
    """Whether rankings can be had, and what is wrong.

    ``name`` is ``ready``; ``degraded`` while the store is away (rankings come from memory alone, and feedback is
    refused), memory is made anew from the log, or this replica is far behind it; ``refusing`` where the log needs a
    newer version.
    """

    name: str
    ready: bool
    reason: str | None = None


class Service:
    """Ranks and learns, durably. Made by :meth:`start`, on a running event loop."""

    def __init__(
        self, settings: Settings, store: Store, desk: Desk, counters: Counters, secret: bytes, *, leads: bool = True
    ) -> None:
        self.settings = settings
        self.leads = leads
        """Whether this one does what one of several workers is enough for: snapshots, priors, dates of expiry."""
        self.counters = counters
        self.store = store
        self.desk = desk
        self.journal = Journal(
            store,
            desk,
            limit=settings.queue_limit,
            poll=settings.poll_ms / 1000,
            measure=self._measure,
            on_failure=self._begin_rebuild,
        )
        self.experiments = Experiments(settings, self.journal, lambda: self.desk.ledger)
        self.shadows = ShadowQueue(lambda: self.desk, self.journal)
        self._rebuilding: asyncio.Task[None] | None = None
        self.rebuilt = 0
        """How often memory was made anew from the log."""
        self.secret = secret
        self.began = time.time()
        self.snapshots = Snapshots(settings, desk.ledger.saved, desk.ledger.seq)
        self._recalls = ThreadPoolExecutor(RECALLS, "recall")
        """Reads what rankings and feedback wait for: other threads may all be busy with what somebody looks at."""
        self._naming: dict[str, asyncio.Task[dict[str, Any]]] = {}
        """Rankings under way that were asked for by an idempotency key."""
        self._tasks = [
            asyncio.create_task(self._again(CHORES, self._keep_house), name="chores"),
            asyncio.create_task(self._again(CHORES, self.catch_up), name="catch up"),
            asyncio.create_task(self.shadows.run(), name="shadows"),
        ]
        self.clock: Callable[[], float] = time.monotonic
        """Seconds that only pass, whatever is set."""
        self._swept = self.clock()
        self._paced = self.clock() - PACE

    @classmethod
    async def start(cls, settings: Settings, counters: Counters | None = None, *, worker: int | None = None) -> Service:
        """Open the store, fold the log, and be ready to rank.

        Parameters
        ----------
        worker
            Which of several workers this is; their supervisor has reserved the database for all of them.
        """
        began = time.perf_counter()
        store = await asyncio.to_thread(open_store, settings.database, exclusive=worker is None)
        try:
            await asyncio.to_thread(compile_apart, frozenset(settings.variants.values()))
            ledger = await asyncio.to_thread(recovery.recover, store, cache=settings.request_cache)
            secret = await asyncio.to_thread(store.secret)
            desk = await asyncio.to_thread(make_desk, settings, ledger, secret)
        except BaseException:
            store.close()
            raise
        service = cls(settings, store, desk, counters or Counters(), secret, leads=not worker)
        with suppress(StoreUnavailableError):
            if service.leads:
                await service.experiments.begin()
            await service.learn()
        gc.collect()
        gc.freeze()  # what was loaded stays: to look through it again and again would hold up rankings
        seconds = time.perf_counter() - began
        log.info("ready with %d items at event %d after %.1f s", len(ledger.catalogue), ledger.seq, seconds)
        return service

    async def stop(self) -> None:
        """Write what waits, take a snapshot where it is worth it, and let go."""
        tasks = [task for task in (*self._tasks, self._rebuilding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.snapshots.stop()
        if self.journal.failure is None:
            while drafts := self.chores():
                self.journal.write(drafts, lasting=True)
        await self.journal.close(self.settings.drain_seconds)
        if (
            self.leads
            and self.journal.failure is None
            and not self.journal.away
            and self.desk.ledger.seq - self.snapshots.seq >= WORTH
        ):
            try:
                reached = await asyncio.to_thread(recovery.take_snapshot, self.store)
                log.info("snapshot at event %d", reached)
            except StoreError as error:
                log.error("no snapshot: %s", error)
        self._recalls.shutdown(wait=False, cancel_futures=True)
        self.store.close()
        gc.unfreeze()

    # Requests -----------------------------------------------------------------------------------------

    async def rank(self, query: Query, idempotency_key: str | None = None, caller: str = "") -> dict[str, Any]:
        """A ranking, durable before it is answered while the store is there; fields of its event, and its name.

        An idempotency key is the ``caller``'s own: another's ranking cannot be had by guessing it.
        """
        if idempotency_key is not None:
            name = self._named(f"{caller}\0{idempotency_key}")
            under_way = self._naming.get(name)
            if under_way is None:
                under_way = self._naming[name] = asyncio.create_task(self._rank_named(query, name))
                under_way.add_done_callback(lambda _: self._naming.pop(name))
            return await asyncio.shield(under_way)
        draft = self._rank(query)
        if await self.journal.write((draft,), lasting=True) and self.desk.shadows:  # not while the store is away
            self.shadows.offer(query, draft)
        return {**draft.fields, "ranking_id": draft.event.key}

    def _rank(self, query: Query, name: str | None = None) -> Draft:
        self.journal.admit()
        try:
            return self.desk.rank(query, now(), name)
        except Exception as error:
            if self.desk.pools.failure is None:
                raise
            self.journal.fail(error)
            raise NotAppliedError(explained(error)) from error

    async def _rank_named(self, query: Query, name: str) -> dict[str, Any]:
        """The one ranking of this name: as the log has it, or a new one for the log to have.

        It is written without looking first: the log takes one of a name, and where it had one already that is read.
        """
        known = None
        if name in self.desk.ledger.requests or name in self.desk.named:
            try:
                known = await self._logged(name)
            except StoreUnavailableError:
                known = self._remembered(name)
        if known is None:
            draft = self._rank(query, name)
            known = draft.fields
            written = await self.journal.write((draft,), lasting=True)
            if written == [None]:
                known = await self._logged(name) or known
            elif written and self.desk.shadows:
                self.shadows.offer(query, draft)
        return {**known, "ranking_id": name}

    def _named(self, key: str) -> str:
        digest = hmac.new(self.secret, key.encode(), hashlib.sha256).digest()[:16]
        return urlsafe_b64encode(digest).decode().rstrip("=")

    async def _logged(self, name: str) -> dict[str, Any] | None:
        """The ranking that the log has under this name."""
        for event in await self._ask(self._recalls, self.store.thread, [name]):
            if event.kind == "rank":
                return event.fields
        return None

    def _remembered(self, name: str) -> dict[str, Any] | None:
        """What is known of a ranking without the log: its scores are not, once the log has it."""
        request = self.desk.state.request(name)
        if request is None:
            return self.desk.named.get(name)
        return {"variant": request.variant, "items": request.items, "scores": [None] * len(request.items)}

    async def feedback(self, given: Sequence[FeedbackRow]) -> FeedbackOutcome:
        """Take feedback in; what is accepted is durable, and the next ranking knows of it.

        Much of it is taken in parts, so that rankings do not wait. Where one fails, those before have been accepted:
        sent again, they are duplicates.
        """
        return await self._in_parts(
            given, lambda part: self._take([one[0] for one in part], lambda: self.desk.sort(part, now()))
        )

    async def seen(self, given: Sequence[tuple[str, str]]) -> FeedbackOutcome:
        """Take confirmed impressions in."""
        return await self._in_parts(
            given, lambda part: self._take([name for name, _ in part], lambda: self.desk.sort_seen(part, now()))
        )

    async def _in_parts(
        self, given: Sequence[T], take: Callable[[Sequence[T]], Awaitable[FeedbackOutcome]]
    ) -> FeedbackOutcome:
        """What became of all, taken ``PART`` at a time."""
        if len(given) <= PART:
            return await take(given)
        whole = FeedbackOutcome(0, 0, 0, 0, [])
        for start in range(0, len(given), PART):
            part = await take(given[start : start + PART])
            whole = FeedbackOutcome(
                whole.accepted + part.accepted,
                whole.duplicate + part.duplicate,
                whole.late + part.late,
                whole.unknown + part.unknown,
                whole.rejected + [(start + index, reason) for index, reason in part.rejected],
            )
        return whole

    async def _take(self, names: Sequence[str], sort: Callable[[], Sorted]) -> FeedbackOutcome:
        """Recall these rankings, and keep them in memory until what is said of them has taken effect."""
        self.journal.admit(0)
        desk, requests = self.desk, self.desk.ledger.requests
        holds = [name for name in dict.fromkeys(names) if _REQUEST(name)]  # "item" is the beginning of others' keys
        requests.pin(holds)
        try:
            missing = desk.missing(holds)
            if missing:
                thread = await self._ask(self._recalls, self.store.thread, missing)
                if self.desk is not desk:
                    raise NotAppliedError("memory was rebuilt from the log meanwhile; send it again")
                desk.recall(thread)
                if not desk.named.keys().isdisjoint(desk.missing(missing)):  # made while the store was away
                    raise StoreUnavailableError("the log has yet to get a ranking that this is about: send it again")
            sorted_ = sort()
            written = self.journal.write(sorted_.drafts, holds=holds)
        except BaseException:
            requests.release(holds)
            raise
        return self._outcome(sorted_, await written)

    async def _ask(
        self, threads: Executor | None, read: Callable[..., list[Logged]], *arguments: object
    ) -> list[Logged]:
        """What the store reads, in one of these threads; it is not waited for where it does not answer."""
        if self.journal.away:
            raise StoreUnavailableError("the store is away")
        try:
            reading = asyncio.get_running_loop().run_in_executor(threads, read, *arguments)
            return await asyncio.wait_for(reading, PATIENCE)
        except TimeoutError:
            raise StoreUnavailableError("the store does not answer") from None

    def _outcome(self, sorted_: Sorted, places: list[int | None]) -> FeedbackOutcome:
        fresh = set(sorted_.places)
        if None in places:  # the log had these already
            fresh = {j for j, seq in zip(sorted_.places, places, strict=True) if seq is not None}
        late = len(sorted_.late & fresh) + len(sorted_.late.difference(sorted_.places))
        again = len(sorted_.duplicate) + len(places) - len(fresh)
        outcome = FeedbackOutcome(len(fresh - sorted_.late), again, late, len(sorted_.unknown), sorted_.rejected)
        counters = self.counters
        counters.accepted.add(outcome.accepted)
        counters.duplicate.add(outcome.duplicate)
        counters.late.add(outcome.late)
        counters.unknown.add(outcome.unknown)
        counters.rejected.add(len(outcome.rejected))
        return outcome

    async def describe(self, items: list[dict[str, Any]]) -> tuple[int, int, int]:
        """Add items or change them; how many are new, changed, and as they were.

        Many are written in parts, as feedback is: rankings wait for the transaction before theirs. Where one fails,
        those before have been taken in: sent again, they are as they were.
        """
        if any(item["id"] in self.desk.ledger.catalogue.slots for item in items):
            await self.journal.look()  # another replica may have changed them a moment ago
        known = self.desk.ledger.catalogue.slots
        names = {item["id"] for item in items}
        added = sum(name not in known for name in names)
        drafts: list[Draft] = []
        last = list({item["id"]: item for item in items}.values())  # of several with one id the last one counts
        for start in range(0, len(last), SLICE):
            begun = time.perf_counter()
            drafts += self.desk.describe(last[start : start + SLICE], now())
            if start + SLICE < len(last):
                await pause(begun)
        self.journal.admit(len(drafts))
        for start in range(0, len(drafts), PART):
            await self.journal.write(drafts[start : start + PART])
        return added, len(drafts) - added, len(names) - len(drafts)

    async def slot(self, item: str) -> int | None:
        """The slot of an item. Where it is not known, another replica may have added it a moment ago."""
        known = self.desk.ledger.catalogue.slots
        if item not in known:
            await self._look()
        return known.get(item)

    async def _look(self) -> None:
        with suppress(StoreUnavailableError):  # what is known without the store has to do then
            await self.journal.look()

    async def set_state(self, item: str, state: str) -> None:
        """Bring an item to a state."""
        await self.journal.write((self.desk.set_state(item, state, now()),))

    async def import_counts(
        self, batch: str, variant: str | None, segment: str | None, rows: list[dict[str, Any]]
    ) -> tuple[int, bool, int, list[tuple[int, str]]]:
        """Import counts from elsewhere: rows accepted, whether the batch was there, rows unknown and rejected."""
        known, good, unknown, rejected = self.desk.ledger.catalogue.slots, [], 0, []
        require(variant is None or variant in self.desk.variants, "variant is one of those configured", variant=variant)
        if any(row["item"] not in known for row in rows):
            await self._look()
        begun = time.perf_counter()
        for j, row in enumerate(rows):
            if j % PART == PART - 1:
                await pause(begun)
                begun = time.perf_counter()
            if row["item"] not in known:
                unknown += 1
            elif row["rewards"] > row["impressions"]:
                problem = f"got rewards={row['rewards']!r} for impressions={row['impressions']!r}"
                rejected.append((j, f"`rewards <= impressions` must hold, but {problem}"))
            elif row["from"] and row["to"] and row["from"] > row["to"]:
                rejected.append((j, "`from <= to` must hold"))
            else:
                good.append(row | {"rewards": _exact(row["rewards"])})
        if not good:
            return 0, False, unknown, rejected
        fields = {"batch": batch, "variant": variant, "segment": segment, "rows": good}
        draft = Draft.of(f"import/{batch}", "import", now(), fields)
        (seq,) = await self.journal.write((draft,))
        return (len(good) if seq is not None else 0), seq is None, unknown, rejected

    async def metadata(self, slots: Sequence[int]) -> list[dict[str, Any] | None]:
        """What was last said of these items, from the log; nothing while the store is away."""
        said = [int(self.desk.ledger.catalogue["said"][slot]) for slot in slots]
        try:
            found = {event.seq: event.fields for event in await self._ask(None, self.store.at, said)}
        except StoreUnavailableError:
            found = {}
        return [found.get(seq, {}).get("metadata") for seq in said]

    def status(self) -> Status:
        """How the service is."""
        failure = self.journal.failure
        if failure is not None:
            name = "refusing" if isinstance(failure, UnknownKindError) else "degraded"
            return Status(name, False, explained(failure))
        if self.journal.away:
            return Status("degraded", True, "the store cannot be reached; rankings come from memory alone")
        if self.journal.behind > FAR:
            return Status("degraded", False, f"{self.journal.behind} events of the log are not applied yet")
        return Status("ready", True)

    @property
    def lag(self) -> float:
        """Seconds since the store was last found well; 0 while nothing is wrong."""
        return time.monotonic() - self.journal.reached if self.journal.away or self.journal.waiting else 0.0

    def _measure(self, events: int, seconds: float) -> None:
        self.counters.commit_events.observe(events)
        self.counters.commit_seconds.observe(seconds)

    # From time to time --------------------------------------------------------------------------------

    async def _again(self, seconds: float, what: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again, with so many seconds between; not while memory is made anew."""
        while True:
            await asyncio.sleep(seconds)
            self.journal.watch()
            if self.journal.failure is not None:
                continue
            try:
                await what()
            except StoreUnavailableError as error:
                log.info("a chore is put off: %s", error)
            except Exception:
                log.exception("a chore failed")

    async def _keep_house(self) -> None:
        if self.clock() - self._swept > SWEEP:
            self._swept = self.clock()
            self.desk.sweep()
        began = begun = time.perf_counter()
        while begun - began < WRITING and (drafts := self.chores()):
            # not all at once: a ranking that comes meanwhile is written after the next of them, not after the last
            spent = time.perf_counter() - begun
            await asyncio.gather(self.journal.write(drafts, lasting=True), asyncio.sleep(spent))
            begun = time.perf_counter()
        await self.learn()
        if self.leads and not self.journal.away:
            await self.snapshots.consider(self.desk.ledger.seq)

    async def catch_up(self) -> None:
        """Let the pools look up what has changed; rankings are made between two slices."""
        desk = self.desk
        try:
            begun = time.perf_counter()
            for _ in desk.catch_up():
                await pause(begun)
                if self.desk is not desk:
                    return
                begun = time.perf_counter()
        except Exception:
            if desk.pools.failure is None or self.desk is not desk:
                raise
        if desk.pools.failure is not None and self.journal.failure is None:
            self.journal.fail(desk.pools.failure)
            raise NotAppliedError(explained(desk.pools.failure))

    def chores(self) -> list[Draft]:
        """Drafts of what time itself does; one worker is enough to log that an item has expired, and all see it."""
        return self.desk.chores(now(), expired=self.leads)

    async def learn(self) -> None:
        """Fit priors and the curve of positions where due, in another thread; each is in force once the log has it."""
        if not self.leads:
            return
        rested = self.clock() - self._paced >= PACE
        if rested and not self.journal.away and (paces := self.desk.note_pace(now())):
            self._paced = self.clock()
            await self.journal.write(paces)
        if not self.journal.away and (said := self.desk.say_positions(now())):
            await self.journal.write(said)
        for wanted in learning.due(self.desk.state):
            if self.journal.away:
                return
            draft = await asyncio.to_thread(learning.fit, wanted, now())
            await self.journal.write((draft,))
        ledger = self.desk.ledger
        if positions.due(ledger) and not self.journal.away:
            looks = {stretch: list(rewards) for stretch, rewards in ledger.looks.rewards.items()}
            draft = await asyncio.to_thread(positions.draft, looks, ledger.curve, now())
            await self.journal.write((draft,))

    # After a failure ----------------------------------------------------------------------------------

    def _begin_rebuild(self) -> None:
        self._rebuilding = asyncio.create_task(self._rebuild(), name="rebuild")

    async def _rebuild(self) -> None:
        """Make memory anew from the log, and go on from there; rankings are refused meanwhile."""
        await self.journal.parked()
        pause = 0.1
        while True:
            try:
                desk = await asyncio.to_thread(self._fold)
                break
            except UnknownKindError as error:
                self.journal.failure = error
                log.error("this version cannot serve this log: %s", error)
                return
            except Exception as error:
                log.exception("memory could not be made anew; trying again in %.1f s", pause)
                self.journal.failure = error
                await asyncio.sleep(pause)
                pause = min(10.0, 2.0 * pause)
        for (key, kind, at, _), fields in self.journal.unwritten():
            if kind == "rank":
                desk.adopt(key, Request.of(at, fields), self.desk.named.get(key))
        self.desk = desk
        self.rebuilt += 1
        self.journal.resume(desk)
        log.warning("memory was made anew from the log up to event %d", desk.ledger.seq)

    def _fold(self) -> Desk:
        ledger = recovery.recover(self.store, cache=self.settings.request_cache)
        return make_desk(self.settings, ledger, self.secret, seed=self.desk.seed)


def make_desk(settings: Settings, ledger: Ledger, salt: bytes, *, seed: int | None = None) -> Desk:
    """The desk that these settings ask for; ``seed`` where they give none."""
    ledger.requests.set_memory(settings.request_cache_mb << 20)
    leaving = Leaving(impressions=settings.graduate_after, share=settings.retire_share, age=settings.max_age_hours)
    desk = Desk(
        ledger,
        settings.variants,
        split=Split(Allocation.given(settings).weights, salt=salt.hex()),
        sticky=settings.split == "sticky",
        learning=settings.learning,
        counted=settings.counting == "served",
        window=round(settings.attribution_hours * HOUR),
        weights=settings.weights,
        max_kinds=settings.max_kinds,
        random_share=settings.random_share,
        exploring=Exploring(settings.near_ties, settings.next_share, settings.next_items),
        positions=settings.positions,
        lifetimes=settings.lifetimes,
        forget_after=None if settings.forget_hours is None else round(settings.forget_hours * HOUR),
        seed=seed if settings.seed is None else settings.seed,
        enough=settings.segment_enough,
        segment_bytes=settings.segment_mb << 20,
        leaving=leaving if leaving != Leaving() else None,
    )
    desk.warm()
    warm_bounds()
    return desk


def _exact(rewards: float) -> float:
    whole = int(rewards)
    return rewards if rewards == whole else whole + points(rewards - whole)
