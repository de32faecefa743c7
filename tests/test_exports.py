"""Exports run in processes of their own: so many at a time, ended with their client or service, never half."""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import polars as pl
import pytest
from typer.testing import CliRunner

import running
import served
from hellinger import cli
from hellinger.engine import background
from hellinger.events import Event
from hellinger.serve import export
from hellinger.serve import exports as exports_module
from hellinger.serve.exports import PART, Exports, Streamed
from hellinger.serve.keys import Keys, new_key, revoke_key
from hellinger.store import Store, StoreUnavailableError, open_store

START = 1_700_000_000_000
ITEMS = [f"item-{n:03d}" for n in range(200)]
RANKINGS = 600
"""Some 40 MB as JSON lines: more than fits into the sockets and pipes between an export and its client."""


def ranking(number: int, items: list[str]) -> Event:
    fields = {"variant": "ucb1", "policy": "ucb1", "version": "1", "chance": 1.0, "segment": None, "user": None}
    fields |= {"random": False, "counted": True, "through": 0, "propensities": 1.0}
    rng = random.Random(number)
    fields |= {"items": items, "scores": [rng.random() for _ in items]}  # which no Parquet file can make smaller
    return Event.of(f"r{number:06d}", "rank", START + number, fields)


def filled(folder: Path, rankings: int = RANKINGS, items: list[str] = ITEMS) -> str:
    url = f"sqlite:///{folder}/log.db"
    with closing(open_store(url)) as store:
        store.append([ranking(number, items) for number in range(rankings)], 0)
    return url


def until(happens: Callable[[], bool]) -> None:
    """Wait for what must happen."""
    for _ in range(600):
        if happens():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[served.Served]:
    folder = tmp_path_factory.mktemp("exports")
    filled(folder)
    with served.serving(folder) as running:
        yield running


def exports_of(service: served.Served) -> Exports:
    found: Exports = service.app.state.exports
    return found


def only(exports: Exports) -> Any:
    (export,) = exports._running
    return export.process


def _ended(process: Any) -> bool:
    return process.returncode is not None


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_one_at_a_time_and_it_ends_with_its_client(service: served.Served, form: str) -> None:
    exports = exports_of(service)
    with httpx.Client(base_url=service.url, timeout=300) as client:
        with client.stream("GET", "/v1/export") as answer:
            next(answer.iter_raw(1000))
            process = only(exports)
            refused = client.get("/v1/export", params={"format": form})
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) > 0
            assert "at most 1 exports at the same time (max_exports)" in refused.json()["error"]["message"]
            assert not _ended(process)  # it waits for us: nothing could hold all its rows
            assert client.get("/v1/experiments/main").status_code == 200
        until(lambda: not len(exports))
        assert _ended(process)
        assert client.get("/v1/export", params={"format": form}).status_code == 200


def test_memory_is_bounded_while_the_client_waits(service: served.Served) -> None:
    exports = exports_of(service)
    with httpx.Client(base_url=service.url, timeout=300) as client, client.stream("GET", "/v1/export") as answer:
        size = 0
        for part in answer.iter_raw():
            size += len(part)
            for under_way in exports._running.copy():
                waiting: bytearray = under_way.rows._buffer  # type: ignore[attr-defined]
                assert len(waiting) <= 4 * PART
    assert size > 20_000_000


def test_an_export_that_breaks_off_does_not_look_whole(service: served.Served) -> None:
    with httpx.Client(base_url=service.url, timeout=300) as client, client.stream("GET", "/v1/export") as answer:
        assert answer.status_code == 200
        parts = answer.iter_raw(1000)
        next(parts)
        os.kill(only(exports_of(service)).pid, signal.SIGTERM)
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in parts:
                pass
    until(lambda: not len(exports_of(service)))


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_that_cannot_begin_is_unavailable(
    service: served.Served, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports_of(service), "_database", f"sqlite:///{tmp_path}/none.db")
    answer = httpx.get(f"{service.url}/v1/export", params={"format": form}, timeout=300)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert str(tmp_path) not in answer.text
    assert not len(exports_of(service))


def test_a_revoked_key_ends_its_export(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    tokens = {name: new_key(file, name=name, role="read")[0] for name in ("ann", "bob")}
    ann, bob = ({"Authorization": f"Bearer {tokens[name]}"} for name in ("ann", "bob"))
    flags = ("--database", filled(tmp_path), "--keys-file", "keys.toml")
    with running.serving(tmp_path, *flags) as service, httpx.Client(base_url=service.url, timeout=300) as client:
        with client.stream("GET", "/v1/export", headers=ann) as answer:
            parts = answer.iter_raw(1000)
            next(parts)
            assert client.get("/v1/export", headers=bob).status_code == 429
            revoke_key(file, "ann")
            # though the client takes nothing
            until(lambda: "its key is no longer in force" in (tmp_path / "serve.log").read_text())
            with pytest.raises(httpx.RemoteProtocolError):
                for _ in parts:
                    pass
        assert client.get("/v1/export", headers=ann).status_code == 401


def test_one_look_at_the_keys_ends_an_export(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    for name in ("ann", "bob"):
        new_key(file, name=name, role="read")
    keys = Keys(file=file)
    settings = served.settings_of(tmp_path, database=filled(tmp_path), max_exports=3)

    async def story() -> None:
        exports = Exports(settings, keys)
        async with (
            exports.export("jsonl", None, None, caller="ann") as one,
            exports.export("jsonl", None, None, caller="bob") as other,
            exports.export("jsonl", None, None) as nobodys,
        ):
            revoke_key(file, "ann")
            keys.refresh()
            exports.dismiss()
            assert await one.end() == -signal.SIGKILL
            assert one.failure() == "the export was broken off: its key is no longer in force"
            assert [each.process.poll() for each in (other, nobodys)] == [None, None]

    asyncio.run(story())


@pytest.mark.parametrize(("seconds", "parts"), [(1.0, 200), (3.0, 200), (5.0, 61), (10.0, 31)])
def test_a_client_that_takes_little_is_let_go(
    seconds: float, parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that needs so many seconds for a part, after as many parts as take five minutes; not one that is faster."""
    clock = [0.0]
    monkeypatch.setattr(exports_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Endless:
        def __init__(self) -> None:
            self.rows = self
            self.left = 200
            self.why = ""
            self.taking = None

        async def read(self, size: int) -> bytes:
            self.left -= 1
            return bytes(size) if self.left >= 0 else b""

        def break_off(self, why: str) -> None:
            self.why = why

    async def story() -> None:
        sent = 0

        async def send(message: Any) -> None:
            nonlocal sent
            if message["type"] == "http.response.body":
                sent += 1
                clock[0] += seconds

        export: Any = Endless()
        assert await Streamed(Exports(served.settings_of(tmp_path)), "jsonl", None, None)._send_rows(export, send)
        assert sent == parts
        assert export.why == ("" if parts == 200 else "the client takes less than 16 KiB a second")

    asyncio.run(story())


def test_times_long_ago_and_far_ahead(service: served.Served) -> None:
    with httpx.Client(base_url=service.url, timeout=300) as client:
        for since, until in (
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("9000-01-01", "9999-12-31"),
            ("9999-12-31T23:59:59.999999-23:59", "9999-12-31"),
            ("0001-01-01", "0001-01-01T00:00:00+23:59"),
        ):
            answer = client.get("/v1/export", params={"since": since, "until": until})
            assert (answer.status_code, answer.content) == (200, b"")


def test_the_end_of_the_service_ends_an_export(tmp_path: Path) -> None:
    with running.serving(tmp_path, "--database", filled(tmp_path)) as service:
        threads = Path(f"/proc/{service.process.pid}/task")
        with httpx.Client(timeout=300) as client, client.stream("GET", f"{service.url}/v1/export") as answer:
            parts = answer.iter_raw(1000)
            next(parts)
            (number,) = [child for thread in threads.iterdir() for child in (thread / "children").read_text().split()]
            assert "export" in Path(f"/proc/{number}/cmdline").read_text()
            service.process.terminate()
            with pytest.raises(httpx.TransportError):
                for _ in parts:
                    pass
        assert service.process.wait(60) == 0
        assert not Path(f"/proc/{number}").exists()


# The command ----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> bytes:
    result = CliRunner().invoke(cli.app, ["export", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_the_command_gives_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda _: 0)
    url = filled(tmp_path, 50, ["a", "b", "c"])
    with closing(open_store(url)) as store:
        rows = [row for part in export.rows(store, None, None) for row in part]
    assert len(rows) == 150
    assert pl.read_ndjson(run("--database", url), schema=export.SCHEMA).to_dicts() == rows
    assert pl.read_parquet(io.BytesIO(run("--database", url, "--format", "parquet"))).to_dicts() == rows
    for form in ("jsonl", "parquet"):
        file = tmp_path / f"rows.{form}"
        some = ["--since", "2023-11-14T22:13:20.010Z", "--until", "2023-11-14T22:13:20.020Z"]
        assert run("--database", url, "--format", form, "--output", str(file), *some) == b""
        frame = pl.read_parquet(file) if form == "parquet" else pl.read_ndjson(file, schema=export.SCHEMA)
        assert frame.schema == pl.Schema(export.SCHEMA)
        assert frame.to_dicts() == rows[30:60]
    assert sorted(path.name for path in tmp_path.glob("rows*")) == ["rows.jsonl", "rows.parquet"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "csv"], "`format is jsonl or parquet` must hold"),
        (["--since", "yesterday"], "`since` must be a time as in 2026-01-31T12:00:00Z, but got 'yesterday'"),
    ],
)
def test_what_is_wrong_is_told(arguments: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said.replace(".", "\\.")):
        run("--database", filled(tmp_path, 1), *arguments)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_reader_that_has_enough(form: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hellinger", "export", "--database", filled(tmp_path), "--format", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert len(process.stdout.read(4)) == 4
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


class Failing:
    """A store that counts what is read of it, and fails after so many readings."""

    def __init__(self, store: Store, good: int) -> None:
        self._store = store
        self._good = good
        self.readings = 0

    def read(self, after: int, limit: int) -> Any:
        self.readings += 1
        if self.readings > self._good:
            raise StoreUnavailableError("the store is away")
        return self._store.read(after, limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Noting(io.BytesIO):
    """Notes how much had been read when something was written."""

    def __init__(self, store: Failing) -> None:
        super().__init__()
        self._store = store
        self.notes: list[int] = []

    def write(self, data: Any) -> int:
        self.notes.append(self._store.readings)
        return super().write(data)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_rows_are_written_while_the_log_is_read(
    form: export.Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("BATCH", 10), ("PART", 25), ("ROW_GROUP", 100)):
        monkeypatch.setattr(export, name, size)
    with closing(open_store(filled(tmp_path, 2000, ["a", "b", "c"]))) as store:
        parts = list(export.rows(store, None, None))
        assert max(map(len, parts)) <= 25 + 2
        counting: Any = Failing(store, 1_000_000)
        out = Noting(counting)
        export.write(counting, form, None, None, out)
    assert counting.readings == 201
    data = [count for count in out.notes if count > 1]
    assert min(data) < 100
    assert len(set(data)) > 5


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("good", [0, 3])
def test_a_store_that_fails(form: export.Format, good: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "BATCH", 10)
    with closing(open_store(filled(tmp_path, 100, ["a"]))) as store:
        failing: Any = Failing(store, good)
        out = Noting(failing)
        with pytest.raises(StoreUnavailableError, match="the store is away"):
            export.write(failing, form, None, None, out)
    assert good or not out.getvalue()


def test_a_process_beside_the_service_is_not_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has what processors have to spare; where that is nothing, a low priority."""
    monkeypatch.setattr(background, "LOOK", 0.05)
    looks = [0]

    def waits_for_nothing(_: int) -> list[float]:
        looks[0] += 1
        return [0.0, 0.0]

    monkeypatch.setattr(background, "_times", waits_for_nothing)
    waiting = "import threading, time; threading.Thread(target=time.sleep, args=[60]).start(); time.sleep(60)"
    with background.start([sys.executable, "-c", waiting], "sqlite:///none.db") as process:
        try:
            until(lambda: len(threads_of(process.pid)) == 2)
            until(lambda: looks[0] > 3)
            assert set(threads_of(process.pid)) == {os.SCHED_IDLE}  # it waits for something else: its reader, perhaps
            monkeypatch.setattr(background, "_times", lambda _: [0.0, time.monotonic()])
            until(lambda: set(threads_of(process.pid)) == {os.SCHED_OTHER})
            assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + background.NICE
            monkeypatch.setattr(background, "_times", waits_for_nothing)
            until(lambda: set(threads_of(process.pid)) == {os.SCHED_IDLE})
        finally:
            process.kill()


def test_a_process_that_could_not_be_given_priority_again_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service in a container may not: its exports would starve for good."""
    monkeypatch.setattr(background, "_may_return", lambda _: False)
    with background.start([sys.executable, "-c", "import time; time.sleep(60)"], "sqlite:///none.db") as process:
        try:
            assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER
            assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + background.NICE
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
def test_whether_priority_may_be_given_again_is_what_the_system_says() -> None:
    script = """
import os, resource, sys
from hellinger.engine import background
if sys.argv[1] == "nobody":
    resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
    os.setuid(65534)
expected = background._may_return(os.getpriority(os.PRIO_PROCESS, 0))
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
try:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
except PermissionError:
    print(expected, False)
else:
    print(expected, True)
"""
    for who in ("root", "nobody"):
        told = subprocess.run([sys.executable, "-c", script, who], capture_output=True, text=True, check=True)
        expected, found = told.stdout.split()
        assert expected == found
    assert found == "False"


def threads_of(pid: int) -> list[int]:
    """How each thread of a process is scheduled."""
    return [os.sched_getscheduler(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()]


def test_how_long_a_process_waited_for_a_processor_is_known() -> None:
    used, waited = background._times(os.getpid())
    assert used > 0
    assert waited > 0
