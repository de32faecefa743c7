"""Real services, as processes that can be killed, and what clients see of them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

__all__ = ["VARIANTS", "Answer", "Launcher", "LostError", "Service", "at_once", "free_port", "hang_up", "until"]

GENEROUS = 60.0
"""Seconds after which a test gives up: far more than anything takes."""


VARIANTS = ("hellinger-ucb", "kl-ucb", "ucb1")
"""What a service ranks by unless its settings say otherwise: several, for each has counts of its own to lose."""


class LostError(Exception):
    """No answer came: what was asked may have been done, or not."""


class Answer(NamedTuple):
    """What a service answered."""

    status: int
    headers: dict[str, str]
    body: Any


class Launcher:
    """The process that services are forked from: see ``launcher.py``."""

    def __init__(self) -> None:
        environ = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("launcher.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )
        self._turn = threading.Lock()
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def order(self, **order: object) -> Any:
        """Have something done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def hellinger(self, *arguments: str) -> tuple[int, str]:
        """Run a command to its end; its status, and what it said."""
        with tempfile.NamedTemporaryFile() as said:
            number = self.order(start=arguments, log=said.name)
            until(lambda: self.order(poll=number) is not None)
            return self.order(poll=number), Path(said.name).read_text()

    def told(self, *arguments: str) -> Any:
        """What a command that succeeds prints as JSON."""
        status, said = self.hellinger(*arguments, "--json")
        assert status == 0, said
        return json.loads(said.splitlines()[-1])

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(GENEROUS)
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Service:
    """One service on a port of its own, with the same settings at every start."""

    def __init__(self, launcher: Launcher, folder: Path, database: str, **settings: object) -> None:
        self.launcher = launcher
        self.port = free_port()
        self.database = database
        self.log = folder / f"service-{self.port}.log"
        given = {"database": database, "port": self.port, "variants": ", ".join(VARIANTS)} | settings
        self.arguments = ["serve"]
        for name, value in given.items():
            option = name.replace("_", "-")
            if isinstance(value, bool):
                self.arguments.append(f"--{option}" if value else f"--no-{option}")
            else:
                self.arguments += [f"--{option}", str(value)]
        self.number = 0
        self._command: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    # Life ---------------------------------------------------------------------------------------------

    def begin(self, *, command: bool = False) -> None:
        """Start it, by the command line where ``command``, without waiting for anything."""
        if command:
            with self.log.open("ab") as log:
                self._command = subprocess.Popen(
                    [sys.executable, "-m", "hellinger", *self.arguments], stdout=log, stderr=log
                )
            self.number = self._command.pid
        else:
            self._command = None
            self.number = self.launcher.order(start=self.arguments, log=str(self.log))

    def start(self, *, command: bool = False) -> Self:
        """Start it, and wait until it is ready."""
        self.begin(command=command)
        until(self._is_ready)
        return self

    def _is_ready(self) -> bool:
        status = self.status()
        assert status is None, f"the service ended with {status}: {self.said()[-3000:]}"
        try:
            return self.get("/health/ready").status == 200
        except LostError:
            return False

    def status(self) -> int | None:
        """How it ended, None while it runs."""
        if self._command is not None:
            return self._command.poll()
        found: int | None = self.launcher.order(poll=self.number)
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.number, number)

    def kill(self) -> None:
        """End it without notice."""
        if self.number and self.status() is None:
            self.signal(signal.SIGKILL)
            until(lambda: self.status() is not None)

    def stop(self) -> int:
        """Ask it to end; how it did."""
        self.signal(signal.SIGTERM)
        until(lambda: self.status() is not None)
        status = self.status()
        assert status is not None
        return status

    def said(self) -> str:
        """What it has logged."""
        return self.log.read_text() if self.log.exists() else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        hang_up()

    # Requests -----------------------------------------------------------------------------------------

    def ask(
        self, method: str, path: str, body: object = None, *, key: str | None = None, timeout: float = GENEROUS
    ) -> Answer:
        """Ask it something, on a connection that each thread keeps."""
        connections = _connections()
        connection = connections.get(self.port)
        if connection is None:
            connection = connections[self.port] = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key is not None else {})
        try:
            connection.timeout = timeout
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            content = None if body is None else json.dumps(body)
            try:
                connection.request(method, path, content, headers)
            except (BrokenPipeError, ConnectionResetError):  # kept from before a kill: nothing was taken in
                connection.close()
                connection.request(method, path, content, headers)
            try:
                response = connection.getresponse()
            except http.client.RemoteDisconnected:  # the server closes what was idle for some seconds
                if method != "GET":
                    raise
                connection.close()
                connection.request(method, path, content, headers)
                response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LostError(f"{method} {path}: {error!r}") from None
        return Answer(response.status, dict(response.getheaders()), json.loads(text))

    def get(self, path: str) -> Answer:
        """Ask for something."""
        return self.ask("GET", path)

    def post(self, path: str, body: object, *, key: str | None = None, timeout: float = GENEROUS) -> Answer:
        """Tell it something."""
        return self.ask("POST", path, body, key=key, timeout=timeout)

    def done(self, path: str, body: object, *, key: str | None = None) -> Any:
        """Tell it something that it must take in, as often as it asks for patience: a busy machine may seem hung."""
        answer = self.post(path, body, key=key)
        began = time.monotonic()
        while answer.status == 503 and time.monotonic() - began < GENEROUS:
            time.sleep(0.1)
            answer = self.post(path, body, key=key)
        assert answer.status == 200, (path, answer)
        return answer.body

    def rank(self, k: int = 5, *, key: str | None = None, **more: object) -> Any:
        """A ranking."""
        return self.done("/v1/rank", {"k": k} | more, key=key)

    def feedback(self, *events: tuple[str, str, str]) -> Any:
        """Tell of what was done: request, item, kind."""
        told = [{"ranking_id": request, "item": item, "kind": kind} for request, item, kind in events]
        return self.done("/v1/feedback", {"events": told})

    def add(self, *items: str) -> None:
        """Add items."""
        self.done("/v1/items", {"items": [{"id": item} for item in items]})

    def totals(self) -> dict[str, tuple[float, float, float]]:
        """Requests, impressions and reward of each variant."""
        answer = self.get("/v1/experiments/main")
        assert answer.status == 200, (answer, self.said()[-3000:])
        rows = answer.body["variants"]
        return {row["variant"]: (row["requests"], row["impressions"], row["reward"]) for row in rows}

    def counts(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Impressions and rewards of each item, in all ("") and by variant."""
        rows: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = self.get(f"/v1/items?limit=1000{cursor and f'&cursor={cursor}'}").body
            rows += page["items"]
            cursor = page["next"]
        return {
            row["id"]: {"": (row["impressions"], row["rewards"])}
            | {name: (cell["impressions"], cell["rewards"]) for name, cell in row["variants"].items()}
            for row in rows
        }


_LOCAL = threading.local()


def _connections() -> dict[int, http.client.HTTPConnection]:
    """This thread's, by port."""
    held: dict[int, http.client.HTTPConnection] = _LOCAL.__dict__.setdefault("connections", {})
    return held


def hang_up() -> None:
    """Close this thread's connections."""
    while _connections():
        _connections().popitem()[1].close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What these give, called at the same time."""

    def alone(call: Callable[[], Any]) -> Any:
        try:
            return call()
        finally:
            hang_up()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(alone, calls))


def until(holds: Callable[[], bool], seconds: float = GENEROUS) -> float:
    """Wait until something holds; how many seconds that took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, f"not within {seconds} s"
        time.sleep(0.005)
    return time.monotonic() - began
