"""The log in one file, for one service.

Durable by write-ahead logging with ``synchronous=FULL``: a commit returns when the disk has it. ``fullfsync`` asks the
same of macOS, where an ordinary flush does not reach the disk.

The file that was opened is the log. Where it is moved, deleted or replaced meanwhile, the store is unavailable until it
is back: no other file is written to, and none is made in its place.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar
from urllib.parse import quote

from hellinger.errors import InputError
from hellinger.events import Logged, Row
from hellinger.store import _wal
from hellinger.store._keeper import Keeper
from hellinger.store._migrate import VERSION_TABLE, migrate
from hellinger.store._pool import ConnectionPool
from hellinger.store._sql import Session, SqlStore
from hellinger.store._url import settings
from hellinger.store.errors import StoreDamagedError, StoreError, StoreUnavailableError
from hellinger.store.limits import TIMEOUT

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["SqliteStore"]

_Done = TypeVar("_Done")
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}  # the last: a table is missing
_ROWS = 1024  # in one statement: SQLite may have been built to take no more than 32,766 values
_WAL_BYTES = 256 << 20  # where the thread that keeps it small lags so far behind, the writer does it itself
_KEEP_BYTES = 32 << 20  # of its file, when it is started over
_ROW_BYTES = 1024  # what a row takes besides its body, in pages of indices, where it is far from others
_COMMIT_BYTES = 4 * _wal.PAGE_BYTES  # what a commit takes besides its rows
_LOOK = 0.1  # seconds between two looks whether the file is where it was: at every commit they took 3 % of a ranking
_LOAD = "INSERT INTO events (seq, key, kind, at, body) VALUES (?, ?, ?, ?, ?)"


@functools.cache
def _insertion(rows: int) -> str:
    """One statement for a batch, since each step of one gives up the interpreter's lock and waits to have it again.

    SQLite numbers rows itself, one more than the greatest, and a row passed over takes no number.
    """
    values = ", ".join(["(?, ?, ?, ?)"] * rows)
    return (
        "INSERT INTO events (key, kind, at, body) SELECT column1, column2, column3, column4 "
        f"FROM (VALUES {values}) WHERE column1 IS NOT NULL ON CONFLICT (key) DO NOTHING"
    )


class SqliteStore(SqlStore):
    """A log in a file.

    Beside it lie ``-wal`` and ``-shm`` while it is open, ``.lock`` for the one service, and ``.checkpoint``, which
    tells whether the write-ahead log is whole.
    """

    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)
    _listed = "(SELECT value FROM json_each(?)) AS listed"

    def __init__(self, path: Path, *, timeout: float, exclusive: bool) -> None:
        self.path = path
        self._timeout = timeout
        self._opened: tuple[int, int] | None = None
        """Device and inode of the file, once it has been opened."""
        self._looked = 0.0
        """When it was last seen to be where it was."""
        self._lock = _locked(path) if exclusive else None
        self._turn = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._keeper = Keeper(path, self._connect, self._turn, self._once_free)
        self._readers = ConnectionPool(lambda: self._connect("PRAGMA query_only = 1"))
        self._begin()

    @classmethod
    def open(cls, url: str, *, exclusive: bool) -> Self:
        """Open the file that the URL names, made if need be."""
        path, timeout = _read(url)
        return cls(path, timeout=timeout, exclusive=exclusive)

    @classmethod
    def reserve(cls, url: str) -> int | None:
        """Ask to be the only service on the file."""
        return _locked(_read(url)[0])

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    # Connections --------------------------------------------------------------------------------------

    def _connect(self, *pragmas: str) -> sqlite3.Connection:
        if self._opened is not None:
            self._require_same_file()
        mode = "rwc" if self._opened is None else "rw"  # made once, and not in place of one that has gone
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(self.path))}?mode={mode}",
            uri=True,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )
        try:
            # before any statement: the first one would take the write-ahead log beside the path for this file's own
            self._opened = self._opened or self._found()
            self._require_same_file()
            self._set_up(connection, pragmas)
        except BaseException:
            connection.close()
            raise
        return connection

    def _found(self) -> tuple[int, int] | None:
        """Device and inode of the file that the path leads to now."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _require_same_file(self) -> None:
        found = self._found()
        if found is None or found != self._opened:
            raise StoreUnavailableError(
                f"{self.path} was moved, deleted or replaced while it was open: put it back, or restart the service"
            )

    def _set_up(self, connection: sqlite3.Connection, pragmas: Sequence[str]) -> None:
        for pragma in (
            "PRAGMA synchronous = FULL",
            "PRAGMA fullfsync = 1",
            "PRAGMA checkpoint_fullfsync = 1",
            f"PRAGMA journal_size_limit = {_KEEP_BYTES}",
            f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // _wal.PAGE_BYTES}",
            *pragmas,
        ):
            connection.execute(pragma)

    def _prepare(self) -> None:
        _wal.require_whole(self.path)
        found = self._once_free(self._revision)
        migrate(found, self._upgrading)

    def _revision(self) -> str | None:
        with closing(self._connect("PRAGMA busy_timeout = 0")) as connection:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]  # never waits for a lock by itself
            if mode != "wal":
                raise StoreUnavailableError(f"{self.path} is on a file system without write-ahead logging: {mode}")
            named = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (VERSION_TABLE,)).fetchone()
            found = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() if named else None
            return found[0] if found else None

    @contextmanager
    def _upgrading(self) -> Iterator[Connection]:
        from sqlalchemy import NullPool, create_engine

        engine = create_engine("sqlite://", creator=self._connect, poolclass=NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def close(self) -> None:
        """Close the file; the last to do so copies the write-ahead log into it."""
        self._readers.close()
        self._keeper.close()
        with self._turn:
            if self._writer is not None:
                with suppress(OSError):
                    _wal.mark(self.path)  # the last to close the file copies what the log holds
                self._writer.close()
                self._writer = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # What SQLite does in its own way ------------------------------------------------------------------

    def _insert(self, events: Sequence[Row]) -> tuple[int, int]:
        if len(events) <= _ROWS:
            try:  # written out: a context manager written as a generator would cost as much as the row
                with self._turn:
                    connection = self._the_writer()
                    try:
                        done = _insert_rows(connection, events)
                    except sqlite3.OperationalError as error:
                        if _code(error) != sqlite3.SQLITE_BUSY:
                            raise
                        done = self._insert_in_turn(connection, events)
                    bodies = sum(len(event[3]) for event in events)
                    self._keeper.wrote(bodies + _ROW_BYTES * len(events) + _COMMIT_BYTES)
                    return done
            except sqlite3.Error as error:
                raise self._said(error) from error
        with self._writing() as session:
            counts = [_insert_rows(session.connection, events[i : i + _ROWS]) for i in range(0, len(events), _ROWS)]
        return max(last for last, _ in counts), sum(added for _, added in counts)

    def _insert_in_turn(self, connection: sqlite3.Connection, events: Sequence[Row]) -> tuple[int, int]:
        """Wait for the file's lock first: to try with all rows bound, again and again, costs far more."""
        self._once_free(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            done = _insert_rows(connection, events)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return done

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with self._translated(), self._readers.borrow() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _writing(self, *, alone: bool = False, patient: bool = False) -> Iterator[_Session]:
        with self._translated(), self._turn:
            connection = self._the_writer()
            self._once_free(lambda: connection.execute("BEGIN IMMEDIATE"))
            try:
                yield _Session(connection)
                connection.execute("COMMIT")
                self._keeper.wrote(_wal.PAGE_BYTES * 256)  # a part of a snapshot or some thousand rows
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _patiently(self) -> Iterator[Session]:
        with self._translated(), self._readers.borrow() as connection:
            yield _Session(connection)

    def _the_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._connect("PRAGMA busy_timeout = 0")
        else:
            now = time.monotonic()
            if now - self._looked > _LOOK:
                self._require_same_file()
                self._looked = now
        return self._writer

    def _once_free(self, write: Callable[[], _Done]) -> _Done:
        """Take the lock on the file as soon as it is free.

        SQLite itself looks again only every tenth of a second: beside a busy writer it would hardly ever be lucky.
        """
        until = 0.0
        while True:
            try:
                return write()
            except sqlite3.OperationalError as error:
                until = until or time.monotonic() + self._timeout
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.001)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._said(error) from error

    def _said(self, error: sqlite3.Error) -> StoreError:
        message = f"{self.path}: {error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
        if _code(error) == sqlite3.SQLITE_IOERR and self._turn.acquire(blocking=False):
            # the disk may have come back: begin anew
            with suppress(sqlite3.Error):
                if self._writer is not None:
                    self._writer.close()
            self._writer = None
            self._turn.release()
        return (StoreDamagedError if _code(error) in _DAMAGE else StoreUnavailableError)(message)


def _read(url: str) -> tuple[Path, float]:
    """The file that a URL names, and its timeout."""
    address, given = settings(url, {"timeout": TIMEOUT})
    prefix, path = address[: len("sqlite:///")], address[len("sqlite:///") :]
    path, _, unknown = path.partition("?")
    if prefix != "sqlite:///" or path in ("", ":memory:") or unknown:
        form = "sqlite:///relative.db or sqlite:////absolute.db, with no setting but timeout"
        raise InputError(f"a URL of SQLite must be {form}, but got {url!r}")
    return Path(path).absolute(), given["timeout"]


def _locked(path: Path) -> int:
    """Be the only service on the file: the lock ends with the process, however that ends."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailableError(f"{lock} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StoreUnavailableError(f"{path} is in use by another service, which holds {lock}") from error
    return descriptor


class _Session:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def rows(self, statement: str, *values: object) -> list[Any]:
        return self.connection.execute(statement, values).fetchall()

    def run(self, statement: str, *values: object) -> int:
        return self.connection.execute(statement, values).rowcount

    def load(self, events: Iterable[Logged]) -> None:
        self.connection.executemany(_LOAD, events)


def _insert_rows(connection: sqlite3.Connection, events: Sequence[Row]) -> tuple[int, int]:
    # padded to a power of two, so that few statements need be prepared
    rows = 1 << (len(events) - 1).bit_length()
    values = [*itertools.chain.from_iterable(events), *itertools.repeat(None, 4 * (rows - len(events)))]
    cursor = connection.execute(_insertion(rows), values)
    return cursor.lastrowid or 0, cursor.rowcount


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
