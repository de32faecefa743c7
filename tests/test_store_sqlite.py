"""What only a log in a file meets: a full disk, locks, a file that is something else."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from hellinger.store import StoreDamagedError, StoreUnavailableError, _keeper, _wal, open_store, sqlite
from hellinger.store.sqlite import SqliteStore
from hellinger.testing._logs import events, everything, intact
from hellinger.testing._writers import running, snapshot_of, write_until_killed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a log.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore.open(f"sqlite:///{path}?timeout=0.05", exclusive=True)) as opened:
        yield opened


def keys(name: str, count: int) -> list[str]:
    return [f"{name}{i}" for i in range(count)]


@pytest.mark.parametrize("batch", [1, 50, 3000])
def test_disk_full(store: SqliteStore, batch: int) -> None:
    store.append(events(keys("a", 10)), 0)
    store.save_snapshot(10, snapshot_of(10))
    pages = store._rows("PRAGMA page_count")[0][0]
    written = 10
    store._the_writer().execute(f"PRAGMA max_page_count = {pages + 20}")

    def append_until_it_fails() -> None:
        nonlocal written
        while True:
            store.append(events(keys(f"b{written}/", batch)), written)
            written += batch

    with pytest.raises(StoreUnavailableError, match="full"):
        append_until_it_fails()
    with pytest.raises(StoreUnavailableError, match="full"):
        store.save_snapshot(written, [b"x" * 500_000] * 3)
    intact(everything(store))
    assert store.count() == written
    found = store.snapshot()
    assert found is not None
    assert (found[0], list(found[1])) == (10, snapshot_of(10))
    store._the_writer().execute("PRAGMA max_page_count = 1000000")
    assert store.append(events(keys("c", batch)), written).seqs == list(range(written + 1, written + batch + 1))
    store.save_snapshot(written, snapshot_of(written))
    assert store._rows("SELECT count(DISTINCT snapshot) FROM snapshot_parts") == [(1,)]


LIMITED = """
import resource, sys
from hellinger.store import StoreUnavailableError, open_store
from hellinger.testing._logs import events, everything, intact
store = open_store(sys.argv[1])
done = store.append(events([f"a{i}" for i in range(10)]), 0).seqs[-1]
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
try:
    while True:
        done = store.append(events([f"b{done}/{i}" for i in range(20)]), done).seqs[-1]
except StoreUnavailableError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert store.append(events(["c"]), done).seqs == [done + 1]
assert store.count() == done + 1 > 11
intact(everything(store))
"""


def test_writing_fails_and_then_does_not(path: Path) -> None:
    url = f"sqlite:///{path}"
    done = subprocess.run([sys.executable, "-c", LIMITED, url], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "SQLITE_IOERR_WRITE" in done.stdout or "SQLITE_FULL" in done.stdout


def test_read_only(store: SqliteStore) -> None:
    store._the_writer().execute("PRAGMA query_only = 1")
    with pytest.raises(StoreUnavailableError, match="readonly"):
        store.append(events(["a"]), 0)
    store._the_writer().execute("PRAGMA query_only = 0")
    assert store.append(events(["a"]), 0).seqs == [1]


def test_locked(store: SqliteStore, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for attempt in (lambda: store.append(events(["a"]), 0), lambda: store.save_snapshot(0, [b""]), store.secret):
            with pytest.raises(StoreUnavailableError, match="locked"):
                attempt()
        assert store.read(0, 10) == []
        other.execute("ROLLBACK")
    assert store.append(events(["a"]), 0).seqs == [1]


def test_one_service_on_a_file(store: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="another service"):
        open_store(f"sqlite:///{path}", exclusive=True)
    with closing(open_store(f"sqlite:///{path}")) as command:
        command.append(events(["a"]), 0)
    assert [event.key for event in store.append([], 0).others] == ["a"]
    store.close()
    open_store(f"sqlite:///{path}", exclusive=True).close()


def test_a_killed_service_holds_nothing(path: Path) -> None:
    url = f"sqlite:///{path}"
    with running(write_until_killed, url, "a", 1) as (process, pipe):
        assert pipe.poll(30)
        process.kill()
        process.join()
        with closing(open_store(url, exclusive=True)) as store:
            assert store.append(events(["after"]), 0).seqs == [store.last()]


def test_the_write_ahead_log_stays_small(store: SqliteStore, path: Path) -> None:
    wal = path.with_name(path.name + "-wal")
    largest = last = 0
    for number in range(150):
        batch = [event._replace(body="x" * 10_000) for event in events(keys(f"{number}/", 100))]
        last = store.append(batch, last).seqs[-1] or 0
        store.read(last - 10, 10)
        if number % 10 == 0:
            store.save_snapshot(last, [b"x" * 1_000_000] * 3)
        largest = max(largest, wal.stat().st_size)
    assert path.stat().st_size > 100_000_000
    assert largest < 80_000_000


@pytest.mark.parametrize("rows", [1, 40, 1000])
def test_the_write_ahead_log_is_copied_in_time(
    store: SqliteStore, path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is noted of commits is at least half of what they take, wherever rows lie; the log itself decides."""
    monkeypatch.setattr(_keeper, "_DUE", 1 << 40)
    rng = random.Random(rows)
    last = store.append(events(keys("before/", 1000)), 0).seqs[-1] or 0
    before, noted = _wal.size(path), store._keeper._written
    for _ in range(4000 // rows + 10):
        batch = [event._replace(key=f"{rng.random()}/{event.key}") for event in events(keys("", rows))]
        last = store.append(batch, last).seqs[-1] or 0
    assert _wal.size(path) - before <= 2 * (store._keeper._written - noted)
    checkpoints: list[object] = []
    monkeypatch.setattr(store._keeper, "_checkpoint", lambda *connections: checkpoints.append(connections))
    monkeypatch.setattr(_keeper, "_DUE", _wal.size(path) + 8 * _wal.PAGE_BYTES)
    store._keeper.wrote(1 << 40)
    while store._keeper._written != _wal.size(path):
        time.sleep(0.001)
    assert not checkpoints
    while not checkpoints:
        last = store.append(events(keys(f"{last}/", 1)), last).seqs[-1] or 0
        assert _wal.size(path) < 2 * _keeper._DUE
        time.sleep(0.001)


def test_the_write_ahead_log_stays_small_under_two_writers(path: Path) -> None:
    """Each copies it while the other goes on: it starts over all the same, and its note never says less."""
    wal, note = path.with_name(path.name + "-wal"), path.with_name(path.name + ".checkpoint")
    url = f"sqlite:///{path}"
    sizes: list[int] = []
    notes: list[bytes] = []

    def write(name: str) -> None:
        with closing(open_store(url)) as store:
            last = 0
            for number in range(100):
                batch = [event._replace(body="x" * 10_000) for event in events(keys(f"{name}/{number}/", 50))]
                last = store.append(batch, last, 10).seqs[-1] or 0
                sizes.append(wal.stat().st_size)
                if note.exists():
                    notes.append(note.read_bytes())

    with closing(open_store(url)):
        threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(sizes) < sqlite._WAL_BYTES, "a writer had to copy it by itself, which nothing notes"
        assert len({salt[:8] for salt in notes}) > 2, "it has started over"
    with closing(open_store(url)) as store:
        assert store.count() == 10_000


@pytest.mark.parametrize("in_its_place", [None, b"", b"something else"], ids=["missing", "empty", "other"])
def test_moved_away_and_put_back(store: SqliteStore, path: Path, in_its_place: bytes | None) -> None:
    store.append(events(["a", "b"]), 0)
    aside = path.with_name("aside.db")
    path.rename(aside)
    if in_its_place is not None:
        path.write_bytes(in_its_place)
    for attempt in (
        lambda: store.append(events(["c"]), 2),
        lambda: store.append(events(keys("many", 3000)), 2),
        lambda: store.save_snapshot(2, []),
        store.touch,
        store.last,  # the first to read: a connection has yet to be made
    ):
        with pytest.raises(StoreUnavailableError, match="put it back"):
            attempt()
    assert (path.read_bytes() if path.exists() else None) == in_its_place
    aside.replace(path)
    assert store.append(events(["b", "c"]), 2).seqs == [None, 3]
    store.close()
    with closing(open_store(f"sqlite:///{path}")) as again:
        intact(everything(again))
        assert again.last() == 3


def test_moved_away_before_the_first_checkpoint(store: SqliteStore, path: Path) -> None:
    aside = path.with_name("aside.db")
    store.append(events(["a"]), 0)
    path.rename(aside)
    store._keeper.wrote(1 << 30)
    store._keeper.close()
    assert not path.exists()
    aside.rename(path)


@pytest.mark.parametrize("name", ["per%20cent.db", "question?.db", "hash#.db", "&mode=ro.db", "ü.db"])
def test_names_that_mean_something_in_a_url(tmp_path: Path, name: str) -> None:
    with closing(SqliteStore(tmp_path / name, timeout=1.0, exclusive=False)) as store:
        store.append(events(["a"]), 0)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([name, f"{name}-shm", f"{name}-wal"])


# A write-ahead log that was cut ---------------------------------------------------------------------------


def cut(path: Path, length: int) -> Path:
    """A copy of a database that nobody closed, with so many bytes of its write-ahead log."""
    folder = Path(tempfile.mkdtemp(dir=path.parent))
    for name in (path.name, f"{path.name}.checkpoint"):
        if path.with_name(name).exists():
            shutil.copy(path.with_name(name), folder)
    log = path.with_name(f"{path.name}-wal").read_bytes()
    (folder / f"{path.name}-wal").write_bytes(log[:length])
    return folder / path.name


@pytest.mark.parametrize("seed", range(6))
def test_a_write_ahead_log_cut_anywhere_after_a_kill(path: Path, seed: int) -> None:
    """What was cut off is lost, but what is left is the log's beginning; or the file is refused."""
    rng = random.Random(seed)
    with running(write_until_killed, f"sqlite:///{path}", "a", seed) as (process, pipe):
        assert pipe.poll(30)
        time.sleep(rng.uniform(0.0, 0.8))
        process.kill()
        process.join()
    size = path.with_name(f"{path.name}-wal").stat().st_size
    with closing(open_store(f"sqlite:///{cut(path, size)}")) as store:
        whole = everything(store)
    intact(whole)
    refused: list[str] = []
    for length in [size - 1, *(rng.randrange(32, size) for _ in range(15))]:
        url = f"sqlite:///{cut(path, length)}"
        try:
            store = cast(SqliteStore, open_store(url))
        except StoreDamagedError as error:
            refused.append(str(error))
            continue
        with closing(store):
            left = everything(store)
            assert left == whole[: len(left)]
            assert store._rows("PRAGMA integrity_check") == [("ok",)]
            keys = [event.key for event in whole[len(left) :]][:200]
            seqs = store.append(events([*keys, "new"]), len(left)).seqs
            assert seqs == list(range(len(left) + 1, len(left) + len(keys) + 2)), "what was lost can be logged again"
        with closing(open_store(url)) as store:
            intact(everything(store))
            assert store.last() == seqs[-1]
    assert all("cut short" in words for words in refused)


def test_a_write_ahead_log_cut_after_a_checkpoint(store: SqliteStore, path: Path) -> None:
    """A checkpoint has copied what is cut off: with the rest of the log the database would have holes."""
    log = path.with_name(f"{path.name}-wal")
    for number in range(20):
        store.append(events(keys(f"{number}/", 50)), 0)
    with closing(store._connect()) as one, closing(store._connect()) as other:
        store._keeper._checkpoint(one, other)
    whole = everything(store)
    size = log.stat().st_size
    with closing(open_store(f"sqlite:///{cut(path, size)}")) as again:
        assert everything(again) == whole
    for length in (size - 1, size // 2, 32):
        with pytest.raises(StoreDamagedError, match="cut short"):
            open_store(f"sqlite:///{cut(path, length)}")
    store.append(events(["after"]), 0)  # starts the log over: all that is in it now is new
    for length in (log.stat().st_size, 5000, 32):
        with closing(open_store(f"sqlite:///{cut(path, length)}")) as again:
            left = everything(again)
            assert left[: len(whole)] == whole
            intact(left)


def test_durable_settings(store: SqliteStore) -> None:
    store.append(events(["a"]), 0)
    for connection in (store._the_writer(), store._connect()):
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    connection.close()


def test_what_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, but long enough to be asked what it is" * 50)
    with pytest.raises(StoreDamagedError, match="not a database"):
        open_store(f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(StoreUnavailableError, match="unable to open"):
        open_store(f"sqlite:///{tmp_path}/missing/log.db")
    with pytest.raises(StoreUnavailableError, match="lock"):
        open_store(f"sqlite:///{tmp_path}/missing/log.db", exclusive=True)


def test_a_table_is_gone(store: SqliteStore) -> None:
    with store._writing() as session:
        session.run("DROP TABLE events")
    with pytest.raises(StoreDamagedError, match="no such table"):
        store.append(events(["a"]), 0)


@pytest.mark.parametrize(
    "url", ["sqlite://log.db", "sqlite:///", "sqlite:///:memory:", "sqlite:///a.db?mode=ro", "sqlite:"]
)
def test_what_is_not_a_url(url: str) -> None:
    with pytest.raises(ValueError, match="absolute"):
        open_store(url)


def test_settings() -> None:
    for value in ("0", "-1", "soon", "nan", "inf"):
        with pytest.raises(ValueError, match="0 < timeout"):
            open_store(f"sqlite:///log.db?timeout={value}")
    with pytest.raises(ValueError, match="unknown store 'mysql': it must be one of postgres"):
        open_store("mysql://host/log")


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_store("sqlite:///log.db")) as store:
        monkeypatch.chdir("/")
        store.append(events(["a"]), 0)
    assert (tmp_path / "log.db").stat().st_size > 0
