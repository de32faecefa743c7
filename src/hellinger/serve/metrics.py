"""Figures for Prometheus: the engine's counters, those of the routes, and gauges that are read at a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from hellinger.engine.counters import Counter, Counters, Histogram
from hellinger.errors import InputError
from hellinger.serve.board import Board

__all__ = ["Figures", "Metrics", "RouteFigures"]


class RouteFigures:
    """What one route has answered: how often with which status, and how fast."""

    __slots__ = ("by_status", "seconds")

    def __init__(self) -> None:
        self.by_status: dict[int, int] = {}
        self.seconds = Histogram()

    def observe(self, status: int, seconds: float) -> None:
        """Count a request."""
        self.by_status[status] = self.by_status.get(status, 0) + 1
        self.seconds.observe(seconds)


_COUNTERS = {
    "accepted": "Feedback events accepted.",
    "duplicate": "Feedback events that had come before.",
    "late": "Feedback events after the attribution window: stored, not learned.",
    "unknown": "Feedback events for a ranking or an item in it that nobody knows.",
    "rejected": "Feedback events that were refused.",
}
_GAUGES = {
    "pool_size": "Items in each variant's pool, hidden ones included.",
    "model_behind": "Items and events of the log that each variant's model has yet to learn from.",
    "pools_behind": "Items and groups that pools have yet to look up.",
    "segment_pools": "Pools of segments that are ranked by themselves.",
    "pending": "Events that wait to be durable.",
    "store_lag_seconds": "Seconds since the store was last written or read with success.",
    "degraded": "1 while the store cannot be reached and rankings come from memory alone.",
    "snapshot_age_seconds": "Seconds since the last snapshot.",
}
_TOGETHER: dict[str, Callable[[list[float]], float]] = {
    "pools_behind": max,
    "segment_pools": max,
    "pending": sum,
    "store_lag_seconds": max,
    "degraded": max,
    "snapshot_age_seconds": min,
}
"""What several workers' gauges are together."""
Source = Callable[[], float | Mapping[str, float]]


class Figures:
    """What has been counted since the start.

    Attributes
    ----------
    engine
        The engine's own counters: of feedback, and of commits.
    routes
        Figures of each route, by method and template.
    """

    def __init__(self) -> None:
        self.engine = Counters()
        self.routes: dict[tuple[str, str], RouteFigures] = {}

    def route(self, method: str, path: str) -> RouteFigures:
        """Figures of a route, by its template: ``/v1/items/{id}``."""
        return self.routes.setdefault((method, path), RouteFigures())

    def as_json(self) -> dict[str, Any]:
        """All of them, as :meth:`add` reads them."""
        return {
            "engine": {name: _plain(figure) for name, figure in vars(self.engine).items()},
            "routes": [
                (method, path, list(figures.by_status.items()), _plain(figures.seconds))
                for (method, path), figures in list(self.routes.items())
            ],
        }

    def add(self, figures: Mapping[str, Any]) -> None:
        """Add what another has counted."""
        for name, plain in figures["engine"].items():
            _add(getattr(self.engine, name), plain)
        for method, path, by_status, seconds in figures["routes"]:
            route = self.route(method, path)
            for status, count in by_status:
                route.by_status[status] = route.by_status.get(status, 0) + count
            _add(route.seconds, seconds)


def _plain(figure: Counter | Histogram) -> Any:
    return figure.value if isinstance(figure, Counter) else (figure.counts, figure.total)


def _add(figure: Counter | Histogram, plain: Any) -> None:
    if isinstance(figure, Counter):
        figure.add(plain)
    else:
        figure.counts = [mine + more for mine, more in zip(figure.counts, plain[0], strict=True)]
        figure.total += plain[1]


class Metrics(Figures, Collector):
    """All figures of one service; with a board, those of all its workers.

    A worker goes on from what the one in its place had counted before it died, so that sums never fall.
    """

    def __init__(self, board: Board | None = None) -> None:
        super().__init__()
        self._board = board
        self._sources: dict[str, Source] = {}
        self.registry = CollectorRegistry()
        PlatformCollector(registry=self.registry)
        if board is None:  # they are figures of one process, and several would report themselves in turn
            ProcessCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        elif (last := board.last()) is not None:
            self.add(last)
        self.registry.register(self)

    def publish(self) -> None:
        """Let the other workers know of these figures."""
        if self._board is not None:
            gauges = {name: source() for name, source in self._sources.items() if name in _TOGETHER}
            self._board.put(self.as_json() | {"gauges": gauges})

    def whole(self) -> Figures:
        """What all workers have counted."""
        if self._board is None:
            return self
        whole = Figures()
        for each in (self.as_json(), *self._board.others()):
            whole.add(each)
        return whole

    def together(self, name: str, own: float) -> float:
        """A gauge of all workers, from this one's own."""
        if self._board is None:
            return own
        values = [each["gauges"][name] for each in self._board.others() if each["fresh"] and name in each["gauges"]]
        return _TOGETHER[name]([own, *values])

    def watch(self, **sources: Source) -> None:
        """Say where gauges are read at a scrape, by name: ``watch(pending=lambda: 3)``."""
        for name, source in sources.items():
            if name not in _GAUGES:
                raise InputError(f"a gauge must be one of {', '.join(_GAUGES)}, but got {name!r}")
            self._sources[name] = source

    def collect(self) -> Iterator[Metric]:
        """Everything, as Prometheus' client wants it."""
        requests = CounterMetricFamily("hellinger_requests", "Requests answered.", labels=("method", "route", "status"))
        seconds = HistogramMetricFamily("hellinger_request_seconds", "Time to answer.", labels=("method", "route"))
        whole = self.whole()
        for (method, path), figures in list(whole.routes.items()):
            for status, count in list(figures.by_status.items()):
                requests.add_metric((method, path, str(status)), count)
            if figures.by_status:
                seconds.add_metric((method, path), figures.seconds.buckets(), figures.seconds.total)
        yield requests
        yield seconds
        rank = whole.route("POST", "/v1/rank").seconds
        yield _histogram("hellinger_rank_seconds", "Time to answer a ranking.", rank)
        yield _histogram("hellinger_commit_events", "Events written by one commit.", whole.engine.commit_events)
        yield _histogram(
            "hellinger_commit_seconds", "Time of one commit, until it was durable.", whole.engine.commit_seconds
        )
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"hellinger_feedback_{name}", text, value=getattr(whole.engine, name).value)
        for name, source in self._sources.items():
            value = source()
            yield _gauge(name, self.together(name, value) if isinstance(value, float) else value)
        running = 1 if self._board is None else 1 + sum(each["fresh"] for each in self._board.others())
        yield GaugeMetricFamily("hellinger_workers", "Processes that serve.", value=running)

    def page(self) -> tuple[bytes, str]:
        """What ``GET /metrics`` answers, and its media type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(name, text)
    family.add_metric((), histogram.buckets(), histogram.total)
    return family


def _gauge(name: str, value: float | Mapping[str, float]) -> Metric:
    if isinstance(value, Mapping):
        family = GaugeMetricFamily(f"hellinger_{name}", _GAUGES[name], labels=("variant",))
        for variant, each in value.items():
            family.add_metric((variant,), each)
        return family
    return GaugeMetricFamily(f"hellinger_{name}", _GAUGES[name], value=value)
