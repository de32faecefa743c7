"""Appending to a log against bare inserts into the same table, as durable, in one run.

Run as ``python benchmarks/store.py [--folder DIR]``. The bare program is what one would write by hand: ``executemany``
and a commit, with no care for duplicates, for other writers, or for the order in which commits appear. Both take turns
on the same disk, and the median of many batches counts. Then once more while another thread computes in Python, as a
service's does: whoever gives up the interpreter's lock waits to have it again. With a folder in memory, where a commit
costs nothing, what remains is the work around it.
"""

from __future__ import annotations

import argparse
import itertools
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg

from _timing import console, show
from hellinger.events import Event
from hellinger.store import open_store

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from throwaway import Server

BODY = Event.of(
    "", "", 0, {"variant": "hellinger-ucb", "items": [f"item-{i}" for i in range(20)], "scores": [0.123] * 20}
)
BATCHES = {1: 300, 20: 150, 100: 80, 1000: 25}
TARGET = 0.9
Append = Callable[[list[Event]], object]

_numbers = itertools.count(1)
_sqlite_insert = "INSERT INTO events (key, kind, at, body) VALUES (?, ?, ?, ?)"
_postgresql_insert = "INSERT INTO events (seq, key, kind, at, body) VALUES (%s, %s, %s, %s, %s)"


def batch(size: int) -> list[Event]:
    return [BODY._replace(key=f"{next(_numbers):022d}", kind="rank", at=1_700_000_000_000) for _ in range(size)]


def stored(url: str, stack: ExitStack) -> Append:
    store = stack.enter_context(closing(open_store(url)))
    last = 0

    def append(events: list[Event]) -> None:
        nonlocal last
        last = store.append(events, last).seqs[-1] or 0

    return append


def bare_sqlite(url: str, stack: ExitStack) -> Append:
    open_store(url).close()
    connection = stack.enter_context(closing(sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)))
    connection.execute("PRAGMA synchronous = FULL")

    def append(events: list[Event]) -> None:
        connection.executemany(_sqlite_insert, events)
        connection.commit()

    return append


def bare_postgresql(url: str, stack: ExitStack) -> Append:
    open_store(url).close()
    connection = stack.enter_context(closing(psycopg.connect(url)))
    cursor = connection.cursor()
    places = itertools.count(1)

    def append(events: list[Event]) -> None:
        cursor.executemany(_postgresql_insert, [(next(places), *event) for event in events])
        connection.commit()

    return append


@contextmanager
def busy() -> Iterator[None]:
    """Compute in Python on another thread."""
    done = threading.Event()

    def compute() -> None:
        while not done.is_set():
            sum(range(200))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def medians(appends: list[Append], size: int, rounds: int) -> list[float]:
    """Seconds a batch takes each, in turns so that both meet the same disk."""
    times: list[list[float]] = [[] for _ in appends]
    for _ in range(rounds + 6):  # a few to begin with, for statements to be prepared
        for append, taken in zip(appends, times, strict=True):
            events = batch(size)
            started = time.perf_counter()
            append(events)
            taken.append(time.perf_counter() - started)
    return [statistics.median(taken[6:]) for taken in times]


def measure(name: str, appends: list[Append], *, share: float = 1.0, target: float | None = None) -> None:
    rows = []
    for size, rounds in BATCHES.items():
        store, bare = medians(appends, size, max(20, int(share * rounds)))
        ratio = bare / store
        met = "[green]met[/]" if target is None or ratio >= target else "[red]missed[/]"
        wanted = f"≥ {target}× {met}" if target else ""
        rows.append((f"{size}", f"{size / store:,.0f}", f"{size / bare:,.0f}", f"{ratio:.2f}×", wanted))
    show(name, ("events a batch", "store, rows/s", "bare, rows/s", "store ÷ bare", "target" if target else ""), rows)


def main(parent: str) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=parent)))
        kinds: dict[str, list[Append]] = {
            "SQLite": [
                stored(f"sqlite:///{folder}/store.db", stack),
                bare_sqlite(f"sqlite:///{folder}/bare.db", stack),
            ]
        }
        try:
            server = stack.enter_context(Server(durable=True))
            kinds["PostgreSQL"] = [stored(server.fresh(), stack), bare_postgresql(server.fresh(), stack)]
        except ImportError as missing:
            console.print(f"PostgreSQL is left out: {missing}")
        for name, appends in kinds.items():
            measure(name, appends, target=TARGET)
            with busy():
                measure(f"{name}, while another thread computes", appends, share=0.2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", default=".", help="where SQLite's files are to lie: which disk is measured")
    main(parser.parse_args().folder)
