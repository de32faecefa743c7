"""Several workers behind one port: one log, counted once, whichever of them dies, the supervisor included."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crowd import WEIGHTS, Client, Crowd, stable
from hellinger.ledger import Ledger, recovery
from hellinger.store import open_store
from live import Launcher, LostError, Service, hang_up, until
from throwaway import Server

SETTINGS = {"weights": json.dumps(WEIGHTS), "request_cache": 50, "workers": 2, "seed": 1, "poll_ms": 20}


@pytest.fixture
def service(launcher: Launcher, tmp_path: Path) -> Iterator[Service]:
    """A service with two workers, both ready."""
    with Service(launcher, tmp_path, f"sqlite:///{tmp_path}/log.db", **SETTINGS) as started:
        started.start().add(*stable())
        until(lambda: workers_up(started) == 2)
        hang_up()  # the server closes a connection that was idle for some seconds
        yield started


def alive() -> dict[int, int]:
    """Numbers of all processes that have not ended, with those of their parents."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if state[0] != "Z"}


def processes(service: Service) -> list[int]:
    """Numbers of the workers' processes."""
    return sorted(pid for pid, parent in alive().items() if parent == service.number)


def figure(service: Service, name: str) -> tuple[str, float]:
    """One of the figures by a new connection, added up over its labels; and the name of the worker that told it."""
    with urllib.request.urlopen(f"{service.url}/metrics", timeout=60) as answer:
        text, worker = answer.read().decode(), answer.headers["x-request-id"].partition("-")[0]
    return worker, sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M))


def shown_by_each(service: Service, name: str) -> list[float]:
    """The same figure as each of two workers tells it."""
    told: dict[str, float] = {}
    while len(told) < 2:
        told |= [figure(service, name)]
    return list(told.values())


def workers_up(service: Service) -> float:
    return figure(service, "hellinger_workers")[1]


def health(service: Service) -> Any:
    """How the service is, by the live stream of whichever worker."""
    with urllib.request.urlopen(f"{service.url}/v1/stream", timeout=60) as stream:
        while not (line := stream.readline()).startswith(b"data: "):
            pass
    return json.loads(line[6:])["health"]


def each_worker(service: Service, count: int = 2) -> Iterator[str]:
    """Let this thread's connection be to one worker after the other, known by the ids they give to requests."""
    seen: set[str] = set()

    def another() -> bool:
        hang_up()
        name = service.get("/health/live").headers["x-request-id"].partition("-")[0]
        fresh = name not in seen
        seen.add(name)
        return fresh

    while len(seen) < count:
        until(another)
        yield max(seen)


def folded(database: str) -> Ledger:
    """The fold of the whole log, from its first event."""
    with closing(open_store(database)) as store:
        ledger = Ledger()
        recovery.advance(store, ledger)
        return ledger


def agree(service: Service, crowd: Crowd) -> None:
    """Require that every worker, and the log, have counted exactly what the clients know."""
    ledger = folded(service.database)
    for _ in each_worker(service):
        until(lambda: service.get("/v1/experiments/main").body["events"] >= ledger.seq)
        crowd.agrees(service)


def test_feedback_for_any_workers_ranking_counts_once(service: Service, launcher: Launcher) -> None:
    """At whichever worker it was ranked, and to whichever it is told, both being told at last."""
    rankings = []
    for _ in each_worker(service):
        rankings += [service.rank(3) for _ in range(20)]
    assert len({ranking["ranking_id"] for ranking in rankings}) == 40
    answers = []
    for _ in each_worker(service):
        events = [(ranking["ranking_id"], ranking["items"][0]["id"], "comment") for ranking in rankings]
        answers.append(service.feedback(*events))
    assert [answer["accepted"] for answer in answers] == [40, 0]
    assert [answer["duplicate"] for answer in answers] == [0, 40]
    ledger = folded(service.database)
    assert sum(cell[2] for cell in ledger.series.totals.values()) == 40
    for _ in each_worker(service):
        until(lambda: service.get("/v1/experiments/main").body["events"] >= ledger.seq)  # it may learn meanwhile
        assert service.totals() == {name: tuple(cell) for name, cell in ledger.series.totals.items()}
    assert launcher.told("check", "--service", service.url, "--database", service.database)["ok"]


def test_workers_do_not_draw_the_same(service: Service) -> None:
    """With nothing known of any item, rankings are drawn: two workers with one stream would make the same."""
    until(lambda: service.get("/v1/experiments/main").body["events"] == 41)  # 40 items, and the phase
    first = [[item["id"] for item in service.rank(20)["items"]] for _ in each_worker(service)]
    assert first[0] != first[1]


def test_a_killed_worker_comes_back_and_nothing_is_lost(service: Service, launcher: Launcher) -> None:
    rng = random.Random(5)
    crowd = Crowd([Client(number, [service]) for number in range(4)])
    for place in (0, 1, 1):
        crowd.begin(stubborn=True)
        crowd.work(rng.randint(60, 160))
        before = processes(service)
        os.kill(before[place], signal.SIGKILL)
        crowd.work(60)
        until(lambda: len(processes(service)) == 2 and processes(service) != before)  # noqa: B023
        crowd.work(60)
        crowd.end()
        hang_up()
        crowd.settle()
        agree(service, crowd)
    assert "started again" in service.said()
    assert service.status() is None
    assert service.stop() == 0
    assert launcher.told("check", "--database", service.database)["ok"]


def test_workers_end_with_the_supervisor(service: Service) -> None:
    """However it dies; and nobody has the file before the last of them has ended."""
    crowd = Crowd([Client(number, [service]) for number in range(2)])
    crowd.begin()
    crowd.work(60)
    running = processes(service)
    os.kill(running[1], signal.SIGSTOP)  # one that takes its time to notice
    service.kill()
    with pytest.raises(Exception, match="in use by another service"):
        open_store(service.database, exclusive=True)
    os.kill(running[1], signal.SIGCONT)
    until(lambda: alive().keys().isdisjoint(running))
    crowd.end()
    hang_up()
    service.start()
    until(lambda: workers_up(service) == 2)
    hang_up()
    crowd.settle()
    agree(service, crowd)


def test_sigterm_drains_every_worker(service: Service, launcher: Launcher) -> None:
    body = json.dumps({"items": [{"id": f"late-{j}"} for j in range(500)]}).encode()
    head = f"POST /v1/items HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    crowd = Crowd([Client(number, [service]) for number in range(4)])
    crowd.begin()
    crowd.work(100)
    running = processes(service)
    slow = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(6)]
    for each in slow:
        each.sendall(f"{head}\r\n\r\n".encode() + body[:100])
    crowd.work(40)
    service.signal(signal.SIGTERM)
    crowd.end()
    for each in slow:
        each.sendall(body[100:])
        assert each.recv(1000).startswith(b"HTTP/1.1 200"), "what is under way must be answered"
        each.close()
    until(lambda: service.status() is not None)
    assert service.status() == 0, service.said()[-3000:]
    assert alive().keys().isdisjoint(running)
    hang_up()
    with pytest.raises(LostError):
        service.get("/health/live")
    assert launcher.told("check", "--database", service.database)["ok"]
    service.start()
    crowd.settle()
    assert "late-499" in service.counts()


def test_on_postgresql(launcher: Launcher, tmp_path: Path, postgresql: Server) -> None:
    """A database that several services share needs no lock, and another service may join the workers."""
    database = postgresql.fresh()
    with Service(launcher, tmp_path, database, **SETTINGS) as service:
        service.start().add(*stable())
        until(lambda: workers_up(service) == 2)
        with Service(launcher, tmp_path, database, weights=SETTINGS["weights"], poll_ms=20) as another:
            another.start()
            crowd = Crowd([Client(number, [service, another]) for number in range(3)])
            crowd.begin()
            crowd.work(150)
            crowd.end()
            hang_up()
            crowd.settle()
            agree(service, crowd)
            assert another.stop() == 0
        hang_up()
        assert service.stop() == 0


def test_a_second_service_on_the_file_is_refused(service: Service, launcher: Launcher) -> None:
    for workers in ("1", "2"):
        status, said = launcher.hellinger("serve", "--port", "0", "--database", service.database, "--workers", workers)
        assert status == 2
        assert "is in use by another service" in said
    for _ in each_worker(service):
        assert service.get("/health/ready").status == 200


def test_a_start_that_fails(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"no database at all, but long enough to look like one" * 100)
    status, said = launcher.hellinger(
        "serve", "--port", "0", "--database", f"sqlite:///{tmp_path}/log.db", "--workers", "2", "--log-level", "error"
    )
    assert status == 2
    assert "file is not a database" in said
    assert "Traceback" not in said


def test_figures_are_those_of_all_workers(service: Service) -> None:
    """Also of one that died: what it had counted stays."""
    for number, _ in enumerate(each_worker(service), start=1):
        for _ in range(10 * number):
            ranking = service.rank(2)
            service.feedback((ranking["ranking_id"], ranking["items"][0]["id"], "like"))
    until(lambda: shown_by_each(service, "hellinger_rank_seconds_count") == [30, 30])
    until(lambda: shown_by_each(service, "hellinger_feedback_accepted_total") == [30, 30])
    for _ in range(6):  # each by whichever worker
        until(lambda: health(service)["rank"]["start"]["count"] == 30)
    os.kill(processes(service)[1], signal.SIGKILL)
    until(lambda: "started again" in service.said())
    until(lambda: workers_up(service) == 2)
    assert shown_by_each(service, "hellinger_rank_seconds_count") == [30, 30]


def test_expiry_is_logged_once(service: Service) -> None:
    service.done("/v1/items", {"items": [{"id": "brief", "expires_at": "2020-01-01T00:00:00Z"}]})
    until(lambda: b"expired" in b"".join(states(service)))
    for _ in each_worker(service):
        until(lambda: service.get("/v1/items/brief").body["state"] == "expired")
    assert len(states(service)) == 1


def states(service: Service) -> list[bytes]:
    """Bodies of the log's events of states."""
    with closing(open_store(service.database)) as store:
        return [event.body.encode() for event in store.read(0, 1000) if event.kind == "state"]
