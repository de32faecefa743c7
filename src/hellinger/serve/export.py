"""The log as rows, one for each item shown, for evaluation offline."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import IO, Any, Literal

import orjson
import polars as pl
from polars.io.plugins import register_io_source

from hellinger.evaluate.retrace import Retrace, Retraced
from hellinger.events import logged_chances
from hellinger.ledger import MAIN, Request
from hellinger.ledger.recovery import SLACK
from hellinger.store import Store

__all__ = ["SCHEMA", "Format", "Progress", "rows", "write"]

Format = Literal["jsonl", "parquet"]
Progress = Callable[[int, int], None]

BATCH = 2000
"""Events read at once."""
PART = 10_000
"""Rows after which a part is handed on: a ranking may have a thousand."""
ROW_GROUP = 100_000
"""Rows of a Parquet file that are in memory together."""

_FILTERS = ("exclude", "tags", "among")
SCHEMA: dict[str, Any] = {
    "ranking_id": pl.String,
    "at": pl.Int64,
    "experiment": pl.String,
    "variant": pl.String,
    "policy": pl.String,
    "version": pl.String,
    "variant_probability": pl.Float64,
    "phase": pl.Int64,
    "random": pl.Boolean,
    "user": pl.String,
    "segment": pl.String,
    "placement": pl.String,
    "context": pl.String,
    "k": pl.Int32,
    "eligible": pl.Int64,
    "filtered": pl.Boolean,
    "exclude": pl.List(pl.String),
    "tags": pl.List(pl.String),
    "among": pl.List(pl.String),
    "cut": pl.Boolean,
    "position": pl.Int32,
    "item": pl.String,
    "score": pl.Float64,
    "propensity": pl.Float64,
    "balanced": pl.Float64,
    "variants": pl.List(pl.Struct({"variant": pl.String, "share": pl.Float64, "chance": pl.Float64})),
    "explored": pl.Boolean,
    "seen": pl.Boolean,
    "reward": pl.Float64,
    "feedback": pl.List(pl.String),
}
"""Columns of a row: ``at`` in milliseconds since 1970; ``propensity`` the chance of this item at this position given
the variant, over the random order of ties and what was explored, null where the policy draws at random or the tie was
not counted; of a log gone through again ``balanced``, the same chance over all variants that shared the traffic, and
``variants``, the share and the chance of each, else null; ``explored`` whether the place was given to one of the items
that follow; ``k`` how many were asked for, ``eligible`` how many could have been shown, ``filtered`` whether the
request had filters, null in a log of before these were kept; ``exclude``, ``tags`` and ``among`` these filters, in the
first row of a ranking alone, for each may be of a thousand ids; ``cut`` whether one was longer than that, so that the
log has its beginning only; ``feedback`` the kinds that came in time; ``context`` as
JSON text, in JSON lines as an object."""


def rows(
    store: Store,
    first: int | None,
    last: int | None,
    *,
    contexts: bool = True,
    retrace: Retrace | None = None,
    through: int | None = None,
    progress: Progress | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """Rows of the rankings between two times, some thousands at a time; without ``contexts`` those are null.

    Only that part of the log is read: clocks may have been set back meanwhile, by an hour at most. With ``retrace`` all
    before it is read too, and every row has the chances of its place by each variant. With ``through`` the log ends
    at that place.
    """
    after = 0 if first is None else _older(store, first - SLACK)
    if retrace is not None:
        after = retrace.seq
    end = through or (store.last() if progress is not None else 0)
    while events := [e for e in store.read(after, BATCH) if through is None or e.seq <= through]:
        after = events[-1].seq
        ranks = [e for e in events if e.kind == "rank" and (first is None or e.at >= first)]
        ranks = [e for e in ranks if last is None or e.at < last]
        again = {} if retrace is None else {r.name: r for r in retrace.follow(events, first=first or 0, last=last)}
        out: list[dict[str, Any]] = []
        feedback: dict[str, list[dict[str, Any]]] = {}
        for event in store.thread([e.key for e in ranks]) if ranks else ():
            if event.kind in ("feedback", "seen"):
                fields = event.fields
                if not fields.get("late"):
                    feedback.setdefault(fields["request"], []).append(fields)
        for event in ranks:
            fields = event.fields if contexts else event.fields | {"context": None}
            out += _ranking(event.key, event.at, fields, feedback.get(event.key, []), again.get(event.key))
            if len(out) >= PART:
                yield out
                out = []
        yield out
        if progress is not None:
            progress(after, max(after, end))
        if last is not None and events[-1].at >= last + SLACK:
            break


def _older(store: Store, at: int) -> int:
    """The place of an event from before a time, near the last such event; 0 if there is none.

    Found by bisection. Times are only roughly in order, so events before this place may be newer than it, by
    ``SLACK`` at most.
    """
    low, high = 0, store.last() + 1
    while high - low > BATCH:
        middle = (low + high) // 2
        found = store.read(middle - 1, 1)  # the first at or after it: there are holes where events were compacted
        if found and found[0].seq < high and found[0].at < at:
            low = found[0].seq
        else:
            high = middle
    return low


def _ranking(
    name: str, at: int, fields: dict[str, Any], feedback: list[dict[str, Any]], again: Retraced | None
) -> list[dict[str, Any]]:
    request = Request.of(at, fields)
    rewards = dict.fromkeys(request.items, 0.0)
    kinds: dict[str, list[str]] = {}
    for one in feedback:
        place = request.position(one["item"])
        if place < 0:  # nobody's, as the ledger has it
            continue
        request.see(place)
        if "kind" in one:
            rewards[one["item"]] += request.give(place, one["kind"], one["points"])
            kinds.setdefault(one["item"], []).append(one["kind"])
    chances = logged_chances(fields) if again is None else again.propensities
    nothing = [None] * len(request.items)
    common = {
        "ranking_id": name,
        "at": at,
        "experiment": fields.get("experiment", MAIN),
        "variant": fields["variant"],
        "policy": fields["policy"],
        "version": fields["version"],
        "variant_probability": fields["chance"],
        "phase": request.phase,
        "random": fields["random"],
        "user": fields["user"],
        "segment": fields["segment"],
        "placement": fields.get("placement"),
        "context": fields.get("context"),
        "k": fields.get("k"),
        "eligible": fields.get("eligible"),
        "filtered": any(name in fields for name in _FILTERS) if "k" in fields else None,
        **dict.fromkeys(_FILTERS),
        "cut": "asked" in fields if "k" in fields else None,
    }
    filters = {name: fields.get(name) for name in _FILTERS}
    balanced = nothing if again is None else again.balanced
    return [
        common
        | (filters if position == 1 else {})
        | {
            "position": position,
            "item": item,
            "score": score,
            "propensity": (chances or nothing)[position - 1],
            "balanced": balanced[position - 1],
            "variants": None if again is None else again.at(position - 1),
            "explored": position == fields.get("explored"),
            "seen": request.counted or (request.seen is not None and position - 1 in request.seen),
            "reward": rewards[item],
            "feedback": kinds.get(item, []),
        }
        for position, (item, score) in enumerate(zip(fields["items"], fields["scores"], strict=True), 1)
    ]


def write(
    store: Store,
    form: Format,
    first: int | None,
    last: int | None,
    out: IO[bytes],
    *,
    contexts: bool = True,
    retrace: Retrace | None = None,
    through: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the rows of the rankings between two times as they are read; some thousands are in memory at a time.

    Nothing is written before the first rows were read: a log that cannot be read leaves ``out`` untouched.
    """
    parts = rows(store, first, last, contexts=contexts, retrace=retrace, through=through, progress=progress)
    begun = chain([next(parts, [])], parts)
    if form == "parquet":
        _write_parquet(begun, out)
        return
    for part in begun:
        out.write(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in part))
    out.flush()


def _write_parquet(parts: Iterable[list[dict[str, Any]]], out: IO[bytes]) -> None:
    """Let Polars take the rows from us part by part, and write a group of them whenever it has enough."""
    failures: list[Exception] = []

    def frames(*_: object) -> Iterator[pl.DataFrame]:
        try:
            for part in parts:
                if part:
                    for row in part:
                        row["context"] = row["context"] and orjson.dumps(row["context"]).decode()
                    yield pl.DataFrame(part, schema=SCHEMA)
        except Exception as error:
            failures.append(error)
            raise

    try:
        target: Any = _Target(out, failures)
        lazy = register_io_source(frames, schema=SCHEMA)
        lazy.sink_parquet(target, row_group_size=ROW_GROUP, engine="streaming")
    except Exception:
        if failures:  # Polars raises an error of its own instead
            raise failures[0] from None
        raise


class _Target(io.BufferedIOBase):
    """A file for Polars, which notes what went wrong with it."""

    def __init__(self, out: IO[bytes], failures: list[Exception]) -> None:
        self._out = out
        self._failures = failures

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return int(self._noting(self._out.write, data))

    def flush(self) -> None:
        self._noting(self._out.flush)

    def _noting(self, do: Callable[..., Any], *arguments: object) -> Any:
        try:
            return do(*arguments)
        except Exception as error:
            self._failures.append(error)
            raise
