"""An orderly end, snapshots while at work, old events let go, a log moved elsewhere: the counts are the same."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crowd import WEIGHTS, Client, Crowd, stable
from hellinger.engine.drafts import item_draft
from hellinger.engine.snapshots import LONG, Snapshots
from hellinger.events import now
from hellinger.ledger import Ledger, recovery
from hellinger.ledger.comparison import differences
from hellinger.store import open_store
from live import Launcher, Service, until
from served import serving, settings_of
from throwaway import Server

SETTINGS = {"weights": json.dumps(WEIGHTS)}
DAY = 86_400_000


def many(service: Service, count: int = 1000) -> None:
    """Items enough for a snapshot to be worth it."""
    service.add(*(f"many-{j}" for j in range(count)))


@pytest.fixture
def service(launcher: Launcher, tmp_path: Path) -> Service:
    return Service(launcher, tmp_path, f"sqlite:///{tmp_path}/log.db", **SETTINGS)


def test_sigterm_under_load(launcher: Launcher, service: Service) -> None:
    with service:
        service.start().add(*stable())
        many(service)
        crowd = Crowd([Client(number, [service]) for number in range(4)])
        crowd.begin()
        crowd.work(100)
        body = json.dumps({"items": [{"id": f"late-{j}"} for j in range(500)]}).encode()
        with socket.create_connection(("127.0.0.1", service.port)) as slow:
            head = (
                f"POST /v1/items HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            )
            slow.sendall(f"{head}\r\n\r\n".encode() + body[:100])
            until(lambda: crowd.answered > 120)
            service.signal(signal.SIGTERM)
            crowd.end()
            slow.sendall(body[100:])
            assert slow.recv(1000).startswith(b"HTTP/1.1 200"), "what is under way must be answered"
        until(lambda: service.status() is not None)
        assert service.status() == 0, service.said()[-3000:]
        with closing(open_store(service.database)) as store:
            saved = store.snapshot()
            assert saved is not None
            assert saved[0] == store.last(), "an orderly end takes a snapshot"
            fold = Ledger()
            recovery.advance(store, fold)
            assert differences(recovery.recover(store), fold) == []
        assert launcher.told("check", "--database", service.database)["ok"]
        service.start()
        crowd.settle()
        crowd.agrees(service)
        assert "late-499" in service.counts()


def test_snapshots_while_at_work(launcher: Launcher, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/log.db"
    with Service(launcher, tmp_path, database, snapshot_every_events=1000, **SETTINGS) as service:
        service.start().add(*stable())
        many(service)
        crowd = Crowd([Client(number, [service]) for number in range(3)])
        crowd.begin()
        with closing(open_store(database)) as store:
            until(lambda: store.snapshot() is not None)
            assert launcher.told("check", "--database", database)["ok"]
            crowd.work(20)
            crowd.end()
            service.kill()
            saved = store.snapshot()
            assert saved is not None
            assert 1000 < saved[0] < store.last(), "the rest has to come from the log"
        service.start()
        crowd.settle()
        crowd.agrees(service)


def test_a_start_that_has_folded_long_is_the_last_to_do_so(tmp_path: Path) -> None:
    """A service that is killed before a snapshot is due would fold more at each start."""
    database = f"sqlite:///{tmp_path}/log.db"
    seldom: dict[str, Any] = {"snapshot_every_events": 1 << 40, "snapshot_every_minutes": 1e6}
    with closing(open_store(database)) as store:
        more: dict[str, Any] = {"tags": [], "expires_at": None, "metadata": None}
        drafts = [item_draft({"id": str(j)} | more, now()) for j in range(LONG)]
        store.append([draft.event for draft in drafts], 0)
    with serving(tmp_path, **seldom), closing(open_store(database)) as store:
        until(lambda: store.snapshot() is not None)
    with closing(open_store(database)) as store:
        saved, last = store.snapshot(), store.last()
    assert saved is not None
    assert last - saved[0] < LONG

    async def consider(folded: int) -> bool:
        snapshots = Snapshots(settings_of(tmp_path, **seldom), 5, 5 + folded)
        await snapshots.consider(5 + folded)
        begun = snapshots.running
        await snapshots.stop()
        return begun

    assert not asyncio.run(consider(LONG - 1))
    assert asyncio.run(consider(LONG))


def test_old_events_are_let_go(launcher: Launcher, service: Service) -> None:
    with service:
        service.start().add(*stable())
        crowd = Crowd([Client(number, [service]) for number in range(3)])
        places = []
        for _ in range(3):
            crowd.begin()
            crowd.work(120)
            crowd.end()
            places.append(service.get("/v1/experiments/main").body["events"])
            if len(places) < 3:
                for client in crowd.clients:
                    client.retire()
        past = [client.past[0] for client in crowd.clients]
        assert service.stop() == 0
        # the first third is long past, the second within the attribution window before what is kept
        path = Path(service.database.removeprefix("sqlite:///"))
        with closing(sqlite3.connect(path)) as connection, connection:
            for first, last, days in ((0, places[0], 10.0), (places[0], places[1], 5.5)):
                connection.execute(
                    "UPDATE events SET at = at - ? WHERE seq > ? AND seq <= ?", (int(days * DAY), first, last)
                )
        service.start()
        crowd.begin()
        crowd.work(60)
        done = launcher.told("compact", "--database", service.database, "--retention-days", "5")
        crowd.work(30)
        crowd.end()
        assert done["through"] == places[0]
        assert done["deleted"] > 0
        crowd.agrees(service)
        for _ in range(2):
            assert launcher.told("check", "--database", service.database)["ok"]
            service.kill()
            service.start()
            crowd.agrees(service)
            launcher.told("snapshot", "--database", service.database)
        for ranking in past:
            assert service.feedback((ranking.name, "stable-1", "view"))["unknown"] == 1


@pytest.mark.parametrize("compacted", [False, True])
def test_a_log_moves_to_postgresql_and_back(
    launcher: Launcher, service: Service, tmp_path: Path, postgresql: Server, compacted: bool
) -> None:
    there, back = postgresql.fresh(), f"sqlite:///{tmp_path}/back.db"
    with service:
        service.start().add(*stable())
        crowd = Crowd([Client(number, [service]) for number in range(3)])
        crowd.begin()
        crowd.work(100)
        crowd.end()
        if compacted:
            assert service.stop() == 0
            with closing(sqlite3.connect(service.database.removeprefix("sqlite:///"))) as connection, connection:
                connection.execute("UPDATE events SET at = at - ?", (10 * DAY,))
            assert launcher.told("compact", "--database", service.database, "--retention-days", "5")["deleted"] > 0
            for client in crowd.clients:
                client.retire()
            service.start()
        experiment, counts = service.totals(), service.counts()
        launcher.told("dump", str(tmp_path / "one"), "--database", service.database)
    launcher.told("restore", str(tmp_path / "one"), "--database", there)
    assert launcher.told("check", "--database", there)["ok"]
    with Service(launcher, tmp_path, there, **SETTINGS) as moved:
        moved.start()
        assert (moved.totals(), moved.counts()) == (experiment, counts)
        for client in crowd.clients:
            client.services = [moved]
        crowd.begin()
        crowd.work(50)
        crowd.end()
        crowd.agrees(moved)
        experiment, counts = moved.totals(), moved.counts()
        assert moved.stop() == 0
    launcher.told("dump", str(tmp_path / "two"), "--database", there)
    launcher.told("restore", str(tmp_path / "two"), "--database", back)
    assert launcher.told("check", "--database", back)["ok"]
    with Service(launcher, tmp_path, back, **SETTINGS) as home:
        home.start()
        assert (home.totals(), home.counts()) == (experiment, counts)
