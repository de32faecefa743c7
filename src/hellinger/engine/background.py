"""Work that another process does beside the service, when the processors have nothing else to do."""

from __future__ import annotations

import os
import resource
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
CAP_SYS_NICE = 23
"""Number of the capability to set priorities."""


def start(
    command: Sequence[str], database: str, *, environ: Mapping[str, str] = MappingProxyType({}), **streams: Any
) -> subprocess.Popen[bytes]:
    """Start a command for this database. To be called in a thread: it takes the loop milliseconds otherwise.

    The address is in the environment, where its password is not seen by others. Polars has one thread: the other
    processors are for rankings. While processors are never idle, the process goes on at a low priority; at that all the
    time where the service may not give it back.
    """
    given = {"HELLINGER_DATABASE": database, "POLARS_MAX_THREADS": "1", **environ}
    process = subprocess.Popen(command, env=os.environ | given, stdin=subprocess.DEVNULL, **streams)
    with suppress(OSError, AttributeError):  # from its first moment on: to import everything is much of its work
        nice = os.getpriority(os.PRIO_PROCESS, 0) + NICE
        os.setpriority(os.PRIO_PROCESS, process.pid, nice)
        if _may_return(nice):
            os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
            threading.Thread(target=_watch, args=[process], name="background", daemon=True).start()
    return process


def _may_return(nice: int) -> bool:
    """Whether a process of this priority that was given none may be given it again, by Linux's rules."""
    status = Path("/proc/self/status").read_text()
    capable = int(status.partition("CapEff:")[2].split()[0], 16) >> CAP_SYS_NICE & 1
    return bool(capable) or resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20 - nice


def _watch(process: subprocess.Popen[bytes]) -> None:
    """Give the process a low priority instead of none once it gets nowhere, for as long as processors are busy.

    One that waits for something else, as an export does for its reader, needs none.
    """
    starved = False
    with suppress(OSError):  # it has ended, or may not have more
        begun, before = time.monotonic(), _times(process.pid)
        while process.poll() is None:
            time.sleep(LOOK)
            now, times = time.monotonic(), _times(process.pid)
            used, waited = (after - first for after, first in zip(times, before, strict=True))
            starved = waited > (now - begun) / 2 and (starved or used < SHARE * (now - begun))
            how = os.SCHED_OTHER if starved else os.SCHED_IDLE
            for thread in Path(f"/proc/{process.pid}/task").iterdir():  # each has a priority of its own
                os.sched_setscheduler(int(thread.name), how, os.sched_param(0))
            begun, before = now, times


def _times(pid: int) -> list[float]:
    """Seconds that a process's threads had a processor, and that they waited for one; none where it is not known."""
    found = [0.0, 0.0]
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, ValueError):  # it has ended
            used, waited, _ = map(int, thread.read_text().split())
            found = [found[0] + used / 1e9, found[1] + waited / 1e9]
    return found
