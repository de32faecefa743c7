"""The process: where it listens, what it says when it cannot, and how it ends. With a real server on a real socket."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from hellinger.serve.keys import new_key
from hellinger.serve.run import bind

APP = """
import asyncio, sys
from contextlib import asynccontextmanager
from starlette.requests import Request
from hellinger.serve.access import needs
from hellinger.serve.frame import make_app
from hellinger.serve.keys import Keys
from hellinger.serve.metrics import Metrics
from hellinger.serve.run import run
from hellinger.serve.shell import Shell
from hellinger.engine.settings import Settings

@asynccontextmanager
async def lifespan(app):
    if "fail" in sys.argv:
        raise RuntimeError("no such luck")
    yield
    print("drained", flush=True)

def make():
    metrics = Metrics()
    app = make_app(settings, metrics, lifespan=lifespan)

    @app.get("/slow")
    @needs("open")
    async def slow() -> str:
        print("begun", flush=True)
        await asyncio.sleep(1.0)
        return "done"

    @app.post("/size")
    @needs("open")
    async def size(request: Request) -> int:
        return len(await request.body())

    return Shell(app, settings=settings, keys=Keys(), metrics=metrics)

settings = Settings(port=int(sys.argv[1]), max_body_bytes=1_000_000, drain_seconds=20)
try:
    run(settings, make)
except ValueError as error:
    print(f"error: {error}", flush=True)
    sys.exit(2)
print("ended", flush=True)
"""


COMMAND = """
import sys, types
from hellinger.serve.frame import make_app
from hellinger.serve.metrics import Metrics
from hellinger.serve.shell import Shell

def create_app(settings, keys):
    metrics = Metrics()
    return Shell(make_app(settings, metrics), settings=settings, keys=keys, metrics=metrics)

stand_in = types.ModuleType("hellinger.serve.app")
stand_in.create_app = create_app
sys.modules[stand_in.__name__] = stand_in
from hellinger.cli import main
sys.argv[0] = "hellinger"
main()
"""


@contextmanager
def service(*arguments: str, code: str = APP) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address(process: subprocess.Popen[str]) -> str:
    """Where it says that it listens, every line before being JSON too."""
    assert process.stderr is not None
    for line in process.stderr:
        told = json.loads(line)
        if "address" in told:
            return str(told["address"])
    raise AssertionError("it never listened")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order(stop: signal.Signals) -> None:
    with service("0") as process:
        url = address(process)
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(httpx.get(f"{url}/slow", timeout=30)))
        asking.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(stop)
        asking.join()
        assert answers[0].json() == "done"
        assert process.stdout.read() == "drained\nended\n"
        assert process.wait(timeout=30) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)


def test_headers_and_sizes_on_a_real_socket() -> None:
    with service("0") as process, httpx.Client(base_url=address(process), timeout=30) as client:
        response = client.post("/size", content=b"x" * 1_000_000)
        assert response.json() == 1_000_000
        assert "server" not in response.headers
        assert response.headers["x-request-id"]
        for size in (1_000_001, 3_000_000):
            response = client.post("/size", content=b"x" * size)
            assert response.status_code == 413
            assert str(size) in response.json()["error"]["message"]
        response = client.post("/size", content=(b"x" * 100_000 for _ in range(11)))
        assert response.status_code == 413
        assert client.get("/nowhere").json()["error"]["code"] == "not_found"


def test_the_command_serves_with_its_flags_and_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    token, _ = new_key(file, name="me", role="read")
    flags = ["--port", "0", "--keys-file", str(file), "--title", "Mine", "--access-log"]
    with service("serve", *flags, code=COMMAND) as process:
        url = address(process)
        assert httpx.get(f"{url}/openapi.json").json()["info"]["title"] == "Mine"
        assert httpx.get(f"{url}/metrics").status_code == 401
        assert httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0
        lines = [json.loads(line) for line in err.splitlines()]
        assert [line["status"] for line in lines if line["logger"] == "hellinger.access"] == [200, 401, 200]
        assert token not in err


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, service(str(taken.getsockname()[1])) as process:
        out, err = process.communicate(timeout=30)
        assert process.returncode == 2
        assert out.startswith("error: the port must be free, but something listens on 127.0.0.1:")
        assert "--port" in out
        assert err == ""


def test_a_start_that_fails() -> None:
    with service("0", "fail") as process:
        out, err = process.communicate(timeout=30)
        assert process.returncode != 0
        assert "no such luck" in err
        assert "drained" not in out
        for line in err.splitlines():
            assert json.loads(line)["level"]


@pytest.mark.parametrize("host", ["192.0.2.1", "host.invalid"])
def test_an_address_that_is_not_ours(host: str) -> None:
    with pytest.raises(ValueError, match="the host must be an address of this machine, but got host="):
        bind(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_socket_does_not_listen_before_its_time(host: str) -> None:
    with bind(host, 0) as listener, pytest.raises(ConnectionRefusedError):
        socket.create_connection(listener.getsockname()[:2], timeout=5)
