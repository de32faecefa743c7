"""Work that another process does beside the service, when the processors have nothing else to do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

__all__ = ["start"]


def start(command: Sequence[str], database: str, **streams: Any) -> subprocess.Popen[bytes]:
    """Start a command for this database. To be called in a thread: it takes the loop milliseconds otherwise.

    The address is in the environment, where its password is not seen by others. Polars has one thread: the other
    processors are for rankings.
    """
    environ = os.environ | {"HELLINGER_DATABASE": database, "POLARS_MAX_THREADS": "1"}
    process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, **streams)
    with suppress(OSError, AttributeError):  # from its first moment on: to import everything is much of its work
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
    return process
