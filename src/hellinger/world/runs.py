"""Many independent runs: on threads, processes or a Dask cluster, and kept on disk so that none is done twice."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from hellinger import _jit
from hellinger.errors import InputError, needs_extra, require

__all__ = [
    "Engine",
    "Progress",
    "ResumeStore",
    "SingleRun",
    "Task",
    "cores",
    "dask",
    "get_engine",
    "local",
    "run",
    "run_key",
]

Arrays: TypeAlias = Any
"""A NamedTuple of arrays: what comes of a task."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the steps done and their total."""


class Task(Protocol):
    """Something to be played, anywhere: it can be pickled, and its outcome is a function of it alone."""

    @property
    def key(self) -> str:
        """A name for the outcome, equal where all that determines it is: see :func:`run_key`."""

    @property
    def lasting(self) -> bool:
        """Whether the outcome may be kept on disk."""

    @property
    def steps(self) -> int:
        """How much work it is, for those who watch the progress."""

    def play(self) -> Arrays:
        """What comes of it."""

    def empty(self) -> Arrays:
        """An outcome's names, shapes and types."""


Engine: TypeAlias = Callable[[Sequence[Any]], Iterator[tuple[Any, Arrays]]]
"""Plays tasks, and yields (task, outcome) in any order."""


def run_key(words: object, *arrays: Any) -> str:
    """A digest of the library's sources, of what ``words`` are written as, and of arrays."""
    digest = hashlib.sha256(_jit.DIGEST.encode())
    digest.update(repr(words).encode())
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()[:32]


class SingleRun:
    """Base of a task that is one run, kept on disk: a frozen dataclass of all that determines the outcome."""

    lasting: ClassVar[bool] = True
    steps: ClassVar[int] = 1

    @property
    def key(self) -> str:
        """See :func:`run_key`."""
        return run_key(self)


def run(
    tasks: Sequence[Any],
    engine: Engine,
    *,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Any, Arrays]]:
    """Give each task's outcome once, those kept in the folder ``resume`` first; none stays in memory here."""
    store = None if resume is None else ResumeStore(Path(resume))
    tell: Progress = progress if progress is not None else lambda _done, _total: None
    total, done, missing = sum(task.steps for task in tasks), 0, []
    for task in tasks:
        outcome = None if store is None else store.load(task)
        if outcome is None:
            missing.append(task)
            continue
        done += task.steps
        yield task, outcome
    tell(done, total)
    for task, outcome in engine(missing) if missing else ():
        if store is not None:
            store.save(task, outcome)
        done += task.steps
        tell(done, total)
        yield task, outcome


class ResumeStore:
    """A folder with a file for each outcome, named by its task's key."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def load(self, task: Task) -> Arrays | None:
        """The outcome, if it is there and whole."""
        if not task.lasting:
            return None
        wanted = task.empty()
        try:
            with np.load(io.BytesIO(self._path(task).read_bytes())) as file:
                outcome = wanted._make(file[name] for name in wanted._fields)
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
            return None
        same = all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(outcome, wanted, strict=True))
        return outcome if same else None

    def save(self, task: Task, outcome: Arrays) -> None:
        """Write the outcome, where it may be kept; a half-written file never bears its name."""
        if not task.lasting:
            return
        buffer = io.BytesIO()
        np.savez(buffer, **outcome._asdict())
        partial = self._path(task).with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(buffer.getvalue())
        partial.replace(self._path(task))

    def _path(self, task: Task) -> Path:
        return self._folder / f"{task.key}.npz"


# Engines ---------------------------------------------------------------------------------------------


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _play(task: Task) -> Arrays:
    return task.play()


def local(workers: int | None = None, *, processes: bool = False) -> Engine:
    """The cores of this machine: threads, or processes for tasks that keep the interpreter's lock."""
    require(workers is None or workers >= 1, "1 <= workers", workers=workers)
    count = workers or cores()

    def engine(tasks: Sequence[Any]) -> Iterator[tuple[Any, Arrays]]:
        pool = _executor(count, processes)
        try:
            waiting = iter(tasks)
            # a few at a time, so that an interrupt has little to wait for
            running = {pool.submit(_play, task): task for _, task in zip(range(2 * count), waiting, strict=False)}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    task = running.pop(future)
                    for following in waiting:
                        running[pool.submit(_play, following)] = following
                        break
                    yield task, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return engine


def _executor(count: int, processes: bool) -> Executor:
    if not processes or count == 1:
        return ThreadPoolExecutor(count)
    # Ctrl-C reaches the whole group of processes, and this one ends the others
    return ProcessPoolExecutor(count, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))


def dask(address: str, *, timeout: float = 10.0) -> Engine:
    """A Dask cluster, by its scheduler's ``host:port``; needs the extra ``hellinger[cluster]``."""
    with needs_extra("cluster"):
        from distributed import Client, as_completed

    def engine(tasks: Sequence[Any]) -> Iterator[tuple[Any, Arrays]]:
        try:
            client = Client(f"tcp://{address}", timeout=timeout, set_as_default=False)
        except OSError as error:
            raise InputError(f"the cluster must be reachable, but dask://{address} is not: {error}") from None
        with client:
            try:
                client.wait_for_workers(1, timeout=timeout)
            except TimeoutError:
                raise InputError(f"the cluster must have a worker, but dask://{address} has none") from None
            _check_sources(client, address)
            futures = {client.submit(_play, task, key=task.key): task for task in tasks}
            for future in as_completed(list(futures), loop=client.loop):
                task = futures.pop(future)  # let go of it, so that the cluster does too
                yield task, future.result()

    return engine


def _digest() -> str:
    return _jit.DIGEST


def _check_sources(client: Any, address: str) -> None:
    """Other sources could give other numbers."""
    found = set(client.run(_digest).values())
    if found != {_jit.DIGEST}:
        raise InputError(f"the workers must have this version of hellinger, but those of dask://{address} differ")


def get_engine(engine: str | Engine, *, workers: int | None = None, processes: bool = False) -> Engine:
    """``"local"``, ``"dask://host:port"``, or any function that plays tasks."""
    if callable(engine):
        return engine
    if engine == "local":
        return local(workers, processes=processes)
    scheme, _, address = engine.partition("://")
    host, _, port = address.rpartition(":")
    require(scheme == "dask" and host != "" and port.isdecimal(), "engine is local or dask://host:port", engine=engine)
    return dask(address)
