"""Several processes behind one port: a supervisor that starts them, starts those again that die, and ends them all.

All accept connections from one listening socket, which they inherit. A connection that waits there is taken by whoever
comes next, so none is lost with a worker; a socket for each worker (``SO_REUSEPORT``) spread connections no better when
measured, and its queue dies with its worker.

Each worker has a pipe to the supervisor. It reads from it what to do, says when it is ready or why it is not, and ends
when the other end is gone, however the supervisor died.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from types import FrameType

from hellinger.engine.settings import Settings
from hellinger.errors import InputError
from hellinger.serve.board import Board
from hellinger.serve.keys import Keys
from hellinger.serve.run import bind, prepare, serve
from hellinger.store import StoreError, reserve

__all__ = ["supervise"]

_LOG = logging.getLogger("hellinger.serve")
FIRST_PAUSE = 0.1
"""Seconds until a worker that died is started again; twice as long each time, while it does not last."""
LONGEST_PAUSE = 30.0
LASTING = 60.0
"""Seconds after which a worker counts as one that works."""


def supervise(settings: Settings, keys: Keys) -> None:
    """Serve by ``settings.workers`` processes until SIGTERM or SIGINT; each then ends as a single service does.

    Raises ``ValueError`` where the first worker cannot start, with its message.
    """
    prepare(settings)
    listener = bind(settings.host, settings.port)
    try:
        lock = reserve(settings.database)
        with tempfile.TemporaryDirectory(prefix="hellinger-", ignore_cleanup_errors=True) as folder:
            _Supervisor(settings, keys, listener, lock, folder).run()
    finally:
        listener.close()


class _Worker:
    """A process, and the pipe to it."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe
        self.ready = False
        self.began = time.monotonic()
        self.failure: str | None = None
        """Why it could not start, as it says."""


class _Supervisor:
    def __init__(self, settings: Settings, keys: Keys, listener: socket.socket, lock: int | None, folder: str) -> None:
        self._settings = settings
        self._keys = keys
        self._listener = listener
        self._lock = lock
        self._folder = folder
        self._workers: dict[int, _Worker] = {}
        self._due = {0: 0.0}
        """When each worker that does not run is to be started. The others follow when the first is ready."""
        self._pauses = dict.fromkeys(range(settings.workers), FIRST_PAUSE)
        self._served = False
        self._stopping = False
        self._status = 0

    def run(self) -> None:
        """Start the workers, and return when all have ended after a signal."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            while self._workers or not self._stopping:
                now = time.monotonic()
                for index in [index for index, due in self._due.items() if due <= now]:
                    self._start(index)
                pipes = {worker.pipe: index for index, worker in self._workers.items()}
                pause = min([due - now for due in self._due.values() if due > now], default=1.0)
                for pipe in wait(list(pipes), min(1.0, pause)):
                    self._hear(pipes[pipe])  # type: ignore[index]
        finally:
            for worker in self._workers.values():  # only after a failure of the supervisor's own
                worker.process.terminate()
        if self._status:
            raise SystemExit(self._status)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        """End all: in order at the first signal; a second SIGINT is passed on, and does not wait for requests."""
        given = number if self._stopping else signal.SIGTERM
        self._stopping = True
        self._listener.close()  # with the last worker's, nobody listens any more
        for worker in list(self._workers.values()):
            worker.process.send_signal(given)

    def _start(self, index: int) -> None:
        """Start a worker; a signal may come at any moment."""
        if self._listener.fileno() < 0:  # closed by a signal
            return
        ours, theirs = Pipe()
        passed = [theirs.fileno(), self._listener.fileno(), *([] if self._lock is None else [self._lock])]
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "hellinger.serve.workers", str(theirs.fileno())],
                pass_fds=passed,  # the lock too: nobody else may have the database before the last worker has ended
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # ctrl-C reaches the supervisor alone
            )
        except (OSError, ValueError) as error:
            ours.close()
            if not self._stopping:  # else the listener was closed meanwhile
                self._put_off(index, f"could not be started ({error})")
            return
        finally:
            theirs.close()
        worker = self._workers[index] = _Worker(process, ours)
        del self._due[index]
        with suppress(OSError):  # of one that has died already the pipe tells
            ours.send((self._settings, self._keys, index, passed[1], self._folder))
        if self._stopping:  # a signal came meanwhile
            worker.process.terminate()

    def _hear(self, index: int) -> None:
        """A worker is ready, could not start, or has ended."""
        worker = self._workers[index]
        try:
            message: str | None = worker.pipe.recv()
        except (EOFError, OSError):
            self._ended(index)
            return
        if message is not None:
            worker.failure = message
            return
        worker.ready = True
        if not self._served and not self._stopping:
            self._due = dict.fromkeys(range(1, self._settings.workers), 0.0)
        self._served = True

    def _ended(self, index: int) -> None:
        worker = self._workers.pop(index)
        worker.pipe.close()
        status = worker.process.wait()
        if self._stopping:
            self._status = self._status or (1 if worker.ready and status else 0)
            return
        if worker.failure is not None and not self._served:
            raise InputError(worker.failure)
        if time.monotonic() - worker.began > LASTING:
            self._pauses[index] = FIRST_PAUSE
        self._put_off(index, f"ended with status {status}{f' ({worker.failure})' if worker.failure else ''}")

    def _put_off(self, index: int, why: str) -> None:
        """Start a worker again after a pause; if it is the first, and none has ever served, end."""
        if not self._served:
            raise InputError(f"the first worker {why} before it was ready")
        pause = self._pauses[index]
        self._pauses[index] = min(LONGEST_PAUSE, 2.0 * pause)
        self._due[index] = time.monotonic() + pause
        _LOG.error("worker %d %s; it is started again in %.1f s", index, why, pause, extra={"worker": index})


# In the worker ---------------------------------------------------------------------------------------


def work(pipe: Connection) -> None:
    """Be a worker, as the supervisor says."""
    settings, keys, index, listener, folder = pipe.recv()
    if settings.seed is not None:  # two with one seed would draw the same
        settings = settings.model_copy(update={"seed": settings.seed + index})
    orphaned = threading.Event()
    threading.Thread(target=_end_with, args=(pipe, orphaned), name="supervisor", daemon=True).start()
    prepare(settings)

    from hellinger.serve.app import create_app

    try:
        board = Board(Path(folder), index)
        serve(
            settings,
            lambda: create_app(settings, keys, worker=index, board=board),
            socket.socket(fileno=listener),
            lambda: pipe.send(None),
        )
    except (StoreError, ValueError, OSError) as error:
        pipe.send(str(error))
        sys.exit(1)
    finally:
        if orphaned.is_set():
            shutil.rmtree(folder, ignore_errors=True)


def _end_with(pipe: Connection, orphaned: threading.Event) -> None:
    """End in order when the supervisor has ended, of which the system tells by the pipe alone."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    work(Connection(int(sys.argv[1])))
