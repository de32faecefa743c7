"""What every pool ranks by, number by number: to compare a running replica with one that is rebuilt from the log."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hellinger.engine.pools import Pools
from hellinger.ledger import Floats, Slots
from hellinger.pool import Table

__all__ = ["Arranged", "Copy", "Picture", "copies", "differences", "pictures"]

_COLUMNS = ("impressions", "rewards", "scores", "hidden", "tags")


class Picture(NamedTuple):
    """A pool's numbers, item by item in the order in which the items were added; JSON can hold it exactly."""

    variant: str
    segment: str
    rounds: float
    prior: Any
    items: list[str]
    impressions: list[float]
    rewards: list[float]
    scores: list[float | None]
    """None for infinity, which JSON has no word for, and where the policy draws them."""
    hidden: list[bool]
    tags: list[list[str]]


def pictures(pools: Pools, *only: str) -> Iterator[Picture]:
    """A picture of every pool that ranks; ``only`` one, by variant and segment, if given."""
    for copy in copies(pools, *only):
        yield copy.arranged().picture()


def copies(pools: Pools, *only: str, room: Any = None, names: list[str] | None = None) -> Iterator[Copy]:
    """The same as copies, which take little time to make.

    ``room``: see ``Pool.table``; ``names``: those of all items by slot, which nobody changes, where there is a copy.
    """
    for variant, segment, pool in pools.each(*only):
        prior = None if pool.prior is None else pool.prior.state()
        yield Copy(
            variant, segment, float(pool.rounds), prior, pool.table(room), names or list(pools.ledger.catalogue.ids)
        )


class Copy(NamedTuple):
    """A pool's numbers at a moment; what becomes of the pool later does not change them."""

    variant: str
    segment: str
    rounds: float
    prior: Any
    table: Table
    names: list[str]
    """Of items by slot."""

    def arranged(self) -> Arranged:
        """The same, ready to be written: it takes a while at a million items, without the interpreter's lock."""
        order = self.table.order()
        return Arranged(self, order, self.table.score(self.table.items, order))


class Arranged(NamedTuple):
    """A pool's numbers, oldest first."""

    copy: Copy
    order: Slots
    scores: Floats

    def head(self) -> dict[str, Any]:
        """What the picture says of the pool as a whole."""
        return dict(zip(Picture._fields[:4], self.copy[:4], strict=True))

    def picture(self) -> Picture:
        """All numbers as JSON can hold them."""
        size = self.order.size
        columns: Any = {name: self.column(name, 0, size) for name in Picture._fields[4:]}
        return Picture(**self.head(), **columns)

    def column(self, name: str, start: int, stop: int) -> list[Any]:
        """Some entries of a column of the picture."""
        table, places = self.copy.table, self.order[start:stop]
        if name == "items":
            return [self.copy.names[int(slot)] for slot in table.ids(places)]
        if name == "tags":
            numbers = table.items["tags"][places].tolist()
            known = {number: sorted(table.tag_sets[number]) for number in set(numbers)}
            return [known[number] for number in numbers]
        if name == "scores":
            return [score if math.isfinite(score) else None for score in self.scores[start:stop].tolist()]
        if name == "hidden":
            column: Any = table.items["hidden"][places] != 0
        else:
            column = table.counts("n" if name == "impressions" else "s", places)
        values: list[Any] = column.tolist()
        return values


def differences(running: Mapping[str, Any], rebuilt: Mapping[str, Any], leave_out: Iterable[str] = ()) -> Iterator[str]:
    """Where two pictures of one pool differ, as sentences: what the running replica has, and what its log says.

    ``leave_out`` are items that have left the running pool by themselves, which the log is about to know.
    """
    where = f"in variant {running['variant']!r}" + (f", segment {running['segment']!r}" if running["segment"] else "")
    for what in ("rounds", "prior"):
        if running[what] != rebuilt[what]:
            yield f"{what} {where}: {running[what]} running, {rebuilt[what]} by the log"
    if running["items"] != rebuilt["items"]:
        one, other = set(running["items"]), set(rebuilt["items"])
        for name in sorted((one ^ other).difference(leave_out)):
            yield f"item {name!r} {where} is in the {'running replica' if name in one else 'log'} only"
        if one == other:
            yield f"the items' order {where} is not the log's"
    mine, theirs = _rows(running), _rows(rebuilt)
    for name in running["items"]:
        for column, here, there in zip(_COLUMNS, mine[name], theirs.get(name, mine[name]), strict=True):
            if here != there:
                yield f"{column} of {name!r} {where}: {here} running, {there} by the log"


def _rows(picture: Mapping[str, Any]) -> dict[str, list[Any]]:
    columns = [picture[column] for column in _COLUMNS]
    return {name: list(row) for name, *row in zip(picture["items"], *columns, strict=True)}
