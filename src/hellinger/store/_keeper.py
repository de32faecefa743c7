"""Checkpoint SQLite's write-ahead log in a background thread, so that no append has to wait for it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from hellinger.store.errors import StoreError

__all__ = ["Keeper"]

_LOG = logging.getLogger("hellinger.store")
_DUE = 4 << 20
_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


class Keeper:
    """Checkpoints whenever enough has been written; the thread begins with the first.

    Parameters
    ----------
    connect
        Opens a connection for the thread.
    turn
        Held by whoever writes.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], turn: AbstractContextManager[bool]) -> None:
        self._connect = connect
        self._turn = turn
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
        connection: sqlite3.Connection | None = None
        while self._due.wait() and not self._closed:
            self._due.clear()
            try:
                if connection is None:
                    connection = self._connect()
                connection.execute(_CHECKPOINT).fetchone()
                # SQLite starts the write-ahead log over only when all of it has been copied, and meanwhile more was
                # written: that little once more, with the writer waiting
                with self._turn:
                    connection.execute(_CHECKPOINT).fetchone()
            except (sqlite3.Error, StoreError) as error:  # whoever writes meets it too, and can report it
                _LOG.warning("a checkpoint failed; the next will make up for it: %s", error)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """End the thread; not to be called in the writer's turn."""
        self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()
