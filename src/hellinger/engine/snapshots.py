"""Snapshots of a log while it is written to: another process folds it and keeps the result."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time

from hellinger.engine.background import start
from hellinger.engine.settings import Settings

__all__ = ["WORTH", "Snapshots"]

log = logging.getLogger(__name__)

WORTH = 1000
"""Events that a snapshot must save the next start from folding."""
PAUSE = 60.0
"""Seconds between two attempts."""
LONG = 10_000
"""Events that a start has folded after which the next should not have to: half a second and more."""


class Snapshots:
    """Begins a snapshot when enough has happened since the last, one at a time.

    Parameters
    ----------
    settings
        When, and of which database.
    seq
        The place in the log that needs no folding at a start.
    reached
        The place up to which this start has folded it. Where that was long, a snapshot is due at once: a service that
        is killed more often than it takes snapshots would fold more at each start.
    """

    def __init__(self, settings: Settings, seq: int, reached: int) -> None:
        self._settings = settings
        self.seq = seq
        self._late = reached - seq >= LONG
        self._taken = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = (0, -PAUSE)
        """How far the log had come when a snapshot was last begun, and when that was."""

    @property
    def age(self) -> float:
        """Seconds since a snapshot was last taken, or the service started."""
        return time.monotonic() - self._taken

    @property
    def running(self) -> bool:
        """Whether one is being taken."""
        return self._process is not None and self._process.poll() is None

    async def consider(self, seq: int) -> None:
        """Begin one if it is due, with the log at this place."""
        running, settings = self._process, self._settings
        if running is not None:
            if running.poll() is None:
                return
            self._process = None
            if running.returncode == 0:
                self.seq, self._taken = self._begun
            else:
                log.error("the snapshot failed with status %d", running.returncode)
        events = seq - self.seq
        due = self._late or events >= settings.snapshot_every_events
        due = due or self.age / 60 >= settings.snapshot_every_minutes
        if due and events >= WORTH and time.monotonic() - self._begun[1] > PAUSE:
            self._begun = (seq, time.monotonic())
            self._late = False
            command = [sys.executable, "-m", "hellinger", "snapshot"]
            if settings.retention_days is not None:
                command += ["--retention-days", str(settings.retention_days)]
                command += ["--attribution-hours", str(settings.attribution_hours)]
            quiet = subprocess.DEVNULL
            self._process = await asyncio.to_thread(start, command, settings.database, stdout=quiet)

    async def stop(self) -> None:
        """End the process, if one runs."""
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
