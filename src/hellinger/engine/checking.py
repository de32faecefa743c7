"""Compare a running service with the fold of its log: number by number, index by index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from hellinger.engine.journal import pause
from hellinger.engine.picture import Arranged, Picture, copies, differences, pictures
from hellinger.engine.pools import SEGMENT_BYTES
from hellinger.engine.service import Service
from hellinger.engine.state import State
from hellinger.errors import require
from hellinger.events import now
from hellinger.ledger import Catalogue, Ledger, Request, recovery
from hellinger.pool import Leaving
from hellinger.store import Store

__all__ = ["compare", "portrait"]

Progress = Callable[[int, int], None]

ITEMS = 5_000
"""Entries of a column that are made into text before rankings have their turn: a millisecond."""
NAMES = 100_000
"""Names that are copied at once: a millisecond."""


async def portrait(service: Service) -> AsyncIterator[bytes]:
    """Everything that the service ranks by, as JSON lines; each line says which place in the log it is of.

    The first line has the rules by which pools are made of a ledger, and the totals; each other one has a pool. A line
    also has this replica's own rankings that the log does not have yet, and the time up to which items have expired.

    A pool is copied at one moment. The text is made of the copy afterwards, ``ITEMS`` at a time: rankings go on.
    """
    desk, settings = service.desk, service.settings
    rules = {
        "variants": desk.pools.variants,
        "shared": sorted(desk.pools.shared),
        "enough": settings.segment_enough,
        "segment_bytes": settings.segment_mb << 20,
        "positions": settings.positions,
        "lifetimes": settings.lifetimes,
        "leaving": list(desk.leaving),
        "totals": desk.ledger.series.totals,
        "items": len(desk.ledger.catalogue),
        "seq": desk.ledger.seq,
    }
    yield orjson.dumps(rules) + b"\n"
    names = _Names()
    await service.catch_up()
    for key in service.desk.pools.ranking:
        await service.journal.write(service.chores(), lasting=True)
        await service.catch_up()
        while service.desk.state.dates.due(now()):  # those that expire together go in slices
            service.desk.state.expire(now())
            await service.catch_up()
        if key[0] not in service.desk.pools.variants:  # it has stopped meanwhile
            continue
        room = await asyncio.to_thread(service.desk.pools.of(key[0]).room)
        await names.read(service.desk.ledger.catalogue)
        desk, at = service.desk, now()
        if key[0] not in desk.pools.variants:
            continue
        while desk.state.dates.due(at):
            desk.state.expire(at)
        desk.ledger.models.learn()
        model = desk.ledger.models.of.get(key[0])
        for copy in copies(desk.pools, *key, room=room, names=names.now(desk.ledger.catalogue)):
            about = {
                "seq": desk.ledger.seq,
                "policy": desk.pools.variants[key[0]],
                "model": None if model is None else model.digest(),
                "at": at,
                "pending": [
                    {
                        "name": name,
                        "at": ranking.at,
                        "variant": ranking.variant,
                        "segment": ranking.segment,
                        "through": ranking.through,
                        "items": list(ranking.items),
                        "counted": ranking.counted,
                        "zoned": ranking.zoned,
                    }
                    for name, ranking in desk.state.overlay.rankings.items()
                ],
                "departing": [desk.ledger.catalogue.ids[slot] for slot in desk.pools.departing(key[0])],
            }
            yield orjson.dumps(about)[:-1] + b',"pool":'
            arranged = await asyncio.to_thread(copy.arranged)
            async for piece in _text(arranged):
                yield piece
            yield b"}\n"
    await names.drop()


class _Names:
    """A copy of all items' names by slot, made, brought up to date and dropped some at a time."""

    def __init__(self) -> None:
        self._of: object = None
        self._names: list[str] = []

    async def read(self, catalogue: Catalogue) -> None:
        """Copy what there is to copy, with pauses."""
        if self._of != _named(catalogue):
            await self.drop()
            self._of = _named(catalogue)
        while len(self._names) < len(catalogue.ids):
            begun, start = time.perf_counter(), len(self._names)
            self._names += catalogue.ids[start : start + NAMES]
            await pause(begun)

    def now(self, catalogue: Catalogue) -> list[str]:
        """The names at this moment: most are copied already, unless a slot has another name since."""
        if self._of != _named(catalogue):
            self._of, self._names = _named(catalogue), []
        self._names += catalogue.ids[len(self._names) :]
        return self._names

    async def drop(self) -> None:
        """Let go of the copy."""
        while self._names:
            begun = time.perf_counter()
            del self._names[-NAMES:]
            await pause(begun)


def _named(catalogue: Catalogue) -> tuple[Catalogue, int, int]:
    """The same for as long as no slot is given another name: items are forgotten, or take slots of such."""
    return catalogue, catalogue.version, len(catalogue.free)


async def _text(arranged: Arranged) -> AsyncIterator[bytes]:
    """The picture of a pool as JSON, piece by piece."""
    size = arranged.order.size
    yield orjson.dumps(arranged.head())[:-1]
    for column in Picture._fields[4:]:
        yield b',"%s":[' % column.encode()
        for start in range(0, size, ITEMS):
            begun = time.perf_counter()
            piece = orjson.dumps(arranged.column(column, start, min(size, start + ITEMS)))[1:-1]
            yield b"," + piece if start else piece
            await pause(begun)
        yield b"]"
    yield b"}"


def compare(store: Store, parts: Iterable[Mapping[str, Any]], *, progress: Progress | None = None) -> Iterator[str]:
    """Where the lines of a :func:`portrait` are not what the log says, as sentences."""
    given = iter(parts)
    rules = next(given)
    ledger = recovery.recover(store, base=True)
    _advance(store, ledger, rules["seq"], progress)
    for name in sorted({*rules["totals"], *ledger.series.totals}):
        running, logged = rules["totals"].get(name), ledger.series.totals.get(name)
        if running != logged:
            yield f"totals of variant {name!r} (rankings, impressions, reward): {running} running, {logged} by the log"
    if rules["items"] != len(ledger.catalogue):
        yield f"items: {rules['items']} running, {len(ledger.catalogue)} by the log"
    for part in given:
        _advance(store, ledger, part["seq"], progress)
        state, pool = _state(ledger, rules, part), part["pool"]
        found = [each._asdict() for each in pictures(state.pools, pool["variant"], pool["segment"])]
        if not found:
            yield f"variant {pool['variant']!r}, segment {pool['segment']!r}: no such pool by the log"
            continue
        yield from differences(pool, found[0], leave_out=part["departing"])
        model = ledger.models.of.get(pool["variant"])
        if part.get("model") != (None if model is None else model.digest()):
            yield f"what the model of variant {pool['variant']!r} has learned is not what the log says"


def _advance(store: Store, ledger: Ledger, seq: int, progress: Progress | None) -> None:
    require(ledger.seq <= seq, "the log was not compacted during the check: try again", compacted=ledger.seq, seq=seq)
    recovery.advance(store, ledger, through=seq, progress=progress)


def _state(ledger: Ledger, rules: Mapping[str, Any], part: Mapping[str, Any]) -> State:
    """What a replica would be, by the log and its own rankings that the log does not have yet: with one pool alone."""
    variant = part["pool"]["variant"]
    state = State(
        ledger,
        {variant: part["policy"]},
        segments=[part["pool"]["segment"]],
        shared=rules["shared"],
        enough=rules["enough"],
        segment_bytes=rules.get("segment_bytes", SEGMENT_BYTES),
        positions=rules.get("positions", "none"),
        lifetimes=rules.get("lifetimes", False),
        leaving=Leaving(*rules["leaving"]),
    )
    for each in part["pending"]:
        ranking = Request.of(each["at"], each)
        ledger.slots_of(ranking)
        state.open(each["name"], ranking, served=False)
    while state.dates.due(part["at"]):
        state.expire(part["at"])
    return state
