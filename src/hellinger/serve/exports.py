"""Exports under way: each is ``hellinger export`` in a process of its own, so that rankings do not wait for it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hellinger.engine.settings import Settings
from hellinger.serve.answers import ApiError
from hellinger.serve.export import Format
from hellinger.store import StoreUnavailableError

__all__ = ["Exports", "Streamed"]

log = logging.getLogger(__name__)

PART = 1 << 16
"""Bytes handed on at once; about twice as many wait in memory for a client that is slow."""
PATIENCE = 300.0
"""Seconds after which a client that takes nothing is let go: others may be waiting for its place."""
_TOLD = 2000
"""Bytes kept of what a failed export said."""
_RETRY = 10

Process = asyncio.subprocess.Process


class Exports:
    """Starts exports, so many at the same time, and ends them with their client or with the service."""

    def __init__(self, settings: Settings) -> None:
        self._database = settings.database
        self._most = settings.max_exports
        self._under_way = 0
        self._processes: set[Process] = set()
        self._ended = asyncio.Event()

    def __len__(self) -> int:
        return self._under_way

    def end(self) -> None:
        """End all that run, and begin no more."""
        self._ended.set()
        for process in self._processes:
            _kill(process)

    @asynccontextmanager
    async def process(self, form: Format, first: int | None, last: int | None) -> AsyncIterator[Process]:
        """A new export, which ends with the block at the latest."""
        if self._ended.is_set():
            raise ApiError(503, "the service is stopping", retry_after=1)
        if self._under_way >= self._most:
            told = f"there must be at most {self._most} exports at the same time (max_exports), but got one more"
            raise ApiError(429, f"{told}: try again", retry_after=_RETRY)
        self._under_way += 1
        try:
            process = await self._begin(form, first, last)
            self._processes.add(process)
            try:
                if self._ended.is_set():  # while it was started
                    _kill(process)
                yield process
            finally:
                _kill(process)
                await _drain(process)
                self._processes.discard(process)
        finally:
            self._under_way -= 1

    async def _begin(self, form: Format, first: int | None, last: int | None) -> Process:
        command = [sys.executable, "-m", "hellinger", "export", "--format", form, "--output", "-"]
        for flag, at in (("--since", first), ("--until", last)):
            if at is not None:
                command += [flag, datetime.fromtimestamp(at / 1000, UTC).isoformat()]
        # one thread for Polars: the other processors are for rankings
        environ = os.environ | {"HELLINGER_DATABASE": self._database, "POLARS_MAX_THREADS": "1"}
        nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, env=environ, stdin=nothing, stdout=pipe, stderr=pipe, limit=PART
        )


def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()


async def _drain(process: Process) -> None:
    """Wait for the end of a process: what it has written must be read, or its end is never seen."""
    assert process.stdout is not None
    while await process.stdout.read(PART):
        pass
    await process.wait()


class Streamed(Response):
    """The rows as a process writes them, which waits while the client does.

    An export that fails before its first byte is answered 503; one that fails later ends the connection in the middle
    of the answer, so that no client takes a part for the whole.
    """

    def __init__(self, exports: Exports, form: Format, first: int | None, last: int | None) -> None:
        self._exports = exports
        self._what = form, first, last
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send for as long as there are rows and a client."""
        async with self._exports.process(*self._what) as process:
            gone = asyncio.create_task(_watch(receive, process))
            errors = asyncio.create_task(_last_words(process))
            try:
                begun = await self._send_rows(process, send)
                failed = bool(await process.wait()) and not gone.done()
                told = f"the export failed with status {process.returncode}: {await errors}"
            finally:
                gone.cancel()
                errors.cancel()
                await asyncio.gather(gone, errors, return_exceptions=True)
        if failed:
            raise ExportError(told) if begun else StoreUnavailableError(told)
        if process.returncode == 0:  # not sooner: who has the last byte may ask for the next export
            if not begun:
                await send(self._start())
            await send({"type": "http.response.body", "body": b""})

    async def _send_rows(self, process: Process, send: Send) -> bool:
        """Hand the rows on; whether there were any."""
        assert process.stdout is not None
        begun = False
        while part := await process.stdout.read(PART):
            if not begun:
                await send(self._start())
                begun = True
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": part, "more_body": True})
        return begun

    def _start(self) -> Message:
        headers = [(b"content-type", b"application/x-ndjson")]
        if self._what[0] == "parquet":
            headers = [
                (b"content-type", b"application/vnd.apache.parquet"),
                (b"content-disposition", b'attachment; filename="hellinger.parquet"'),
            ]
        return {"type": "http.response.start", "status": 200, "headers": headers}


class ExportError(Exception):
    """An export that failed after its answer had begun."""


async def _watch(receive: Receive, process: Process) -> None:
    """End the export when the client goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    _kill(process)


async def _last_words(process: Process) -> str:
    """What the process says when it fails; the beginning is dropped, that it may say as much as it likes."""
    assert process.stderr is not None
    kept = b""
    while part := await process.stderr.read(PART):
        kept = (kept + part)[-_TOLD:]
    return " ".join(kept.decode(errors="replace").split())
