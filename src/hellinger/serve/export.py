"""The log as rows, one for each item shown, for evaluation offline."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import orjson
import polars as pl

from hellinger.ledger import Request
from hellinger.ledger.recovery import SLACK
from hellinger.store import Store

__all__ = ["lines", "parquet", "rows"]

BATCH = 2000
T = TypeVar("T")
_THREADS = ThreadPoolExecutor(2, "export")
"""Exports have threads of their own and wait for each other: they must not take those that feedback waits for."""

SCHEMA: dict[str, Any] = {
    "request_id": pl.String,
    "at": pl.Int64,
    "variant": pl.String,
    "policy": pl.String,
    "version": pl.String,
    "variant_probability": pl.Float64,
    "random": pl.Boolean,
    "user": pl.String,
    "segment": pl.String,
    "position": pl.Int32,
    "item": pl.String,
    "score": pl.Float64,
    "propensity": pl.Float64,
    "seen": pl.Boolean,
    "reward": pl.Float64,
    "feedback": pl.List(pl.String),
}
"""Columns of a row: ``at`` in milliseconds since 1970; ``propensity`` the chance of this item at this position given
the variant, null where the policy draws at random; ``feedback`` the kinds that came in time."""


def rows(store: Store, first: int | None, last: int | None) -> Iterator[list[dict[str, Any]]]:
    """Rows of the rankings between two times, a batch of rankings at a time.

    Only that part of the log is read: clocks may have been set back meanwhile, by an hour at most.
    """
    after = 0 if first is None else _older(store, first - SLACK)
    while events := store.read(after, BATCH):
        after = events[-1].seq
        ranks = [e for e in events if e.kind == "rank" and (first is None or e.at >= first)]
        ranks = [e for e in ranks if last is None or e.at < last]
        out: list[dict[str, Any]] = []
        feedback: dict[str, list[dict[str, Any]]] = {}
        for event in store.thread([e.key for e in ranks]) if ranks else ():
            if event.kind != "rank":
                fields = event.fields
                if not fields.get("late"):
                    feedback.setdefault(fields["request"], []).append(fields)
        for event in ranks:
            out += _ranking(event.key, event.at, event.fields, feedback.get(event.key, []))
        yield out
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


def _ranking(name: str, at: int, fields: dict[str, Any], feedback: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
    chances = fields["propensities"]
    common = {
        "request_id": name,
        "at": at,
        "variant": fields["variant"],
        "policy": fields["policy"],
        "version": fields["version"],
        "variant_probability": fields["chance"],
        "random": fields["random"],
        "user": fields["user"],
        "segment": fields["segment"],
    }
    return [
        common
        | {
            "position": position,
            "item": item,
            "score": score,
            "propensity": chances[position - 1] if isinstance(chances, list) else chances,
            "seen": request.counted or (request.seen is not None and position - 1 in request.seen),
            "reward": rewards[item],
            "feedback": kinds.get(item, []),
        }
        for position, (item, score) in enumerate(zip(fields["items"], fields["scores"], strict=True), 1)
    ]


async def lines(store: Store, first: int | None, last: int | None) -> AsyncIterator[bytes]:
    """The rows as JSON, one a line."""
    batches = rows(store, first, last)
    while (batch := await _in_thread(next, batches, None)) is not None:
        if batch:
            yield b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in batch)


async def parquet(store: Store, first: int | None, last: int | None) -> AsyncIterator[bytes]:
    """The rows as one Parquet file, put together on disk."""
    with tempfile.TemporaryDirectory() as folder:
        whole = await _in_thread(_write, store, first, last, Path(folder))
        with whole.open("rb") as file:
            while part := await _in_thread(file.read, 1 << 20):
                yield part


async def _in_thread(work: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work, *arguments)


def _write(store: Store, first: int | None, last: int | None, folder: Path) -> Path:
    held: list[dict[str, Any]] = []
    count = 0
    for batch in rows(store, first, last):
        held += batch
        if len(held) >= 500_000:
            pl.DataFrame(held, schema=SCHEMA).write_parquet(folder / f"part-{count:06d}.parquet")
            held, count = [], count + 1
    pl.DataFrame(held, schema=SCHEMA).write_parquet(folder / f"part-{count:06d}.parquet")
    whole = folder / "whole.parquet"
    pl.scan_parquet(folder / "part-*.parquet").sink_parquet(whole)
    return whole
