"""The log in PostgreSQL, for several copies of a service.

Durable by the server's ``fsync`` and ``full_page_writes``, on by default, and by ``synchronous_commit``, which is
turned on for these connections where the server has it off; a stronger value than ``on`` is left as it is.

A server that hangs, stops or is cut off is :class:`~hellinger.store.errors.StoreUnavailableError` after about the URL's
``timeout``: the server gives up statements and waits for locks by itself, and where it does not even answer, the
connection is given up here. What the URL says in ``connect_timeout`` or ``options`` goes before.
"""

from __future__ import annotations

import logging
import math
import select
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import quote

import orjson
import psycopg
from psycopg.conninfo import conninfo_to_dict

from hellinger.errors import InputError
from hellinger.events import Logged, Row
from hellinger.store._migrate import VERSION_TABLE, migrate
from hellinger.store._pool import ConnectionPool
from hellinger.store._sql import Session, SqlStore
from hellinger.store._url import settings
from hellinger.store.errors import StoreDamagedError, StoreUnavailableError, StoreVersionError
from hellinger.store.limits import TIMEOUT

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["PostgresqlStore"]

_LOG = logging.getLogger("hellinger.store")
_PATIENCE = 600.0  # seconds for what may take long
_DAMAGE = (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted, psycopg.ProgrammingError)  # the last: a table
# or column is missing, unless it is only the right to use it
_PASSING = psycopg.errors.InsufficientPrivilege
_APPEND = "SELECT last, added FROM hellinger_append(%s)"
_LOAD = "COPY events (seq, key, kind, at, body) FROM STDIN"
_LOCK = "SELECT pg_advisory_xact_lock('events'::regclass::oid::bigint)"
_UPGRADE_LOCK = "SELECT pg_advisory_xact_lock(hashtext('hellinger ' || current_schema()))"
_VERSIONED = f"SELECT to_regclass('{VERSION_TABLE}') IS NOT NULL"
_VERSION = f"SELECT version_num FROM {VERSION_TABLE}"
_SYNCHRONOUS = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name IN ('server_encoding', 'fsync', 'full_page_writes')"


class _Connection(psycopg.Connection[Any]):
    """A connection that does not wait for ever: a server that is stopped in its tracks keeps its sockets open."""

    patience = math.inf

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Wait for the server, for as long as there is patience."""
        return super().wait(_until(gen, time.monotonic() + self.patience), *args, **kwargs)


def _until(waiting: Generator[Any, Any, Any], deadline: float) -> Generator[Any, Any, Any]:
    """Pass on what a generator of psycopg waits for, which is resumed with nothing now and then, up to a deadline."""
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise psycopg.OperationalError("the server does not answer")
            wanted = waiting.send(ready)
    except StopIteration as done:
        return done.value


class PostgresqlStore(SqlStore):
    """A log in a database, or in a schema of one that ``options=-csearch_path=…`` names."""

    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres")
    _listed = "json_array_elements_text(?::json) AS listed (value)"

    def __init__(self, parameters: dict[str, Any], *, timeout: float) -> None:
        limit = math.ceil(1000 * timeout)
        ours = f"-c statement_timeout={limit} -c lock_timeout={limit} -c jit=off -c enable_seqscan=off"
        defaults = {
            "connect_timeout": max(2, math.ceil(timeout)),
            "tcp_user_timeout": limit,
            "application_name": "hellinger",
        }
        options = f"{ours} {parameters.get('options', '')}".rstrip()
        self._parameters: dict[str, Any] = defaults | parameters | {"options": options, "client_encoding": "UTF8"}
        self._timeout = timeout
        self._pool = ConnectionPool(self._connect, alive=_alive)
        self._begin()

    @classmethod
    def open(cls, url: str, *, exclusive: bool) -> Self:
        """Open the log in the database that the URL names; any number of services may."""
        address, given = settings(url, {"timeout": TIMEOUT})
        try:
            parameters = conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            parameters = {"host": "@"}
        # a password that is not quoted ends up among the rest, and the driver's words quote the whole URL
        if "@" in str(parameters.get("host", "")) or set(str(parameters.get("port", ""))) - set("0123456789,"):
            form = "postgresql://user:password@host:port/database?setting=value"
            raise InputError(f"a URL of PostgreSQL must be {form}, the password percent-encoded")
        return cls(parameters, timeout=given["timeout"])

    def __repr__(self) -> str:
        return f"PostgresqlStore({self._where!r})"

    @property
    def _where(self) -> str:
        shown = {name: self._parameters.get(name, "") for name in ("user", "host", "port", "dbname")}
        return " ".join(f"{name}={value}" for name, value in shown.items() if value)

    # Connections --------------------------------------------------------------------------------------

    def _connect(self) -> _Connection:
        connection = _Connection.connect(autocommit=True, **self._parameters)
        connection.patience = 1.5 * self._timeout
        try:
            connection.execute(_SYNCHRONOUS)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        with self._pool.borrow() as connection:
            server = dict(connection.execute(_SETTINGS).fetchall())
            versioned = connection.execute(_VERSIONED).fetchone() == (True,)
            found = connection.execute(_VERSION).fetchone() if versioned else None
        if server["server_encoding"] != "UTF8":
            raise StoreVersionError(f"the database's encoding must be UTF8, but is {server['server_encoding']}")
        for name in ("fsync", "full_page_writes"):
            if server[name] != "on":
                _LOG.warning(
                    "%s: the server has %s = %s, so a loss of power may lose events", self._where, name, server[name]
                )
        migrate(found[0] if found else None, self._upgrading)

    @contextmanager
    def _upgrading(self) -> Iterator[Connection]:
        from sqlalchemy import NullPool, create_engine

        def connect() -> _Connection:
            connection = self._connect()
            connection.patience = _PATIENCE
            connection.autocommit = False
            return connection

        engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)
        with engine.begin() as connection:
            _be_patient(connection.exec_driver_sql)
            connection.exec_driver_sql(_UPGRADE_LOCK)
            yield connection

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    # What PostgreSQL does in its own way --------------------------------------------------------------

    def _insert(self, events: Sequence[Row]) -> tuple[int, int]:
        try:
            batch = orjson.dumps(events, default=tuple)  # it knows tuples, but no named ones
        except TypeError as error:
            raise InputError(f"an event must be text in UTF-8 and a whole number, but: {error}") from error
        with self._translated(), self._pool.borrow() as connection:
            found = connection.execute(_APPEND, (batch.decode(),)).fetchone()
            assert found is not None
            return found[0], found[1]

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with self._translated(), self._pool.borrow() as connection:
            return _Session(connection).rows(statement, *values)

    @contextmanager
    def _writing(self, *, alone: bool = False, patient: bool = False) -> Iterator[_Session]:
        with self._translated(), self._pool.borrow() as connection, connection.transaction():
            usual = connection.patience
            if patient:
                connection.patience = _PATIENCE
                _be_patient(connection.execute)
            if alone:
                connection.execute(_LOCK)
            yield _Session(connection)
            connection.patience = usual

    @contextmanager
    def _patiently(self) -> Iterator[Session]:
        with self._writing(patient=True) as session:
            yield session

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            damaged = isinstance(error, _DAMAGE) and not isinstance(error, _PASSING)
            kind = StoreDamagedError if damaged else StoreUnavailableError
            # the primary message alone: the details of some errors quote what was written
            words = error.diag.message_primary or str(error) or type(error).__name__
            if isinstance(error, psycopg.OperationalError):  # where it could not connect: the cause, without advice
                words = words.splitlines()[0].rpartition(" failed: ")[2]
            raise kind(f"{self._where}: {self._without_password(words)}") from None

    def _without_password(self, words: str) -> str:
        password: str = self._parameters.get("password") or ""
        for secret in filter(None, {password, quote(password, safe="")}):
            words = words.replace(secret, "***")
        return words


class _Session:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def rows(self, statement: str, *values: object) -> list[Any]:
        return self._execute(statement, values).fetchall()

    def run(self, statement: str, *values: object) -> int:
        return self._execute(statement, values).rowcount

    def load(self, events: Iterable[Logged]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(_LOAD) as copy:
            for event in events:
                copy.write_row(event)

    def _execute(self, statement: str, values: Sequence[object]) -> psycopg.Cursor[Any]:
        return self._connection.execute(statement.replace("?", "%s").encode(), values)


def _alive(connection: psycopg.Connection[Any]) -> bool:
    """Whether an idle connection still has a server: one that was stopped has said so, or closed its end."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _be_patient(execute: Callable[[str], object]) -> None:
    execute("SET LOCAL statement_timeout = 0")
    execute("SET LOCAL lock_timeout = 0")
