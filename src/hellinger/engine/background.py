"""Work that another process does beside the service, at a lower priority: snapshots, exports."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

__all__ = ["NICE", "start"]

NICE = 10
"""Steps of priority below the service."""


def start(command: Sequence[str], database: str, **streams: Any) -> subprocess.Popen[bytes]:
    """Start a command for this database. To be called in a thread: it takes the loop milliseconds otherwise.

    The address is in the environment, where its password is not seen by others. Polars has one thread: the other
    processors are for rankings.
    """
    environ = os.environ | {"HELLINGER_DATABASE": database, "POLARS_MAX_THREADS": "1"}
    process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, **streams)
    with suppress(OSError):  # from its first moment on: to import everything is most of what a short one does
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
    return process
