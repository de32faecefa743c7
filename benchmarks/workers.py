"""Several processes on one log: what each ranking costs the processes that did not make it, and what they do together.

``python benchmarks/workers.py``: two minutes at most. Load generator and services share the machine: where it has two
cores, the second worker shares one of them with the generator, and rankings a second cannot double.

An event of another copy costs processor time in every copy. It is measured in two ways, as a share of what a copy's
own ranking costs: in a copy that has nothing else to do, which reads many events at a time, what each copy takes at
rest being left out; and in two workers that both rank, by what a ranking costs them beyond what it costs two services
with a log each, under the same load.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
import uvloop

from _results import Results
from _timing import console
from http_load import Load, _drive
from service import VARIANTS, free_port, processor_seconds, running

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from throwaway import Server

CONNECTIONS = 48
TURNS = 4
TARGET = 0.08
BODY = b'{"k":20}'


class Copies(NamedTuple):
    """Services that answer together, and all their processes."""

    ports: list[int]
    processes: list[subprocess.Popen[bytes]]

    def seconds(self) -> list[float]:
        """Processor time of each service so far, its workers included."""
        return [processor_seconds(process) + sum(map(_seconds, _children(process.pid))) for process in self.processes]


class _Process(NamedTuple):
    pid: int


def _seconds(pid: int) -> float:
    return processor_seconds(_Process(pid))  # type: ignore[arg-type]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def start(stack: ExitStack, database: str, copies: int = 1, workers: int = 1) -> Copies:
    """Start services on one log, with ten thousand items."""
    ports, processes = [], []
    for _ in range(copies):
        port = free_port()
        command = ["-m", "hellinger", "serve", "--port", str(port), "--database", database, "--log-level", "warning"]
        command += ["--variants", VARIANTS, "--workers", str(workers), "--snapshot-every-events", "1000000000"]
        processes.append(stack.enter_context(running(port, *command)))
        ports.append(port)
    with httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", timeout=120) as client:
        client.post("/v1/items", json={"items": [{"id": f"item-{j}"} for j in range(10_000)]}).raise_for_status()
        while f"hellinger_workers {workers:.1f}" not in client.get("/metrics").text:
            pass
    return Copies(ports, processes)


def _both(one: Copies, other: Copies) -> Copies:
    return Copies(one.ports + other.ports, one.processes + other.processes)


def load(ports: Sequence[int], seconds: float) -> list[Load]:
    """Rankings from all of these at once, as fast as they come."""

    async def all_of_them() -> list[Load]:
        each = max(1, CONNECTIONS // len(ports))
        return await asyncio.gather(
            *(_drive(port, "/v1/rank", lambda: BODY, seconds, each, None, None) for port in ports)
        )

    return uvloop.run(all_of_them())


class Turn(NamedTuple):
    """A spell of load: rankings a second, and processor seconds of a ranking in each service."""

    rate: float
    cost: list[float]


def turn(copies: Copies, ports: Sequence[int], seconds: float) -> Turn:
    before = copies.seconds()
    loads = load(ports, seconds)
    count = sum(each.latencies.size for each in loads)
    spent = [after - first for first, after in zip(before, copies.seconds(), strict=True)]
    return Turn(sum(each.rate for each in loads), [each / count for each in spent])


def at_rest(copies: Copies, seconds: float) -> list[float]:
    """Processor time of each service, by the second, while nobody asks anything."""
    time.sleep(1.0)  # for what the last spell left to be done
    before = copies.seconds()
    time.sleep(seconds)
    return [(after - first) / seconds for first, after in zip(before, copies.seconds(), strict=True)]


def share_of(copies: Copies, seconds: float) -> float:
    """What an event costs a copy that makes no rankings, as a share of what it costs the one that made it."""
    rest = at_rest(copies, seconds)
    spell = turn(copies, copies.ports[:1], 2 * seconds)
    own, others = (cost - each / spell.rate for cost, each in zip(spell.cost, rest, strict=True))
    return others / own


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5)
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(Server(durable=True))
        databases = [server.fresh() for _ in range(3)]
        named = {
            "SQLite, 1 worker": start(stack, f"sqlite:///{folder}/one.db"),
            "SQLite, 2 services with a log each": _both(
                *(start(stack, f"sqlite:///{folder}/{j}.db") for j in range(2))
            ),
            "SQLite, 2 workers": start(stack, f"sqlite:///{folder}/two.db", workers=2),
            "PostgreSQL, 1 copy": start(stack, databases[0]),
            "PostgreSQL, 2 copies": start(stack, databases[1], copies=2),
            "PostgreSQL, 3 copies": start(stack, databases[2], copies=3),
        }
        turns: dict[str, list[Turn]] = {name: [] for name in named}
        idle: list[float] = []
        for _ in range(TURNS):
            for name, copies in named.items():
                turns[name].append(turn(copies, copies.ports, options.seconds))
            idle.append(share_of(named["PostgreSQL, 2 copies"], options.seconds))
    rows = []
    for name, spells in turns.items():
        cost = median([sum(each.cost) for each in spells])
        rate = median([each.rate for each in spells])
        console.print(f"{name}: {rate:,.0f} rankings/s, {cost * 1e6:.0f} µs each")
        rows.append([name, f"{rate:,.0f}", f"{cost * 1e6:.0f} µs"])
    ratio = median(idle)
    met = "[green]met[/]" if ratio <= TARGET else "[red]missed[/]"
    console.print(f"an event of another copy ÷ an own ranking, idle otherwise: {ratio:.3f} (target ≤ {TARGET}) {met}")
    apart, workers = turns["SQLite, 2 services with a log each"], turns["SQLite, 2 workers"]
    share = median([sum(b.cost) / sum(a.cost) - 1.0 for a, b in zip(apart, workers, strict=True)])
    console.print(f"the same in two workers that both rank: {share:.3f}")
    results.value("share_idle", ratio, "", 3)
    results.value("share_busy", share, "", 2)
    results.value("two_at_share", 2 / (1 + share), "times", 1)
    results.value("eight_at_share", 8 / (1 + 7 * ratio), "times", 1)
    for one, several in (
        ("SQLite, 1 worker", "SQLite, 2 services with a log each"),
        ("SQLite, 1 worker", "SQLite, 2 workers"),
        ("PostgreSQL, 1 copy", "PostgreSQL, 2 copies"),
        ("PostgreSQL, 1 copy", "PostgreSQL, 3 copies"),
    ):
        ratio = median([b.rate / a.rate for a, b in zip(turns[one], turns[several], strict=True)])
        console.print(f"rankings a second, {several} ÷ {one}: {ratio:.2f}×")
        if one == "SQLite, 1 worker":
            results.value("two_workers" if several == "SQLite, 2 workers" else "two_services", ratio, "times", 2)
    results.table("rates", ["processes", "rankings a second", "processor time of each, in all"], rows)
    results.write()


if __name__ == "__main__":
    main()
