"""The application: routes over a running service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.serve.assets import Assets
from hellinger.serve.board import Board
from hellinger.serve.exports import Exports
from hellinger.serve.frame import make_app
from hellinger.serve.groups import GroupsLearned
from hellinger.serve.keys import Keys
from hellinger.serve.live import Live
from hellinger.serve.metrics import Metrics
from hellinger.serve.routes import experiment, health, items, live, page, ranking, state
from hellinger.serve.selfcheck import SelfChecking
from hellinger.serve.shell import Shell
from hellinger.store import StoreUnavailableError

__all__ = ["create_app"]


def create_app(settings: Settings, keys: Keys, *, worker: int | None = None, board: Board | None = None) -> Shell:
    """The whole service as an application; it opens its store when it is started, and lets go when it is stopped.

    Parameters
    ----------
    worker
        Which of several workers this is.
    board
        Where the workers put up their figures for each other.
    """
    metrics = Metrics(board)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = await Service.start(settings, metrics.engine, worker=worker)
        app.state.service = service
        app.state.exports = Exports(settings, keys)
        app.state.live = Live(service, metrics, keys, app.state.exports)
        app.state.groups = GroupsLearned(lambda: service.desk)
        app.state.self_check = SelfChecking(settings)
        _watch(metrics, service)
        try:
            yield
        finally:
            app.state.exports.end()
            await app.state.self_check.stop()
            await app.state.live.stop()
            await service.stop()

    app = make_app(settings, metrics, lifespan=lifespan, unavailable=[StoreUnavailableError])
    app.state.assets = Assets(settings.title)
    for module in (ranking, items, experiment, live, state, health, page):
        app.include_router(module.router)
    return Shell(app, settings=settings, keys=keys, metrics=metrics)


def _watch(metrics: Metrics, service: Service) -> None:
    """Let the figures be asked for what the service knows."""
    journal = service.journal
    metrics.watch(
        model_behind=lambda: {name: float(model.behind) for name, model in service.desk.ledger.models.of.items()},
        pool_size=lambda: {name: float(len(service.desk.pools.of(name))) for name in service.desk.variants},
        pools_behind=lambda: float(service.desk.pools.behind),
        segment_pools=lambda: float(service.desk.pools.by_segment),
        pending=lambda: float(journal.waiting),
        store_lag_seconds=lambda: service.lag,
        degraded=lambda: float(service.status().name != "ready"),
        snapshot_age_seconds=lambda: service.snapshots.age,
    )
