"""Work that another process does beside the service, when the processors have nothing else to do."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

__all__ = ["start"]

LOOK = 2.0
"""Seconds between two looks whether the process gets anywhere."""
SHARE = 0.05
"""Of a processor; with less, nothing would ever be done."""
NICE = 10
"""Steps of priority below the service, where processors are never idle."""


def start(
    command: Sequence[str], database: str, *, environ: Mapping[str, str] = MappingProxyType({}), **streams: Any
) -> subprocess.Popen[bytes]:
    """Start a command for this database. To be called in a thread: it takes the loop milliseconds otherwise.

    The address is in the environment, where its password is not seen by others. Polars has one thread: the other
    processors are for rankings. Where processors are never idle, the process goes on at a low priority.
    """
    given = {"HELLINGER_DATABASE": database, "POLARS_MAX_THREADS": "1", **environ}
    process = subprocess.Popen(command, env=os.environ | given, stdin=subprocess.DEVNULL, **streams)
    with suppress(OSError, AttributeError):  # from its first moment on: to import everything is much of its work
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        threading.Thread(target=_watch, args=[process], name="background", daemon=True).start()
    return process


def _watch(process: subprocess.Popen[bytes]) -> None:
    """Give the process a low priority instead of none as soon as it gets nowhere."""
    begun, before = time.monotonic(), 0.0
    with suppress(OSError, IndexError, ValueError):  # it has ended, or this system does not say
        while process.poll() is None:
            time.sleep(LOOK)
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            now = time.monotonic()
            if used - before < SHARE * (now - begun):
                os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
                return
            begun, before = now, used
