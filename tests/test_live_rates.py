"""Rates in the live messages, while the event loop stalls."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.serve import live as live_module
from hellinger.serve.live import PERIOD, Live
from hellinger.serve.metrics import Metrics


def test_rates_are_counts_over_true_seconds_after_a_stall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    late = [0.0, 3.25, 0.0, 0.25, 0.75, 7.5, 0.0, 0.0]  # seconds that the loop wakes up after it should
    metrics = Metrics()
    rankings = metrics.route("POST", "/v1/rank").seconds

    async def story() -> None:
        done = asyncio.Event()

        async def sleep(seconds: float) -> None:
            nonlocal clock
            if not late:
                done.set()
                await asyncio.Event().wait()
            clock += max(0.0, seconds) + late.pop(0)
            rankings.observe(0.004)

        stalling = SimpleNamespace(**vars(asyncio) | {"sleep": sleep})
        monkeypatch.setattr(live_module, "asyncio", stalling)
        monkeypatch.setattr(live_module, "time", SimpleNamespace(monotonic=lambda: clock, time=time.time))
        service = await Service.start(Settings(database=f"sqlite:///{tmp_path}/log.db"))
        live = Live(service, metrics)
        await done.wait()
        times = [sample.time for sample in live._samples]
        seconds = [after - before for before, after in pairwise(times)]
        assert times[-1] == clock
        assert min(seconds) >= PERIOD / 2
        assert [row[1] for row in live._recent] == [1 / each for each in seconds]
        assert live._health()["rates"]["rank"] == 1 / seconds[-1]
        await live.stop()
        await service.stop()

    asyncio.run(story())
