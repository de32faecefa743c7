"""Checkpoint SQLite's write-ahead log in a background thread, so that no append has to wait for it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

from hellinger.store import _wal
from hellinger.store.errors import StoreError

__all__ = ["Keeper"]

_LOG = logging.getLogger("hellinger.store")
_DUE = 8 << 20  # bytes: every checkpoint holds up the writer for some milliseconds
_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
_ANYTHING = "SELECT 1 FROM sqlite_master LIMIT 1"


class Keeper:
    """Checkpoints whenever enough has been written; the thread begins with the first.

    Parameters
    ----------
    path
        The database's file.
    connect
        Opens a connection for the thread.
    turn
        The lock of writers.
    once_free
        Takes a lock on the file as soon as it is free.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[..., sqlite3.Connection],
        turn: AbstractContextManager[bool],
        once_free: Callable[[Callable[[], object]], object],
    ) -> None:
        self._path = path
        self._connect = connect
        self._turn = turn
        self._once_free = once_free
        self._written = 0
        self._due = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def wrote(self, size: int) -> None:
        """Take note of about so many bytes; the writer calls it in its turn."""
        self._written += size
        if self._written >= _DUE:
            self._written = 0
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hellinger-checkpoints", daemon=True)
                self._thread.start()
            self._due.set()

    def _run(self) -> None:
        with ExitStack() as stack:
            connections: list[sqlite3.Connection] = []
            while self._due.wait() and not self._closed:
                self._due.clear()
                try:
                    size = _wal.size(self._path)
                    if size < _DUE:  # rows beside one another take far less than was noted
                        self._written = size
                        continue
                    while len(connections) < 2:
                        connections.append(stack.enter_context(closing(self._connect("PRAGMA busy_timeout = 0"))))
                    self._checkpoint(*connections)
                except (OSError, sqlite3.Error, StoreError) as error:  # the next write meets it too, and can report it
                    _LOG.warning("a checkpoint failed; the next will make up for it: %s", error)

    def _checkpoint(self, connection: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        """Copy what the log holds, and then, with all writers waiting, the little that was written meanwhile.

        SQLite starts the log over only when all of it has been copied. Writers of other processes wait for the file's
        lock; this process's own for its turn, which it has at once when the copy is done.
        """
        self._copy(connection, reader, "BEGIN")
        with self._turn:
            self._copy(connection, reader, "BEGIN IMMEDIATE")

    def _copy(self, connection: sqlite3.Connection, reader: sqlite3.Connection, begin: str) -> None:
        self._once_free(lambda: reader.execute(begin))
        try:
            reader.execute(_ANYTHING).fetchone()  # from now on, no more is copied than this reader sees
            _wal.mark(self._path)
            connection.execute(_CHECKPOINT).fetchone()
        finally:
            reader.execute("ROLLBACK")

    def close(self) -> None:
        """End the thread; not to be called in the writer's turn."""
        self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()
