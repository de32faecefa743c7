"""Engines: where blocks are played. Each yields (block, outcome) in any order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any, TypeAlias

from hellinger import _jit
from hellinger.errors import require
from hellinger.lab._block import Block, Outcome, play

__all__ = ["Engine", "cores", "dask", "get", "local"]

Engine: TypeAlias = Callable[[Sequence[Block]], Iterator[tuple[Block, Outcome]]]


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def local(workers: int | None = None) -> Engine:
    """The cores of this machine: threads, for the players release the interpreter's lock."""
    require(workers is None or workers >= 1, "1 <= workers", workers=workers)
    count = workers or cores()

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
            try:
                client.wait_for_workers(1, timeout=timeout)
            except TimeoutError:
                raise ValueError(f"the cluster must have a worker, but dask://{address} has none") from None
            _check_sources(client, address)
            futures: dict[Any, Block] = {client.submit(play, block, key=block.key): block for block in blocks}
            for future in as_completed(list(futures), loop=client.loop):
                block = futures.pop(future)  # let go of it, so that the cluster does too
                yield block, future.result()

    return run


def _digest() -> str:
    return _jit.DIGEST


def _check_sources(client: Any, address: str) -> None:
    """Other sources could give other numbers."""
    found = set(client.run(_digest).values())
    if found != {_jit.DIGEST}:
        raise ValueError(f"the workers must have this version of hellinger, but those of dask://{address} differ")


def get(engine: str | Engine, *, workers: int | None = None) -> Engine:
    """``"local"``, ``"dask://host:port"``, or any function that plays blocks."""
    if callable(engine):
        return engine
    if engine == "local":
        return local(workers)
    scheme, _, address = engine.partition("://")
    host, _, port = address.rpartition(":")
    require(scheme == "dask" and host != "" and port.isdecimal(), "engine is local or dask://host:port", engine=engine)
    return dask(address)
