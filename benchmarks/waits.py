"""How long a ranking waits while the service does something else: each documented call in turn, under steady load.

``python benchmarks/waits.py --items 10000 --segments 5`` prints a table in Markdown. The load generator is a process of
its own, at a steady rate; a ranking that is sent late counts from when it was due.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import uvloop

from _results import Results
from http_load import _Connection
from service import VARIANTS, free_port, running

RATE = 200
CONNECTIONS = 32
QUIET = 1.5
"""Seconds of load before each call, which it is compared with."""
COLUMNS = ["call", "largest size", "its time", "ranking before: median / longest", "meanwhile", "longer by"]
AFTERWARDS = 0.5
"""Seconds after a call's answer in which what it left to be done counts as its own."""


class Spell(NamedTuple):
    """Rankings between two times: their median and longest time, in milliseconds."""

    median: float
    longest: float


class Call(NamedTuple):
    """A documented call: its name, the largest size it was tried with, and how to make it."""

    name: str
    size: str
    make: Callable[[], object]
    prepare: Callable[[], object] = lambda: None
    waits: bool = False
    """Whether it is nothing but a wait, whose time says nothing."""


# The steady load, in a process of its own ----------------------------------------------------------------------


async def _rank_steadily(port: int, rate: float, segments: int) -> None:
    """Send rankings until the input ends; print when each was due and how long it took."""
    loop = asyncio.get_running_loop()
    begun, numbers = time.monotonic(), itertools.count()
    ended = loop.run_in_executor(None, sys.stdin.read)

    async def one() -> None:
        _, link = await loop.create_connection(_Connection, "127.0.0.1", port)
        while not ended.done():
            number = next(numbers)
            due = begun + number / rate
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            which = number % (segments + 1)
            body = b'{"k":20}' if not which else b'{"k":20,"segment":"segment-%d"}' % which
            head = f"POST /v1/rank HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(body)}\r\n\r\n"
            link.waiter = loop.create_future()
            link.transport.write(head.encode() + body)  # type: ignore[attr-defined]
            status, answer = await link.waiter
            taken = time.monotonic() - due
            name = json.loads(answer)["ranking_id"] if status == 200 and not number % 4 else None
            item = json.loads(answer)["items"][0]["id"] if name else None
            sys.stdout.write(json.dumps([due, taken, status, name, item]) + "\n")
        link.transport.close()

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))


class Load:
    """The process that sends rankings."""

    def __init__(self, port: int, rate: float, segments: int, folder: Path) -> None:
        self._file = folder / "rankings.jsonl"
        command = [sys.executable, __file__, "--load", str(port), "--rate", str(rate), "--segments", str(segments)]
        with self._file.open("w") as out:
            self._process = subprocess.Popen([*command], stdin=subprocess.PIPE, stdout=out)

    def stop(self) -> list[list[Any]]:
        """End the load; every ranking that was sent."""
        self._process.communicate()
        return [json.loads(line) for line in self._file.read_text().splitlines()]


def spell(rankings: list[list[Any]], since: float, until: float) -> Spell:
    times = np.array([taken for due, taken, *_ in rankings if since <= due < until]) * 1e3
    return Spell(float(np.median(times)), float(times.max())) if times.size else Spell(0.0, 0.0)


# The calls ------------------------------------------------------------------------------------------------------


class Calls:
    """The documented calls, at their largest."""

    def __init__(self, client: httpx.Client, items: int, segments: int, database: str) -> None:
        self._client = client
        self._items = items
        self._segments = segments
        self._database = database
        self._batches = itertools.count()
        self._shown: list[tuple[str, str]] = []
        self._new: list[dict[str, Any]] = []
        self._experiment = ""
        self._slope, self._pages = 0.3, 100

    def all(self) -> list[Call]:
        many = "10,000"
        whole = "the whole log"
        return [
            Call("GET /v1/export (JSON lines)", whole, lambda: self._read("/v1/export")),
            Call("GET /v1/export (Parquet)", whole, lambda: self._read("/v1/export?format=parquet")),
            Call("GET /v1/experiments/main", "all variants", lambda: self._read("/v1/experiments/main")),
            Call("GET /v1/items", "limit=1000", lambda: self._read("/v1/items?limit=1000&sort=impressions")),
            Call("GET /v1/items, searched", f"{self._items:,} items", lambda: self._read("/v1/items?search=99&tag=b")),
            Call("GET /v1/history", whole, lambda: self._read("/v1/history?item=item-0")),
            Call("GET /v1/state", "all pools", lambda: self._read("/v1/state")),
            Call("POST /v1/items, new", many, self._add, self._make_new),
            Call("POST /v1/items, unchanged", many, self._add),
            Call("POST /v1/items, one more tag", many, self._add, self._tag),
            Call("POST /v1/items, groups and features", many, self._add, self._describe_new),
            Call("POST /v1/rank, with a context", "200 rankings", self._rank_in_context),
            Call("items that expire together", many, lambda: time.sleep(3.0), self._expire_soon, True),
            Call("POST /v1/feedback", f"{many} events", self._feedback, self._rank_much),
            Call("POST /v1/counts", f"{many} rows", self._import),
            Call("a new prior, items of groups", f"{self._items:,} items", self._learn_prior, lambda: None, True),
            Call("a new curve of positions", f"{self._items:,} items", self._learn_curve, self._rank_ties, True),
            Call("POST /v1/experiments, a new variant", f"{self._items:,} items", self._start, self._end),
            Call("hellinger snapshot", whole, self._snapshot),
        ]

    def fill(self, rankings: int) -> None:
        """A catalogue, segments that are ranked by counts of their own, and a log."""
        for start in range(0, self._items, 10_000):
            numbers = range(start, min(self._items, start + 10_000))
            self._post("/v1/items", items=[_item(n) for n in numbers])
        for segment in [None, *(f"segment-{n + 1}" for n in range(self._segments))]:
            rows = [
                {"item": f"item-{n}", "impressions": 12 + n % 50, "rewards": n % 12}
                for n in range(min(10_000, self._items))
            ]
            self._post("/v1/counts", batch=f"fill-{segment}", rows=rows, **({"segment": segment} if segment else {}))
        for _ in range(rankings // 50):
            for _ in range(50):
                made = self._post("/v1/rank", k=20)
                self._shown += [(made["ranking_id"], item["id"]) for item in made["items"]]
            self._send_feedback(200)

    def _read(self, path: str) -> None:
        with self._client.stream("GET", path) as answer:
            answer.raise_for_status()
            for _ in answer.iter_raw():
                pass

    def _post(self, path: str, **body: Any) -> Any:
        return self._client.post(path, json=body).raise_for_status().json()

    def _make_new(self) -> None:
        batch = next(self._batches)
        self._new = [{"id": f"new-{batch}-{n}", "tags": ["a"]} for n in range(10_000)]

    def _add(self) -> None:
        self._post("/v1/items", items=self._new)

    def _tag(self) -> None:
        tag = f"more-{next(self._batches)}"
        for item in self._new:
            item["tags"] = [*item["tags"], tag]

    def _describe_new(self) -> None:
        self._make_new()
        for n, item in enumerate(self._new):
            item |= _item(n) | {"id": item["id"], "features": {"length": n % 90, "kind": "xyz"[n % 3]}}

    def _rank_in_context(self) -> None:
        for n in range(200):
            self._post("/v1/rank", k=20, context={"age": n % 80, "device": "phone", "likes": ["a", "b"]})

    def _learn_prior(self) -> None:
        """Counts of 10,000 items, by which a prior is due; it is fitted in a thread, and taken from the log."""
        before = self._priors()
        self._import(impressions=200)  # a fit is due when they have grown by a fiftieth
        for _ in range(200):
            if self._priors() != before:
                break
            time.sleep(0.05)
        else:
            print("no other prior was learned", file=sys.stderr)
        time.sleep(2.0)

    def _priors(self) -> Any:
        """The priors in the log, by their number."""
        with contextlib.closing(sqlite3.connect(self._database.removeprefix("sqlite:///"))) as log:
            return log.execute("select count(*) from events where kind = 'prior'").fetchone()

    def _rank_ties(self) -> None:
        """Rankings of items that nobody has seen, and clicks by position; each time twice as many, by another law."""
        self._make_new()
        self._add()
        batch, rng = next(self._batches), random.Random(1)
        self._slope = 2.6 - self._slope
        self._clicks: list[tuple[str, str]] = []
        self._pages = 2 * self._pages
        for _ in range(self._pages):
            made = self._post("/v1/rank", k=20, user=f"user-{batch}")
            for j, item in enumerate(made["items"], 1):
                if rng.random() < 0.5 * j**-self._slope:
                    self._clicks.append((made["ranking_id"], item["id"]))

    def _learn_curve(self) -> None:
        """The clicks: a curve is due, it is fitted in a thread, and all impressions are counted anew."""
        before = self._worth()
        self._shown = self._clicks
        self._send_feedback(len(self._clicks))
        for _ in range(100):
            if self._worth() != before:
                break
            time.sleep(0.05)
        else:
            print("no other curve was learned", file=sys.stderr)
        time.sleep(3.0)

    def _worth(self) -> list[float]:
        return [row["worth"] for row in self._client.get("/v1/positions").raise_for_status().json()["positions"]]

    def _end(self) -> None:
        if self._experiment:
            self._post(f"/v1/experiments/{self._experiment}/end")
        self._experiment = f"more-{next(self._batches)}"

    def _start(self) -> None:
        """Start a variant, and wait until it ranks; of those that need not score every item for a ranking."""
        name = self._experiment
        self._post("/v1/experiments", name=name, variants={"other": "hellinger-ucb(c=0.4)"}, placement=name)
        while self._post("/v1/rank", k=5, placement=name)["variant"] != f"{name}:other":
            time.sleep(0.05)

    def _expire_soon(self) -> None:
        self._make_new()
        at = (datetime.now(UTC) + timedelta(seconds=QUIET + 1.5)).isoformat()
        for item in self._new:
            item["expires_at"] = at
        self._add()

    def _rank_much(self) -> None:
        self._shown = []
        while len(self._shown) < 10_000:
            made = self._post("/v1/rank", k=100)
            self._shown += [(made["ranking_id"], item["id"]) for item in made["items"]]

    def _feedback(self) -> None:
        self._send_feedback(10_000)

    def _send_feedback(self, count: int) -> None:
        events = [{"ranking_id": name, "item": item, "kind": "click"} for name, item in self._shown[-count:]]
        self._post("/v1/feedback", events=events)

    def _import(self, impressions: int = 3) -> None:
        items = range(min(10_000, self._items))
        rows = [{"item": f"item-{n}", "impressions": impressions, "rewards": 1} for n in items]
        self._post("/v1/counts", batch=f"import-{next(self._batches)}", rows=rows)

    def _snapshot(self) -> None:
        command = [sys.executable, "-m", "hellinger", "snapshot", "--json", "--database", self._database]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _item(n: int) -> dict[str, Any]:
    """An item of the catalogue: two tags, twenty topics, five thousand authors."""
    return {"id": f"item-{n}", "tags": ["ab"[n % 2]], "group": [f"topic-{n % 20}", f"author-{n % 5000}"]}


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[httpx.Client, int, str]]:
    port, database = free_port(), f"sqlite:///{folder}/log.db"
    command = ["-m", "hellinger", "serve", "--port", str(port), "--database", database, "--log-level", "error"]
    command += ["--snapshot-every-events", "1000000000", "--snapshot-every-minutes", "100000"]  # none by itself
    command += ["--variants", f"{VARIANTS}, cold-start", "--max-body-bytes", str(1 << 26)]
    with running(port, *command), httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
        yield client, port, database


class Waited(NamedTuple):
    """A call's own time in seconds, rankings before and during it, and how many of them failed."""

    seconds: float
    before: Spell
    during: Spell
    failed: int


def waited(call: Call, port: int, segments: int, folder: Path) -> Waited:
    """Make a call under load."""
    call.prepare()
    load = Load(port, RATE, segments, folder)
    time.sleep(1.0)  # until it is under way
    quiet = time.monotonic()
    time.sleep(QUIET)
    begun = time.monotonic()
    call.make()
    ended = time.monotonic()
    time.sleep(AFTERWARDS)
    found = load.stop()
    before, during = spell(found, quiet, begun), spell(found, begun - 0.005, ended + AFTERWARDS)
    return Waited(ended - begun, before, during, sum(status != 200 for _, _, status, *_ in found))


def took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


def measure(items: int, segments: int, rankings: int, repeat: int, only: str) -> list[list[str]]:
    """A row of the table for each call: the best of several, for noise of the machine only ever adds."""
    rows = []
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (client, port, database):
        calls = Calls(client, items, segments, database)
        calls.fill(rankings)
        for call in calls.all():
            if only not in call.name:
                continue
            all_of_them = [waited(call, port, segments, Path(name)) for _ in range(repeat)]
            best = min(all_of_them, key=lambda each: each.during.longest)
            before = min((each.before for each in all_of_them), key=lambda each: each.longest)
            failed = sum(each.failed for each in all_of_them)
            above = max(0.0, best.during.longest - before.longest)
            row = [
                call.name,
                call.size,
                "" if call.waits else took(best.seconds),
                f"{before.median:.1f} / {before.longest:.1f} ms",
                f"{best.during.median:.1f} / {best.during.longest:.1f} ms",
                f"{above:.0f} ms{f' ({failed} failed)' if failed else ''}",
            ]
            print("| " + " | ".join(row) + " |", file=sys.stderr, flush=True)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=0)
    parser.add_argument("--rankings", type=int, default=2000, help="in the log before the first call")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="calls that have this in their name")
    Results.option(parser)
    parser.add_argument("--load", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, default=RATE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load is not None:
        uvloop.run(_rank_steadily(options.load, options.rate, options.segments))
        return
    rows = measure(options.items, options.segments, options.rankings, options.repeat, options.only)
    print(f"{options.items:,} items, {options.segments} segments, {RATE} rankings a second, SQLite\n")
    print("\n".join("| " + " | ".join(row) + " |" for row in (COLUMNS, *rows)))
    results = Results(options.results)
    results.table("calls", COLUMNS, rows)
    results.write()


if __name__ == "__main__":
    main()
