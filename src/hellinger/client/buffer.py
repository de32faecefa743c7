"""Feedback gathered and sent in batches: by size, by time, and at the end."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import threading
import time
from collections import deque
from typing import Self

from hellinger.client.answers import Feedback, Outcome
from hellinger.client.client import AsyncClient, Client
from hellinger.client.errors import BufferFullError, ClientError
from hellinger.errors import require

__all__ = ["AsyncFeedbackBuffer", "FeedbackBuffer"]

_LOG = logging.getLogger(__name__)


class _Waiting:
    """Feedback that waits, and what became of the rest.

    Parameters
    ----------
    size
        Events that are sent together as soon as there are so many.
    seconds
        How long an event waits at most before it is first sent.
    limit
        Events that may wait while the service cannot be reached; one more is refused with ``BufferFullError``.
    """

    def __init__(self, size: int, seconds: float, limit: int) -> None:
        require(1 <= size <= limit, "1 <= size <= limit", size=size, limit=limit)
        require(seconds > 0, "0 < seconds", seconds=seconds)
        self.size = size
        self.seconds = seconds
        self.limit = limit
        self.outcome = Outcome()
        """What became of everything sent so far."""
        self._events: deque[Feedback] = deque()
        self._oldest = 0.0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Feedback) -> bool:
        """Hold an event; whether that makes a batch."""
        if len(self._events) >= self.limit:
            raise BufferFullError(f"`events waiting <= {self.limit}` must hold: the service does not take them")
        if not self._events:
            self._oldest = time.monotonic()
        self._events.append(event)
        return len(self._events) >= self.size

    def rest(self) -> float:
        """Seconds until what waits is due."""
        if len(self._events) >= self.size:
            return 0.0
        return max(0.0, self._oldest + self.seconds - time.monotonic()) if self._events else self.seconds

    def batch(self) -> list[Feedback]:
        """The next to send; they wait on until :meth:`sent`."""
        return [self._events[j] for j in range(min(self.size, len(self._events)))]

    def sent(self, batch: list[Feedback], outcome: Outcome) -> None:
        """The service has answered."""
        for _ in batch:
            self._events.popleft()
        self._oldest = time.monotonic()
        self.outcome += outcome

    def later(self) -> None:
        """The service could not be reached: wait a while before trying again."""
        self._oldest = time.monotonic()


class _Buffer:
    """What both buffers answer."""

    _waiting: _Waiting

    def __len__(self) -> int:
        """Events not yet answered for."""
        return len(self._waiting)

    @property
    def outcome(self) -> Outcome:
        """What became of everything sent so far."""
        return self._waiting.outcome


class FeedbackBuffer(_Buffer):
    """Gathers feedback and sends it from a thread of its own; :meth:`add` never waits for the service.

    What the service does not take (beyond the client's retries) waits and is sent again. At the end of the program
    what is left is sent; better is a ``with`` block, which also raises where something could not be.

    Parameters
    ----------
    client
        What to send with.
    size, seconds
        A batch is sent when it has so many events, or its oldest is so old.
    limit
        Events that may wait while the service cannot be reached; one more is refused with ``BufferFullError``.

    Examples
    --------
    ::

        with FeedbackBuffer(client) as buffer:
            buffer.add(Feedback(ranking.ranking_id, "article-1", "click"))
    """

    def __init__(self, client: Client, *, size: int = 100, seconds: float = 1.0, limit: int = 100_000) -> None:
        self._client = client
        self._waiting = _Waiting(size, seconds, limit)
        self._wake = threading.Condition()
        self._sending = threading.Lock()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="feedback", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, *events: Feedback) -> None:
        """Gather events."""
        with self._wake:
            require(not self._stop, "the buffer is open", closed=True)
            for event in events:
                full = self._waiting.put(event)
                if full:
                    self._wake.notify()

    def flush(self) -> None:
        """Send what waits, now; raises where the service does not take it, and keeps it."""
        with self._sending:
            while True:
                with self._wake:
                    batch = self._waiting.batch()
                if not batch:
                    return
                outcome = self._client.feedback(batch)
                with self._wake:
                    self._waiting.sent(batch, outcome)

    def close(self) -> None:
        """Send what waits, and stop."""
        atexit.unregister(self._at_exit)
        with self._wake:
            self._stop = True
            self._wake.notify()
        self._thread.join()
        self.flush()

    def _at_exit(self) -> None:
        try:
            self.close()
        except ClientError as error:
            _LOG.error("%d events of feedback could not be sent: %s", len(self), error)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._stop and (rest := self._waiting.rest()) > 0.0:
                    self._wake.wait(rest)
                if self._stop:
                    return
            try:
                self.flush()
            except ClientError as error:
                _LOG.warning("feedback waits, for the service does not take it: %s", error)
                with self._wake:
                    self._waiting.later()
                    self._wake.wait(self._waiting.seconds)  # a full batch would be due again at once


class AsyncFeedbackBuffer(_Buffer):
    """The same on an event loop; see :class:`FeedbackBuffer`. Used in an ``async with`` block."""

    def __init__(self, client: AsyncClient, *, size: int = 100, seconds: float = 1.0, limit: int = 100_000) -> None:
        self._client = client
        self._waiting = _Waiting(size, seconds, limit)
        self._full = asyncio.Event()
        self._sending = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="feedback")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def add(self, *events: Feedback) -> None:
        """Gather events."""
        require(self._task is not None, "the buffer is open", closed=True)
        for event in events:
            if self._waiting.put(event):
                self._full.set()

    async def flush(self) -> None:
        """Send what waits, now; raises where the service does not take it, and keeps it."""
        async with self._sending:
            while batch := self._waiting.batch():
                self._waiting.sent(batch, await self._client.feedback(batch))

    async def close(self) -> None:
        """Send what waits, and stop."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.flush()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), self._waiting.rest())
            self._full.clear()
            if not len(self._waiting) or self._waiting.rest() > 0.0:
                continue
            try:
                await self.flush()
            except ClientError as error:
                _LOG.warning("feedback waits, for the service does not take it: %s", error)
                self._waiting.later()
                await asyncio.sleep(self._waiting.seconds)
