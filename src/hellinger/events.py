"""What happened: the entries of the log, from which every count can be folded anew.

An event has a ``key``, under which the log holds it once; a ``kind``; the time ``at`` which it was taken in, in
milliseconds since 1970; and a ``body``, JSON text with the fields named here.

=========== ============================ ===========================================================================
kind        key                          body
=========== ============================ ===========================================================================
rank        request                      experiment, variant, policy, version, chance, segment, random, counted, phase,
                                         zoned, since, user, placement, unit, through, items, scores, propensities,
                                         k, tie, eligible; where they were given, context: who asked, exclude, tags,
                                         among, asked; ties, explored
feedback    request/kind/item            points, late, happened; what the key says is among its fields
seen        request/seen!/item           request, item
item        item/token                   id, tags, expires_at, metadata: added, or changed where it was there already;
                                         group (from broad to narrow) and features, where it has them
state       state/token                  id, state: hidden, shown, deleted, expired
leave       leave/variant/since/item     variant, id, reason, impressions, rewards: left one variant's pool
import      import/batch                 variant, segment, rows of item, impressions, rewards, from, to
prior       prior/variant/segment/after  variant, segment, after, rounds, curve, prior, writer: learned of all items
positions   positions/after              after, rewards, looked, error, worth, writer: how much positions are looked at
forget      forget/token                 since, writer: expired or deleted items that leave memory, by the places in
                                         the log where they were added
experiment  experiment/after             name, variants, weights, split, control, placement, share, learning, guardrail,
                                         window, ended, shadows, common, after, by, why, writer: a phase begins
shadow      request/shadow!              shadows, writer: what shadow variants would have shown instead of a ranking
=========== ============================ ===========================================================================

``through`` is the place in the log up to which the ranking knew the catalogue: an impression belongs to the item
that bore the name at that place, not to a later one of the same name. ``since`` has the places in the log where the
items were added, by which other replicas count them without reading the rest: what very many rankings have in common
stands before it. ``zoned`` says that its impressions are counted by position; ``ties``
which neighbours are in random order, bit j for positions j and j + 1 from 0. ``after`` is the place of the prior,
phase or curve before, so that only one can follow it.
``propensities`` are the chances of the places, or one for all given the order of ties; ``tie`` is among how many items
with the index of the last one the last places were drawn (0 where it is not known), from which :func:`tie_chances`
has the rest. ``explored`` is the position, from 1, of a place that was given to one of the items that follow.
``eligible`` is how many items could have been shown, none where filters leave it open. Of ``exclude`` and ``among`` the
first 1,000 ids are logged; where one had more, ``asked`` says how many.
``shadows`` of a ranking has, for each by name, ``same`` and ``placed``, the shares of the items shown that it would
show as well, and at the same positions; ``weights``, one for each position (none where a propensity is not known);
``looks``, that by the position-based model, and ``mass``, how many looks that pays for each one it would have had.
``unit`` is a hash of the user where users keep their variant, else −1. Every kind that is added to this list has a
``writer``, the version that wrote it: an older version, which does not know the kind, says it.
"""

from __future__ import annotations

import os
import time
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from itertools import groupby
from secrets import token_bytes
from typing import Any, NamedTuple

import orjson

__all__ = [
    "Event",
    "FeedbackFields",
    "Logged",
    "Row",
    "logged_chances",
    "new_request",
    "new_token",
    "now",
    "tie_chances",
]


_URL = bytes.maketrans(b"+/", b"-_")


class Event(NamedTuple):
    """Something to be written to the log, once for its key."""

    key: str
    kind: str
    at: int
    body: str

    @classmethod
    def of(cls, key: str, kind: str, at: int, fields: dict[str, Any]) -> Event:
        """An event whose body has these fields."""
        return cls(key, kind, at, orjson.dumps(fields).decode())


Row = tuple[str, str, int, str]
"""An :class:`Event`, or its fields as a plain tuple, which is made in a quarter of the time."""


class FeedbackFields(NamedTuple):
    """The fields of feedback."""

    request: str
    item: str
    kind: str
    points: float
    late: bool
    happened: int | None


class Logged(NamedTuple):
    """An event with its place in the log."""

    seq: int
    key: str
    kind: str
    at: int
    body: str

    @property
    def row(self) -> Row:
        """The event without its place."""
        return self[1:]

    @property
    def fields(self) -> dict[str, Any]:
        """The body's fields, and of feedback what its key says."""
        parsed = self.parsed
        return parsed._asdict() if isinstance(parsed, FeedbackFields) else parsed

    @property
    def parsed(self) -> FeedbackFields | dict[str, Any]:
        """The fields; of feedback as a tuple, for loops over much of it."""
        read: dict[str, Any] = orjson.loads(self.body)
        if self.kind == "feedback":
            request, kind, item = self.key.split("/", 2)
            return FeedbackFields(request, item, kind, read["points"], read["late"], read["happened"])
        return read


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class _Dice:
    """Random bytes from the system, fetched many at a time: asking for ten costs ten microseconds."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left: list[bytes] = []

    def draw(self) -> bytes:
        """Bytes that nobody can guess, given out once."""
        try:
            return self.left.pop()
        except IndexError:
            fresh = token_bytes(256 * self.size)
            self.left += [fresh[j : j + self.size] for j in range(self.size, len(fresh), self.size)]
            return fresh[: self.size]


_DICE = _Dice(10)
os.register_at_fork(after_in_child=_DICE.left.clear)


def new_request(at: int) -> str:
    """A request's name: its time, so that names made together lie together, and 80 bits that nobody can guess."""
    return (
        b2a_base64((at & 0xFFFFFFFFFFFF).to_bytes(6, "big") + _DICE.draw(), newline=False)[:22].translate(_URL).decode()
    )


def new_token() -> str:
    """Part of a key, never met before."""
    return new_request(now())


def tie_chances(scores: Sequence[float | None], tied: int) -> list[float | None]:
    """The chance of each place's item to be there, over the random order of items with equal index.

    Items of one index fill their places in uniformly random order: each is at each of them with probability 1/(their
    number). All of them are in the ranking, but for the last index, of which there are ``tied``; None where that is 0,
    not known.

    >>> tie_chances([0.9, 0.5, 0.5, 0.2], 40)
    [1.0, 0.5, 0.5, 0.025]
    """
    found: list[float | None] = []
    places = 0
    for _, same in groupby(scores):
        places = len(list(same))
        found += [1.0 / places] * places
    if places and tied != places:
        found[-places:] = [1.0 / tied if tied else None] * places
    return found


def logged_chances(fields: Mapping[str, Any]) -> list[float | None] | None:
    """The chance of each place of a ``rank`` event, over the random order of ties; None where the policy draws.

    >>> fields = {"items": ["a", "b"], "scores": [0.5, 0.5], "propensities": 1.0, "policy": "ucb1", "tie": 2}
    >>> logged_chances(fields), logged_chances(fields | {"policy": "fixed"})
    ([0.5, 0.5], [1.0, 1.0])
    """
    chances = fields["propensities"]
    if chances == 1.0 and "tie" in fields and fields["policy"] != "fixed":  # where equal indices do not mean chance
        return tie_chances(fields["scores"], fields["tie"])
    return [chances] * len(fields["items"]) if isinstance(chances, int | float) else chances
