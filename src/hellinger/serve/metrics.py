"""Figures for Prometheus: the engine's counters, those of the routes, and gauges that are read at a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from hellinger.engine.counters import Counters, Histogram

__all__ = ["Metrics", "RouteFigures"]


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
    "pending": "Events that wait to be durable.",
    "store_lag_seconds": "Seconds since the store was last written or read with success.",
    "degraded": "1 while the store cannot be reached and rankings come from memory alone.",
    "snapshot_age_seconds": "Seconds since the last snapshot.",
}
Source = Callable[[], float | Mapping[str, float]]


class Metrics(Collector):
    """All figures of one service.

    Attributes
    ----------
    engine
        The engine's own counters: of feedback, and of commits.
    """

    def __init__(self) -> None:
        self.engine = Counters()
        self.routes: dict[tuple[str, str], RouteFigures] = {}
        self._sources: dict[str, Source] = {}
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.registry.register(self)

    def watch(self, **sources: Source) -> None:
        """Say where gauges are read at a scrape, by name: ``watch(pending=lambda: 3)``."""
        for name, source in sources.items():
            if name not in _GAUGES:
                raise ValueError(f"a gauge must be one of {', '.join(_GAUGES)}, but got {name!r}")
            self._sources[name] = source

    def route(self, method: str, path: str) -> RouteFigures:
        """Figures of a route, by its template: ``/v1/items/{id}``."""
        return self.routes.setdefault((method, path), RouteFigures())

    def collect(self) -> Iterator[Metric]:
        """Everything, as Prometheus' client wants it."""
        requests = CounterMetricFamily("hellinger_requests", "Requests answered.", labels=("method", "route", "status"))
        seconds = HistogramMetricFamily("hellinger_request_seconds", "Time to answer.", labels=("method", "route"))
        for (method, path), figures in list(self.routes.items()):
            for status, count in list(figures.by_status.items()):
                requests.add_metric((method, path, str(status)), count)
            if figures.by_status:
                seconds.add_metric((method, path), figures.seconds.buckets(), figures.seconds.total)
        yield requests
        yield seconds
        rank = self.route("POST", "/v1/rank").seconds
        yield _histogram("hellinger_rank_seconds", "Time to answer a ranking.", rank)
        yield _histogram("hellinger_commit_events", "Events written by one commit.", self.engine.commit_events)
        yield _histogram(
            "hellinger_commit_seconds", "Time of one commit, until it was durable.", self.engine.commit_seconds
        )
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"hellinger_feedback_{name}", text, value=getattr(self.engine, name).value)
        for name, source in self._sources.items():
            yield _gauge(name, source())

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
