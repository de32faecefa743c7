"""Group commit: whatever waits is written to the log at once, by one thread, and takes effect in the log's order."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from hellinger.events import Logged
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

    __slots__ = ("drafts", "lasting", "waiter")

    def __init__(self, drafts: Sequence[Draft], lasting: bool, waiter: asyncio.Future[list[int | None]]) -> None:
        self.drafts = drafts
        self.lasting = lasting
        self.waiter = waiter


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

        While the store is away a lasting entry's future is done at once, with no places.
        """
        waiter: asyncio.Future[list[int | None]] = self._loop.create_future()
        if not drafts:
            waiter.set_result([])
            return waiter
        if self.waiting + len(drafts) > self.limit:
            raise JournalFullError(f"`waiting events <= {self.limit}` must hold, but {self.waiting} wait already")
        if self.away:
            if not lasting:
                raise StoreUnavailableError("the store is away")
            waiter.set_result([])
        self.waiting += len(drafts)
        self._idle.clear()
        entry = _Entry(drafts, lasting, waiter)
        with self._wake:
            self._entries.append(entry)
            self._wake.notify()
        return waiter

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
        self, entries: list[_Entry], places: list[list[int | None]], events: list[Logged], thread: list[Logged]
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
        finally:
            if self.away:
                log.warning("the store is back")
            self.away = False
            self.reached = time.monotonic()
            for entry, seqs in zip(entries, places, strict=True):
                self.waiting -= len(entry.drafts)
                if not entry.waiter.done():
                    entry.waiter.set_result(seqs)
            if not self.waiting:
                self._idle.set()

    def _failed(self, dropped: list[_Entry], kept: list[_Entry], reason: str) -> None:
        """These could not be written."""
        if not self.away:
            log.error("the store is away: %s", reason)
        self.waiting -= sum(len(entry.drafts) for entry in dropped)
        self._lose([*dropped, *kept])
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
                self._commit(entries)
            except StoreUnavailableError as error:
                kept = [entry for entry in entries if entry.lasting]
                dropped = [entry for entry in entries if not entry.lasting]
                with self._wake:
                    self._entries.extendleft(reversed(kept))
                self._tell(self._failed, dropped, kept, str(error))
                if self._stop:
                    return
                time.sleep(RETRY)
            except Exception:
                if self._loop.is_closed():
                    return
                log.exception("the journal stumbled")
                self._tell(self._failed, entries, [], "see above")
                time.sleep(RETRY)
            finally:
                self._in_flight, self._busy_since = [], None

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
        self._after = max((seq for seq in appended.seqs if seq is not None), default=self._after)
        self._hand(entries, places, appended.others)

    def _hand(self, entries: list[_Entry], places: list[list[int | None]], events: list[Logged]) -> None:
        if events:
            self._after = max(self._after, events[-1].seq)
        missing = self.desk.ledger.missing(events) if events else []
        thread = self.store.thread(missing) if missing else []
        self._tell(self._took, entries, places, events, thread)

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(what, *arguments)
