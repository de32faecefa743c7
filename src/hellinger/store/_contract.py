"""What a store is: the promises that every implementation keeps and every caller may build upon.

A store holds one log: events, each with a key under which the log holds it once, in one total order.

**Order.** An event's place, its ``seq``, is one more than the last place when it was written: 1, 2, 3, …, without holes
but for what :meth:`Store.compact` deletes. Events of one batch stand in the order of the batch, with nobody else's
between them. Writers take turns, each holding the log from choosing its places until its commit is visible, so places
become visible in their order: whoever has read up to a place will never find a new event at or below it, and polling
``read(after)`` misses nothing. A place is never given twice; the last event is never deleted, since the next place
follows from it.

**Idempotence.** A key that the log holds, or that stood earlier in the same batch, is passed over: its place in the
answer is ``None``, and the event as first written remains, body and all. So whoever does not know whether a write
succeeded writes again. What the lost write did log is then among the ``others`` of the second.

**Durability.** When :meth:`Store.append` has returned, its events survive the death of this process, of the database,
and loss of power, as far as the disk is honest about what it has written. A batch is there whole or not at all.
:meth:`Store.save_snapshot` makes a snapshot current at its end, at once and as durably; until then the older one is.

**Concurrency.** Any number of processes may hold stores on one database and write at once, each through its own store
object. Of one store object, every method may be called from any thread; writes wait for each other, reads wait for
nobody. A store opened with ``exclusive=True`` asks to be the only one so opened where the database is made for
one service (SQLite); a second is refused with :class:`StoreUnavailableError`. Others still read and write beside it.

**Failure.** :class:`StoreUnavailableError` when the database cannot be reached or cannot write now, within the URL's
``timeout`` (seconds) or a little more; nothing was written, or, where the connection was lost during the commit,
possibly all of it: try again. The store object stays usable and finds the database again by itself.
:class:`StoreDamagedError` where what was read is not what was written. ``ValueError`` for what no log could hold: a key
or kind with more than ``limits.KEY_BYTES`` bytes, text with a NUL character or a lone surrogate, a part of a snapshot
with more than ``limits.PART_BYTES`` bytes.

**Text.** Keys and bodies come back byte for byte. Keys are compared by their UTF-8 bytes, not by any locale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple, Protocol, Self, runtime_checkable

from hellinger.events import Logged, Row

__all__ = ["Appended", "Store"]


class Appended(NamedTuple):
    """What became of a batch.

    Attributes
    ----------
    seqs
        The place of each event of the batch; ``None`` where the log had its key already.
    others
        What else was logged after the given place and before this batch, in order; where nothing of the batch was
        new, what was logged after the given place. The first ``limit`` of them, where there are more: the caller has to
        read on.
    """

    seqs: list[int | None]
    others: list[Logged]


@runtime_checkable
class Store(Protocol):
    """One log in one database; see this module's words for what it promises."""

    schemes: ClassVar[tuple[str, ...]]
    """What the store's URLs begin with."""

    @classmethod
    def open(cls, url: str, *, exclusive: bool) -> Self:
        """Open the log at this URL, made or upgraded if need be."""
        ...

    @classmethod
    def reserve(cls, url: str) -> int | None:
        """Ask to be the only service on the database at this URL, as ``open`` with ``exclusive=True`` does.

        Gives the descriptor of a lock, which lasts until every process that has inherited it has closed it or ended;
        None where the database is made for several services.
        """
        ...

    def append(self, events: Sequence[Row], after: int, limit: int = 1 << 62) -> Appended:
        """Write the events that are new, all or none; durable on return. At most ``limit`` others are returned."""
        ...

    def read(self, after: int, limit: int) -> list[Logged]:
        """The first events after a place, in order; never one is skipped that appears later."""
        ...

    def thread(self, keys: Sequence[str]) -> list[Logged]:
        """Events whose key is one of these or begins with one and a slash, in order."""
        ...

    def at(self, seqs: Sequence[int]) -> list[Logged]:
        """The events at these places, in order; places that hold none are passed over."""
        ...

    def last(self) -> int:
        """The place of the last event, 0 for an empty log."""
        ...

    def count(self) -> int:
        """How many events the log holds."""
        ...

    def touch(self) -> None:
        """Write something that changes nothing, to find out whether the database takes writes just now."""
        ...

    def save_snapshot(self, seq: int, parts: Iterable[bytes], *, base: bool = False) -> None:
        """Keep what the events up to a place amount to, part by part; it becomes current at the end.

        Two are kept side by side, which do not touch each other: one to start from, and the ``base`` of what was
        compacted, from which the rest of the log can be folded anew.

        A snapshot of an earlier place than the current one's is dropped. Each part is one short transaction, with
        room for appends in between.
        """
        ...

    def snapshot(self, *, base: bool = False) -> tuple[int, Iterator[bytes]] | None:
        """The current snapshot's place and its parts, or those of the base.

        Each part is verified when it is handed out: :class:`StoreDamagedError` may come at any of them, and
        :class:`StoreUnavailableError` where a newer snapshot took its place meanwhile.
        """
        ...

    def reached(self, at: int) -> int:
        """The last place up to which every event was taken in before a time, in milliseconds; 0 if there is none."""
        ...

    def compact(self, through: int, keep: Collection[int]) -> int:
        """Delete events of the kinds ``limits.COMPACTED`` up to a place, but for the places to keep; how many.

        There must be a base snapshot of ``through`` or later, and no reader may still be behind it. Deleted keys are
        forgotten: they would be logged anew. Many short transactions do it, with room for appends in between; where
        it ends early, it is done in part and can be done again.
        """
        ...

    def secret(self) -> bytes:
        """32 random bytes, made once for the log and shared by all who open it."""
        ...

    def fill(
        self,
        secret: bytes,
        events: Iterable[Logged],
        snapshot: tuple[int, Iterable[bytes]] | None,
        base: tuple[int, Iterable[bytes]] | None = None,
    ) -> None:
        """Put into an empty log, all or nothing, the content of another; drawn upon in the order of the arguments."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...
