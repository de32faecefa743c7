"""Group commit: whatever waits is written to the log at once, by one thread, and takes effect in the log's order."""

from __future__ import annotations

import asyncio
import logging
import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from hellinger.engine.desk import Desk
from hellinger.engine.drafts import DraftRow
from hellinger.events import Logged
from hellinger.ledger import UnknownKindError, spoken_of
from hellinger.store import Store, StoreError, StoreUnavailableError

__all__ = ["FAR", "SLICE", "Journal", "JournalFullError", "NotAppliedError", "explained", "pause"]

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY = 0.5
"""Seconds between two attempts while the store is away."""
ENOUGH = 1000
"""Drafts that are written at once, but for an entry of more: one statement, and others are made meanwhile."""
READ = 1_000
"""Events of others that are read and applied at once: rankings wait meanwhile."""
FAR = 5 * READ
"""Events that a replica may be behind the log and still be fit to rank."""


HASTE = 8
"""How many times shorter the pauses between two slices are in a replica that is far behind."""
SLICE = 250
"""Events that are applied at once, while rankings wait: a millisecond or two."""
_KIND = operator.attrgetter("kind")
_LIGHT = {"rank", "feedback", "seen"}
"""Kinds of events that take some microseconds each. Of this replica's own as many are applied at once as are written,
of others' as many as are read, if no ranking was made here since the last ones: 1,000 take a quarter less than 4 × 250.
"""


async def pause(begun: float) -> None:
    """Let rankings have as long as has passed since a moment (``time.perf_counter``), at the end of a slice."""
    await asyncio.sleep(time.perf_counter() - begun)


class JournalFullError(StoreUnavailableError):
    """More is waiting to be written than may."""


class NotAppliedError(StoreUnavailableError):
    """The log could not be applied to memory, which is not to be relied upon until it is made anew.

    The message is for clients: what exactly went wrong is in the service's own log.
    """


def explained(failure: Exception) -> str:
    """The answer to clients after a failure."""
    if isinstance(failure, UnknownKindError):
        return str(failure)
    return "memory is being rebuilt from the log, and nothing is acknowledged meanwhile: try again"


class _Entry:
    """Drafts that are written together, who waits for them, and the requests that are held for their sake."""

    __slots__ = ("drafts", "holds", "lasting", "waiter")

    def __init__(
        self,
        drafts: Sequence[DraftRow],
        lasting: bool,
        holds: Sequence[str],
        waiter: asyncio.Future[list[int | None]],
    ) -> None:
        self.drafts = drafts
        self.lasting = lasting
        self.holds = holds
        self.waiter = waiter


class _Written(NamedTuple):
    """An entry that the log has got, to be answered once everything up to a place is applied."""

    entry: _Entry
    seqs: list[int | None]
    through: int
    since: float


class _Batch:
    """What the log has got: events of others, and after them entries of this replica with their places."""

    __slots__ = (
        "_events",
        "_follows",
        "_left",
        "_lost",
        "_mine",
        "_phases",
        "_size",
        "_steps",
        "_thread",
        "applied",
        "entries",
        "holds",
        "places",
    )

    def __init__(
        self,
        entries: list[_Entry],
        places: list[list[int | None]],
        events: list[Logged],
        thread: list[Logged],
        holds: list[str],
        applied: Future[None] | None = None,
    ) -> None:
        self.entries = entries
        self.places = places
        self.holds = holds
        self.applied = applied
        """Done when the batch has been applied, or never will be."""
        self._events = events
        self._thread = thread
        drafts = chain.from_iterable(entry.drafts for entry in entries)
        mine: Iterable[Any] = zip(chain.from_iterable(places), drafts, strict=True)  # in the order of the log
        self._lost: list[DraftRow] = []
        """Drafts that the log had already."""
        if any(None in seqs for seqs in places):
            both = list(mine)
            mine = [(seq, draft) for seq, draft in both if seq is not None]
            self._lost = [draft for seq, draft in both if seq is None]
        self._mine = iter(mine)
        kinds = {kind for entry in entries for (_, kind, _, _), _ in entry.drafts[:1]}  # one in each entry
        self._phases = "experiment" in kinds or "experiment" in map(_KIND, events)
        """Whether any of them begins a phase."""
        self._steps: Iterator[None] | None = None
        """What is left of making ready for one that does."""
        self._left = len(events) + sum(map(len, places))
        self._size = ENOUGH if not events and kinds <= _LIGHT else SLICE
        self._follows = not entries and set(map(_KIND, events)) <= _LIGHT
        """Whether this has only such events of others."""

    def apply(self, desk: Desk) -> bool:
        """Apply a slice; whether it was the last."""
        size = self._size
        if self._follows and not desk.state.made:  # this replica is not ranking: nobody waits for the larger slice
            size = READ
        if self._phases and not (size := self._up_to_phase(desk, size)):
            return False
        events, thread = self._events[:size], self._thread
        self._events, self._thread = self._events[size:], []
        desk.forget(self._lost)
        self._lost = []
        mine: Iterable[Any] = ()
        if self._left <= size:
            mine = self._mine  # all that is left: most batches are small
        elif not events:
            mine = list(islice(self._mine, size))
        self._left = 0 if self._left <= size else self._left - size
        desk.commit(events, thread, mine)
        return self._left == 0

    def _up_to_phase(self, desk: Desk, size: int) -> int:
        """How many events, of so many at most, there are until one that begins a phase, which is the first of others.

        0 while the ledger has more steps to take before the first.
        """
        if self._events:
            size = min(size, len(self._events))
            ahead: list[Any] = [(event.kind, event) for event in self._events[:size]]
        else:
            mine = list(self._mine)
            self._mine = iter(mine)
            ahead = [(event[1], fields) for _, (event, fields) in mine[:size]]
        if ahead and ahead[0][0] == "experiment":
            if self._steps is None:
                first = ahead[0][1]
                self._steps = desk.ledger.prepare(first.fields if isinstance(first, Logged) else first)
            if next(self._steps, self) is not self:
                return 0
            self._steps = None
        return next((place for place, (kind, _) in enumerate(ahead) if place and kind == "experiment"), size)


class Journal:
    """Writes drafts to the store from one thread, and hands what is in the log to the desk, on the event loop.

    An entry is *lasting* if its effect is there already (a ranking that was answered): it is tried until it succeeds.
    Any other fails when the store is away, and the caller gets the error. It may be in the log all the same, where the
    answer of the store was lost; then it takes effect like what other replicas have written.

    If the desk fails to apply what the log has, no answer says that anything took effect: ``failure`` has the error,
    everything is refused, and ``on_failure`` is called, whose part it is to make a new desk from the log and to
    :meth:`resume` with it.

    Parameters
    ----------
    store
        Where to.
    desk
        Whose ``commit`` gets every event of the log, those of other writers included, in order.
    limit
        Most drafts that may wait.
    pause
        Least seconds between two commits: what comes in between is written together.
    poll
        Seconds between two looks for what others have written.
    patience
        Seconds after which a commit that does not end counts as the store being away.
    measure
        Called after every commit with its number of events and its seconds.
    on_failure
        Called when the desk could not apply what the log has.
    """

    def __init__(
        self,
        store: Store,
        desk: Desk,
        *,
        limit: int = 100_000,
        pause: float = 0.002,
        poll: float = 0.25,
        patience: float = 2.0,
        measure: Callable[[int, float], None] | None = None,
        on_failure: Callable[[], None] | None = None,
    ) -> None:
        self.store = store
        self.desk = desk
        self.limit = limit
        self.pause = pause
        self.poll = poll
        self.patience = patience
        self.measure = measure
        self.failure: Exception | None = None
        """Why the desk could not apply what the log has; None while all is well."""
        self._on_failure = on_failure
        self.away = False
        """Whether the store could not be reached of late."""
        self.waiting = 0
        """Drafts not yet in the log."""
        self.reached = time.monotonic()
        """When the store was last found well."""
        self._after = desk.ledger.seq
        self._entries: deque[_Entry] = deque()
        self._wake = threading.Condition()
        self._resting = False
        """Whether the thread waits for entries, or is about to look whether it has to."""
        self._busy_since: float | None = None
        self._in_flight: list[_Entry] = []
        self._batches: deque[_Batch] = deque()
        """In the log, and to be applied."""
        self._written: list[_Written] = []
        """In the log after more than is read at once: they are read from it in their turn, and applied then."""
        self._refused = False  # the last write failed: that reading works proves nothing
        self.behind = 0
        """Events that others have written and that are not applied yet, where they are more than are read at once."""
        self._stop = False
        self._park = False  # the thread does nothing until this is true again
        self._parked = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # On the event loop --------------------------------------------------------------------------------

    def admit(self, count: int = 1) -> None:
        """Refuse where so many more drafts may not wait: to be asked before anything takes effect."""
        self._require_desk()
        if self.waiting + count > self.limit:
            raise JournalFullError(f"`waiting events <= {self.limit}` must hold, but {self.waiting} wait already")

    def _require_desk(self) -> None:
        if self.failure is not None:
            raise NotAppliedError(explained(self.failure))

    def write(
        self, drafts: Sequence[DraftRow], *, lasting: bool = False, holds: Sequence[str] = ()
    ) -> asyncio.Future[list[int | None]]:
        """Write drafts; the future gives each one's place in the log, None for one that was there already.

        While the store is away a lasting entry's future is done at once, with no places. ``holds`` are requests that
        the caller has pinned, released when the drafts have taken effect or never will; not if this raises.
        """
        waiter: asyncio.Future[list[int | None]] = self._loop.create_future()
        if not drafts:
            self.desk.ledger.requests.release(holds)
            waiter.set_result([])
            return waiter
        self._require_desk()
        if not lasting:
            self.admit(len(drafts))
            if self.away:
                raise StoreUnavailableError("the store is away")
        elif self.away:
            waiter.set_result([])
        self.waiting += len(drafts)
        self._idle.clear()
        self._put(_Entry(drafts, lasting, holds, waiter))
        return waiter

    def look(self) -> asyncio.Future[list[int | None]]:
        """See what other replicas have written, without waiting for the next look."""
        waiter: asyncio.Future[list[int | None]] = self._loop.create_future()
        self._require_desk()
        if self.away:
            raise StoreUnavailableError("the store is away")
        self._put(_Entry((), False, (), waiter))
        return waiter

    def _put(self, entry: _Entry) -> None:
        """Let an entry wait for the thread, which is woken where it rests: under load it seldom does."""
        self._entries.append(entry)
        if self._resting:  # said before it looks whether anything waits, so that it cannot miss this
            with self._wake:
                self._wake.notify()

    def watch(self) -> None:
        """Notice a commit that does not end: let nobody wait for it any longer."""
        began = self._busy_since
        if began is not None and time.monotonic() - began > self.patience and not self.away:
            log.warning("the store has not answered for %.1f s", time.monotonic() - began)
            self._lose(list(self._in_flight))
        for entry, _, _, since in self._written:
            if time.monotonic() - since > self.patience and not entry.waiter.done():
                reason = f"{self.behind} events of the log are not applied yet: try again"
                entry.waiter.set_exception(StoreUnavailableError(reason))

    async def close(self, seconds: float = 10.0) -> None:
        """Write what waits, for so long at most, and stop."""
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            log.error("stopping with %d events not in the log", self.waiting)
        with self._wake:
            self._stop = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join, 5.0)

    def _took(self, batch: _Batch) -> None:
        """The log has got this."""
        if self.away:
            log.warning("the store is back")
        self.away = False
        self.reached = time.monotonic()
        self._batches.append(batch)
        if len(self._batches) == 1:
            self._apply_next()
        if self._batches and self._batches[-1] is batch and self.failure is None:
            self._acknowledge(batch.entries, batch.places)

    def _wrote(self, entries: list[_Entry], places: list[list[int | None]], through: int) -> None:
        """The log has got these, and so much before them that they are read from it in their turn."""
        if self.failure is not None:
            self._break(self.failure, entries)
            return
        now = self.reached = time.monotonic()
        self._acknowledge(entries, places)
        for entry, seqs in zip(entries, places, strict=True):
            self.desk.forget(draft for seq, draft in zip(seqs, entry.drafts, strict=True) if seq is None)
            if entry.holds or not entry.waiter.done():
                self._written.append(_Written(entry, seqs, through, now))
        self._done(entries)

    def _acknowledge(self, entries: list[_Entry], places: list[list[int | None]]) -> None:
        """Let nobody wait whose drafts count already, though much of the log is to be applied before them."""
        for entry, seqs in zip(entries, places, strict=True):
            if entry.lasting and not entry.waiter.done():
                self.desk.open(draft for seq, draft in zip(seqs, entry.drafts, strict=True) if seq is not None)
                entry.waiter.set_result(seqs)

    def _apply_next(self) -> None:
        """Apply the next slice of what the log has got; rankings have as long as that took before there is another.

        A ranking needs several turns of the loop: were there a slice in each, it would wait for them all. A replica
        that is not fit to rank has less to do between two slices.
        """
        batch, begun = self._batches[0], time.perf_counter()
        try:
            if self.failure is not None:
                raise self.failure
            if not batch.apply(self.desk):
                spent = time.perf_counter() - begun
                self._loop.call_later(spent / HASTE if self.behind > FAR else spent, self._apply_next)
                return
            self.desk.ledger.requests.release(chain(batch.holds, *(entry.holds for entry in batch.entries)))
        except Exception as error:
            self._break(error, batch.entries)
        else:
            for entry, seqs in zip(batch.entries, batch.places, strict=True):
                if not entry.waiter.done():
                    entry.waiter.set_result(seqs)
            self._done(batch.entries)
            self._answer_written()
        self._batches.popleft()
        if batch.applied is not None:
            batch.applied.set_result(None)
        if self._batches:
            self._loop.call_soon(self._apply_next)

    def _answer_written(self) -> None:
        """Answer those whose place in the log has been reached."""
        if not self._written:
            return
        reached = [each for each in self._written if each.through <= self.desk.ledger.seq]
        self._written = [each for each in self._written if each.through > self.desk.ledger.seq]
        for entry, seqs, _, _ in reached:
            self.desk.ledger.requests.release(entry.holds)
            if not entry.waiter.done():
                entry.waiter.set_result(seqs)

    def fail(self, error: Exception) -> None:
        """Memory turned out not to be what the log says: tell nobody of anything until it is made anew."""
        self._break(error, [])

    def _break(self, error: Exception, entries: list[_Entry]) -> None:
        """The log has these, but they could not be applied: tell nobody that they took effect."""
        first, self.failure = self.failure is None, error
        with self._wake:
            self._park = True
            queued = [entry for entry in self._entries if not entry.lasting]
            self._entries = deque(entry for entry in self._entries if entry.lasting)
        written, self._written = [each.entry for each in self._written], []
        for entry in (*entries, *queued, *written):
            if not entry.waiter.done():
                if entry.lasting:  # answered already or about to be: the log has it
                    entry.waiter.set_result([])
                else:
                    entry.waiter.set_exception(NotAppliedError(explained(error)))
        self._done([*entries, *queued])
        if first:
            log.error("the log could not be applied, memory is made anew from it", exc_info=error)
            if self._on_failure is not None:
                self._on_failure()

    async def parked(self) -> None:
        """Wait until the thread does nothing any more, after a failure; what it had done has been answered."""
        await asyncio.to_thread(self._parked.wait)

    def unwritten(self) -> list[DraftRow]:
        """Drafts of lasting entries that are not in the log."""
        with self._wake:
            return [draft for entry in self._entries for draft in entry.drafts]

    def resume(self, desk: Desk) -> None:
        """Go on with a new desk after a failure."""
        self.desk = desk
        self._after = desk.ledger.seq
        self.failure = None
        with self._wake:
            self._park = False
            self._parked.clear()
            self._wake.notify()

    def _failed(self, dropped: list[_Entry], kept: list[_Entry], holds: list[str], reason: str) -> None:
        """These could not be written."""
        if not self.away:
            log.error("the store is away: %s", reason)
        self._release(holds)
        self._lose([*dropped, *kept])
        self._release(name for entry in dropped for name in entry.holds)
        self._done(dropped)

    def _release(self, names: Iterable[str]) -> None:
        if self.failure is None:  # the desk that they were pinned in goes with its pins
            self.desk.ledger.requests.release(names)

    def _refuse(self, entry: _Entry, error: Exception) -> None:
        """Tell that an entry can never be written, whatever the store's health."""
        self.desk.forget(entry.drafts)
        if not entry.waiter.done():
            entry.waiter.set_exception(error)
        self._release(entry.holds)
        self._done([entry])

    def _lose(self, entries: list[_Entry]) -> None:
        """Let nobody wait while the store is away: not for these, nor for what has come since."""
        self.away = True
        with self._wake:
            queued = list(self._entries)
            self._entries = deque(entry for entry in queued if entry.lasting)
        for entry in (*entries, *queued, *(each.entry for each in self._written)):
            if not entry.waiter.done():
                if entry.lasting:
                    entry.waiter.set_result([])
                else:
                    entry.waiter.set_exception(StoreUnavailableError("the store is away"))
        lost = [entry for entry in queued if not entry.lasting]
        self._release(name for entry in lost for name in entry.holds)
        self._done(lost)

    def _done(self, entries: list[_Entry]) -> None:
        for entry in entries:
            self.waiting -= len(entry.drafts)
        if not self.waiting:
            self._idle.set()

    def _hold(self, names: list[str], events: list[Logged]) -> list[str]:
        requests = self.desk.ledger.requests
        requests.pin(names)
        return self.desk.ledger.missing(events)

    # In the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        last = 0.0
        while True:
            entries = self._next(last)
            if entries is None:
                return
            last = time.monotonic()
            if not self._attempt(entries):
                if self._stop or self._loop.is_closed():
                    return
                with self._wake:
                    self._wake.wait_for(lambda: self._stop, RETRY)

    def _next(self, last: float) -> list[_Entry] | None:
        """What waits, once the pause since the last commit is over; nothing when it is time to look what others did."""
        rest = last + self.pause - time.monotonic()
        if rest > 0 and not self._stop:
            time.sleep(rest)  # before anything is waited for: to be woken twice for one commit would hold up the loop
        entries: list[_Entry] = []
        drafts = 0
        with self._wake:
            while self._park and not self._stop:
                self._parked.set()
                self._wake.wait()
            self._resting = True
            if not self._entries and not self._stop and not self.behind:
                self._wake.wait(self.poll)
            self._resting = False
            if self._stop and not self._entries:
                return None
            while self._entries and (not entries or drafts + len(self._entries[0].drafts) <= ENOUGH):
                entries.append(self._entries.popleft())
                drafts += len(entries[-1].drafts)
        return entries

    def _attempt(self, entries: list[_Entry]) -> bool:
        """Write these, or see what others wrote; whether the store did its part."""
        self._in_flight, self._busy_since = entries, time.monotonic()
        holds: list[str] = []
        try:
            self._commit(entries, holds)
        except StoreError as error:
            self._refused = self._refused or bool(entries)
            kept = [entry for entry in entries if entry.lasting]
            dropped = [entry for entry in entries if not entry.lasting]
            with self._wake:
                self._entries.extendleft(reversed(kept))
            self._tell(self._failed, dropped, kept, holds, str(error))
            return False
        except Exception as error:
            if self._loop.is_closed():
                return False
            self._tell(self._release, holds)
            if len(entries) > 1:  # one that no log could hold must not take the others with it
                return min([self._attempt([entry]) for entry in entries])
            log.exception("the journal stumbled")
            for entry in entries:
                self._tell(self._refuse, entry, error)
            return bool(entries)
        finally:
            self._in_flight, self._busy_since = [], None
        return True

    def _commit(self, entries: list[_Entry], holds: list[str]) -> None:
        after = self._after
        if entries:
            began = time.perf_counter()
            batch = [event for entry in entries for event, _ in entry.drafts]
            seqs, events = self.store.append(batch, after, READ)
            if self.measure is not None and batch:
                self.measure(len(batch), time.perf_counter() - began)
            self._refused = False
        else:
            if self._refused:
                self.store.touch()
                self._refused = False
            seqs, events = [], self.store.read(after, READ)
        self.behind = self._left(events)
        fresh = list(filter(None, seqs))  # in the order of the log
        places, start = [], 0
        for entry in entries:
            places.append(seqs[start : start + len(entry.drafts)])
            start += len(entry.drafts)
        if entries and len(events) == READ:
            # all that others wrote before comes first, and rankings are written between two pages of that
            self._tell(self._wrote, entries.copy(), places, events[-1].seq + self.behind)
            entries.clear()  # they are done with, also where what follows fails
            places, fresh = [], []
        self._apply(entries, places, events, holds, *fresh[-1:])

    def _left(self, events: list[Logged]) -> int:
        """How many events are to be read after these; none where these are fewer than may be read at once."""
        return self.store.last() - events[-1].seq if len(events) == READ else 0

    def _apply(
        self,
        entries: list[_Entry],
        places: list[list[int | None]],
        events: list[Logged],
        holds: list[str],
        last: int = 0,
    ) -> None:
        """Have events of others applied on the loop, and after them entries, the last of them at this place.

        Waits until it is done where there are no entries.
        """
        names = spoken_of(events) if set(map(_KIND, events)) - {"rank"} else []
        missing = []
        if names:
            missing = self._ask(self._hold, names, events)
            holds += names
        thread = self.store.thread(missing) if missing else []
        # only now: were it said before, what a failure above keeps from the desk would never come again
        self._after = max(self._after, last, events[-1].seq if events else 0)
        applied: Future[None] | None = None if entries or not events else Future()
        self._tell(self._took, _Batch(entries, places, events, thread, names, applied))
        if applied is not None:
            applied.result()
        del holds[len(holds) - len(names) :]

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(what, *arguments)

    def _ask(self, what: Callable[..., T], *arguments: object) -> T:
        """What the loop answers."""
        answer: Future[T] = Future()

        def reply() -> None:
            try:
                answer.set_result(what(*arguments))
            except BaseException as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(reply)
        return answer.result()
