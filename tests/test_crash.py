"""``kill -9`` under load, again and again: what was acknowledged is counted once, and nothing else is."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from crowd import WEIGHTS, Client, Crowd, stable
from live import Launcher, Service

SETTINGS = {
    "weights": json.dumps(WEIGHTS),
    "snapshot_every_events": 1000,
    "request_cache": 50,
    "seed": 1,
}


@pytest.mark.parametrize(("mode", "kills"), [("served", 14), ("confirmed", 8)])
def test_every_acknowledged_event_is_counted_once(launcher: Launcher, tmp_path: Path, mode: str, kills: int) -> None:
    rng = random.Random(mode)
    database = f"sqlite:///{tmp_path}/log.db"
    with Service(launcher, tmp_path, database, counting=mode, **SETTINGS) as service:
        crowd = Crowd([Client(number, [service], confirmed=mode == "confirmed") for number in range(4)])
        service.start(command=True).add(*stable())
        for number in range(kills):
            crowd.begin()
            crowd.work(rng.randint(1, 120))
            service.kill()
            crowd.end()
            if number % 4 == 1:  # and once more while it is only getting up
                service.begin()
                time.sleep(rng.uniform(0.0, 0.6))
                service.kill()
            service.start()
            crowd.settle()
            crowd.agrees(service)
        before = service.totals(), service.counts()
        assert sum(len(ranking.given) for ranking in crowd.rankings()) > 100
        assert service.stop() == 0
        assert launcher.told("check", "--database", database)["ok"]
        service.start()
        assert (service.totals(), service.counts()) == before


def test_rankings_asked_for_without_a_key(launcher: Launcher, tmp_path: Path) -> None:
    """Of those whose answer was lost, some are counted; of the others, each is."""
    rng = random.Random(3)
    database = f"sqlite:///{tmp_path}/log.db"
    with Service(launcher, tmp_path, database, **SETTINGS) as service:
        crowd = Crowd([Client(number, [service], keyed=False) for number in range(4)])
        service.start().add(*stable())
        for _ in range(4):
            crowd.begin()
            crowd.work(rng.randint(20, 120))
            service.kill()
            crowd.end()
            service.start()
            crowd.settle()
            lost = sum(client.lost for client in crowd.clients)
            expected, found = crowd.totals(), service.totals()
            assert 0 <= sum(found[name][0] - cell[0] for name, cell in expected.items()) <= lost
            for name, (requests, impressions, reward) in expected.items():
                assert requests <= found[name][0]
                assert impressions <= found[name][1] <= impressions + 6 * (found[name][0] - requests)
                assert found[name][2] == reward
        assert service.stop() == 0
        assert launcher.told("check", "--database", database)["ok"]
