"""Exports under way: each is ``hellinger export`` in a process of its own, so that rankings do not wait for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
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
from hellinger.serve.keys import Key, Keys
from hellinger.store import StoreUnavailableError

__all__ = ["Export", "ExportError", "Exports", "Streamed"]

PART = 1 << 16
"""Bytes handed on at once; about twice as many wait in memory for a client that is slow."""
PATIENCE = 300.0
"""Seconds after which a client that takes nothing, or little, is let go: others may be waiting for its place."""
SLOWEST = 1 << 14
"""Bytes a second that a client has to take, of the time in which the export waits for it."""
_TOLD = 2000
"""Bytes that are logged of the output of a failed export."""
_RETRY = 10
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_000
"""The times that can be written, in UTC: by an offset, a client may mean a day before or after them."""


class ExportError(HellingerError):
    """An export that failed after its answer had begun."""


class Export:
    """A process that writes rows. It is read a little ahead of the client; then it has to wait."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes], key: Key | None = None) -> None:
        self.process = process
        self.key = key
        """The key that it was asked for with, where there are keys."""
        self.why = ""
        """Why it was broken off."""
        self.taking: asyncio.Timeout | None = None
        """Runs while it waits for the client to take a part."""
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

    def break_off(self, why: str) -> None:
        """End it before it has come to its end."""
        self.why = self.why or why
        self.process.kill()
        if self.taking is not None:  # a client that takes nothing would keep its place
            self.taking.reschedule(asyncio.get_running_loop().time())

    async def end(self) -> int:
        """Wait for its end; its status."""
        return await asyncio.to_thread(self.process.wait)

    def failure(self) -> str:
        """Why it was broken off, or its last output."""
        if self.why:
            return f"the export was broken off: {self.why}"
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _TOLD))
        words = " ".join(self._errors.read().decode(errors="replace").split())
        return f"the export failed with status {self.process.returncode}: {words}"


class Exports:
    """Starts exports, so many at the same time, and ends them with their client or with the service."""

    def __init__(self, settings: Settings, keys: Keys | None = None) -> None:
        self._keys = keys or Keys()
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

    def dismiss(self) -> None:
        """End those whose key is no longer in force, as of the last look at the keys."""
        for export in self._running:
            if not self._keys.in_force(export.key):
                export.break_off("its key is no longer in force")

    @asynccontextmanager
    async def export(
        self, form: Format, first: int | None, last: int | None, *, retrace: bool = False, caller: str = ""
    ) -> AsyncIterator[Export]:
        """A new export, which ends with the block at the latest; ``caller``: the name of the key that asks for it."""
        if self._stopping.is_set():
            raise ApiError(503, "the service is stopping", retry_after=1)
        if self._under_way >= self._most:
            problem = f"there must be at most {self._most} exports at the same time (max_exports), but got one more"
            raise ApiError(429, f"{problem}: try again", retry_after=_RETRY)
        self._under_way += 1
        key = self._keys.named(caller)
        try:
            export = Export(*await asyncio.to_thread(self._start, form, first, last, retrace), key)
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
        self,
        exports: Exports,
        form: Format,
        first: int | None,
        last: int | None,
        *,
        retrace: bool = False,
        caller: str = "",
    ) -> None:
        self._exports = exports
        self._what = form, first, last
        self._retrace = retrace
        self._caller = caller
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send for as long as there are rows and a client."""
        async with self._exports.export(*self._what, retrace=self._retrace, caller=self._caller) as export:
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
        begun, taken, waited = False, 0, 0.0
        while not export.why and (part := await export.rows.read(PART)):
            if not begun:
                await send(self._start())
                begun = True
            since = time.monotonic()
            try:
                async with asyncio.timeout(PATIENCE) as export.taking:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            except TimeoutError:
                export.taking = None
                export.break_off("the client takes nothing")
                break
            export.taking = None
            taken += len(part)
            waited += time.monotonic() - since
            if waited > PATIENCE and taken < SLOWEST * waited:
                export.break_off(f"the client takes less than {SLOWEST >> 10} KiB a second")
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
