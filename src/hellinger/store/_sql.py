"""What stores in SQL share: everything but how a connection is made and how a batch is inserted.

Statements are written with ``?`` for values. A list of values travels as one JSON array, which :attr:`SqlStore._listed`
turns into a table of one column ``value``.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, ClassVar, Protocol

import orjson

from hellinger.errors import require
from hellinger.events import Logged, Row
from hellinger.store import _digest
from hellinger.store._checked import checked_part, distinct
from hellinger.store._contract import Appended
from hellinger.store.errors import StoreDamagedError, StoreError, StoreUnavailableError
from hellinger.store.limits import COMPACTED

__all__ = ["Session", "SqlStore"]

_WINDOW = 5000  # places that one transaction of a compaction goes through

_LOGGED_ROW: Callable[[Any], Logged] = partial(tuple.__new__, Logged)  # Logged._make takes twice as long
_LOGGED = "SELECT seq, key, kind, at, body FROM events"
_BETWEEN = f"{_LOGGED} WHERE seq > ? AND seq < ? ORDER BY seq LIMIT ?"
_PLACES = "SELECT key, seq FROM events WHERE seq > ? AND seq <= ?"
_READ = f"{_LOGGED} WHERE seq > ? ORDER BY seq LIMIT ?"
# "0" follows "/": the range holds exactly what begins with the key and a slash
_THREAD = f"""
{_LOGGED} JOIN {{listed}} ON key = value UNION
{_LOGGED} JOIN {{listed}} ON key >= value || '/' AND key < value || '0' ORDER BY seq
"""
_AT = f"{_LOGGED} WHERE seq IN (SELECT CAST(value AS bigint) FROM {{listed}}) ORDER BY seq"
_LAST = "SELECT coalesce(max(seq), 0) FROM events"
_COUNT = "SELECT count(*) FROM events"

_BEGIN_SNAPSHOT = "INSERT INTO snapshots (id, seq, base) VALUES (?, ?, ?)"
_ADD_PART = "INSERT INTO snapshot_parts (snapshot, part, digest, body) VALUES (?, ?, ?, ?)"
_COMPLETE = "UPDATE snapshots SET parts = ?, digest = ? WHERE id = ?"
_CURRENT = "SELECT id FROM snapshots WHERE digest IS NOT NULL AND base = ? ORDER BY seq DESC LIMIT 1"
_SUPERSEDE = "DELETE FROM snapshots WHERE id <> ? AND seq <= ? AND base = ?"
_SUPERSEDED = """
DELETE FROM snapshots WHERE base = ? AND seq < (SELECT max(seq) FROM snapshots WHERE digest IS NOT NULL AND base = ?)
"""
_FORGET = "DELETE FROM snapshots WHERE id = ?"
_ORPHANS = "SELECT snapshot, part FROM snapshot_parts WHERE snapshot NOT IN (SELECT id FROM snapshots)"
_DROP_PART = "DELETE FROM snapshot_parts WHERE snapshot = ? AND part = ?"
_SNAPSHOT = f"""
SELECT id, seq, parts, snapshots.digest, snapshot_parts.digest FROM snapshots
LEFT JOIN snapshot_parts ON snapshot = id WHERE id = ({_CURRENT}) ORDER BY part
"""
_PART = "SELECT body FROM snapshot_parts WHERE snapshot = ? AND part = ?"

_SINCE = "SELECT seq FROM events WHERE at >= ? ORDER BY seq LIMIT 1"
_FIRST = "SELECT coalesce(min(seq), 0) FROM events"
_COMPACT = f"""
DELETE FROM events WHERE seq > ? AND seq <= ? AND kind IN ({", ".join(f"'{kind}'" for kind in COMPACTED)})
AND seq < (SELECT max(seq) FROM events) AND seq NOT IN (SELECT CAST(value AS bigint) FROM {{listed}})
"""

_SECRET = "SELECT value FROM meta WHERE name = 'secret'"
_MAKE_SECRET = "INSERT INTO meta (name, value) VALUES ('secret', ?) ON CONFLICT (name) DO NOTHING"
_SET_SECRET = (
    "INSERT INTO meta (name, value) VALUES ('secret', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_TOUCH = "UPDATE meta SET value = value"
_TAKEN = "SELECT 1 FROM events UNION SELECT 1 FROM snapshots WHERE digest IS NOT NULL"


class Session(Protocol):
    """A connection within a transaction."""

    def rows(self, statement: str, *values: object) -> list[Any]:
        """What a query finds."""
        ...

    def run(self, statement: str, *values: object) -> int:
        """Execute a statement; how many rows it changed."""
        ...

    def load(self, events: Iterable[Logged]) -> None:
        """Insert many events at the places they bear."""
        ...


class SqlStore(ABC):
    """A store, up to five things that each database does in its own way."""

    _listed: ClassVar[str]

    @abstractmethod
    def _insert(self, events: Sequence[Row]) -> tuple[int, int]:
        """Append events with different keys where the log does not hold the key; the last place, and how many."""

    @abstractmethod
    def _rows(self, statement: str, *values: object) -> list[Any]:
        """What a query finds, on a connection of its own."""

    @abstractmethod
    def _writing(self, *, alone: bool = False, patient: bool = False) -> AbstractContextManager[Session]:
        """A transaction; ``alone``: no append takes place meanwhile; ``patient``: its statements may take long."""

    @abstractmethod
    def _patiently(self) -> AbstractContextManager[Session]:
        """For a query that may take long."""

    @abstractmethod
    def _translated(self) -> AbstractContextManager[None]:
        """What the driver raises, as an error of the store's."""

    @abstractmethod
    def _prepare(self) -> None:
        """Look at the database for the first time: make its schema, or bring it up to date."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    @classmethod
    def reserve(cls, url: str) -> int | None:
        """Nothing to reserve: any number of services may share the database, unless a store says otherwise."""
        return None

    def _begin(self) -> None:
        """Prepare, and let go of everything where that fails: at the end of a store's ``__init__``."""
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self.close()
            raise

    # The log ------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Row], after: int, limit: int = 1 << 62) -> Appended:
        """Write the events that are new, all or none; durable on return. At most ``limit`` others are returned."""
        new = distinct(events)
        last, added = self._insert(new) if new else (0, 0)
        if not added:
            return Appended([None] * len(events), self._logged(_BETWEEN, after, 1 << 62, limit))
        before = last - added
        others = self._logged(_BETWEEN, after, before + 1, limit) if before > after else []
        if added == len(events):
            return Appended(list(range(before + 1, last + 1)), others)
        places: dict[str, int] = dict(self._rows(_PLACES, before, last))
        return Appended([places.pop(key, None) for key, _, _, _ in events], others)

    def read(self, after: int, limit: int) -> list[Logged]:
        """The first events after a place, in order."""
        return self._logged(_READ, after, limit)

    def thread(self, keys: Sequence[str]) -> list[Logged]:
        """Events whose key is one of these or begins with one and a slash, in order."""
        listed = orjson.dumps(list(keys)).decode()
        return self._logged(_THREAD.format(listed=self._listed), listed, listed) if keys else []

    def at(self, seqs: Sequence[int]) -> list[Logged]:
        """The events at these places, in order."""
        return self._logged(_AT.format(listed=self._listed), orjson.dumps(list(seqs)).decode()) if seqs else []

    def last(self) -> int:
        """The place of the last event, 0 for an empty log."""
        return int(self._rows(_LAST)[0][0])

    def count(self) -> int:
        """How many events the log holds."""
        with self._patiently() as session:
            return int(session.rows(_COUNT)[0][0])

    def touch(self) -> None:
        """Write what is there already."""
        self._change(_TOUCH)

    def _logged(self, statement: str, *values: object) -> list[Logged]:
        return list(map(_LOGGED_ROW, self._rows(statement, *values)))

    # Snapshots ----------------------------------------------------------------------------------------

    def save_snapshot(self, seq: int, parts: Iterable[bytes], *, base: bool = False) -> None:
        """Keep what the events up to a place amount to; current at the end."""
        name, kind = secrets.randbits(62), int(base)
        self._change(_BEGIN_SNAPSHOT, name, seq, kind)
        try:
            digests = []
            for number, part in enumerate(parts):
                digests.append(_digest.of(checked_part(part)))
                self._gently(partial(self._change, _ADD_PART, name, number, digests[-1], part))
        except BaseException:
            with suppress(StoreError):
                self._change(_FORGET, name)
            raise
        with self._writing(alone=True) as session:
            session.run(_COMPLETE, len(digests), _digest.of_all(digests), name)
            session.run(_SUPERSEDE, name, seq, kind)
            session.run(_SUPERSEDED, kind, kind)
        # what was superseded, and what others left behind when they were killed
        for snapshot, number in self._rows(_ORPHANS):
            self._gently(partial(self._change, _DROP_PART, snapshot, number))

    def snapshot(self, *, base: bool = False) -> tuple[int, Iterator[bytes]] | None:
        """The current snapshot's place and its parts, each verified when it is handed out."""
        found = self._rows(_SNAPSHOT, int(base))
        if not found:
            return None
        name, seq, parts, digest, _ = found[0]
        digests = [row[4] for row in found if row[4] is not None]
        if len(digests) != parts or _digest.of_all(digests) != digest:
            raise StoreDamagedError(
                f"the snapshot of place {seq} must have {parts} parts, but they are not those written"
            )
        return seq, self._parts(name, seq, digests, base)

    def _parts(self, name: int, seq: int, digests: list[str], base: bool) -> Iterator[bytes]:
        for number, digest in enumerate(digests):
            found = self._rows(_PART, name, number)
            if not found and self._rows(_CURRENT, int(base)) != [(name,)]:
                raise StoreUnavailableError(f"the snapshot of place {seq} was replaced while it was read: read again")
            part = bytes(found[0][0]) if found else b""
            if not found or _digest.of(part) != digest:
                raise StoreDamagedError(f"part {number} of the snapshot of place {seq} is not what was written")
            yield part

    # Upkeep -------------------------------------------------------------------------------------------

    def reached(self, at: int) -> int:
        """The last place up to which everything was taken in before a time."""
        with self._patiently() as session:
            found = session.rows(_SINCE, at)
        return found[0][0] - 1 if found else self.last()

    def compact(self, through: int, keep: Collection[int]) -> int:
        """Delete events that a snapshot stands for, in many short transactions; how many."""
        statement, kept = _COMPACT.format(listed=self._listed), sorted(keep)
        deleted = 0
        for low in range(self._rows(_FIRST)[0][0] - 1, min(through, self.last()), _WINDOW):
            high = min(low + _WINDOW, through)
            listed = orjson.dumps(kept[bisect_right(kept, low) : bisect_right(kept, high)]).decode()
            deleted += self._gently(partial(self._change, statement, low, high, listed))
        return deleted

    def secret(self) -> bytes:
        """32 random bytes, made once for the log."""
        found = self._rows(_SECRET)
        if not found:
            self._change(_MAKE_SECRET, secrets.token_hex(32))
            found = self._rows(_SECRET)
        return bytes.fromhex(found[0][0])

    def fill(
        self,
        secret: bytes,
        events: Iterable[Logged],
        snapshot: tuple[int, Iterable[bytes]] | None,
        base: tuple[int, Iterable[bytes]] | None = None,
    ) -> None:
        """Put into an empty log, all or nothing, the content of another."""
        with self._writing(alone=True, patient=True) as session:
            require(not session.rows(_TAKEN), "a log to be filled is empty", events=session.rows(_COUNT)[0][0])
            session.load(events)
            for kind, given in enumerate((snapshot, base)):
                if given is None:
                    continue
                seq, parts = given
                session.run(_BEGIN_SNAPSHOT, kind, seq, kind)
                digests = []
                for number, part in enumerate(parts):
                    digests.append(_digest.of(checked_part(part)))
                    session.run(_ADD_PART, kind, number, digests[-1], part)
                session.run(_COMPLETE, len(digests), _digest.of_all(digests), kind)
            session.run(_SET_SECRET, secret.hex())

    def _change(self, statement: str, *values: object) -> int:
        with self._writing() as session:
            return session.run(statement, *values)

    @staticmethod
    def _gently(change: Callable[[], int]) -> int:
        """Make a change, and leave as long for others: a lock just released is otherwise taken by the same thread."""
        started = time.perf_counter()
        changed = change()
        time.sleep(min(0.05, time.perf_counter() - started))
        return changed
