"""Processes that write to a log, to be run beside each other and to be killed."""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

import orjson

from hellinger.events import Event
from hellinger.store import StoreError, open_store

__all__ = ["batch_sizes", "body", "patient", "running", "snapshot_of", "write_and_read", "write_until_killed"]


@contextmanager
def running(target: Any, *arguments: object) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """A process that runs a function of this module, with a pipe from it; killed at the end if it still lives."""
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imports are paid for once, not by each process
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


def patient(url: str) -> str:
    """The URL with a timeout that a busy machine does not reach."""
    return f"{url}{'&' if '?' in url else '?'}timeout=30"


def body(key: str) -> str:
    """A body that tells whether it is the one written with a key, of a length that varies with it."""
    return orjson.dumps({"key": key, "fill": "é" * (17 * len(key) % 301)}).decode()


def snapshot_of(seq: int) -> list[bytes]:
    """Parts that tell whether they are of one snapshot."""
    return [b"%d.%d " % (seq, part) * 3000 for part in range(5)]


def batch_sizes(seed: int) -> Iterator[int]:
    """How large the batches of a writer with this seed are."""
    rng = random.Random(seed)
    while True:
        yield rng.choice((1, 3, 20, 150))


def write_until_killed(url: str, name: str, seed: int, reports: Connection) -> None:
    """Write batch after batch, and say of each what place it took once it is durable; snapshots on another thread."""
    store = open_store(patient(url))
    last = store.last()

    def snapshots() -> None:
        while True:
            store.save_snapshot(last, snapshot_of(last))

    threading.Thread(target=snapshots, daemon=True).start()
    for batch, size in enumerate(batch_sizes(seed)):
        keys = [f"{name}/{batch}/{i}" for i in range(size)]
        seqs = store.append([Event(key, "rank", batch, body(key)) for key in keys], last).seqs
        reports.send((batch, seqs))
        last = seqs[-1] or last


def write_and_read(url: str, name: str, batches: int, reports: Connection) -> None:
    """Write batches, some of whose keys others write too; say what was new, and everything seen, in order."""
    store = open_store(patient(url))
    try:
        seen: list[int] = []
        new: list[tuple[str, int]] = []
        for batch in range(batches):
            keys = [f"{name}/{batch}", f"common/{batch}", f"{name}/{batch}/b"]
            done = store.append([Event(key, "rank", 0, body(key)) for key in keys], seen[-1] if seen else 0)
            seen += [event.seq for event in done.others]
            mine = [(key, seq) for key, seq in zip(keys, done.seqs, strict=True) if seq is not None]
            seen += [seq for _, seq in mine]
            new += mine
        reports.send((new, seen))
    except StoreError as error:
        reports.send(error)
    finally:
        store.close()
