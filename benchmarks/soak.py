"""A month of churn in an hour: items come and expire, bursts, exports, then days of kills; ends in one page.

``python benchmarks/soak.py --minutes 60``. Items, with their authors as tags, expire after one simulated day. For a
month nothing is killed, so that memory which is never given back shows; then the service is killed three times a day.
A site with so many new items has all that settings allow it within hours; with eleven thousand rankings a day it would
have it after nine days here, which would look like growth. So the cache has room for the rankings of two days, and few
impressions give a segment pools of its own: both are there before the day with which memory is compared.

Says how memory and the waits of rankings went, and compares all that was acknowledged with the log. Load generator and
service share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import numpy as np

from _results import Results
from _timing import console, show
from hellinger.ledger import recovery
from hellinger.store import open_store
from service import VARIANTS, free_port

SETTLED = 3
"""The day with which memory is compared at the end."""
REMEMBERED = 20_000
"""Rankings that the service may remember."""
ENOUGH = 500
"""Impressions with which a segment has pools of its own: all have them within the first day."""


def resident(pid: int) -> float:
    """Megabytes of a service and its workers; snapshots and exports are processes that come and go."""
    total, children = 0.0, [pid]
    while children:
        one = children.pop()
        with contextlib.suppress(OSError, ProcessLookupError):
            if one != pid and b"serve" not in Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0"):
                continue
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
            for thread in Path(f"/proc/{one}/task").iterdir():
                children += map(int, (thread / "children").read_text().split())
    return total


class Soak:
    """A service, what is done to it, and what was acknowledged."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.database = f"sqlite:///{folder}/log.db"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.day = 60.0 * options.minutes / (options.days + options.kill_days)
        self.rng = random.Random(options.seed)
        self.numbers = itertools.count()
        self.process: subprocess.Popen[bytes] | None = None
        self.down = False
        self.doing = "nothing else"
        self.waits: dict[str, list[float]] = defaultdict(list)
        self.today: list[float] = []
        self.days: list[tuple[str, ...]] = []
        self.memory: list[float] = []
        self.ranked = self.refused = self.kills = self.exports = 0
        self.clicks: list[dict[str, Any]] = []
        self.accepted = 0
        self.ended = False

    # The service --------------------------------------------------------------------------------------

    def start(self) -> None:
        hours = self.day / 3600
        given = {
            "port": self.port,
            "database": self.database,
            "variants": f"{VARIANTS}, cold-start",
            "log-level": "warning",
            "attribution-hours": hours / 4,
            "forget-hours": hours / 2,
            "segment-enough": ENOUGH,
            "request-cache": REMEMBERED,
            "workers": self.options.workers,
            "snapshot-every-minutes": max(0.2, self.day / 60),
        }
        flags = [part for name, value in given.items() for part in (f"--{name}", str(value))]
        self.process = subprocess.Popen([sys.executable, "-m", "hellinger", "serve", *flags])

    async def ready(self, client: httpx.AsyncClient) -> None:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get("/health/ready")).status_code == 200:
                    return
            await asyncio.sleep(0.05)

    # What is done to it -------------------------------------------------------------------------------

    async def every(self, seconds: float, what: Any) -> None:
        """Do something from time to time; what a kill interrupts is done again the next time."""
        due = time.monotonic() + seconds
        while not self.ended:
            await asyncio.sleep(max(0.0, min(0.2, due - time.monotonic())))
            if time.monotonic() >= due and not self.ended:
                due += seconds
                with contextlib.suppress(httpx.HTTPError):
                    await what()

    def items(self, count: int) -> list[dict[str, Any]]:
        ends = datetime.fromtimestamp(time.time() + self.day, UTC).isoformat()
        authors = self.options.authors
        return [
            {"id": f"item-{next(self.numbers)}", "tags": [f"author-{self.rng.randrange(authors)}"], "expires_at": ends}
            for _ in range(count)
        ]

    async def add(self, count: int) -> None:
        sent = self.items(count)
        while not self.ended:  # until it is acknowledged: an item sent twice is one item
            with contextlib.suppress(httpx.HTTPError):
                if (await self.client.post("/v1/items", json={"items": sent})).status_code == 200:
                    return
            await asyncio.sleep(0.2)

    async def rank(self) -> None:
        """One user: rankings one after another, at the user's share of the rate."""
        gap = self.options.users / self.options.rate
        await asyncio.sleep(self.rng.random() * gap)
        while not self.ended:
            begun, doing = time.monotonic(), self.doing
            body = {"k": 20, "segment": f"segment-{self.rng.randrange(self.options.segments)}"}
            try:
                answer = await self.client.post("/v1/rank", json=body)
                answer.raise_for_status()
            except httpx.HTTPError:
                self.refused += 1
            else:
                wait = time.monotonic() - begun
                self.waits[doing if doing == self.doing else self.doing].append(wait)
                self.today.append(wait)
                self.ranked += 1
                made = answer.json()
                for place in made["items"]:
                    if self.rng.random() < 0.01 + 0.04 * (crc32(place["id"].encode()) % 100 / 100) ** 3:
                        self.clicks.append({"ranking_id": made["ranking_id"], "item": place["id"], "kind": "click"})
            await asyncio.sleep(max(0.0, gap - (time.monotonic() - begun)))

    async def feedback(self) -> None:
        while self.clicks:
            batch = self.clicks[:500]
            answer = await self.client.post("/v1/feedback", json={"events": batch})
            if answer.status_code != 200:
                return
            counts = answer.json()
            self.accepted += (
                counts["accepted"] + counts["duplicate"]
            )  # a try that was not acknowledged may have counted
            del self.clicks[: len(batch)]

    async def during(self, doing: str, what: Any) -> None:
        self.doing = doing
        try:
            await what
        finally:
            await asyncio.sleep(0.5)
            self.doing = "nothing else"

    async def burst(self) -> None:
        await self.during("10,000 items added, and expiring together a day later", self.add(10_000))

    async def export(self) -> None:
        async def whole() -> None:
            since = datetime.fromtimestamp(time.time() - self.day, UTC).isoformat()
            query = {"format": self.rng.choice(["jsonl", "parquet"]), "since": since}
            async with self.client.stream("GET", "/v1/export", params=query, timeout=300) as answer:
                async for _ in answer.aiter_raw():
                    pass
            self.exports += 1

        await self.during("an export of a day", whole())

    async def kill(self) -> None:
        if len(self.memory) < self.options.days:
            return
        assert self.process is not None
        self.doing = "a kill"
        self.kills += 1
        self.process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self.process.wait)
        self.start()
        await self.ready(self.client)
        await asyncio.sleep(0.5)
        self.doing = "nothing else"

    async def watch(self) -> None:
        """An open page."""
        while not self.ended:
            with contextlib.suppress(httpx.HTTPError):
                async with self.client.stream("GET", "/v1/stream", timeout=None) as answer:
                    lines = answer.aiter_raw()
                    while not self.ended and await anext(lines, None) is not None:
                        pass
            await asyncio.sleep(0.5)

    async def note(self) -> None:
        """The end of a day."""
        assert self.process is not None
        self.memory.append(resident(self.process.pid))
        waits = np.array(self.today or [0.0]) * 1e3
        self.today = []
        row = (
            str(len(self.memory)),
            f"{self.memory[-1]:,.0f} MB",
            f"{waits.size:,}",
            *(f"{np.percentile(waits, q):.1f} ms" for q in (50, 99, 100)),
        )
        self.days.append(row)
        console.print(f"day {row[0]}: {row[1]}, {row[2]} rankings, median {row[3]}, p99 {row[4]}, slowest {row[5]}")

    async def live(self) -> None:
        options = self.options
        limits = httpx.Limits(max_connections=None, keepalive_expiry=1.0)
        async with httpx.AsyncClient(base_url=self.url, timeout=30, limits=limits) as self.client:
            self.start()
            await self.ready(self.client)
            for _ in range(3):
                await self.add(options.items // 3)
            step = 0.5
            tasks = [
                asyncio.create_task(task)
                for task in (
                    *(self.rank() for _ in range(options.users)),
                    self.every(step, lambda: self.add(max(1, round(options.items * step / self.day)))),
                    self.every(0.5, self.feedback),
                    self.every(2.3 * self.day, self.burst),
                    self.every(1.7 * self.day, self.export),
                    self.every(0.31 * self.day, self.kill),
                    self.watch(),
                )
            ]
            days = asyncio.create_task(self.every(self.day, self.note))
            try:
                await asyncio.sleep(60.0 * options.minutes + 0.5)
            finally:
                while self.doing != "nothing else":
                    await asyncio.sleep(0.1)
                self.ended = True
                await asyncio.wait([*tasks, days], timeout=60)
            await self.ready(self.client)
            while self.clicks:
                await self.feedback()

    # The page -----------------------------------------------------------------------------------------

    def report(self, results: Results) -> None:
        show(
            f"{self.options.items:,} new items and {self.options.segments} segments a day of {self.day:.0f} s",
            ("day", "memory", "rankings", "median", "p99", "slowest"),
            self.days,
        )
        rows = []
        for doing, found in sorted(self.waits.items()):
            waits = np.array(found) * 1e3
            rows.append((doing, f"{waits.size:,}", *(f"{np.percentile(waits, q):.1f}" for q in (50, 99, 100))))
        columns = ("while there was", "rankings", "median", "p99", "slowest")
        show("waits of rankings in ms", columns, rows)
        results.table("waits", columns, rows)
        month = self.memory[: self.options.days]
        for name, value in (("first", month[0]), ("last", month[-1]), ("days", len(month))):
            results.value(name, value, "MB" if name != "days" else "")
        if len(month) > SETTLED:
            settled, later = month[SETTLED - 1], month[SETTLED:]
            ratio = month[-1] / settled
            met = "[green]met[/]" if ratio <= 1.1 else "[red]missed[/]"
            console.print(f"memory on day {len(month)} ÷ on day {SETTLED}: {ratio:.2f} (target ≤ 1.10) {met}")
            for name, value in (("settled", settled), ("least", min(later)), ("most", max(later))):
                results.value(name, value, "MB")
            results.value("ratio", ratio, "times", 2)
        console.print(f"{self.kills} kills, {self.exports} exports, {self.refused:,} rankings refused meanwhile")
        for name, value in (("kills", self.kills), ("exports", self.exports), ("refused", self.refused)):
            results.value(name, value)

    def check(self, results: Results) -> bool:
        """Whether the log has what was acknowledged, and the running service is what its log says."""
        command = [sys.executable, "-m", "hellinger", "check", "--service", self.url, "--database", self.database]
        same = subprocess.run(command, check=False).returncode == 0
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)
        with contextlib.closing(open_store(self.database)) as store:
            ledger = recovery.recover(store)
            recovery.advance(store, ledger)
            totals = ledger.series.totals
        rankings, rewards = (int(sum(cell[j] for cell in totals.values())) for j in (0, 2))
        good = rankings >= self.ranked and rewards == self.accepted
        console.print(
            f"acknowledged: {self.ranked:,} rankings and {self.accepted:,} clicks; in the log: {rankings:,} and "
            f"{rewards:,} ({'[green]nothing lost or doubled[/]' if good else '[red]they differ[/]'})"
        )
        console.print(f"the running service and its log: {'[green]alike[/]' if same else '[red]they differ[/]'}")
        for name, value in (("rankings", self.ranked), ("clicks", self.accepted)):
            results.value(name, value)
        for name, value in (("log_rankings", rankings), ("log_clicks", rewards)):
            results.value(name, value)
        return good and same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--days", type=int, default=30, help="simulated days without a kill in that time")
    parser.add_argument("--kill-days", type=int, default=3, help="days after these in which the service is killed")
    parser.add_argument("--items", type=int, default=30_000, help="new items a day")
    parser.add_argument("--segments", type=int, default=40)
    parser.add_argument("--authors", type=int, default=2_000, help="each item has one as its tag")
    parser.add_argument("--rate", type=float, default=100.0, help="rankings a second")
    parser.add_argument("--users", type=int, default=20, help="connections that rank")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(options, Path(folder))
        try:
            asyncio.run(soak.live())
            soak.report(results)
            good = soak.check(results)
            results.write()
        finally:
            if soak.process is not None and soak.process.poll() is None:
                soak.process.kill()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
