"""How a replica on PostgreSQL catches up: it is stopped while others write a million events, and then goes on.

``python benchmarks/catchup.py [--events 1000000] [--items 10000]``: three minutes. The replica is stopped by SIGSTOP,
as a machine that swaps would be. Half of the events are rankings of 20 items, half a click each, a thousand rankings
later. Once it goes on, rankings are asked of it at a steady rate until it has applied all that was written.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import orjson

from _results import Results
from _timing import console
from hellinger.events import Row, new_request, now
from hellinger.store import open_store
from service import VARIANTS, free_port, running
from waits import Load, spell

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from throwaway import Server

K = 20
LAG = 1000
"""Rankings between one and its feedback."""
BATCH = 5000
"""Events that are written at once."""
RATE = 50
"""Rankings a second that are asked for meanwhile."""
TARGET = 60.0


def events(like: dict[str, Any], count: int, items: int) -> Iterator[Row]:
    """Rankings like one that was made, in turn with feedback."""
    draw = random.Random(1)
    variants = VARIANTS.split(", ")
    click = orjson.dumps({"points": 1.0, "late": False, "happened": None}).decode()
    first = like["since"][0] - int(like["items"][0].removeprefix("item-"))  # items were logged one after the other
    shown: list[tuple[str, str]] = []
    for number in range(count // 2):
        name, at, variant = new_request(now()), now(), variants[number % len(variants)]
        numbers = draw.sample(range(items), K)
        chosen, since = [f"item-{j}" for j in numbers], [first + j for j in numbers]
        fields = like | {"variant": variant, "policy": variant, "items": chosen, "since": since}
        yield name, "rank", at, orjson.dumps(fields).decode()
        shown.append((name, chosen[number % K]))
        of, item = shown[max(0, number - LAG)]
        yield f"{of}/{'click' if number >= LAG else f'early-{number}'}/{item}", "feedback", at, click


def write(database: str, like: dict[str, Any], count: int, items: int) -> int:
    """Write so many events; the place of the last."""
    with closing(open_store(database)) as store:
        batch: list[Row] = []
        for event in events(like, count, items):
            batch.append(event)
            if len(batch) == BATCH:
                store.append(batch, store.last())
                batch = []
        store.append(batch, store.last())
        return store.last()


def memory(pid: int, what: str) -> float:
    """Megabytes of memory, ``VmRSS`` now or ``VmHWM`` at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def main() -> None:
    """Stop a replica, write, let it go on, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--stop-after", type=float, default=600.0, help="seconds after which to give up")
    Results.option(parser)
    given = parser.parse_args()
    results = Results(given.results)
    port = free_port()
    with Server(durable=True) as server, tempfile.TemporaryDirectory() as folder:
        database = server.fresh()
        command = ["-m", "hellinger", "serve", "--port", str(port), "--database", database, "--log-level", "warning"]
        command += ["--variants", VARIANTS, "--snapshot-every-events", "1000000000"]
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120)
        with running(port, *command) as process, client:
            for start in range(0, given.items, 10_000):
                new = [{"id": f"item-{j}"} for j in range(start, min(given.items, start + 10_000))]
                client.post("/v1/items", json={"items": new}).raise_for_status()
            name = client.post("/v1/rank", json={"k": K}).json()["ranking_id"]
            with closing(open_store(database)) as store:
                like = store.thread([name])[0].fields
            os.kill(process.pid, signal.SIGSTOP)
            try:
                began = time.perf_counter()
                last = write(database, like, given.events, given.items)
                console.print(f"{given.events:,} events written in {time.perf_counter() - began:.0f} s")
            finally:
                os.kill(process.pid, signal.SIGCONT)
            before = memory(process.pid, "VmRSS")
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak counts from here
            since = time.monotonic()
            load = Load(port, RATE, 0, Path(folder))
            refused, reached = 0, 0
            while reached < last and time.monotonic() - since < given.stop_after:
                time.sleep(0.5)
                refused += client.get("/health/ready").status_code == 503
                reached = client.get("/v1/experiments/main").raise_for_status().json()["events"]
            until = time.monotonic()
            after, peak = memory(process.pid, "VmRSS"), memory(process.pid, "VmHWM")
            time.sleep(1.0)
            found = load.stop()
    seconds, asked = until - since, [each for each in found if each[0] < until]
    answered = spell([each for each in asked if each[2] == 200], since, until)
    turned_away = spell([each for each in asked if each[2] != 200], since, until)
    good = "[green]" if seconds <= TARGET and reached >= last else "[red]"
    console.print(
        f"{given.events:,} events behind, {given.items:,} items: in step after {good}{seconds:.1f} s[/] (target "
        f"{TARGET:.0f} s), {given.events / seconds:,.0f} events/s; not ready at {refused} looks meanwhile\n"
        f"rankings asked for: {len(asked)}; answered {sum(each[2] == 200 for each in asked)}, median "
        f"{answered.median:.1f} ms, longest {answered.longest:.0f} ms; refused "
        f"{sum(each[2] != 200 for each in asked)}, longest {turned_away.longest:.0f} ms\n"
        f"memory {before:.0f} MB before, at most {peak:.0f} MB, {after:.0f} MB when in step; "
        f"load of the machine {os.getloadavg()[0]:.1f}"
    )
    missed = sum(each[2] != 200 for each in asked)
    results.value("in_step", seconds, "s")
    results.value("rate", given.events / seconds)
    results.value("median", answered.median, "ms")
    results.value("longest", answered.longest, "ms")
    results.value("refused", f"{missed or 'none'} of {len(asked):,}")
    results.value("memory_before", before, "MB")
    results.value("memory_most", peak, "MB")
    results.write()


if __name__ == "__main__":
    main()
