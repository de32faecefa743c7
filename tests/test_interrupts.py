"""Ctrl-C: commands end, whatever they are doing, and say what was kept."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hellinger.engine.settings import Settings
from hellinger.events import Logged, new_request
from hellinger.ledger import recovery
from hellinger.store import Store, open_store
from hellinger.store.transfer import dump
from running import fill
from served import serving


def _listens(pid: int) -> bool:
    """Whether a process has imported all it needs, and handles signals: it has the socket that wakes it then."""
    with contextlib.suppress(OSError):  # files come and go
        return any(str(file.readlink()).startswith("socket:") for file in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _has_open(pid: int, file: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(each.readlink() == file for each in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _interrupted(
    folder: Path, *words: str, after: float = 1.0, ready: Callable[[int], bool] = _listens
) -> tuple[int, str]:
    """Interrupt a command that runs for long, as a terminal does: the whole group of processes.

    It happens some seconds after the process with a given id is ready.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "hellinger", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=folder,
    )
    try:
        while not ready(process.pid):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        time.sleep(after)  # somewhere between compiling and the work itself
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["simulate", "--horizon", "1e9", "--runs", "4"], "--out FOLDER keeps finished parts"),
        (["simulate", "--horizon", "1e9", "--runs", "4", "--out", "here"], "finished parts are in here"),
        (["coldstart", "--out", "here"], "finished runs are in here"),
        (["reproduce", "--runs", "1e6"], "nothing was written"),
        (["leaderboard", "--runs", "1e6"], "nothing was written"),
        (["demo", "--days", "3650", "--port", "0"], "--keep FOLDER keeps the database"),
    ],
    ids=["simulate", "simulate-out", "coldstart", "reproduce", "leaderboard", "demo"],
)
def test_what_was_kept(tmp_path: Path, words: list[str], kept: str) -> None:
    for after in (1.0, 4.0, 16.0):  # a slow machine may not have begun yet: then there is nothing to say
        status, said = _interrupted(tmp_path, *words, after=after)
        assert status == 130
        if said.splitlines()[-1] != "stopped":
            break
    assert said.splitlines()[-1].startswith("stopped; ")
    assert kept in said
    assert "Traceback" not in said


def test_a_service_that_is_not_ready_or_is(tmp_path: Path) -> None:
    status, said = _interrupted(tmp_path, "serve", "--port", "0", "--log-format", "text")
    assert status in (0, 130)  # 130 where it was still compiling
    assert "stopped" in said.splitlines()[-1]


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log that takes seconds to read, and its dump."""
    folder = tmp_path_factory.mktemp("long")
    small = f"sqlite:///{folder}/small.db"
    fill(Settings(database=small, log_level="error", seed=1), requests=20, items=20, days=200.0)
    with contextlib.closing(open_store(small)) as store:
        events, secret = store.read(0, 10_000), store.secret()
    ranking = next(event for event in reversed(events) if event.kind == "rank")

    def many() -> Iterator[Logged]:
        yield from events
        for seq in range(events[-1].seq + 1, 200_000):
            yield ranking._replace(seq=seq, key=new_request(ranking.at))

    with contextlib.closing(open_store(f"sqlite:///{folder}/log.db", exclusive=True)) as store:
        store.fill(secret, many(), None)
        dump(store, folder / "log.gz")
    return folder


def _stopped(folder: Path, file: str, *words: str) -> str:
    """The last line of a command that is interrupted soon after it opened a file."""
    status, said = _interrupted(folder, *words, after=0.2, ready=lambda pid: _has_open(pid, folder / file))
    assert status == 130
    assert "Traceback" not in said
    return said.splitlines()[-1]


def _opened(folder: Path, name: str) -> contextlib.closing[Store]:
    return contextlib.closing(open_store(f"sqlite:///{folder}/{name}"))


DATABASE = ("--database", "sqlite:///log.db")


def test_reading_the_log_leaves_no_file_behind(long_log: Path) -> None:
    before = {path.name for path in long_log.iterdir()} | {"log.db-wal", "log.db-shm"}
    read = "the log was only read"
    assert _stopped(long_log, "log.db", "check", *DATABASE) == f"stopped; {read}"
    assert _stopped(long_log, "log.db", "dump", "new.gz", *DATABASE) == f"stopped; new.gz was not written; {read}"
    for form in ("jsonl", "parquet"):
        words = ("export", "--format", form, "--output", "rows", *DATABASE)
        assert _stopped(long_log, "log.db", *words) == f"stopped; no file was written; {read}"
    said = _stopped(long_log, "log.db", "export", *DATABASE)  # behind half a row
    assert said.endswith(f"stopped; what was printed ends in the middle; {read}")
    assert {path.name for path in long_log.iterdir()} <= before


def test_a_snapshot_that_is_not_taken(long_log: Path) -> None:
    said = _stopped(long_log, "log.db", "snapshot", *DATABASE)
    assert said == "stopped; the log is as it was, and so are its snapshots"
    with _opened(long_log, "log.db") as store:
        assert store.snapshot() is None


@pytest.mark.parametrize("file", ["log.gz", "new.db"])  # while it is verified; while the database is filled
def test_a_restore_that_begins_again(long_log: Path, file: str) -> None:
    words = ("restore", "log.gz", "--database", "sqlite:///new.db")
    assert _stopped(long_log, file, *words) == "stopped; the database is empty as before; the same command begins again"
    if file == "log.gz":
        return
    with _opened(long_log, "new.db") as store:
        assert store.last() == 0
    done = subprocess.run([sys.executable, "-m", "hellinger", *words], cwd=long_log, capture_output=True, text=True)
    assert done.stdout == "199,999 events from log.gz\n"


def test_a_compaction_that_goes_on(long_log: Path) -> None:
    words = ("compact", "--retention-days", "1", *DATABASE)
    said = _stopped(long_log, "log.db", *words)
    assert said == "stopped; every count is kept; the same command deletes the old events that are left"
    with _opened(long_log, "log.db") as store:
        assert recovery.check(store) == []


def test_traffic_ends_in_good_order_and_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as served:

        def visited(_pid: int) -> bool:
            return served.service.desk.ledger.seq > 300

        status, said = _interrupted(tmp_path, "traffic", served.url, "--items", "200", "--rate", "20", ready=visited)
        assert status == 0
        assert said.startswith("ending; Ctrl-C again to end at once")
        assert "200 added" in said
        status, said = _interrupted(tmp_path, "traffic", served.url, "--items", "1e6")
        assert status == 130
        assert said.splitlines()[-1] == "stopped; nothing was sent"
