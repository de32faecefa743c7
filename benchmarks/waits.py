"""How long a ranking waits while the service does something else: each documented call in turn, under steady load.

``python benchmarks/waits.py --items 10000 --segments 5`` prints a table in Markdown. The load generator is a process of
its own, at a steady rate; a ranking that is sent late counts from when it was due.

First rankings are measured with nothing else asked, for five seconds: ``longer by`` is how much longer the slowest
ranking took while a call was made than the slowest of those. Before each call the service is left alone until no pool
has anything to look up. The longest stretch is that in which the service's loop did not come to a timer of two
milliseconds, which only this benchmark sets.
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
from datetime import UTC, datetime
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
UNDISTURBED = 5.0
"""Seconds of load at the beginning, with nothing else asked: what "longer by" is reckoned from."""
COLUMNS = [
    "call",
    "largest size",
    "its time",
    "ranking before: median / longest",
    "meanwhile",
    "longer by",
    "longest stretch of the loop",
]
LATE = "late.txt"
"""The file in which the service notes when its loop was late."""
TICK = 0.002
"""Seconds between two looks at the loop."""
AT_REST = 0.15
"""Of a processor: what a service takes that has nothing to do but its rounds."""
AFTERWARDS = 0.5
"""Seconds after a call's answer in which what it left to be done counts as its own."""


class Spell(NamedTuple):
    """Rankings between two times: their median, 99th percentile and longest time, in milliseconds."""

    median: float
    longest: float
    p99: float


class Call(NamedTuple):
    """A documented call: its name, the largest size it was tried with, and how to make it."""

    name: str
    size: str
    make: Callable[[], object]
    prepare: Callable[[], object] = lambda: None
    waits: bool = False
    """Whether it is nothing but a wait, whose time says nothing."""
    tidy: Callable[[], object] = lambda: None
    """What is to be undone afterwards."""


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
            status, _ = await link.waiter
            taken = time.monotonic() - due
            sys.stdout.write(json.dumps([due, taken, status]) + "\n")
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
    if not times.size:
        return Spell(0.0, 0.0, 0.0)
    return Spell(float(np.median(times)), float(times.max()), float(np.percentile(times, 99)))


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
        self._made: list[int] = []
        """Numbers of the batches of new items."""
        self._experiment = ""
        self._expire_at = 0.0
        self._weight = 1
        self._slope, self._pages = 0.3, 100

    def all(self) -> list[Call]:
        many = "10,000"
        whole = "the whole log"
        return [
            Call("GET /v1/export (JSON lines)", whole, lambda: self._read("/v1/export")),
            Call("GET /v1/export (Parquet)", whole, lambda: self._read("/v1/export?format=parquet")),
            Call("GET /v1/experiments/main", "all variants", lambda: self._read("/v1/experiments/main")),
            Call("GET /v1/experiments/main/best", "k=1000", lambda: self._read("/v1/experiments/main/best?k=1000")),
            Call("GET /v1/experiments/main/groups", "5,000 groups", lambda: self._read("/v1/experiments/main/groups")),
            Call("GET /v1/experiments/main/models", "all variants", lambda: self._read("/v1/experiments/main/models")),
            Call("GET /v1/experiments/main/series", "by the minute", self._read_series),
            Call("GET /v1/positions", "all", lambda: self._read("/v1/positions")),
            Call("GET /metrics", "all", lambda: self._read("/metrics")),
            Call("GET /v1/items", "limit=1000", lambda: self._read("/v1/items?limit=1000&sort=impressions")),
            Call("GET /v1/items, searched", f"{self._items:,} items", lambda: self._read("/v1/items?search=99&tag=b")),
            Call("GET /v1/history", whole, lambda: self._read("/v1/history?item=item-0")),
            Call("GET /v1/state", "all pools", lambda: self._read("/v1/state")),
            Call("POST /v1/items, new", many, self._add, self._make_new),
            Call("POST /v1/items, unchanged", many, self._add),
            Call("POST /v1/items, one more tag", many, self._add, self._tag),
            Call("POST /v1/items, groups and features", many, self._add, self._describe_new),
            Call("POST /v1/rank, with a context", "200 rankings", self._rank_in_context),
            Call("POST /v1/rank, by a model", "200 rankings", self._rank_by_model, self._start_model)._replace(
                tidy=self._end
            ),
            Call("POST /v1/items/…/hide, and unhide", "an item", self._hide),
            Call("DELETE /v1/items/…", f"{many}, 16 at a time", self._delete, self._add_new),
            Call("items that expire together", many, self._wait_for_expiry, self._expire_soon, True),
            Call("POST /v1/feedback", f"{many} events", self._feedback, self._rank_much),
            Call("POST /v1/impressions", f"{many} events", self._confirm),
            Call("POST /v1/counts", f"{many} rows", self._import),
            Call("a new prior, items of groups", f"{self._items:,} items", self._learn_prior, lambda: None, True),
            Call("a new curve of positions", f"{self._items:,} items", self._learn_curve, self._rank_ties, True),
            Call("POST /v1/experiments, a new variant", f"{self._items:,} items", self._start, self._name)._replace(
                tidy=self._end
            ),
            Call("the same, from common counts", f"{self._items:,} items", self._start_common, self._name)._replace(
                tidy=self._end
            ),
            Call("POST /v1/experiments/main/phases", "other weights", self._change_weights),
            Call("hellinger snapshot", whole, self._snapshot),
            Call(
                "60,000 new items, then a variant seldom asked", "6 × 10,000", self._add_much, self._prepare_rare
            )._replace(tidy=self._end),
            Call("all items expire together", "the whole catalogue", self._wait_for_all, self._expire_all, True),
        ]

    def fill(self, rankings: int) -> None:
        """A catalogue, segments that are ranked by counts of their own, and a log."""
        for start in range(0, self._items, 10_000):
            numbers = range(start, min(self._items, start + 10_000))
            self._post("/v1/items", items=[_item(n) for n in numbers])
        for j, segment in enumerate([None, *(f"segment-{n + 1}" for n in range(self._segments))]):
            rows = [  # each segment likes other items, or none would have a pool of its own
                {"item": f"item-{n}", "impressions": 12 + n % 50, "rewards": (n + 5 * j) % 12}
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
        self._made.append(batch)
        self._new = [{"id": f"new-{batch}-{n}", "tags": ["a"]} for n in range(10_000)]

    def _add(self) -> None:
        self._post("/v1/items", items=self._new)

    def _add_new(self) -> None:
        self._make_new()
        self._add()

    def _add_much(self) -> None:
        """Many new items, and at once a ranking by a variant that nobody has asked meanwhile."""
        for _ in range(6):
            self._add_new()
        self._post("/v1/rank", k=20, placement=self._experiment)

    def _prepare_rare(self) -> None:
        self._name()
        self._start()

    def _delete(self) -> None:
        asyncio.run(_delete_all(self._client.base_url.port or 0, [item["id"] for item in self._new]))

    def _hide(self) -> None:
        for turn in ("hide", "unhide"):
            self._post(f"/v1/items/item-1/{turn}")

    def _tag(self) -> None:
        tag = f"more-{next(self._batches)}"
        for item in self._new:
            item["tags"] = [*item["tags"], tag]

    def _describe_new(self) -> None:
        self._make_new()
        for n, item in enumerate(self._new):
            item |= _item(n) | {"id": item["id"], "features": {"length": n % 90, "kind": "xyz"[n % 3]}}

    def _rank_in_context(self) -> None:
        self._rank_by_model(None)

    def _rank_by_model(self, placement: str | None = "") -> None:
        where = {} if placement is None else {"placement": self._experiment}
        for n in range(200):
            self._post("/v1/rank", k=20, context={"age": n % 80, "device": "phone", "likes": ["a", "b"]}, **where)

    def _start_model(self) -> None:
        """A variant with a model, which has taken in all items."""
        self._name()
        self._start("cold-start(model=logistic)")

    def _read_series(self) -> None:
        self._read("/v1/experiments/main/series?resolution=minute")

    def _change_weights(self) -> None:
        self._weight += 1
        weights = {name.strip(): 1 for name in VARIANTS.split(",")} | {"cold-start": self._weight}
        self._post("/v1/experiments/main/phases", weights=weights)

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

    def _name(self) -> None:
        self._experiment = f"more-{next(self._batches)}"

    def _end(self) -> None:
        self._post(f"/v1/experiments/{self._experiment}/end")

    def _start_common(self) -> None:
        self._start(begin="common")

    def _start(self, policy: str = "hellinger-ucb(c=0.4)", begin: str = "empty") -> None:
        """Start a variant, and wait until it ranks; of those that need not score every item for a ranking."""
        name = self._experiment
        self._post("/v1/experiments", name=name, variants={"other": policy}, placement=name, begin=begin)
        while self._post("/v1/rank", k=5, placement=name)["variant"] != f"{name}:other":
            time.sleep(0.05)

    def _expire_soon(self) -> None:
        self._make_new()
        at = self._expiry(15.0)
        for item in self._new:
            item["expires_at"] = at
        self._add()

    def _expiry(self, seconds: float) -> str:
        """A date so far ahead, by when the service has come to rest again."""
        self._expire_at = time.time() + seconds + self._items / 50_000
        return datetime.fromtimestamp(self._expire_at, UTC).isoformat()

    def _wait_for_expiry(self) -> None:
        time.sleep(max(0.0, self._expire_at - time.time()) + 3.0)

    def _expire_all(self) -> None:
        at = self._expiry(15.0 + (self._items + 10_000 * len(self._made)) / 10_000)
        for start in range(0, self._items, 10_000):
            numbers = range(start, min(self._items, start + 10_000))
            self._post("/v1/items", items=[_item(n) | {"expires_at": at} for n in numbers])
        for batch in self._made:
            items = [{"id": f"new-{batch}-{n}", "tags": ["a"], "expires_at": at} for n in range(10_000)]
            self._post("/v1/items", items=items)
        if time.time() > self._expire_at:
            print("the items had expired before they were all there", file=sys.stderr)

    def _wait_for_all(self) -> None:
        """Until they have expired, and the log has it: it grows by no more than by rankings."""
        self._wait_for_expiry()
        before, after = -(10**9), self._last()
        while after - before > 3 * RATE:
            time.sleep(1.0)
            before, after = after, self._last()

    def _last(self) -> int:
        with contextlib.closing(sqlite3.connect(self._database.removeprefix("sqlite:///"))) as log:
            return int(log.execute("select max(seq) from events").fetchone()[0])

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

    def _confirm(self) -> None:
        events = [{"ranking_id": name, "item": item} for name, item in self._shown[-10_000:]]
        self._post("/v1/impressions", events=events)

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


async def _delete_all(port: int, names: list[str]) -> None:
    """Delete these items, each by a request of its own."""
    loop, left = asyncio.get_running_loop(), iter(names)

    async def one() -> None:
        _, link = await loop.create_connection(_Connection, "127.0.0.1", port)
        for name in left:
            link.waiter = loop.create_future()
            head = f"DELETE /v1/items/{name} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"
            link.transport.write(head.encode())  # type: ignore[attr-defined]
            status, _ = await link.waiter
            assert status == 200, status
        link.transport.close()

    await asyncio.gather(*(one() for _ in range(16)))


# The service ----------------------------------------------------------------------------------------------------


def _serve(file: Path, words: list[str]) -> None:
    """``hellinger`` with these words, which notes in a file when its loop did not come to a timer."""
    from hellinger import cli
    from hellinger.engine.service import Service

    start = Service.start
    tasks = []

    async def started(*arguments: Any, **options: Any) -> Service:
        service = await start(*arguments, **options)
        tasks.append(asyncio.create_task(_watch_loop(file)))
        return service

    Service.start = started  # type: ignore[method-assign]
    sys.argv[1:] = words
    cli.main()


async def _watch_loop(file: Path) -> None:
    with file.open("w", buffering=1) as out:
        before = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            if now - before > 2 * TICK:
                out.write(f"{before} {now}\n")
            before = now


def stretch(file: Path, since: float, until: float) -> float:
    """The longest stretch of the service's loop between two times, in milliseconds."""
    lines = [[float(word) for word in line.split()] for line in file.read_text().splitlines()]
    return 1e3 * max([0.0, *(end - begin - TICK for begin, end in lines if end > since and begin < until)])


def figures(client: httpx.Client) -> dict[str, float]:
    """The service's figures, those with labels added up."""
    found: dict[str, float] = {}
    for line in client.get("/metrics").raise_for_status().text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
    return found


def settle(client: httpx.Client, seconds: float = 300.0) -> None:
    """Wait until the service has nothing to do: no pool has anything to look up, and no prior is being fitted."""
    end, at_rest = time.monotonic() + seconds, 0
    before = time.monotonic(), figures(client)["process_cpu_seconds_total"]
    while at_rest < 2:
        if time.monotonic() > end:
            print("the service did not come to rest", file=sys.stderr)
            return
        time.sleep(0.5)
        found = figures(client)
        now = time.monotonic(), found["process_cpu_seconds_total"]
        idle = now[1] - before[1] < AT_REST * (now[0] - before[0])
        waits = sum(found.get(f"hellinger_{name}", 0.0) for name in ("pools_behind", "pending", "model_behind"))
        at_rest = at_rest + 1 if idle and not waits else 0
        before = now


@contextlib.contextmanager
def serving(folder: Path, segment_mb: int) -> Iterator[tuple[httpx.Client, int, str]]:
    port, database = free_port(), f"sqlite:///{folder}/log.db"
    command = [__file__, "--serve", str(folder / LATE), "serve", "--port", str(port), "--database", database]
    command += ["--log-level", "error", "--segment-mb", str(segment_mb)]
    command += ["--snapshot-every-events", "1000000000", "--snapshot-every-minutes", "100000"]  # none by itself
    command += ["--variants", f"{VARIANTS}, cold-start", "--max-body-bytes", str(1 << 26)]
    with running(port, *command), httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
        yield client, port, database


class Waited(NamedTuple):
    """A call's own time in seconds, rankings before and during it, how many of them failed, and the longest stretch."""

    seconds: float
    before: Spell
    during: Spell
    failed: int
    stretch: float


def undisturbed(client: httpx.Client, port: int, segments: int, folder: Path) -> Spell:
    """Rankings with nothing else asked."""
    settle(client)
    load = Load(port, RATE, segments, folder)
    time.sleep(1.0)
    begun = time.monotonic()
    time.sleep(UNDISTURBED)
    return spell(load.stop(), begun, begun + UNDISTURBED)


def waited(call: Call, client: httpx.Client, port: int, segments: int, folder: Path) -> Waited:
    """Make a call under load."""
    call.prepare()
    settle(client)
    load = Load(port, RATE, segments, folder)
    time.sleep(1.0)  # until it is under way
    quiet = time.monotonic()
    time.sleep(QUIET)
    begun = time.monotonic()
    call.make()
    ended = time.monotonic()
    time.sleep(AFTERWARDS)
    found = load.stop()
    call.tidy()
    before, during = spell(found, quiet, begun), spell(found, begun - 0.005, ended + AFTERWARDS)
    failed = sum(status != 200 for _, _, status in found)
    return Waited(ended - begun, before, during, failed, stretch(folder / LATE, begun, ended + AFTERWARDS))


def took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


class Measured(NamedTuple):
    """Rows of the table, rankings with nothing else asked, how much longer the slowest took, and pools of segments."""

    rows: list[list[str]]
    alone: Spell
    most: float
    pools: int


def measure(items: int, segments: int, rankings: int, repeat: int, only: str, segment_mb: int) -> Measured:
    """A row of the table for each call: the best of several, for noise of the machine only ever adds."""
    rows, most = [], 0.0
    with tempfile.TemporaryDirectory() as name, serving(Path(name), segment_mb) as (client, port, database):
        calls = Calls(client, items, segments, database)
        calls.fill(rankings)
        spells = [undisturbed(client, port, segments, Path(name)) for _ in range(repeat)]
        alone, pools = min(spells, key=lambda each: each.longest), int(figures(client)["hellinger_segment_pools"])
        print(f"undisturbed: {alone}; {pools} pools of segments", file=sys.stderr, flush=True)
        for call in calls.all():
            if only not in call.name:
                continue
            all_of_them = [waited(call, client, port, segments, Path(name)) for _ in range(repeat)]
            best = min(all_of_them, key=lambda each: each.during.longest)
            before = min((each.before for each in all_of_them), key=lambda each: each.longest)
            failed = sum(each.failed for each in all_of_them)
            above = max(0.0, best.during.longest - alone.longest)
            most = max(most, above)
            row = [
                call.name,
                call.size,
                "" if call.waits else took(best.seconds),
                f"{before.median:.1f} / {before.longest:.1f} ms",
                f"{best.during.median:.1f} / {best.during.longest:.1f} ms",
                f"{above:.0f} ms{f' ({failed} failed)' if failed else ''}",
                f"{best.stretch:.0f} ms",
            ]
            print("| " + " | ".join(row) + " |", file=sys.stderr, flush=True)
            rows.append(row)
    return Measured(rows, alone, most, pools)


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        _serve(Path(sys.argv[2]), sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=0)
    parser.add_argument("--rankings", type=int, default=2000, help="in the log before the first call")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="calls that have this in their name")
    parser.add_argument("--segment-mb", type=int, default=1024, help="memory for pools of segments")
    Results.option(parser)
    parser.add_argument("--load", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, default=RATE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load is not None:
        uvloop.run(_rank_steadily(options.load, options.rate, options.segments))
        return
    found = measure(options.items, options.segments, options.rankings, options.repeat, options.only, options.segment_mb)
    print(f"{options.items:,} items, {options.segments} segments, {RATE} rankings a second, SQLite")
    print(f"undisturbed: {found.alone} ms; {found.pools} pools of segments; {found.most:.0f} ms longer at most\n")
    print("\n".join("| " + " | ".join(row) + " |" for row in (COLUMNS, *found.rows)))
    results = Results(options.results)
    results.value("alone_median", found.alone.median, "ms", 1)
    results.value("alone_p99", found.alone.p99, "ms", 1)
    results.value("alone_longest", found.alone.longest, "ms", 1)
    results.value("longer_most", found.most, "ms")
    results.value("pools", found.pools)
    results.table("calls", COLUMNS, found.rows)
    results.write()


if __name__ == "__main__":
    main()
