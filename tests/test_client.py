"""The clients: every call against a real service, and retries that never make anything count twice."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import hellinger
from hellinger.client import (
    AsyncFeedbackBuffer,
    BufferFullError,
    CountRow,
    Feedback,
    FeedbackBuffer,
    NewItem,
    Outcome,
    Ranking,
    Retry,
    ServiceError,
    UnreachableError,
)
from hellinger.engine.settings import Settings
from hellinger.errors import MissingExtraError
from hellinger.ledger.errors import EventError
from hellinger.serve.app import create_app
from hellinger.serve.keys import Keys
from hellinger.store.errors import StoreError
from served import Served, application, serving

QUICK = Retry(times=3, first=0.0, longest=0.0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("client"), variants=["hellinger-ucb", "kl-ucb", "ucb1"]) as running:
        yield running


# Every call ------------------------------------------------------------------------------------------


def test_every_call_of_the_client(served: Served, tmp_path: Path) -> None:
    with hellinger.Client(served.url + "/") as client:
        assert client.health().status == "ready"
        assert client.live()
        strange = ["call/a", "..", "call?#%", "call ü"]
        later = datetime(2100, 1, 1, tzinfo=UTC)
        answer = client.add_items([*strange, NewItem("call-x", ("t",), later, {"title": "X"}, ("g", "h"), {"n": 1})])
        assert (answer.added, answer.updated) == (5, 0)
        assert client.add_items(["call/a"]).unchanged == 1
        for name in strange:
            assert client.item(name).id == name
        item = client.item("call-x")
        assert (item.tags, item.expires_at, item.metadata) == (("t",), later, {"title": "X"})
        assert (item.group, item.features) == (("g", "h"), {"n": 1.0})
        assert [row.id for row in client.items(tag="t")] == ["call-x"]
        assert [row.id for row in client.items(search="call", limit=1)] == ["call/a", "call?#%", "call ü", "call-x"]
        assert client.hide("..") == "hidden"
        assert client.unhide("..") == "shown"
        assert client.delete("..") == "deleted"

        only: dict[str, Any] = {"among": ["call-x", "call/a"], "exclude": ["call/a"]}
        ranking = client.rank(2, user="ada", segment="new", context={"age": 31, "likes": ("x",)}, **only)
        assert ranking.ids == ["call-x"]
        event = Feedback(ranking.ranking_id, "call-x", "like", at=datetime.now(UTC))
        unknown = Feedback("nobody", "call-x")
        assert client.feedback([event, unknown]) == Outcome(accepted=1, unknown=1)
        outcome = client.feedback([event, Feedback(ranking.ranking_id, "call/a")])
        assert (outcome.accepted, outcome.duplicate, outcome.rejected[0].index) == (0, 1, 1)
        assert client.impressions([(ranking.ranking_id, "call-x")]).duplicate == 1

        row = CountRow("call-x", 10, 2.0, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
        assert client.import_counts("batch-1", [row], variant=ranking.variant).accepted == 1
        assert client.import_counts("batch-1", [row], variant=ranking.variant).duplicate
        standing = client.item("call-x").variants[ranking.variant]
        assert (standing.impressions, standing.rewards) == (11, 3)
        assert standing.low is not None
        (listed,) = [one for one in client.items() if one.id == "call-x"]
        assert listed.variants[ranking.variant].index == standing.index

        experiment = client.experiment(control="ucb1")
        assert experiment[ranking.variant].reward == 3
        assert experiment.raw["control"] == "ucb1"
        with pytest.raises(KeyError):
            experiment["nobody"]
        series = client.series("day", since=datetime(2026, 1, 1))
        assert sum(series.variants[ranking.variant].reward) == 3
        rows = list(client.export(since=datetime.now(UTC) - timedelta(days=1)))
        assert [(row["item"], row["context"]) for row in rows] == [("call-x", {"age": 31.0, "likes": ["x"]})]
        assert client.export_file(tmp_path / "log.parquet").read_bytes()[:4] == b"PAR1"
        history = client.history("call-x")
        assert (history.item, history.complete, history.marks[0].what) == ("call-x", True, "added")
        assert sum(history.variants[ranking.variant].reward) == 3
        hello = next(client.stream(control="ucb1"))
        assert (hello.kind, hello.data["experiment"]["control"]) == ("hello", "ucb1")


def test_lines_end_at_line_feeds_alone(served: Served) -> None:
    """Whatever else ends a line of text, as U+2028 does, is a part of an id."""
    name = "line\u2028paragraph\u2029next\x85end"
    with hellinger.Client(served.url) as client:
        client.add_items([name])
        ranking = client.rank(1, among=[name])
        rows = [row["item"] for row in client.export() if row["ranking_id"] == ranking.ranking_id]
        assert rows == [name]
        assert any("items" in part for part in client.state())
        client.delete(name)

    async def asynchronously() -> list[str]:
        async with hellinger.AsyncClient(served.url) as client:
            return [row["item"] async for row in client.export() if row["ranking_id"] == ranking.ranking_id]

    assert asyncio.run(asynchronously()) == [name]


def test_every_call_of_the_async_client(tmp_path: Path) -> None:
    async def calls() -> None:
        shell = application(tmp_path)
        async with (
            shell.app.router.lifespan_context(shell.app),
            hellinger.AsyncClient("http://localhost", transport=httpx.ASGITransport(app=shell)) as client,
        ):
            assert (await client.health()).status == "ready"
            assert (await client.add_items(f"{j}" for j in range(3))).added == 3
            assert [item.id async for item in client.items(limit=2)] == ["0", "1", "2"]
            ranking = await client.rank(2)
            async with AsyncFeedbackBuffer(client) as buffer:
                buffer.add(*(Feedback(ranking.ranking_id, item) for item in ranking.ids))
                assert len(buffer) == 2
            assert (len(buffer), buffer.outcome.accepted) == (0, 2)
            assert (await client.experiment())[ranking.variant].reward == 2
            assert [row["item"] async for row in client.export()] == ranking.ids
            assert (await client.export_file(tmp_path / "log")).read_bytes()[:4] == b"PAR1"
            assert (await client.history("0")).marks[0].what == "added"
            assert await client.live()
            with pytest.raises(ServiceError, match="not_found"):
                await client.item("nobody")

    asyncio.run(calls())


def test_many_requests_at_once_on_few_connections(served: Served) -> None:
    async def calls() -> None:
        async with hellinger.AsyncClient(served.url, connections=3) as client:
            await client.add_items(f"many-{j}" for j in range(30))
            rows = client.export()
            rankings = await asyncio.gather(*(client.rank(1) for _ in range(40)))
            assert len({ranking.ranking_id for ranking in rankings}) == 40
            for patience in (0.0, 0.0001, 0.001, 0.003) * 3:  # cut anywhere, a connection is not lost
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.gather(*(client.rank(1) for _ in range(3))), patience)
                await asyncio.wait_for(client.health(), 8.0)
            found = 0
            async for _ in rows:  # an answer half read holds its connection, not the others
                assert (await client.health()).status == "ready"
                found += 1
                if found == 3:
                    break
            await rows.aclose()  # type: ignore[attr-defined]
            await asyncio.gather(*(client.health() for _ in range(9)))

    asyncio.run(calls())


def test_both_clients_have_the_same_calls() -> None:
    ours, theirs = hellinger.Client, hellinger.AsyncClient
    names = {name for name in dir(ours) if not name.startswith("_")}
    assert names == {name for name in dir(theirs) if not name.startswith("_")}
    for name in names:
        one, other = (list(inspect.signature(getattr(kind, name)).parameters) for kind in (ours, theirs))
        assert one == other, name
    assert list(inspect.signature(ours.rank).parameters)[:3] == ["self", "k", "user"]


def test_every_route_has_a_method(tmp_path: Path) -> None:
    asked: set[tuple[str, str]] = set()

    def note(request: httpx.Request) -> httpx.Response:
        asked.add((request.method, request.url.path))
        return httpx.Response(400, json={"error": {"code": "noted", "message": "noted"}})

    name = "x"
    with hellinger.Client("http://localhost", transport=httpx.MockTransport(note)) as client:
        every: list[Callable[[], Any]] = [
            client.health,
            client.live,
            client.page,
            client.experiments,
            client.experiment,
            client.phases,
            client.change_experiment,
            client.series,
            client.positions,
            client.learned_models,
            client.learned_groups,
            client.best_items,
            client.self_check,
            client.rank,
            lambda: client.add_items([name]),
            lambda: client.item(name),
            lambda: client.history(name),
            lambda: client.hide(name),
            lambda: client.unhide(name),
            lambda: client.delete(name),
            lambda: client.feedback([]),
            lambda: client.impressions([]),
            lambda: client.import_counts("batch", []),
            lambda: client.start_experiment(name, {}),
            lambda: client.end_experiment("main"),
            lambda: list(client.export()),
            lambda: list(client.state()),
            lambda: list(client.stream()),
        ]
        for call in every:
            with pytest.raises(ServiceError, match="noted"):
                call()
    paths = create_app(Settings(), Keys()).app.openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    routes -= {("GET", "/metrics")}  # for Prometheus
    named = {(method, path.replace("{name}", "main").replace("{item}", name)) for method, path in routes}
    assert named == asked


def test_errors_have_one_base() -> None:
    pool: hellinger.Pool[str] = hellinger.Pool()
    for error in (hellinger.HellingerError, KeyError, ValueError):
        with pytest.raises(error, match=r"^`id` must be one of those in the pool, but got 'a'$"):
            pool.stats("a")
    assert not issubclass(ServiceError, OSError)
    assert not issubclass(UnreachableError, OSError)
    for kind in (ServiceError, UnreachableError, BufferFullError, StoreError, EventError, MissingExtraError):
        assert issubclass(kind, hellinger.HellingerError)


def test_a_refusal_says_why(served: Served) -> None:
    with hellinger.Client(served.url) as client, pytest.raises(ServiceError) as caught:
        client.rank(10**6)
    error = caught.value
    assert (error.status, error.code) == (422, "invalid")
    assert "`k`" in error.message
    assert error.trace_id
    assert error.trace_id in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.status, str(again)) == (422, str(error))


def test_an_address_is_needed() -> None:
    with pytest.raises(ValueError, match="url begins with"):
        hellinger.Client("127.0.0.1:8000")


# Retries ---------------------------------------------------------------------------------------------


class Script(httpx.BaseTransport):
    """Answers as it is told, one after the other, and keeps what was asked."""

    def __init__(
        self, *answers: httpx.Response | httpx.TransportError | Callable[[httpx.Request], httpx.Response]
    ) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)


def scripted(*answers: Any, retry: Retry | None = None) -> tuple[hellinger.Client, Script, list[float]]:
    script, waits = Script(*answers), list[float]()
    client = hellinger.Client("http://service", "secret", transport=script, retry=retry)
    client._sleep = waits.append
    return client, script, waits


RANKING = {"ranking_id": "r", "variant": "ucb1", "items": [{"id": "a", "score": None}]}


def test_what_may_pass_is_tried_again_under_the_same_key() -> None:
    answers = [
        httpx.ConnectError("refused"),
        httpx.ReadError("cut"),
        *(httpx.Response(s) for s in (502, 503, 504, 429, 408)),
    ]
    client, script, waits = scripted(*answers, httpx.Response(200, json=RANKING))
    assert client.rank(1, exclude=["b"]).ids == ["a"]
    assert len({request.headers["Idempotency-Key"] for request in script.asked}) == 1
    assert len({request.content for request in script.asked}) == 1
    assert {request.headers["Authorization"] for request in script.asked} == {"Bearer secret"}
    for attempt, wait in enumerate(waits):
        most = min(client.retry.longest, 0.1 * 2**attempt)
        assert most / 2 < wait <= most
    again, other, _ = scripted(httpx.Response(200, json=RANKING))
    again.rank(1)
    assert other.asked[0].headers["Idempotency-Key"] != script.asked[0].headers["Idempotency-Key"]


def test_the_service_may_say_how_long_to_wait() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    busy = [httpx.Response(429, headers={"Retry-After": text}) for text in ("7", date, "soon", "-3")]
    client, _, waits = scripted(*busy, httpx.Response(200, json=RANKING), retry=Retry(first=0.0, patience=1000))
    client.rank(1)
    assert waits[0] == 7
    assert 90 < waits[1] <= 100
    assert waits[2:] == []  # nothing to wait for


def test_patience_ends() -> None:
    client, script, _ = scripted(*[httpx.ConnectError("refused")] * 9, retry=Retry(times=3, first=0.0))
    with pytest.raises(UnreachableError, match=r"did not in 4 attempts .*refused"):
        client.health()
    assert len(script.asked) == 4
    long = httpx.Response(
        503, headers={"Retry-After": "3600"}, json={"error": {"code": "unavailable", "message": "no"}}
    )
    client, script, waits = scripted(long)
    with pytest.raises(ServiceError, match="unavailable"):
        client.health()
    assert (len(script.asked), waits) == (1, [])


def test_an_export_may_be_long_in_coming() -> None:
    waits: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        waits.append(request.extensions["timeout"]["read"])
        return httpx.Response(200, content=b"{}\n")

    async def exported() -> list[dict[str, Any]]:
        async with hellinger.AsyncClient("http://service", transport=httpx.MockTransport(answer)) as client:
            return [row async for row in client.export()]

    with hellinger.Client("http://service", transport=httpx.MockTransport(answer)) as client:
        assert list(client.export()) == [{}]
    assert asyncio.run(exported()) == [{}]
    assert waits == [3600.0, 3600.0]


def test_what_is_wrong_is_not_tried_again() -> None:
    for status in (400, 401, 403, 404, 413, 422, 500):
        client, script, _ = scripted(httpx.Response(status, text="a proxy's words"))
        with pytest.raises(ServiceError, match="a proxy's words"):
            client.rank(1)
        assert len(script.asked) == 1
    client, _, _ = scripted(httpx.Response(200, text="<html>"))
    with pytest.raises(ServiceError, match="strange_answer"):
        client.experiment()
    client, script, _ = scripted(httpx.UnsupportedProtocol("ftp"))
    with pytest.raises(UnreachableError):
        client.health()
    assert len(script.asked) == 1


def test_a_delete_whose_answer_was_lost_is_done() -> None:
    gone = httpx.Response(404, json={"error": {"code": "not_found", "message": "no"}})
    for first, done in ((httpx.ReadError("cut"), True), (httpx.Response(503), True), (httpx.Response(429), False)):
        client, _, _ = scripted(first, gone, retry=QUICK)
        if done:
            assert client.delete("a") == "deleted"
        else:
            with pytest.raises(ServiceError, match="not_found"):
                client.delete("a")
    client, _, _ = scripted(httpx.ReadError("cut"), gone, retry=QUICK)
    with pytest.raises(ServiceError, match="not_found"):
        client.hide("a")


class Lossy(httpx.HTTPTransport):
    """Loses every first answer on its way back."""

    lost = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        self.lost = not self.lost
        if self.lost:
            response.read()
            response.close()
            raise httpx.ReadError("lost")
        return response


def test_lost_answers_count_once(served: Served) -> None:
    with hellinger.Client(served.url) as plain:
        plain.add_items(f"lossy-{j}" for j in range(40))
        before = {row.variant: row for row in plain.experiment().variants}
        with hellinger.Client(served.url, retry=QUICK, transport=Lossy()) as client:
            rankings = [client.rank(3) for _ in range(6)]
            outcomes = [client.feedback([Feedback(one.ranking_id, item) for item in one.ids]) for one in rankings]
            batch = client.import_counts("lossy", [CountRow("lossy-1", 5, 1.0)])
            assert client.delete("lossy-2") == "deleted"
            with pytest.raises(ServiceError):
                client.item("lossy-2")
        after = {row.variant: row for row in plain.experiment().variants}
    assert len({one.ranking_id for one in rankings}) == 6
    assert {(outcome.accepted, outcome.duplicate) for outcome in outcomes} == {(0, 3)}  # the first attempt had them
    assert batch.duplicate
    assert sum(row.requests - before[name].requests for name, row in after.items()) == 6
    assert sum(row.impressions - before[name].impressions for name, row in after.items()) == 18
    assert sum(row.reward - before[name].reward for name, row in after.items()) == 18


def test_a_service_killed_and_started_again_is_missed_by_nobody(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "hellinger", "serve", "--port", str(port), "--log-level", "error"]
    command += ["--database", f"sqlite:///{tmp_path}/log.db"]
    retry = Retry(times=1000, first=0.05, longest=0.2, patience=300)
    child = subprocess.Popen(command, env=os.environ)
    rankings: list[Ranking] = []
    try:
        with hellinger.Client(f"http://127.0.0.1:{port}", retry=retry) as client:
            client.add_items(f"{j}" for j in range(30))
            stop = threading.Event()

            def visit() -> None:
                while not stop.is_set():
                    ranking = client.rank(4)
                    rankings.append(ranking)
                    client.feedback([Feedback(ranking.ranking_id, item) for item in ranking.ids[:2]])

            users = [threading.Thread(target=visit) for _ in range(3)]
            for user in users:
                user.start()
            while len(rankings) < 60:
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
            child.wait()
            seen = len(rankings)
            child = subprocess.Popen(command, env=os.environ)
            while len(rankings) < seen + 60:
                time.sleep(0.01)
            stop.set()
            for user in users:
                user.join()
            told = client.experiment().variants
            assert len({one.ranking_id for one in rankings}) == len(rankings)
            assert sum(row.requests for row in told) == len(rankings)
            assert sum(row.impressions for row in told) == 4 * len(rankings)
            assert sum(row.reward for row in told) == 2 * len(rankings)
    finally:
        child.kill()
        child.wait()


# Buffers ---------------------------------------------------------------------------------------------


def accepting(request: httpx.Request) -> httpx.Response:
    count = request.content.count(b"ranking_id")
    return httpx.Response(200, json={"accepted": count, "duplicate": 0, "late": 0, "unknown": 0, "rejected": []})


def eventually(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not what():
        assert time.monotonic() < until
        time.sleep(0.005)


def events(number: int) -> list[Feedback]:
    return [Feedback("r", str(j)) for j in range(number)]


def test_a_buffer_sends_by_size_by_time_and_at_the_end() -> None:
    client, script, _ = scripted(*[accepting] * 9)
    with FeedbackBuffer(client, size=10, seconds=3600) as buffer:
        buffer.add(*events(25))
        eventually(lambda: buffer.outcome.accepted == 25)
        assert [request.content.count(b"ranking_id") for request in script.asked] == [10, 10, 5]
        buffer.add(*events(3))
        buffer.flush()
        assert (len(buffer), buffer.outcome.accepted) == (0, 28)
        buffer.add(*events(4))
    assert buffer.outcome.accepted == 32
    with pytest.raises(ValueError, match="the buffer is open"):
        buffer.add(*events(1))
    with FeedbackBuffer(client, size=10, seconds=0.02) as buffer:
        buffer.add(*events(2))
        eventually(lambda: buffer.outcome.accepted == 2)


def test_a_buffer_keeps_what_the_service_does_not_take() -> None:
    up = threading.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        if not up.is_set():
            raise httpx.ConnectError("refused")
        return accepting(request)

    client = hellinger.Client("http://service", transport=httpx.MockTransport(answer), retry=Retry(times=0))
    buffer = FeedbackBuffer(client, size=2, seconds=0.01, limit=3)
    buffer.add(*events(3))
    with pytest.raises(BufferFullError, match="events waiting <= 3"):
        buffer.add(*events(1))
    with pytest.raises(UnreachableError):
        buffer.flush()
    assert len(buffer) == 3
    up.set()
    eventually(lambda: len(buffer) == 0)
    buffer.close()
    assert buffer.outcome.accepted == 3


def test_a_buffer_sends_at_the_end_of_the_program() -> None:
    client, _, _ = scripted(accepting)
    buffer = FeedbackBuffer(client, seconds=3600)
    buffer.add(*events(2))
    buffer._at_exit()
    assert buffer.outcome.accepted == 2
    client, _, _ = scripted(httpx.ConnectError("refused"), retry=Retry(times=0))
    buffer = FeedbackBuffer(client, seconds=3600)
    buffer.add(*events(2))
    buffer._at_exit()  # told in the log, not raised
    assert len(buffer) == 2


def test_an_async_buffer_sends_by_size_and_by_time() -> None:
    async def play() -> None:
        asked: list[int] = []

        async def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request.content.count(b"ranking_id"))
            if len(asked) == 2:
                raise httpx.ConnectError("refused")
            return accepting(request)

        client = hellinger.AsyncClient("http://service", transport=httpx.MockTransport(answer), retry=Retry(times=0))
        async with client, AsyncFeedbackBuffer(client, size=4, seconds=0.01) as buffer:
            for expected in (4, 6, 7):
                buffer.add(*events(expected - buffer.outcome.accepted))
                while buffer.outcome.accepted < expected:
                    await asyncio.sleep(0.005)
        assert asked == [4, 2, 2, 1]
        with pytest.raises(ValueError, match="open"):
            buffer.add(*events(1))

    asyncio.run(play())


def test_positions_are_told(served: Served) -> None:
    with hellinger.Client(served.url) as client:
        told = client.positions()
    assert told.setting == "learned"
    assert told.worth <= told.impressions
    assert told.error >= 0
    assert [row.position for row in told.positions] == list(range(1, len(told.positions) + 1))
    assert "counts as" in told.sentence
