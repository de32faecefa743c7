"""Group commit: whatever waits is written to the log at once, by one thread, and takes effect in the log's order."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from hellinger.events import Logged
from hellinger.ledger import Ledger
from hellinger.serve.desk import Desk, Draft
from hellinger.store import Store, StoreUnavailableError

__all__ = ["Journal", "JournalFullError"]

log = logging.getLogger(__name__)

RETRY = 0.5
"""Seconds between two attempts while the store is away."""


class JournalFullError(StoreUnavailableError):
    """More is waiting to be written than may."""


class _Entry:
    """Drafts that are written together, and who waits for them."""

    __slots__ = ("drafts", "lasting", "spoken_of", "waiter")

    def __init__(self, drafts: Sequence[Draft], lasting: bool, waiter: asyncio.Future[list[int | None]]) -> None:
        self.drafts = drafts
        self.lasting = lasting
        self.waiter = waiter
        self.spoken_of = Ledger.spoken_of(draft.event for draft in drafts)
        """Requests that must stay in memory until this is in the log."""


class Journal:
    """Writes drafts to the store from one thread, and hands what is in the log to the desk, on the event loop.

    An entry is *lasting* if its effect is there already (a ranking that was answered): it is tried until it succeeds.
    Any other fails when the store is away, and the caller is told so.

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
        Told of every commit: how many events, how many seconds.
    """

    def __init__(
        self,
        store: Store,
        desk: Desk,
        *,
        limit: int = 100_000,
        pause: float = 0.002,
        poll: float = 0.25,
        patience: float = 1.0,
        measure: Callable[[int, float], None] | None = None,
    ) -> None:
        self.store = store
        self.desk = desk
        self.limit = limit
        self.pause = pause
        self.poll = poll
        self.patience = patience
        self.measure = measure
        self.away = False
        """Whether the store could not be reached of late."""
        self.waiting = 0
        """Drafts not yet in the log."""
        self.reached = time.monotonic()
        """When the store was last found well."""
        self._after = desk.ledger.seq
        self._entries: deque[_Entry] = deque()
        self._wake = threading.Condition()
        self._busy_since: float | None = None
        self._in_flight: list[_Entry] = []
        self._stop = False
        self._loop = asyncio.get_running_loop()
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # On the event loop --------------------------------------------------------------------------------

    def write(self, drafts: Sequence[Draft], *, lasting: bool = False) -> asyncio.Future[list[int | None]]:
        """Write drafts; the future gives each one's place in the log, None for one that was there already.

        While the store is away a lasting entry's future is done at once, with no places. There is always room for one,
        since its effect is there: ask :meth:`check_room` before.
        """
        waiter: asyncio.Future[list[int | None]] = self._loop.create_future()
        if not drafts:
            waiter.set_result([])
            return waiter
        if not lasting:
            self.check_room(len(drafts))
        if self.away:
            if not lasting:
                raise StoreUnavailableError("the store is away")
            waiter.set_result([])
        self.waiting += len(drafts)
        self._idle.clear()
        entry = _Entry(drafts, lasting, waiter)
        self.desk.ledger.requests.keep(entry.spoken_of)
        with self._wake:
            self._entries.append(entry)
            self._wake.notify()
        return waiter

    def check_room(self, count: int = 1) -> None:
        """Raise where so many more may not wait: to be asked before anything takes effect that is to be written."""
        if self.waiting + count > self.limit:
            raise JournalFullError(f"`waiting events <= {self.limit}` must hold, but {self.waiting} wait already")

    def write_chores(self, drafts: Sequence[Draft]) -> None:
        """Write what nobody waits for."""
        if drafts:
            self.write(drafts, lasting=True)

    def watch(self) -> None:
        """Notice a commit that does not end: let those wait no longer whose effect is there already."""
        began = self._busy_since
        if began is not None and time.monotonic() - began > self.patience and not self.away:
            log.warning("the store has not answered for %.1f s", time.monotonic() - began)
            self._lose(list(self._in_flight))

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

    def _took(
        self,
        entries: list[_Entry],
        places: list[list[int | None]],
        events: list[Logged],
        thread: list[Logged],
        spoken_of: list[str],
    ) -> None:
        """The log has got these."""
        mine: dict[int, Draft] = {}
        for entry, seqs in zip(entries, places, strict=True):
            for draft, seq in zip(entry.drafts, seqs, strict=True):
                if seq is not None:
                    mine[seq] = draft
        ordered = [(event, None) for event in events]
        ordered += [(Logged(seq, *draft.event), draft.fields) for seq, draft in sorted(mine.items())]  # type: ignore[misc]
        try:
            self.desk.commit(ordered, thread)
            for entry, seqs in zip(entries, places, strict=True):
                for draft, seq in zip(entry.drafts, seqs, strict=True):
                    if seq is None and draft.event.key in self.desk.pending:
                        self.desk.retract(draft.event.key)
        finally:
            self.desk.ledger.requests.release(spoken_of)
            if self.away:
                log.warning("the store is back")
            self.away = False
            self.reached = time.monotonic()
            for entry, seqs in zip(entries, places, strict=True):
                self.waiting -= len(entry.drafts)
                self.desk.ledger.requests.release(entry.spoken_of)
                if not entry.waiter.done():
                    entry.waiter.set_result(seqs)
            if not self.waiting:
                self._idle.set()

    def _failed(self, dropped: list[_Entry], kept: list[_Entry], reason: str) -> None:
        """These could not be written."""
        if not self.away:
            log.error("the store is away: %s", reason)
        for entry in dropped:
            self.waiting -= len(entry.drafts)
            self.desk.ledger.requests.release(entry.spoken_of)
        self._lose([*dropped, *kept])
        if not self.waiting:
            self._idle.set()

    def _refused(self, entry: _Entry, error: Exception) -> None:
        """No log could hold this."""
        self.waiting -= len(entry.drafts)
        self.desk.ledger.requests.release(entry.spoken_of)
        for draft in entry.drafts:
            if draft.event.key in self.desk.pending:
                self.desk.retract(draft.event.key)
        if not entry.waiter.done():
            entry.waiter.set_exception(error)
        if not self.waiting:
            self._idle.set()

    def _lose(self, entries: list[_Entry]) -> None:
        self.away = True
        for entry in entries:
            if not entry.waiter.done():
                if entry.lasting:
                    entry.waiter.set_result([])
                else:
                    entry.waiter.set_exception(StoreUnavailableError("the store is away"))

    # In the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        last = 0.0
        while True:
            entries = self._next(last)
            if entries is None:
                return
            last = time.monotonic()
            self._in_flight, self._busy_since = entries, last
            try:
                self._attempt(entries)
            except Exception as error:
                if self._loop.is_closed():
                    return
                if not isinstance(error, StoreUnavailableError):
                    log.exception("the journal stumbled")
                kept = [entry for entry in entries if entry.lasting]
                dropped = [entry for entry in entries if not entry.lasting]
                with self._wake:
                    self._entries.extendleft(reversed(kept))
                self._tell(self._failed, dropped, kept, str(error))
                if self._stop:
                    return
                time.sleep(RETRY)
            finally:
                self._in_flight, self._busy_since = [], None

    def _attempt(self, entries: list[_Entry]) -> None:
        """Write entries. One that no log could hold must not take the others along: each is tried alone then."""
        try:
            self._commit(entries)
        except ValueError as error:
            if len(entries) == 1:
                log.error("the log cannot hold this: %s", error)
                self._tell(self._refused, entries[0], error)
            for entry in list(entries) if len(entries) > 1 else ():
                self._attempt([entry])
                entries.remove(entry)  # done: should the store go away now, only the others are tried again

    def _next(self, last: float) -> list[_Entry] | None:
        """What waits, once the pause since the last commit is over; nothing when it is time to look what others did."""
        with self._wake:
            if not self._entries and not self._stop:
                self._wake.wait(self.poll)
            if self._stop and not self._entries:
                return None
        rest = last + self.pause - time.monotonic()
        if rest > 0 and self._entries and not self._stop:
            time.sleep(rest)
        with self._wake:
            entries = list(self._entries)
            self._entries.clear()
        return entries

    def _commit(self, entries: list[_Entry]) -> None:
        if not entries:
            self._hand([], [], self.store.read(self._after, 10_000))
            return
        began = time.perf_counter()
        batch = [draft.event for entry in entries for draft in entry.drafts]
        appended = self.store.append(batch, self._after)
        if self.measure is not None:
            self.measure(len(batch), time.perf_counter() - began)
        places, start = [], 0
        for entry in entries:
            places.append(appended.seqs[start : start + len(entry.drafts)])
            start += len(entry.drafts)
        self._hand(entries, places, appended.others)

    def _hand(self, entries: list[_Entry], places: list[list[int | None]], events: list[Logged]) -> None:
        ledger = self.desk.ledger
        spoken_of = ledger.spoken_of(events)
        ledger.requests.keep(spoken_of)
        try:
            missing = ledger.missing(events) if events else []
            thread = self.store.thread(missing) if missing else []
        except BaseException:
            ledger.requests.release(spoken_of)
            raise
        # not before: had the log not answered, all of this would have to come among the others next time
        last = events[-1].seq if events else 0
        self._after = max(self._after, last, *(seq for seqs in places for seq in seqs if seq is not None))
        self._tell(self._took, entries, places, events, thread, spoken_of)

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(what, *arguments)
