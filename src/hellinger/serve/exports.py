"""Exports under way: each is ``hellinger export`` in a process of its own, so that rankings do not wait for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from typing import IO

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hellinger.engine.background import start
from hellinger.engine.settings import Settings
from hellinger.errors import HellingerError
from hellinger.serve.answers import ApiError
from hellinger.serve.export import Format
from hellinger.store import StoreUnavailableError

__all__ = ["Export", "ExportError", "Exports", "Streamed"]

PART = 1 << 16
"""Bytes handed on at once; about twice as many wait in memory for a client that is slow."""
PATIENCE = 300.0
"""Seconds after which a client that takes nothing is let go: others may be waiting for its place."""
_TOLD = 2000
"""Bytes that are logged of the output of a failed export."""
_RETRY = 10
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_000
"""The times that can be written, in UTC: by an offset, a client may mean a day before or after them."""


class ExportError(HellingerError):
    """An export that failed after its answer had begun."""


class Export:
    """A process that writes rows. It is read a little ahead of the client; then it has to wait."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self.process = process
        self._errors = errors
        self.rows = asyncio.StreamReader(limit=PART)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read what it writes into ``rows``, up to the end of the block; then it ends too."""
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self.rows)
        with closing(self._errors):
            try:
                pipe, _ = await loop.connect_read_pipe(lambda: protocol, self.process.stdout)
                with closing(pipe):
                    yield
            finally:
                self.process.kill()
                await self.end()

    async def end(self) -> int:
        """Wait for its end; its status."""
        return await asyncio.to_thread(self.process.wait)

    def failure(self) -> str:
        """Its last output."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _TOLD))
        words = " ".join(self._errors.read().decode(errors="replace").split())
        return f"the export failed with status {self.process.returncode}: {words}"


class Exports:
    """Starts exports, so many at the same time, and ends them with their client or with the service."""

    def __init__(self, settings: Settings) -> None:
        self._database = settings.database
        self._rules = settings.as_environment()
        self._most = settings.max_exports
        self._contexts = settings.export_contexts
        self._under_way = 0
        self._running: set[Export] = set()
        self._stopping = asyncio.Event()

    def __len__(self) -> int:
        return self._under_way

    def end(self) -> None:
        """End all that run, and begin no more."""
        self._stopping.set()
        for export in self._running:
            export.process.kill()

    @asynccontextmanager
    async def export(
        self, form: Format, first: int | None, last: int | None, *, retrace: bool = False
    ) -> AsyncIterator[Export]:
        """A new export, which ends with the block at the latest."""
        if self._stopping.is_set():
            raise ApiError(503, "the service is stopping", retry_after=1)
        if self._under_way >= self._most:
            problem = f"there must be at most {self._most} exports at the same time (max_exports), but got one more"
            raise ApiError(429, f"{problem}: try again", retry_after=_RETRY)
        self._under_way += 1
        try:
            export = Export(*await asyncio.to_thread(self._start, form, first, last, retrace))
            async with export.reading():
                self._running.add(export)
                try:
                    if self._stopping.is_set():  # while it was started
                        export.process.kill()
                    yield export
                finally:
                    self._running.discard(export)
        finally:
            self._under_way -= 1

    def _start(
        self, form: Format, first: int | None, last: int | None, retrace: bool
    ) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        command = [sys.executable, "-m", "hellinger", "export", "--format", form, "--output", "-"]
        if not self._contexts:
            command.append("--no-contexts")
        if retrace:
            command.append("--retrace")
        for flag, at in (("--since", first), ("--until", last)):
            if at is not None:
                command += [flag, datetime.fromtimestamp(min(max(at, _FIRST), _LAST) / 1000, UTC).isoformat()]
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the export
        environ = self._rules if retrace else {}
        return start(command, self._database, environ=environ, stdout=subprocess.PIPE, stderr=errors), errors


class Streamed(Response):
    """The rows as a process writes them, which waits while the client does.

    An export that fails before its first byte is answered 503; one that fails later ends the connection in the middle
    of the answer, so that no client takes a part for the whole.
    """

    def __init__(
        self, exports: Exports, form: Format, first: int | None, last: int | None, *, retrace: bool = False
    ) -> None:
        self._exports = exports
        self._what = form, first, last
        self._retrace = retrace
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send for as long as there are rows and a client."""
        async with self._exports.export(*self._what, retrace=self._retrace) as export:
            gone = asyncio.create_task(_watch(receive, export))
            try:
                begun = await self._send_rows(export, send)
                status = await export.end()
                failed = bool(status) and not gone.done()
                failure = export.failure()
            finally:
                gone.cancel()
        if failed:
            raise ExportError(failure) if begun else StoreUnavailableError(failure)
        if status == 0:  # not sooner: who has the last byte may ask for the next export
            if not begun:
                await send(self._start())
            await send({"type": "http.response.body", "body": b""})

    async def _send_rows(self, export: Export, send: Send) -> bool:
        """Hand the rows on; whether there were any."""
        begun = False
        while part := await export.rows.read(PART):
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


async def _watch(receive: Receive, export: Export) -> None:
    """End the export when the client goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    export.process.kill()
