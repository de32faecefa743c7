"""The database stops, hangs, is full or cannot be written to: rankings go on, and all is right again by itself."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crowd import KINDS, WEIGHTS, Client, Crowd, Seen, stable
from live import Launcher, Service, free_port, until
from throwaway import Server

SETTINGS = {"weights": json.dumps(WEIGHTS)}
BOUND = 20.0
"""Seconds within which every request is answered, whatever the database does."""


def ready(service: Service) -> str:
    status: str = service.get("/health/ready").body["status"]
    return status


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def crashed(server: Server) -> Iterator[None]:
    server.stop(signal.SIGQUIT)
    try:
        yield
    finally:
        server.start()


def hung(server: Server) -> object:
    return server.paused()


class Meanwhile:
    """Rankings asked for during an outage, and what feedback gets then."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.before = [service.rank(3) for _ in range(5)]
        self.rankings: list[Seen] = []

    def go_on(self) -> None:
        """Rank from memory, with a key and without; have feedback refused."""
        until(lambda: ready(self.service) == "degraded")
        for number in range(10):
            key = f"outage {number}" if number % 2 else None
            answer = self.service.post("/v1/rank", {"k": 3}, key=key, timeout=BOUND)
            assert answer.status == 200, answer
            again = self.service.post("/v1/rank", {"k": 3}, key=key, timeout=BOUND) if key else answer
            assert again.body == answer.body, "a key must stand for one ranking"
            items = [item["id"] for item in answer.body["items"]]
            assert len(items) == 3
            self.rankings.append(Seen(answer.body["ranking_id"], answer.body["variant"], items))
        for ranking in (self.before[0], answer.body):
            event = {"ranking_id": ranking["ranking_id"], "item": ranking["items"][0]["id"], "kind": "like"}
            for path, body in (
                ("/v1/feedback", {"events": [event]}),
                ("/v1/feedback", {"events": [event | {"ranking_id": "x" * 22}]}),
                ("/v1/items", {"items": [{"id": "new"}]}),
                ("/v1/counts", {"batch": "b", "rows": [{"item": "stable-1", "impressions": 1, "rewards": 0}]}),
            ):
                refused = self.service.post(path, body, timeout=BOUND)
                assert refused.status == 503, (path, refused)
                assert refused.headers["retry-after"] == "1"
                assert refused.body["error"]["code"] == "unavailable", refused.body
        assert ready(self.service) == "degraded"

    def hand_in(self, crowd: Crowd) -> None:
        """Give feedback for what was answered meanwhile, and enter it into the crowd's account."""
        until(lambda: ready(self.service) == "ready")
        client = crowd.clients[0]
        for ranking in self.before:
            items = [item["id"] for item in ranking["items"]]
            self.rankings.append(Seen(ranking["ranking_id"], ranking["variant"], items))
        for seen in self.rankings:
            answer = self.service.feedback((seen.name, seen.items[0], "like"))
            assert answer["accepted"] == 1, answer
            seen.given.add((seen.items[0], "like"))
        client.rankings += self.rankings


@pytest.mark.parametrize("trouble", [stopped, crashed, hung])
def test_postgresql_goes_and_comes_back(launcher: Launcher, tmp_path: Path, postgresql: Server, trouble: type) -> None:
    database = postgresql.fresh()
    with Service(launcher, tmp_path, database, request_cache=20, **SETTINGS) as service:
        service.start().add(*stable())
        crowd = Crowd([Client(number, [service]) for number in range(3)])
        crowd.begin(stubborn=True)
        crowd.work(40)
        meanwhile = Meanwhile(service)
        with trouble(postgresql):
            meanwhile.go_on()
            crowd.work(20)
        until(lambda: ready(service) == "ready")
        crowd.work(20)
        crowd.end()
        crowd.settle()
        meanwhile.hand_in(crowd)
        crowd.agrees(service)
        service.kill()
        service.start()
        crowd.agrees(service)


def test_a_file_goes_and_comes_back(launcher: Launcher, tmp_path: Path) -> None:
    path, aside = tmp_path / "log.db", tmp_path / "aside.db"
    with Service(launcher, tmp_path, f"sqlite:///{path}", request_cache=20, **SETTINGS) as service:
        service.start().add(*stable())
        crowd = Crowd([Client(number, [service]) for number in range(3)])
        crowd.begin(stubborn=True)
        crowd.work(40)
        meanwhile = Meanwhile(service)
        path.rename(aside)
        meanwhile.go_on()
        crowd.work(20)
        assert not path.exists()
        aside.rename(path)
        until(lambda: ready(service) == "ready")
        crowd.work(20)
        crowd.end()
        crowd.settle()
        meanwhile.hand_in(crowd)
        crowd.agrees(service)
        service.kill()
        service.start()
        crowd.agrees(service)


# A disk that is full ----------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own."""
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("to mount a disk of a given size takes a right that this user has not")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def endure(service: Service, trouble: object, relief: object) -> None:
    """Put a service under load while there is trouble, and require that nothing is lost or counted twice."""
    crowd = Crowd([Client(number, [service]) for number in range(3)])
    crowd.begin(stubborn=True)
    crowd.work(40)
    meanwhile = Meanwhile(service)
    trouble()  # type: ignore[operator]
    meanwhile.go_on()
    relief()  # type: ignore[operator]
    until(lambda: ready(service) == "ready")
    crowd.work(20)
    crowd.end()
    crowd.settle()
    meanwhile.hand_in(crowd)
    crowd.agrees(service)
    assert service.stop() == 0
    service.start()
    crowd.agrees(service)


def test_disk_full(launcher: Launcher, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", "6m") as disk,
        Service(launcher, tmp_path, f"sqlite:///{disk}/log.db", **SETTINGS) as service,
    ):
        service.start().add(*stable())
        ballast = disk / "ballast"

        def fill() -> None:
            with ballast.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass

        endure(service, fill, ballast.unlink)
        assert launcher.told("check", "--database", service.database)["ok"]


def _limit(service: Service, size: int) -> None:
    resource.prlimit(service.number, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_writes_that_fail(launcher: Launcher, tmp_path: Path) -> None:
    """No file may grow beyond a few pages: to SQLite an error of the disk."""
    with Service(launcher, tmp_path, f"sqlite:///{tmp_path}/log.db", **SETTINGS) as service:
        service.log = Path(os.devnull)
        service.start().add(*stable())
        endure(service, lambda: _limit(service, 4096), lambda: _limit(service, resource.RLIM_INFINITY))
        assert launcher.told("check", "--database", service.database)["ok"]


# What cannot be started -------------------------------------------------------------------------------


def test_a_second_service_on_one_file_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    with Service(launcher, tmp_path, f"sqlite:///{tmp_path}/log.db") as service:
        service.start()
        status, said = launcher.hellinger(
            "serve", "--database", service.database, "--port", str(free_port()), "--log-format", "text"
        )
        assert status == 2
        assert "log.db is in use by another service" in said
        assert "Traceback" not in said, said
        assert service.get("/health/ready").status == 200
        service.kill()
        service.start()


def test_a_port_that_is_taken_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    with Service(launcher, tmp_path, f"sqlite:///{tmp_path}/log.db") as service:
        service.start()
        other = f"sqlite:///{tmp_path}/other.db"
        status, said = launcher.hellinger("serve", "--database", other, "--port", str(service.port))
        assert status == 2
        assert f"something listens on 127.0.0.1:{service.port} already" in said
        assert "Traceback" not in said, said


def test_a_database_that_cannot_be_reached_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    for database in (f"sqlite:///{tmp_path}/missing/log.db", f"postgresql://nobody@/none?host={tmp_path}"):
        for command in (("serve", "--port", str(free_port())), ("check",)):
            status, said = launcher.hellinger(*command, "--database", database)
            assert status == 2, said
            assert "Is the server running" not in said, said  # the driver's advice
            assert "Traceback" not in said, said


def test_a_database_that_cannot_be_written_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "20m") as disk:
        with Service(launcher, tmp_path, f"sqlite:///{disk}/log.db") as service:
            service.start().add("a")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)
        status, said = launcher.hellinger(*service.arguments)
        assert status == 2
        assert "read-only" in said.lower(), said
        assert "Traceback" not in said, said


# Delivery ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quiet(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("quiet")
    with Service(launcher, folder, f"sqlite:///{folder}/log.db", **SETTINGS) as service:
        service.start().add(*stable())
        yield service


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_feedback_in_any_order_and_number(quiet: Service, data: st.DataObject) -> None:
    before = quiet.totals()
    rankings = [quiet.rank(3) for _ in range(3)]
    possible = [
        (ranking["ranking_id"], item["id"], kind) for ranking in rankings for item in ranking["items"] for kind in KINDS
    ]
    told = data.draw(st.lists(st.sampled_from(possible), min_size=1, max_size=60))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(told)), max_size=5)))
    accepted = 0
    for first, last in zip([0, *cuts], [*cuts, len(told)], strict=True):
        if last > first:
            accepted += quiet.feedback(*told[first:last])["accepted"]
    assert accepted == len(set(told))
    expected: dict[str, float] = {}
    for ranking in rankings:
        seen = Seen(ranking["ranking_id"], ranking["variant"], [])
        seen.given = {(item, kind) for request, item, kind in told if request == ranking["ranking_id"]}
        expected[seen.variant] = expected.get(seen.variant, 0.0) + sum(seen.rewards().values())
    after = quiet.totals()
    assert {name: after[name][2] - before[name][2] for name in expected} == expected
