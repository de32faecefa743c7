"""A small pool's whole life over HTTP, by fixed seeds; ``make fuzz`` has fresh ones."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hellinger.events import Event, now
from hellinger.store import open_store
from http_life import RESTARTS, HttpLife, Pools
from live import Launcher, Service
from throwaway import Server


@pytest.mark.parametrize("seed", [1, 3])
def test_on_sqlite(launcher: Launcher, tmp_path: Path, seed: int) -> None:
    done = HttpLife(seed, launcher, tmp_path, f"sqlite:///{tmp_path}/log.db").live(rounds=2, seconds=1.5)
    assert min(done["rank 200"], done["feedback 200"], done["describe 200"]) > 20
    assert done["forgotten"] > 0


def test_two_replicas_on_postgresql(launcher: Launcher, tmp_path: Path, postgresql: Server) -> None:
    done = HttpLife(2, launcher, tmp_path, postgresql.fresh(), replicas=2).live(rounds=2, seconds=1.5)
    assert min(done["rank 200"], done["feedback 200"], done["describe 200"]) > 20
    assert done["forgotten"] > 0


class Disturbed(HttpLife):
    """A life in which something happens after the first portraits."""

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        super().__init__(1, launcher, folder, f"sqlite:///{folder}/log.db")
        self.services = [Service(launcher, folder, self.database, variants="one=cold-start", lifetimes=True)]
        self.paces = 0
        self.wrong = 0.0
        self.seen: list[int] = []

    def _portrait(self, service: Service) -> tuple[int, Pools]:
        place, pools = super()._portrait(service)
        self.seen.append(place)
        if len(self.seen) <= 2 * self.paces and len(self.seen) % 2:  # as a leader does once a minute is over
            with closing(open_store(self.database)) as store:
                after = place if len(self.seen) > 1 else 0
                fields = {"after": after, "hourly": {"one": 1000.0}, "until": now() + 3_600_000, "writer": "test"}
                store.append([Event.of(f"pace/{after}", "pace", now(), fields)], store.last())
        if len(self.seen) == 2:
            pools["one", ""]["rounds"] += self.wrong
        return place, pools

    def restarted(self) -> list[int]:
        """Restart a service with two items; the places of the portraits."""
        (service,) = self.services
        try:
            service.start().add("a", "b")
            service.post("/v1/rank", {"k": 1})
            self._quiet()
            self._restart(service)
        finally:
            service.kill()
        return self.seen


def test_what_a_service_ranks_by_is_compared_at_one_place_of_the_log(launcher: Launcher, tmp_path: Path) -> None:
    life = Disturbed(launcher, tmp_path)
    life.paces = 1
    first, second, *last = life.restarted()
    assert second == first + 1
    assert last == [second, second]


def test_what_differs_after_a_restart_is_named(launcher: Launcher, tmp_path: Path) -> None:
    life = Disturbed(launcher, tmp_path)
    life.wrong = 1.0
    with pytest.raises(AssertionError, match=r"rounds in variant 'one': 1.0 running, 2.0 by the log"):
        life.restarted()


def test_a_log_that_every_restart_writes_to_is_an_error(launcher: Launcher, tmp_path: Path) -> None:
    life = Disturbed(launcher, tmp_path)
    life.paces = RESTARTS
    with pytest.raises(AssertionError, match=r"every restart wrote to the log: .*'pace'"):
        life.restarted()
