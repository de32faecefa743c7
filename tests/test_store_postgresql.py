"""What only a log on a server meets: it stops, hangs, loses connections, and is set up in many ways."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from hellinger.store import StoreUnavailableError, StoreVersionError, open_store
from hellinger.store._sql import _THREAD
from hellinger.store.postgresql import PostgresqlStore
from hellinger.testing._logs import events, everything, intact
from throwaway import Server

HOLD = "SELECT pg_advisory_lock('events'::regclass::oid::bigint)"


@pytest.fixture
def url(postgresql: Server) -> str:
    return f"{postgresql.fresh()}&timeout=0.5"


@pytest.fixture
def store(url: str) -> Iterator[PostgresqlStore]:
    with closing(PostgresqlStore.open(url, exclusive=True)) as opened:
        yield opened


def plain(url: str) -> str:
    return url.removesuffix("&timeout=0.5")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_stopped_and_started(postgresql: Server, store: PostgresqlStore, how: signal.Signals) -> None:
    store.append(events(["a", "b"]), 0)
    store.secret()
    postgresql.stop(how)
    try:
        for attempt in (
            lambda: store.append(events(["c"]), 2),
            store.last,
            store.count,
            lambda: store.save_snapshot(2, []),
        ):
            with pytest.raises(StoreUnavailableError):
                attempt()
    finally:
        postgresql.start()
    assert store.append(events(["b", "c"]), 2).seqs == [None, 3]
    intact(everything(store))


def test_restarted_between_calls(postgresql: Server, store: PostgresqlStore) -> None:
    store.append(events(["a"]), 0)
    postgresql.stop()
    postgresql.start()
    assert store.append(events(["b"]), 1).seqs == [2], "idle connections that died must not be used"
    assert store.last() == 2


def test_hanging(postgresql: Server, store: PostgresqlStore) -> None:
    store.append(events(["a"]), 0)
    with postgresql.paused():
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            store.append(events(["b"]), 1)
        with pytest.raises(StoreUnavailableError):
            store.last()
    assert store.append(events(["c"]), store.last()).seqs == [store.last()]
    intact(everything(store))


def test_lock_held_by_somebody(store: PostgresqlStore, url: str) -> None:
    with psycopg.connect(plain(url), autocommit=True) as other:
        other.execute(HOLD)
        with pytest.raises(StoreUnavailableError, match="timeout"):
            store.append(events(["a"]), 0)
        assert store.read(0, 10) == []
    assert store.append(events(["a"]), 0).seqs == [1]


def test_connection_lost_before_the_commit(store: PostgresqlStore, url: str) -> None:
    with psycopg.connect(plain(url), autocommit=True) as other:
        other.execute(HOLD)
        failed: list[Exception] = []
        slow = PostgresqlStore.open(plain(url) + "&timeout=30", exclusive=False)

        def append() -> None:
            try:
                slow.append(events(["a"]), 0)
            except StoreUnavailableError as error:
                failed.append(error)

        thread = threading.Thread(target=append)
        thread.start()
        waiting = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not other.execute(waiting.encode()).fetchall():
            pass
        thread.join()
    assert len(failed) == 1
    assert slow.count() == 0
    assert slow.append(events(["a"]), 0).seqs == [1]
    slow.close()


def test_connection_lost_during_the_commit(store: PostgresqlStore, url: str) -> None:
    with psycopg.connect(plain(url), autocommit=True) as other:
        other.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END';"
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION slow()"
        )
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            store.append(events(["a"]), 0)
        while other.execute("SELECT count(*) FROM events").fetchone() == (0,):
            pass
        other.execute("DROP TRIGGER slow ON events")
    done = store.append(events(["a", "b"]), 0)
    assert done.seqs == [None, 2]
    assert [event.key for event in done.others] == ["a"], "what the lost write did log must be told"


# Settings ---------------------------------------------------------------------------------------------


def shown(store: PostgresqlStore, name: str) -> str:
    return str(store._rows(f"SHOW {name}")[0][0])


def test_commits_are_durable(store: PostgresqlStore, url: str) -> None:
    assert shown(store, "synchronous_commit") == "on"
    for value, expected in (("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")):
        with psycopg.connect(plain(url), autocommit=True) as other:
            other.execute(f"ALTER ROLE postgres SET synchronous_commit = {value}".encode())
        with closing(PostgresqlStore.open(url, exclusive=False)) as another:
            assert shown(another, "synchronous_commit") == expected
            another.append(events([value]), 0)
        with psycopg.connect(plain(url), autocommit=True) as other:
            other.execute("ALTER ROLE postgres RESET synchronous_commit")


def test_server_that_would_lose_events(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hellinger.store"):
        open_store(url).close()
    assert "fsync = off" in caplog.text
    assert "full_page_writes = off" in caplog.text


def test_timeouts(store: PostgresqlStore, url: str) -> None:
    assert (shown(store, "statement_timeout"), shown(store, "lock_timeout")) == ("500ms", "500ms")
    with pytest.raises(StoreUnavailableError, match="statement timeout"):
        store._rows("SELECT pg_sleep(20)")
    assert store.last() == 0
    given = plain(url) + "&options=-c%20statement_timeout%3D7s&application_name=mine&connect_timeout=9"
    with closing(PostgresqlStore.open(given, exclusive=False)) as other:
        assert (shown(other, "statement_timeout"), shown(other, "lock_timeout")) == ("7s", "2s")
        assert shown(other, "application_name") == "mine"
        assert other._parameters["connect_timeout"] == "9"
    with store._patiently() as session:
        assert session.rows("SHOW statement_timeout") == [("0",)]
    assert shown(store, "statement_timeout") == "500ms"


def test_logs_in_two_schemas(url: str) -> None:
    with psycopg.connect(plain(url), autocommit=True) as other:
        other.execute("CREATE SCHEMA one; CREATE SCHEMA two")
    urls = [f"{plain(url)}&options=-csearch_path%3D{name}" for name in ("one", "two")]
    with closing(open_store(urls[0])) as one, closing(open_store(urls[1])) as two:
        assert one.append(events(["a"]), 0).seqs == two.append(events(["a"]), 0).seqs == [1]
        assert one.secret() != two.secret()


def test_encoding(postgresql: Server) -> None:
    with psycopg.connect(postgresql.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreVersionError, match="must be UTF8, but is LATIN1"):
        open_store(postgresql.url("latin"))


def test_threads_are_found_by_the_index(store: PostgresqlStore) -> None:
    plan = str(store._rows("EXPLAIN " + _THREAD.format(listed=store._listed), '["a"]', '["a"]'))
    assert "Seq Scan" not in plan
    assert plan.count("Index Cond: ((key ") == 1


# Passwords --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret%2Fword@localhost:1/log",
        "postgresql://me@localhost:1/log?password=s3cret%2Fword",
        "postgresql://me:s3cret%2Fword@localhost:port/log",
        "postgresql://me:s3cret%2Fword@localhost:1/log?nonsense=1",
        "postgresql://me:s3cret%2Fword@[::1/log",
        "postgresql://me:s3cret%2Fword@localhost:1/log?timeout=never",
        "postgresql://me:s3cret/word@localhost:1/log",
        "postgresql://me:s3cret@word@localhost:1/log",
        "postgres//me:s3cret%2Fword@localhost:1/log",
    ],
)
def test_passwords_are_not_told(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises((StoreUnavailableError, ValueError)) as caught:
        open_store(url)
    error: BaseException | None = caught.value
    assert error is not None
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert not re.search("s3cret", f"{error!r} {error} {caplog.text}")


def test_a_store_does_not_show_its_password(postgresql: Server) -> None:
    url = postgresql.fresh().replace("postgres@", "postgres:s3cret@")
    with closing(open_store(url)) as store:
        assert "s3cret" not in repr(store)
        assert "user=postgres" in repr(store)
