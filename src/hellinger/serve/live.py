"""The live stream: one message a second, made once for all listeners."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hellinger.engine.best import BestItems
from hellinger.engine.service import Service
from hellinger.events import now
from hellinger.ledger import MAIN, RESOLUTIONS
from hellinger.serve.answers import ApiError
from hellinger.serve.exports import Exports
from hellinger.serve.keys import Key, Keys
from hellinger.serve.metrics import Metrics
from hellinger.serve.models import iso
from hellinger.serve.rising import Rising
from hellinger.serve.standing import standing

__all__ = ["LINE", "Listener", "Live", "Stream", "percentile"]

log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between two messages."""
STATISTICS = 5.0
"""Seconds for which intervals and probabilities are kept: they take milliseconds that rankings could use."""
KEPT = 300
"""Seconds of the past that a new listener is sent."""
MINUTE = 60
LINE = 0.010
"""Seconds within which a ranking should be answered."""
MOST = 100
"""Who may listen at the same time."""
PATIENCE = 30.0
"""Seconds after which a listener who takes nothing is let go."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


class _Sample(NamedTuple):
    """The service's counters at a moment."""

    time: float
    ranks: Sequence[int]
    answered: int
    refused: int
    failed: int
    events: int
    feedback: float
    commits: int
    commit_time: float


class _Standing(NamedTuple):
    """A readout, when it was made, and of what."""

    made: float
    state: Any
    text: bytes


def percentile(edges: Sequence[float], counts: Sequence[int], q: float) -> float | None:
    """A quantile of values counted between edges, even within each gap; beyond the last edge, that edge.

    >>> percentile((1.0, 2.0, 4.0), (5, 4, 1, 0), 0.5), percentile((1.0, 2.0), (0, 0, 0), 0.5)
    (1.0, None)
    """
    whole = sum(counts)
    if not whole:
        return None
    rank = q * whole
    below = 0
    for place, count in enumerate(counts[: len(edges)]):
        if count and below + count >= rank:
            left = edges[place - 1] if place else 0.0
            return left + (edges[place] - left) * (rank - below) / count
        below += count
    return edges[-1]


Wanted = tuple[str, str | None]
"""An experiment, and what its variants are compared with, if not with the control that is set."""


class Listener:
    """Somebody who watches: has room for one message, and misses those he is too slow for."""

    def __init__(self, wanted: Wanted, key: Key | None = None) -> None:
        self.wanted = wanted
        self.key = key
        """The key he came with, where there are keys."""
        self._message: bytes | None = None
        self._there = asyncio.Event()
        self._ended = False

    def put(self, message: bytes) -> None:
        """Hand over a message, in place of one not yet taken."""
        self._message = message
        self._there.set()

    def end(self) -> None:
        """Say that nothing more will come."""
        self._ended = True
        self._there.set()

    async def take(self) -> bytes | None:
        """The next message; None at the end."""
        await self._there.wait()
        self._there.clear()
        message, self._message = self._message, None
        return None if self._ended else message


class Live:
    """Looks at the service once a second, and sends a message to every listener.

    The message holds totals and the last steps of the series, never an item: it costs the same with ten items
    and with a million. It is made once for all who look at the same experiment and compare with the same control.
    While nobody listens nothing is made but a note of the counters.
    """

    def __init__(
        self, service: Service, metrics: Metrics, keys: Keys | None = None, exports: Exports | None = None
    ) -> None:
        self._service = service
        self._exports = exports
        self._keys = keys or Keys()
        self._metrics = metrics
        self.rising = Rising(lambda: service.desk.ledger, now())
        self.best = BestItems(lambda: service.desk.ledger, window=service.desk.window, at=now())
        self.reading = asyncio.Lock()
        """Locked by whoever reads much of the log for the page: one at a time."""
        self.listing = asyncio.Lock()
        """Locked by whoever lists items: of a million each takes a thread, memory and a share of the loop."""
        self._ended = False
        self._listeners: set[Listener] = set()
        self._samples: deque[_Sample] = deque([self._sample()], maxlen=MINUTE + 1)
        self._recent: deque[list[float | None]] = deque(maxlen=KEPT)
        self._standings: dict[Wanted, _Standing] = {}
        self._computing = asyncio.Lock()
        """Locked while a readout is computed, so that many who join at once have it computed once."""
        self._task = asyncio.create_task(self._run(), name="live")

    def __len__(self) -> int:
        return len(self._listeners)

    async def join(self, experiment: str = MAIN, control: str | None = None, caller: str = "") -> Listener:
        """A new listener, with a first message that tells also what was; ``caller``: the name of his key."""
        wanted = experiment, control
        read = await self._readout(wanted)
        if self._ended:
            raise ApiError(503, "the service is stopping", retry_after=1)
        if len(self._listeners) >= MOST:
            raise ApiError(503, f"at most {MOST} may listen at the same time", retry_after=10)
        key, most = self._keys.named(caller), self._service.settings.max_streams_per_key
        if key is not None and sum(each.key == key for each in self._listeners) >= most:
            message = f"a key must have at most {most} streams at the same time (max_streams_per_key)"
            raise ApiError(429, message, retry_after=10)
        listener = Listener(wanted, key)
        listener.put(self._message("hello", self._body(read) | {"recent": list(self._recent)}))
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """A listener has gone."""
        self._listeners.discard(listener)

    def end(self) -> None:
        """Let all listeners go, that the server need not wait for them, and take no more."""
        self._ended = True
        for listener in self._listeners:
            listener.end()

    async def stop(self) -> None:
        """Look no more."""
        self.end()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)  # from now: a tick that came late is not made up for, and covers a longer time
            try:
                await self.tick()
            except Exception:
                log.exception("a live message failed")

    async def tick(self) -> None:
        """Look, and tell."""
        self._metrics.publish()
        self._dismiss()
        readouts = {wanted: await self._readout(wanted) for wanted in {each.wanted for each in self._listeners}}
        self.rising.rotate(now())
        self.best.rotate(now())
        before, sample = self._samples[-1], self._sample()
        self._samples.append(sample)
        self._recent.append(self._second(before, sample))
        messages = {wanted: self._message("tick", self._body(read)) for wanted, read in readouts.items()}
        for listener in self._listeners:
            if listener.wanted in messages:  # a listener that has just joined was sent everything
                listener.put(messages[listener.wanted])

    def _dismiss(self) -> None:
        """Let go of those whose key is no longer in force, though they ask for nothing anew."""
        if self._listeners or self._exports:
            self._keys.refresh()
        for listener in self._listeners:
            if not self._keys.in_force(listener.key):
                listener.end()
        if self._exports:
            self._exports.dismiss()

    # What there is to tell ----------------------------------------------------------------------------

    @staticmethod
    def _message(kind: str, body: dict[str, Any]) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(body))

    def _body(self, read: bytes) -> dict[str, Any]:
        return {
            "at": iso(now()),
            "totals": self._service.desk.ledger.series.totals,
            "experiment": orjson.Fragment(read),
            "steps": self._steps(),
            "health": self._health(),
        }

    async def _readout(self, wanted: Wanted) -> bytes:
        """The experiment as it stood at most five seconds ago; ``totals`` are those of this moment."""
        async with self._computing:
            ledger = self._service.desk.ledger
            totals = {name: tuple(cell) for name, cell in ledger.series.totals.items()}
            state = (len(ledger.catalogue), ledger.phase_place, totals)
            open_ = any(shares.open for shares in ledger.series.shares.values())  # rewards become final as time passes
            last = self._standings.get(wanted)
            old = last is not None and time.monotonic() - last.made > STATISTICS - PERIOD / 2
            if last is None or (old and (open_ or last.state != state)):
                text = orjson.dumps(await standing(self._service, *wanted))
                last = self._standings[wanted] = _Standing(time.monotonic(), state, text)
            return last.text

    def _steps(self) -> dict[str, list[tuple[str | None, dict[str, list[float]]]]]:
        """The last two steps of each length, so that a chart goes on from where it is."""
        at, steps = now(), self._service.desk.ledger.series.steps
        return {
            name: [
                (iso(step * length), steps[name][step])
                for step in (at // length - 1, at // length)
                if step in steps[name]
            ]
            for name, length in RESOLUTIONS.items()
        }

    def _sample(self) -> _Sample:
        metrics = self._metrics.whole()
        statuses = [0] * 6
        for figures in metrics.routes.values():
            for status, count in figures.by_status.items():
                statuses[min(5, max(0, status // 100))] += count
        commits = metrics.engine.commit_seconds
        return _Sample(
            time.monotonic(),
            tuple(metrics.route("POST", "/v1/rank").seconds.counts),
            sum(statuses),
            statuses[4],
            statuses[5],
            self._service.desk.ledger.seq,
            metrics.engine.accepted.value,
            sum(commits.counts),
            commits.total,
        )

    @property
    def _edges(self) -> tuple[float, ...]:
        return self._metrics.route("POST", "/v1/rank").seconds.edges

    def _second(self, before: _Sample, after: _Sample) -> list[float | None]:
        """A row of ``recent``: time, rankings and events a second, median and 99th percentile, waiting, failed."""
        seconds = max(1e-3, after.time - before.time)
        counts = [b - a for a, b in zip(before.ranks, after.ranks, strict=True)]
        return [
            now(),
            sum(counts) / seconds,
            (after.events - before.events) / seconds,
            percentile(self._edges, counts, 0.5),
            percentile(self._edges, counts, 0.99),
            self._metrics.together("pending", self._service.journal.waiting),
            after.failed - before.failed,
        ]

    def _health(self) -> dict[str, Any]:
        first, last = self._samples[0], self._samples[-1]
        before = self._samples[-2] if len(self._samples) > 1 else last
        second = max(1e-3, last.time - before.time)
        service, together = self._service, self._metrics.together
        commits = last.commits - first.commits
        return {
            "degraded": together("degraded", float(service.status().name != "ready")) > 0,
            "waiting": int(together("pending", service.journal.waiting)),
            "lag": together("store_lag_seconds", service.lag),
            "snapshot_age": together("snapshot_age_seconds", service.snapshots.age),
            "up": time.time() - service.began,
            "listeners": len(self._listeners),
            "pools": {name: len(service.desk.pools.of(name)) for name in service.desk.variants},
            "shown": service.desk.ledger.catalogue.live,
            "rates": {
                "rank": (sum(last.ranks) - sum(before.ranks)) / second,
                "requests": (last.answered - before.answered) / second,
                "events": (last.events - before.events) / second,
                "feedback": (last.feedback - before.feedback) / second,
            },
            "errors": {
                "failed": last.failed,
                "failed_minute": last.failed - first.failed,
                "refused": last.refused,
                "refused_minute": last.refused - first.refused,
            },
            "commit": (last.commit_time - first.commit_time) / commits if commits else None,
            "rank": {
                "edges": self._edges,
                "minute": self._latency([b - a for a, b in zip(first.ranks, last.ranks, strict=True)]),
                "start": self._latency(last.ranks),
            },
            "second": self._recent[-1] if self._recent else None,
        }

    def _latency(self, counts: Sequence[int]) -> dict[str, Any]:
        edges, whole = self._edges, sum(counts)
        within = list(accumulate(counts))[edges.index(LINE)]
        latency: dict[str, Any] = {name: percentile(edges, counts, q) for name, q in QUANTILES.items()}
        return latency | {"count": whole, "within": within / whole if whole else None, "counts": counts}


class Stream(Response):
    """Messages to one listener until he goes, takes nothing for too long, or the service ends."""

    def __init__(self, live: Live, listener: Listener) -> None:
        self._live = live
        self._listener = listener
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send for as long as it lasts."""
        watching = asyncio.create_task(self._watch(receive))
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        try:
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.start", "status": 200, "headers": headers})
            while (message := await self._listener.take()) is not None:
                async with asyncio.timeout(PATIENCE):
                    await send({"type": "http.response.body", "body": message, "more_body": True})
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            log.info("a listener took nothing for %g s and was let go", PATIENCE)
        finally:
            self._live.leave(self._listener)
            watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.end()
