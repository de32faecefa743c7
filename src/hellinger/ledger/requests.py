"""Rankings that feedback may still be given for, those last used in memory."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import chain
from typing import Any

import orjson

from hellinger.events import Logged
from hellinger.ledger.shadows import Weighed
from hellinger.ledger.shares import Share

__all__ = ["REFERRING", "Request", "Requests", "Unread", "number_of", "request_of", "spoken_of"]

_NONE = array("i")

REFERRING = frozenset(["feedback", "seen", "shadow"])
"""Kinds of events that refer to a ranking, whose name begins their keys."""


def number_of(name: str) -> int:
    """A number for a user or a ranking, the same in every process."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


Unread = tuple[int, str]
"""Time and body of a ranking's event: of most rankings that other replicas have made nothing is ever asked."""
_UNREAD = 400
"""Bytes that one takes besides its body."""


class Request:
    """One ranking: who made it, what it showed, and what has come of it so far."""

    __slots__ = (
        "at",
        "context",
        "counted",
        "given",
        "items",
        "phase",
        "reward",
        "seen",
        "shadows",
        "share",
        "slots",
        "sums",
        "through",
        "ties",
        "unit",
        "version",
        "who",
        "whose",
        "zoned",
    )

    def __init__(
        self,
        variant: str,
        segment: str,
        at: int,
        through: int,
        items: tuple[str, ...],
        slots: array[int] = _NONE,
        version: int = -1,
        *,
        counted: bool,
        phase: int = 0,
        unit: int = -1,
        context: str | None = None,
        user: str | None = None,
        zoned: bool = False,
        ties: int = 0,
    ) -> None:
        self.whose = (variant, segment)
        self.at = at
        self.through = through
        self.items = items
        self.slots = slots
        """The items that bore these names, −1 for one no longer there: see :meth:`Ledger.slots_of`."""
        self.version = version
        """The catalogue's version that the slots are of; −1 where they are not known yet."""
        self.counted = counted
        """Whether its impressions count at serving."""
        self.phase = phase
        """The place in the log of the experiment's phase that it belongs to; 0 for none."""
        self.unit = unit
        """A hash of its user, where users keep their variant; else −1."""
        self.context = context
        """Who asked, as JSON; None where nobody said it."""
        self.who = 0 if context is None or user is None else number_of(user)
        """A number of the user's, for models; 0 where nobody said whose the context is."""
        self.zoned = zoned
        """Whether its impressions are counted by position: not those of an older version, which are worth one each."""
        self.ties = ties
        """Which neighbours are in random order: see ``looks.ties_of``."""
        self.share: Share | None = None
        """The sums that it is counted in, once they were asked for."""
        self.shadows: dict[str, Weighed] | None = None
        """What shadow variants would have shown instead, by name; None where none has ranked it."""
        self.given: dict[str, dict[int, float]] = {}
        """Points by kind of feedback and position: there are few kinds, and a dictionary for each item is large."""
        self.sums: dict[int, float] | None = None
        """Points of all kinds by position; None while there is one kind at most."""
        self.reward = 0.0
        """What all its impressions have earned, each at most 1."""
        self.seen: set[int] | None = None
        """Positions confirmed as seen, where they are to be confirmed."""

    @property
    def variant(self) -> str:
        """Who made it."""
        return self.whose[0]

    @property
    def segment(self) -> str:
        """Of what users; empty for none."""
        return self.whose[1]

    @property
    def size(self) -> int:
        """About how many bytes it takes, with some feedback; the names of items are the catalogue's own."""
        return 1_000 + 20 * len(self.items) + (0 if self.context is None else len(self.context))

    @classmethod
    def of(cls, at: int, fields: dict[str, Any]) -> Request:
        """The request of a ``rank`` event."""
        items = tuple(fields["items"])
        segment = fields["segment"] or ""
        # an older log has not all of these
        more: dict[str, Any] = {"phase": fields.get("phase", 0), "unit": fields.get("unit", -1)}
        more |= {"ties": fields.get("ties", 0), "zoned": fields.get("zoned", False)}
        if "context" in fields:
            more |= {"context": orjson.dumps(fields["context"]).decode(), "user": fields.get("user")}
        return cls(fields["variant"], segment, at, fields["through"], items, counted=fields["counted"], **more)

    def position(self, item: str) -> int:
        """Where an item stands in the ranking, from 0; −1 if it does not."""
        try:
            return self.items.index(item)
        except ValueError:
            return -1

    def earned(self, position: int) -> float:
        """What an impression has earned so far, at most 1."""
        if self.sums is not None:
            return min(1.0, self.sums.get(position, 0.0))
        return min(1.0, next((points.get(position, 0.0) for points in self.given.values()), 0.0))

    def weigh(self, shadows: dict[str, Any]) -> dict[str, Weighed]:
        """Take what a ``shadow`` event says of this ranking; what it has earned already is weighed too."""
        self.shadows = {}
        for name, fields in shadows.items():
            weighed = self.shadows[name] = Weighed(fields)
            for position in range(len(self.items)):
                if (earned := self.earned(position)) > 0.0:
                    weighed.rise(position, earned)
        return self.shadows

    def see(self, position: int) -> bool:
        """Note that an item was seen; whether that is an impression not counted before."""
        if self.counted:
            return False
        if self.seen is None:
            self.seen = set()
        if position in self.seen:
            return False
        self.seen.add(position)
        return True

    def give(self, position: int, kind: str, points: float) -> float:
        """Note feedback; by how much the impression's reward, min(1, the sum of its points), rises."""
        known = self.given.get(kind)
        if known is None:
            if len(self.given) == 1:
                (only,) = self.given.values()
                self.sums = only.copy()
            known = self.given[kind] = {}
        elif position in known:
            return 0.0
        known[position] = points
        before = 0.0
        if self.sums is not None:
            before = self.sums.get(position, 0.0)
            self.sums[position] = before + points
        rise = min(1.0, before + points) - min(1.0, before)
        self.reward += rise
        return rise


MEMORY = 256 << 20
"""Bytes that remembered requests may take, by default."""


PART = 2048
"""Rankings in one dictionary, about, at most: one of 100,000 takes 5 to 15 ms whenever it makes its table anew."""
_LETTERS = 64
"""What a letter of a ranking's name can be."""

_Part = OrderedDict[str, "Request | Unread"]


class Requests:
    """The requests last used, by name; the others are in the log.

    There are at most ``limit``, and they take about ``most_bytes`` at most, as :meth:`Request.size` reckons.

    They are kept in parts by a letter or two of their names, which are random there. Of a part the one longest unused
    goes first, and the parts have turns, those that have less than others being passed over: so what goes is about what
    all are longest without use for. Which it is changes no result, for it is read from the log when it is needed.

    A request that something is under way for is pinned: it stays, however many others come. Were it let go and
    recalled meanwhile, there would be two of it, each with a part of what was given.
    """

    def __init__(self, limit: int = 100_000, most_bytes: int = MEMORY) -> None:
        self.limit = limit
        self.most_bytes = most_bytes
        self.bytes = 0
        """What they take."""
        letters = 0
        while limit > PART * _LETTERS**letters:
            letters += 1
        self._whose = slice(-1 - letters, -1)  # the last letter of a name has two bits, those before it have six
        self._parts: dict[str, _Part] = {}
        """By these letters of their names; in each the one longest unused first. Not all are read yet."""
        self._ring: list[_Part] = []
        """The same parts, as they have turns."""
        self._turn = 0
        self._count = 0
        self._pins: dict[str, int] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        """All names, part by part; those longest unused first."""
        return chain.from_iterable(self._ring)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._parts.get(name[self._whose], ())

    def get(self, name: str) -> Request | None:
        """The request of this name, if it is in memory."""
        request = self.find(name)
        if request is not None:
            self._parts[name[self._whose]].move_to_end(name)
        return request

    def find(self, name: str) -> Request | None:
        """The same without noting the use."""
        part = self._parts.get(name[self._whose])
        if part is None:
            return None
        request = part.get(name)
        if isinstance(request, tuple):
            self.bytes -= _size(request)
            at, body = request
            request = part[name] = Request.of(at, orjson.loads(body))
            self.bytes += _size(request)
        return request

    def put(self, name: str, request: Request) -> None:
        """Hold a request; one long unused goes where there are too many."""
        self._put(name, request)
        self.evict()

    def put_unread(self, name: str, at: int, body: str) -> None:
        """Hold a request that is read when it is asked for; none goes before :meth:`evict`."""
        part = self._parts.get(name[self._whose])
        if part is None or name in part:
            self._put(name, (at, body))
        else:  # what that would do, for very many
            part[name] = at, body
            self._count += 1
            self.bytes += _UNREAD + len(body)

    def _put(self, name: str, request: Request | Unread) -> None:
        part = self._parts.get(name[self._whose])
        if part is None:
            part = self._parts[name[self._whose]] = OrderedDict()
            self._ring.append(part)
        before = part.get(name)
        if before is None:
            self._count += 1
        else:
            self.bytes -= _size(before)
        part[name] = request
        self.bytes += _size(request)

    def set_memory(self, most_bytes: int) -> None:
        """Let them take so many bytes at most."""
        self.most_bytes = most_bytes
        self.evict()

    def evict(self) -> None:
        """Let go of those long unused, while there are too many."""
        passed, ring = 0, self._ring
        while self._count > self.limit + len(self._pins) or (
            self.bytes > self.most_bytes and self._count > len(self._pins)
        ):
            self._turn = (self._turn + 1) % len(ring)
            part = ring[self._turn]
            # where all that have much are pinned, those that have little have their turns as well
            if not part or (len(part) * len(ring) < self._count and passed < len(ring)):
                passed += 1
                continue
            oldest, other = part.popitem(last=False)
            if oldest in self._pins:
                part[oldest] = other
                passed += 1
            else:
                self._count -= 1
                self.bytes -= _size(other)
                passed = 0

    def pin(self, names: Iterable[str]) -> None:
        """Hold on to these from when they come, or now, until they are released."""
        pins = self._pins
        for name in names:
            pins[name] = pins.get(name, 0) + 1

    def release(self, names: Iterable[str]) -> None:
        """Undo one :meth:`pin` of these."""
        pins = self._pins
        for name in names:
            if pins[name] == 1:
                del pins[name]
            else:
                pins[name] -= 1
        self.evict()

    @contextmanager
    def pinned(self, names: Iterable[str]) -> Iterator[None]:
        """Hold on to these for the block."""
        pinned = list(names)
        self.pin(pinned)
        try:
            yield
        finally:
            self.release(pinned)

    def recall(self, thread: Iterable[Logged], through: int) -> list[Request]:
        """Hold requests from what the log says of them up to a place, where they are not held already; those."""
        fresh: dict[str, Request] = {}
        for event in thread:
            name = request_of(event.key)
            if event.kind == "rank":
                if name not in self:
                    fresh[name] = Request.of(event.at, event.fields)
            elif event.seq <= through and name in fresh:
                fields, request = event.fields, fresh[name]
                if event.kind == "shadow":
                    request.weigh(fields["shadows"])
                    continue
                position = request.position(fields["item"])
                if position < 0:
                    continue
                if not fields.get("late"):
                    request.see(position)
                if event.kind == "feedback":
                    rise = request.give(position, fields["kind"], fields["points"])
                    for weighed in (request.shadows or {}).values():
                        weighed.rise(position, rise)
        for name, request in fresh.items():
            self.put(name, request)
        return list(fresh.values())


def _size(request: Request | Unread) -> int:
    """About how many bytes it takes."""
    return _UNREAD + len(request[1]) if isinstance(request, tuple) else request.size


def spoken_of(events: Iterable[Logged]) -> list[str]:
    """Requests that feedback, confirmations and shadows among these events belong to."""
    return list({request_of(event.key): None for event in events if event.kind in REFERRING})


def request_of(key: str) -> str:
    """The request that an event's key belongs to."""
    return key.partition("/")[0]
