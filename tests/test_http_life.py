"""A small pool's whole life over HTTP, by fixed seeds; ``make fuzz`` has fresh ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from http_life import HttpLife
from live import Launcher
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
