"""Engines: where blocks are played. Each yields (block, outcome) in any order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any, TypeAlias

from hellinger.errors import require
from hellinger.lab._block import Block, Outcome, play

__all__ = ["Engine", "get", "local"]

Engine: TypeAlias = Callable[[Sequence[Block]], Iterator[tuple[Block, Outcome]]]


def local(workers: int | None = None) -> Engine:
    """The cores of this machine: threads, for the players release the interpreter's lock."""
    require(workers is None or workers >= 1, "1 <= workers", workers=workers)
    count = workers or len(os.sched_getaffinity(0))

    def run(blocks: Sequence[Block]) -> Iterator[tuple[Block, Outcome]]:
        pool = ThreadPoolExecutor(count)
        try:
            waiting = iter(blocks)
            # a few blocks at a time, so that an interrupt has little to wait for
            running = {pool.submit(play, block): block for _, block in zip(range(2 * count), waiting, strict=False)}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    block = running.pop(future)
                    for following in waiting:
                        running[pool.submit(play, following)] = following
                        break
                    yield block, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return run


def dask(address: str, *, timeout: float = 10.0) -> Engine:
    """A Dask cluster, by its scheduler's ``host:port``; needs the extra ``hellinger[cluster]``."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise ValueError("the dask engine needs the extra `cluster`: pip install 'hellinger[cluster]'") from None

    def run(blocks: Sequence[Block]) -> Iterator[tuple[Block, Outcome]]:
        try:
            client = Client(f"tcp://{address}", timeout=timeout, set_as_default=False)
        except OSError as error:
            raise ValueError(f"the cluster must be reachable, but dask://{address} is not: {error}") from None
        with client:
            futures: dict[Any, Block] = {client.submit(play, block, key=block.key): block for block in blocks}
            for future in as_completed(list(futures)):
                yield futures[future], future.result()

    return run


def get(engine: str | Engine, *, workers: int | None = None) -> Engine:
    """``"local"``, ``"dask://host:port"``, or any function that plays blocks."""
    if callable(engine):
        return engine
    if engine == "local":
        return local(workers)
    scheme, _, address = engine.partition("://")
    require(scheme == "dask" and ":" in address, "engine is local or dask://host:port", engine=engine)
    return dask(address)
