"""Connections that send a part of a request, or too much of one, against a service on a real port."""

from __future__ import annotations

import gc
import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

import running
from served import Served, serving

LIMITS: dict[str, Any] = {
    "header_seconds": 0.8,
    "body_seconds": 1.2,
    "answer_seconds": 1.0,
    "max_header_bytes": 8192,
    "max_body_bytes": 20_000,
}
PATIENCE = 60.0
"""Seconds after which a connection is taken to stay open for ever."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("limits"), **LIMITS) as started:
        yield started


@pytest.fixture
def connect(served: Served) -> Iterator[Callable[[], Connection]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(Connection(served.url)))


class Connection:
    """A client that says exactly what it is told to."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        assert where.port is not None
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # the system takes in no more than this
        self.socket.connect((where.hostname, where.port))
        self.received = b""

    def close(self) -> None:
        self.socket.close()

    def send(self, content: bytes) -> Connection:
        self.socket.sendall(content)
        return self

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer."""
        while b"\r\n\r\n" not in self.received:
            self._more()
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", 0))
        while len(self.received) < length:
            self._more()
        body, self.received = self.received[:length], self.received[length:]
        return int(status.split()[1]), headers, body

    def rest(self) -> bytes:
        """What comes before the service closes the connection; fails where it does not."""
        while self._more(closed_is_fine=True):
            pass
        return self.received

    def _more(self, *, closed_is_fine: bool = False) -> bool:
        try:
            piece = self.socket.recv(65536)
        except ConnectionError:
            piece = b""
        assert piece or closed_is_fine, f"closed after {self.received!r}"
        self.received += piece
        return bool(piece)

    def refused(self, status: int, *words: str) -> None:
        """The service refuses, says why, and closes."""
        found, headers, body = self.answer()
        message = json.loads(body)["error"]["message"]
        assert found == status, message
        assert headers["content-type"] == "application/json"
        assert headers["connection"] == "close"
        for word in words:
            assert word in message
        assert self.rest() == b""


def request(body: bytes = b"", *headers: str, path: str = "/v1/rank", method: str = "POST", length: int = -1) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    if length:
        lines.append(f"Content-Length: {len(body) if length < 0 else length}")
    return "\r\n".join([*lines, "", ""]).encode() + body


Connect = Callable[[], Connection]
CHUNKED = request(b"", "Transfer-Encoding: chunked", length=0)


def test_a_connection_that_sends_nothing_is_closed(connect: Connect) -> None:
    assert connect().rest() == b""


@pytest.mark.parametrize("part", [b"P", b"POST /v1/ra", request()[:-2], request()[:60]])
def test_headers_must_arrive_in_time(connect: Connect, part: bytes) -> None:
    connect().send(part).refused(408, "headers", "0.8 seconds", "header_seconds")


@pytest.mark.parametrize(
    "part",
    [
        request(b'{"k"', length=100),
        request(length=5, path="/v1/items"),
        CHUNKED,
        CHUNKED + b'4\r\n{"k"\r\n',
        CHUNKED + b"2\r\n{}\r\n0\r\nx: y",
    ],
)
def test_a_body_must_arrive_in_time(connect: Connect, part: bytes) -> None:
    connect().send(part).refused(408, "body", "1.2 seconds", "body_seconds")


@pytest.mark.parametrize("start", [b"", request(length=10**4)])
def test_a_byte_now_and_then_does_not_help(connect: Connect, start: bytes) -> None:
    connection = connect().send(start)
    content = iter(request(b"", "X-Long: " + "x" * 5000) if not start else b" " * 9000)
    try:
        for _ in range(1000):
            connection.send(bytes([next(content)]))
            time.sleep(0.02)
    except ConnectionError:
        return  # the answer may be lost when more is sent after it
    raise AssertionError("the connection stayed open")


@pytest.mark.parametrize("size", [5, 20])
def test_requests_in_pieces_are_answered(connect: Connect, size: int) -> None:
    connection = connect()
    for whole in (request(b'{"k": 3}'), CHUNKED + b'3\r\n{"k\r\n6\r\n": 3}\n\r\n0\r\n\r\n'):
        for start in range(0, len(whole), size):
            connection.send(whole[start : start + size])
        status, _, body = connection.answer()
        assert status == 200, body
    connection.send(request()[:20]).refused(408, "header_seconds")


def test_a_body_that_waits_to_be_asked_for(connect: Connect) -> None:
    body = b'{"k": 3}'
    connection = connect().send(request(b"", "Expect: 100-continue", length=len(body)))
    assert connection.answer()[0] == 100
    assert connection.send(body).answer()[0] == 200
    connection.send(request(b"", "Expect: 100-continue", length=len(body)))
    assert connection.answer()[0] == 100
    connection.refused(408, "body_seconds")


def test_requests_sent_together_are_answered_each(connect: Connect) -> None:
    connection = connect()
    whole = request(b'{"k": 3}')
    connection.send(whole * 5 + whole[:30])
    assert [connection.answer()[0] for _ in range(5)] == [200] * 5
    connection.refused(408, "header_seconds")


@pytest.mark.parametrize("more", [(), ("Connection: close",)])
def test_an_answer_in_one_piece_has_the_headers_of_any_other(connect: Connect, more: tuple[str, ...]) -> None:
    """Rankings are written past the server's own way to send an answer."""
    found = []
    for kind in (b"application/json", b"application/vnd.api+json"):  # the second goes FastAPI's way
        wanted = request(b'{"k": 3}', "X-Request-Id: mine", *more).replace(b"application/json", kind)
        connection = connect().send(wanted)
        status, headers, body = connection.answer()
        assert (status, len(body), "variant" in json.loads(body)) == (200, int(headers["content-length"]), True)
        found.append(headers | {"content-length": "", "date": headers["date"][:16]})
        assert not more or connection.rest() == b""
    assert found[0] == found[1]
    assert found[0]["x-request-id"] == "mine"
    assert "x-content-type-options" in found[0]


def test_an_older_client_is_answered_and_let_go(connect: Connect) -> None:
    connection = connect().send(request(b'{"k": 3}').replace(b"HTTP/1.1", b"HTTP/1.0"))
    status, headers, body = connection.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert "variant" in json.loads(body)
    assert connection.rest() == b""


def test_requests_leave_no_cycles(connect: Connect) -> None:
    """The collector looks for them seldom."""
    connection = connect()
    gc.collect()
    gc.disable()
    try:
        for path in ("/v1/rank", "/nowhere"):
            for _ in range(50):
                connection.send(request(b'{"k": 3}', path=path)).answer()
        left = sum(isinstance(each, RequestResponseCycle) for each in gc.get_objects())
    finally:
        gc.enable()
    assert left < 20  # each open connection has the last of its own


def test_an_empty_line_does_not_keep_a_connection_open(connect: Connect) -> None:
    connection = connect().send(request(b"{}"))
    assert connection.answer()[0] == 200
    assert connection.send(b"\r\n").rest() == b""


def test_a_body_that_comes_after_its_answer_must_end_too(connect: Connect) -> None:
    """The service answers a wrong path before it has the body, and goes on reading."""
    connection = connect().send(request(b"x", path="/nowhere", length=1000))
    assert connection.answer()[0] == 404
    assert connection.send(b"x").rest() == b""


def test_an_answer_may_take_longer_than_its_request(connect: Connect) -> None:
    connection = connect().send(request(path="/v1/stream", method="GET", length=0))
    while connection.received.count(b"event: tick") < 3:
        connection._more()
    connection.send(b"G")  # no answer to this can be put into the one under way
    assert connection.rest().count(b"HTTP/1.1 ") == 1


def test_an_answer_must_be_read(served: Served, connect: Connect) -> None:
    large = f"/assets/{served.app.state.assets.digest}/plotly.min.js"
    wanted = request(path=large, method="GET", length=0)
    slow = connect().send(wanted)
    status, headers, body = slow.answer()
    assert status == 200
    assert len(body) == int(headers["content-length"]) > 1_000_000
    idle = connect().send(wanted)
    try:
        for _ in range(1000):
            idle.send(b"\r\n")
            time.sleep(0.02)
    except ConnectionError:
        return
    raise AssertionError("the connection stayed open")


@pytest.mark.parametrize("piece", [9000, 3000])
@pytest.mark.parametrize(
    "content",
    [
        request(b"", "X-Long: " + "x" * 8200),
        request(b"", *[f"X-{n}: y" for n in range(880)]),
        request(path="/" + "x" * 8200),
        request(path="/" + "x" * 9000)[:9000],
    ],
)
def test_headers_have_a_limit(connect: Connect, content: bytes, piece: int) -> None:
    connection = connect()
    assert 8192 < len(content) <= 9000
    for start in range(0, len(content), piece):
        connection.send(content[start : start + piece])
    connection.refused(431, "8192 bytes", "max_header_bytes")


def test_large_headers_within_the_limit_pass(connect: Connect) -> None:
    connection = connect()
    for _ in range(3):  # each has its own count, and a body of any size is none of it
        connection.send(request(b'{"k": 3}' + b" " * 15_000, "X-Long: " + "x" * 7000))
        assert connection.answer()[0] == 200


@pytest.mark.parametrize(
    "junk", [b"0;" + b"x" * 5000 + b"\r\n", b"0\r\nX: " + b"x" * 5000, b"0\r\n" + b"X: y\r\n" * 900]
)
def test_what_stands_around_a_body_has_a_limit(connect: Connect, junk: bytes) -> None:
    connection = connect().send(CHUNKED + b"2\r\n{}\r\n" + junk[:-1])
    more = junk[-1:] + junk[3:-1]
    sent = 0
    try:
        while sent < 50_000_000:
            connection.send(more)
            sent += len(more)
    except ConnectionError:
        return
    raise AssertionError("the connection stayed open")


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x02\x00\x01\x00 hello\r\n\r\n",
        b"GET http://a:b:c/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        CHUNKED + b"2\r\n{}\r\nsize\r\n",
        request(length=0, method="GET")[:-2] + b"no header\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_in_the_one_shape(connect: Connect, content: bytes) -> None:
    connect().send(content).refused(400, "HTTP/1.1")
    first = connect().send(request(b"{}"))
    assert first.answer()[0] == 200
    first.send(content).refused(400, "HTTP/1.1")


def test_the_command_has_the_limits_that_are_set(tmp_path: Path) -> None:
    with (
        running.serving(tmp_path, "--header-seconds", "0.2") as process,
        closing(Connection(process.url)) as connection,
    ):
        connection.send(b"GET /").refused(408, "0.2 seconds")


def test_a_thousand_connections_and_a_ranking(tmp_path: Path) -> None:
    """Beside connections that say nothing others are served, also where the system's usual limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3_000:
        pytest.skip(f"the system allows {hard} open files")
    with ExitStack() as opened:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))  # as the service is started
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        service = opened.enter_context(running.serving(tmp_path, "--header-seconds", "600"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3_000), hard))
        items = {f"item-{n}" for n in range(500)}
        added = httpx.post(f"{service.url}/v1/items", json={"items": [{"id": item} for item in items]}, timeout=60)
        assert added.json()["added"] == 500
        for _ in range(1_200):
            opened.enter_context(closing(Connection(service.url))).send(b"POST /v1/rank HTTP/1.1\r\n")
        clients = [opened.enter_context(httpx.Client(base_url=service.url, timeout=60)) for _ in range(8)]

        def rankings(client: httpx.Client) -> list[set[str]]:
            made = [client.post("/v1/rank", json={"k": 20}) for _ in range(25)]
            assert {answer.status_code for answer in made} == {200}
            return [{item["id"] for item in answer.json()["items"]} for answer in made]

        with ThreadPoolExecutor(len(clients)) as threads:
            made = [shown for part in threads.map(rankings, clients) for shown in part]
        assert [len(shown & items) for shown in made] == [20] * 200
        told = clients[0].get("/v1/experiments/main").json()["variants"]
        assert sum(row["requests"] for row in told) == 200
