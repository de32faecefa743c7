"""The self-check of the newest rankings: made by a process of its own, and kept until somebody asks for another."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import orjson

from hellinger.engine.background import start
from hellinger.engine.service import make_desk
from hellinger.engine.settings import Settings
from hellinger.errors import HellingerError
from hellinger.evaluate.retrace import Retrace
from hellinger.evaluate.selfcheck import check_file
from hellinger.events import now
from hellinger.ledger import recovery
from hellinger.serve.export import Progress, write
from hellinger.serve.models import iso
from hellinger.store import Store

__all__ = ["RANKINGS", "SelfChecking", "check_log"]

RANKINGS = 20_000
"""Of the log, the newest, that are gone through again."""
REST = 30.0
"""Seconds after the end of a check in which no other begins."""
SHARE = 0.05
"""Of all time, that checks take at most."""
LONGEST = 1800.0
"""Seconds after which a check is given up."""
LOOK = 0.1
"""Seconds between two looks whether the process has ended."""
_TOLD = 500
"""Bytes that are logged of the output of a check that failed."""
_BATCH = 5000

_LOG = logging.getLogger(__name__)


# In the process ---------------------------------------------------------------------------------------


def check_log(store: Store, settings: Settings, rankings: int, *, progress: Progress | None = None) -> dict[str, Any]:
    """Go through the newest rankings again, and compare each variant with what others' traffic says of it.

    What was before is only folded, from a snapshot where there is one. What comes in meanwhile is left out.
    """
    at, last = now(), store.last()
    ledger = recovery.recover_at(store, _begin(store, rankings, last), cache=settings.request_cache)
    retrace = Retrace(make_desk(settings, ledger, store.secret()), store.thread)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.parquet")
        with path.open("wb") as out:
            write(store, "parquet", None, None, out, contexts=False, retrace=retrace, through=last, progress=progress)
        since, checks = check_file(path) if retrace.rankings else (at, ())
    return {
        "at": at,
        "since": since,
        "rankings": retrace.rankings,
        "chances": retrace.says,
        "variants": [each.as_json() for each in checks],
    }


def _begin(store: Store, rankings: int, last: int) -> int:
    """The place after which the log has so many rankings, or where what can be folded begins."""
    saved = store.snapshot(base=True)
    base = 0 if saved is None else saved[0]
    while last > base:
        first = max(base, last - _BATCH)
        ranks = [event.seq for event in store.read(first, _BATCH) if event.kind == "rank" and event.seq <= last]
        if len(ranks) >= rankings:
            return max(base, ranks[-rankings] - 1)
        rankings, last = rankings - len(ranks), first
    return base


# Beside it --------------------------------------------------------------------------------------------


class SelfChecking:
    """Has a check made by ``hellinger self-check``, one at a time and not too often, and keeps what was found."""

    def __init__(self, settings: Settings) -> None:
        self._database = settings.database
        self._rules = settings.as_environment()
        self._found: dict[str, Any] | None = None
        self._failed = ""
        self._began = self._ended = 0.0
        self._place = -1
        """Where the log ended when the last check began."""
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def look(self, variants: Collection[str], *, begin: bool, place: int) -> dict[str, Any]:
        """What is known of these variants; with ``begin`` another check is begun if there is none, or an old one."""
        if begin and self._due(place):
            self._began, self._place, self._failed = time.monotonic(), place, ""
            self._task = asyncio.create_task(self._check())
        found = self._found or {"at": None, "since": None, "rankings": 0, "chances": "", "variants": []}
        return found | {
            "state": self._state,
            "at": iso(found["at"]),
            "since": iso(found["since"]),
            "reason": self._failed or None,
            "variants": [row for row in found["variants"] if row["variant"] in variants],
        }

    async def stop(self) -> None:
        """End a check that is under way, and begin no more."""
        self._stopping = True
        if self._task is not None:
            await self._task

    @property
    def _running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def _state(self) -> str:
        if self._running:
            return "running"
        if self._failed:
            return "failed"
        return "none" if self._found is None else "ready"

    def _due(self, place: int) -> bool:
        if self._stopping or self._running:
            return False
        if self._place < 0:
            return True
        rest = max(REST, (self._ended - self._began) / SHARE)
        return time.monotonic() - self._ended >= rest and (place != self._place or bool(self._failed))

    async def _check(self) -> None:
        try:
            self._found = await self._process()
        except (HellingerError, OSError, ValueError) as error:
            self._failed = str(error)
            if not self._stopping:
                _LOG.error("%s: %s", error, error.__cause__)
        finally:
            self._ended = time.monotonic()

    async def _process(self) -> dict[str, Any]:
        process, out, errors = await asyncio.to_thread(self._start)
        with out, errors:
            try:
                while process.poll() is None:
                    late = time.monotonic() - self._began > LONGEST
                    if late or self._stopping:
                        why = f"it took more than {LONGEST:.0f} seconds" if late else "the service is stopping"
                        raise HellingerError(f"the self-check was given up: {why}")
                    await asyncio.sleep(LOOK)
            finally:
                process.kill()
                await asyncio.to_thread(process.wait)
            if process.returncode:
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TOLD))
                # what it says may have addresses in it: it is logged, and not told to who asks
                words = " ".join(errors.read().decode(errors="replace").split())
                raise HellingerError(f"the self-check failed with status {process.returncode}") from OSError(words)
            out.seek(0)
            found: dict[str, Any] = orjson.loads(out.read())
            return found

    def _start(self) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
        command = [sys.executable, "-m", "hellinger", "self-check", "--rankings", str(RANKINGS), "--json"]
        out, errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        return start(command, self._database, environ=self._rules, stdout=out, stderr=errors), out, errors
