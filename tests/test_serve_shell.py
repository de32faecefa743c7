"""Around every request: ids, sizes, keys, pace, headers, figures, logs, and errors of one shape."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from typing import Any, Literal

import httpx
import pytest
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Message

from hellinger.engine.counters import SECONDS, Histogram
from hellinger.engine.settings import Settings
from hellinger.serve import logs
from hellinger.serve.access import RateLimit, needs
from hellinger.serve.answers import ApiError, brief, sentence
from hellinger.serve.frame import make_app
from hellinger.serve.keys import CALLER, ROLES, Key, Keys
from hellinger.serve.metrics import Metrics
from hellinger.serve.shell import Shell
from hellinger.serve.shortcut import shortcut

TOKENS = {role: f"hk_{role}" for role in ROLES}
KEYS = [Key(role, role, hashlib.sha256(token.encode()).hexdigest()) for role, token in TOKENS.items()]


class GoneError(Exception):
    """Stands for a store that cannot be reached."""


class Item(BaseModel):
    id: str = Field(min_length=1, max_length=8)
    split: Literal["random", "sticky"] = "random"


class Batch(BaseModel):
    k: int = Field(20, ge=1, le=1000)
    items: list[Item] = Field(max_length=3)


def build(*keys: Key, metrics: Metrics | None = None, **settings: Any) -> Shell:
    checked, figures = Settings(**settings), metrics or Metrics()
    app = make_app(checked, figures, unavailable=[GoneError])
    router = APIRouter(prefix="/v1")

    @app.get("/health/live")
    @needs("open")
    async def live() -> dict[str, str]:
        return {"status": "live"}

    @router.get("/items/{item}")
    @needs("read")
    async def item(item: str, request: Request) -> dict[str, str | None]:
        return {"item": item, "key": request.scope[CALLER]}

    @router.post("/rank", tags=["ranking"], summary="Rank")
    @needs("write")
    async def rank(batch: Batch) -> dict[str, int]:
        return {"k": batch.k}

    @router.post("/raw")
    @needs("write")
    async def raw(request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @router.delete("/items/{item}")
    async def undeclared(item: str) -> None: ...

    @router.get("/fails/{how}")
    @needs("read")
    async def fails(how: str) -> Response:
        if how == "gone":
            raise GoneError("host=db.internal password=hush")
        if how == "api":
            raise ApiError(409, "`id` must be new, but got 'a'", code="taken", retry_after=3)
        if how == "halfway":

            async def chunks() -> AsyncIterator[bytes]:
                yield b"begun"
                raise RuntimeError("SELECT secret FROM /var/lib/secret")

            return StreamingResponse(chunks())
        raise RuntimeError("SELECT secret FROM /var/lib/secret")

    async def breaks(_service: object, content: bytes, *_: object) -> bytes:
        await fails(content.decode())
        return b"{}"

    @router.post("/breaks")
    @needs("write")
    @shortcut(bytes, breaks)
    async def breaks_by_shortcut() -> None: ...

    app.include_router(router)
    app.state.service = None
    return Shell(app, settings=checked, keys=Keys(keys), metrics=figures)


async def _ask(app: Shell, method: str, path: str, host: str, options: dict[str, Any]) -> httpx.Response:
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        return await client.request(method, path, **options)


def ask(
    app: Shell, method: str, path: str, *, host: str = "localhost", role: str = "", **options: Any
) -> httpx.Response:
    if role:
        options["headers"] = options.get("headers", {}) | {"Authorization": f"Bearer {TOKENS[role]}"}
    return asyncio.run(_ask(app, method, path, host, options))


def error(response: httpx.Response, status: int, code: str) -> str:
    """The message of an error, after a look at its shape."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.json().keys() == {"error"}
    told = response.json()["error"]
    assert told.keys() == {"code", "message", "trace_id"}
    assert told["code"] == code
    assert told["trace_id"] == response.headers["x-request-id"]
    assert not re.search(r"Traceback|SELECT|secret|hush|\.py\b|/var/", response.text)
    return str(told["message"])


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    names = ("hellinger", "uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")
    before = {name: vars(logging.getLogger(name)).copy() for name in names}
    logs.configure(stream=stream)
    yield stream
    for name, state in before.items():
        vars(logging.getLogger(name)).update(state)
    logging.getLogger("hellinger").manager._clear_cache()  # type: ignore[attr-defined]


# Request ids -----------------------------------------------------------------------------------------


def test_ranking_ids_are_taken_or_made() -> None:
    app = build()
    assert ask(app, "GET", "/health/live", headers={"X-Request-ID": "abc-1.2_3"}).headers["x-request-id"] == "abc-1.2_3"
    made = {ask(app, "GET", "/health/live").headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3
    for bad in ("a b", "x" * 129, "<script>", "a\tb"):
        assert ask(app, "GET", "/health/live", headers={"X-Request-ID": bad}).headers["x-request-id"] != bad


# Keys ------------------------------------------------------------------------------------------------

DOORS = [("GET", "/v1/items/a", "read"), ("POST", "/v1/raw", "write"), ("DELETE", "/v1/items/a", "admin")]


@pytest.mark.parametrize(("method", "path", "needed"), DOORS)
@pytest.mark.parametrize("role", ROLES)
def test_roles(method: str, path: str, needed: str, role: str) -> None:
    response = ask(build(*KEYS), method, path, role=role)
    if ROLES.index(role) >= ROLES.index(needed):
        assert response.status_code == 200
    else:
        assert f"must be {needed} or above, but it is {role}" in error(response, 403, "forbidden")
        assert 'error="insufficient_scope"' in response.headers["www-authenticate"]


@pytest.mark.parametrize("path", [path for _, path, _ in DOORS] + ["/metrics"])
@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer hk_none", "Basic hk_admin", "hk_admin"])
def test_without_a_key_nothing_passes(path: str, header: str | None) -> None:
    method = next((method for method, known, _ in DOORS if known == path), "GET")
    response = ask(build(*KEYS), method, path, headers={} if header is None else {"Authorization": header})
    error(response, 401, "unauthorized")
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_what_is_open_stays_open_and_needs_no_key() -> None:
    for path in ("/health/live", "/docs", "/openapi.json"):
        assert ask(build(*KEYS), "GET", path).status_code == 200


def test_the_scheme_is_read_in_any_case_and_the_key_is_known_to_the_route() -> None:
    response = ask(build(*KEYS), "GET", "/v1/items/a", headers={"Authorization": "bearer hk_read"})
    assert response.json() == {"item": "a", "key": "read"}


def test_without_keys_everything_is_open_on_this_machine() -> None:
    for method, path, _ in DOORS:
        assert ask(build(), method, path).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "10.0.0.1", "[::2]"])
def test_without_keys_a_strangers_host_is_refused(host: str) -> None:
    assert "Host" in error(ask(build(), "GET", "/v1/items/a", host=host), 403, "forbidden")
    assert ask(build(*KEYS), "GET", "/v1/items/a", host=host, role="read").status_code == 200


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "a.localhost", "testserver"])
def test_without_keys_our_own_hosts_pass(host: str) -> None:
    assert ask(build(), "GET", "/v1/items/a", host=host).status_code == 200


def test_without_keys_another_sites_page_changes_nothing() -> None:
    for origin, status in (("https://evil.example", 403), ("null", 403), ("http://localhost", 200)):
        assert ask(build(), "POST", "/v1/raw", headers={"Origin": origin}).status_code == status
    assert ask(build(), "GET", "/v1/items/a", headers={"Origin": "https://evil.example"}).status_code == 200


def test_mounted_files_declare_their_role(tmp_path: Any) -> None:
    (tmp_path / "a.js").write_text("1", encoding="utf-8")
    app = build(*KEYS)
    app.app.mount("/static", needs("open")(StaticFiles(directory=tmp_path)))
    app.app.mount("/closed", StaticFiles(directory=tmp_path))
    assert ask(app, "GET", "/static/a.js").text == "1"
    assert ask(app, "GET", "/static/b.js").status_code == 404
    error(ask(app, "GET", "/closed/a.js"), 401, "unauthorized")


def test_the_first_route_that_fits_decides_as_in_the_router() -> None:
    app = build(*KEYS)

    @app.app.get("/v2/{name}")
    @needs("admin")
    async def first(name: str) -> str:
        return "first"

    @app.app.get("/v2/open")
    @needs("open")
    async def second() -> str:
        return "second"

    error(ask(app, "GET", "/v2/open"), 401, "unauthorized")
    assert ask(app, "GET", "/v2/open", role="admin").json() == "first"


def test_unknown_roles_are_refused_where_they_are_written() -> None:
    with pytest.raises(ValueError, match="role is one of open, read, write, admin"):
        needs("owner")


# Pace ------------------------------------------------------------------------------------------------


def test_a_bucket_fills_with_time() -> None:
    now = 0.0
    pace = RateLimit(4.0, 2.0, clock=lambda: now)
    assert [pace.wait("a") for _ in range(3)] == [0.0, 0.0, 0.25]
    assert pace.wait("b") == 0.0
    now = 0.125
    assert pace.wait("a") == 0.125
    now = 0.25
    assert pace.wait("a") == 0.0
    now = 100.0
    assert [pace.wait("a") for _ in range(3)] == [0.0, 0.0, 0.25]


def test_each_key_has_a_pace_of_its_own() -> None:
    app = build(*KEYS, rate_limit=0.001, rate_burst=2)
    statuses = [ask(app, "GET", "/v1/items/a", role="read").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    response = ask(app, "GET", "/v1/items/a", role="read")
    assert "at most 0.001 requests a second" in error(response, 429, "rate_limited")
    assert 1 <= int(response.headers["retry-after"]) <= 1000
    assert ask(app, "GET", "/v1/items/a", role="admin").status_code == 200
    assert ask(app, "GET", "/health/live").status_code == 200
    assert [ask(app, "GET", "/docs").status_code for _ in range(3)] == [200] * 3


def test_each_of_several_workers_allows_its_share() -> None:
    app = build(*KEYS, rate_limit=0.004, rate_burst=8, workers=4)
    assert [ask(app, "GET", "/v1/items/a", role="read").status_code for _ in range(3)] == [200, 200, 429]
    response = ask(app, "GET", "/v1/items/a", role="read")
    assert "at most 0.004 requests a second" in error(response, 429, "rate_limited")
    assert 900 <= int(response.headers["retry-after"]) <= 1000


def test_without_keys_all_share_one_pace() -> None:
    app = build(rate_limit=0.001, rate_burst=1)
    assert [ask(app, "GET", "/v1/items/a").status_code for _ in range(2)] == [200, 429]
    assert ask(app, "GET", "/health/live").status_code == 200


# Size ------------------------------------------------------------------------------------------------


async def _chunks(*sizes: int) -> AsyncIterator[bytes]:
    for size in sizes:
        yield b"x" * size


@pytest.mark.parametrize(("size", "status"), [(1024, 200), (1025, 413), (50_000, 413)])
def test_bodies_with_a_length(size: int, status: int) -> None:
    response = ask(build(max_body_bytes=1024), "POST", "/v1/raw", content=b"x" * size)
    assert response.status_code == status
    if status == 413:
        message = error(response, 413, "too_large")
        assert message == f"a body must have at most 1024 bytes, but this has {size}"
        assert response.headers["connection"] == "close"


@pytest.mark.parametrize(("sizes", "status"), [((1000, 24), 200), ((1000, 25), 413), ((5000,), 413)])
@pytest.mark.parametrize("path", ["/v1/raw", "/v1/rank"])
def test_bodies_in_pieces(path: str, sizes: tuple[int, ...], status: int) -> None:
    response = ask(build(max_body_bytes=1024), "POST", path, content=_chunks(*sizes))
    if status == 413:
        assert "at most 1024 bytes" in error(response, 413, "too_large")
    elif path == "/v1/raw":
        assert response.json() == {"bytes": sum(sizes)}


def test_a_length_that_is_none() -> None:
    error(ask(build(), "POST", "/v1/raw", headers={"Content-Length": "-1"}), 400, "bad_request")
    error(ask(build(), "POST", "/v1/raw", headers={"Content-Length": "9" * 5000}), 413, "too_large")


# Errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"k": 5000, "items": []}, "`k` must be <= 1000, but got 5000"),
        ({"k": 0, "items": []}, "`k` must be >= 1, but got 0"),
        ({"k": "x", "items": []}, '`k` must be a whole number, but got "x"'),
        ({"k": 1.5, "items": []}, "`k` must be a whole number, but got 1.5"),
        ({}, "`items` must be given"),
        ({"items": 1}, "`items` must be a list, but got 1"),
        ({"items": [{"id": ""}]}, '`items[0].id` must have at least 1 characters, but got ""'),
        (
            {"items": [{"id": "a"}, {"id": "a" * 9}]},
            '`items[1].id` must have at most 8 characters, but got "aaaaaaaaa"',
        ),
        ({"items": [{"id": "a"}] * 4}, "`items` must have at most 3 entries, but got 4"),
        ({"items": [{"id": "a", "split": "x"}]}, "`items[0].split` must be 'random' or 'sticky', but got \"x\""),
        ({"k": 0, "items": 1}, "`k` must be >= 1, but got 0; `items` must be a list, but got 1"),
        ([], "`body` must be an object, but got []"),
    ],
)
def test_validation_names_field_rule_and_value(content: Any, message: str) -> None:
    assert error(ask(build(), "POST", "/v1/rank", json=content), 422, "invalid") == message


@pytest.mark.parametrize("content", ['{"k": "\\ud800", "items": []}', '{"k": "\\u0000\\uffff", "items": []}'])
def test_text_that_is_not_unicode_is_answered(content: str) -> None:
    response = ask(build(), "POST", "/v1/rank", content=content, headers={"Content-Type": "application/json"})
    assert error(response, 422, "invalid").startswith("`k` must be ")


@pytest.mark.parametrize("content", ["{", "nonsense", '{"k": 1,}'])
def test_what_is_not_json(content: str) -> None:
    response = ask(build(), "POST", "/v1/rank", content=content, headers={"Content-Type": "application/json"})
    assert "the body must be JSON, but" in error(response, 400, "bad_json")


def test_what_does_not_say_it_is_json() -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        response = ask(build(), "POST", "/v1/rank", content='{"items": []}', headers={"Content-Type": kind})
        assert (
            error(response, 415, "unsupported_media_type") == f'Content-Type must be application/json, but got "{kind}"'
        )


def test_paths_and_methods_that_are_not_there() -> None:
    app = build(*KEYS)
    for path in (
        "/nowhere",
        "/v1/items/",
        "/v1/items/a/b",
        "/docs/oauth2-redirect",
        "/redoc",
        "//v1/rank",
        "/v1/rank/",
    ):
        error(ask(app, "GET", path), 404, "not_found")
    response = ask(app, "PUT", "/v1/items/a")
    assert error(response, 405, "method_not_allowed") == "the method must be one of DELETE, GET"
    assert response.headers["allow"] == "DELETE, GET"


def test_failures_tell_nothing_of_the_inside(log: io.StringIO) -> None:
    response = ask(build(), "GET", "/v1/fails/badly")
    error(response, 500, "internal")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    trace = next(line for line in lines if "trace" in line)
    assert "RuntimeError: SELECT secret" in trace["trace"]
    assert trace["trace_id"] == response.headers["x-request-id"]
    access = next(line for line in lines if line["logger"] == "hellinger.access")
    assert (access["status"], access["route"], access["level"]) == (500, "/v1/fails/{how}", "error")


@pytest.mark.parametrize(("how", "status", "code"), [("badly", 500, "internal"), ("gone", 503, "unavailable")])
def test_failures_on_a_shortcut_are_answered_as_elsewhere(how: str, status: int, code: str, log: io.StringIO) -> None:
    told: dict[str, Any] = {"content": how, "headers": {"Content-Type": "application/json"}}
    elsewhere = error(ask(build(), "GET", f"/v1/fails/{how}"), status, code)
    assert error(ask(build(), "POST", "/v1/breaks", **told), status, code) == elsewhere
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert sum("trace" in line for line in lines) == (2 if status == 500 else 0)


def test_a_failure_halfway_is_logged_and_counted(log: io.StringIO) -> None:
    metrics = Metrics()
    with pytest.raises(AssertionError):  # httpx's, for an answer that does not end
        ask(build(metrics=metrics), "GET", "/v1/fails/halfway")
    assert "SELECT secret" in log.getvalue()
    assert metrics.route("GET", "/v1/fails/{how}").by_status == {200: 1}


def test_the_store_gone(log: io.StringIO) -> None:
    response = ask(build(), "GET", "/v1/fails/gone")
    error(response, 503, "unavailable")
    assert response.headers["retry-after"] == "1"
    assert "db.internal" in log.getvalue()


def test_errors_that_routes_raise() -> None:
    response = ask(build(), "GET", "/v1/fails/api")
    assert error(response, 409, "taken") == "`id` must be new, but got 'a'"
    assert response.headers["retry-after"] == "3"


def test_many_mistakes_are_summed_up() -> None:
    response = ask(build(), "POST", "/v1/rank", json={"k": 0, "items": [{"id": "", "split": 1}] * 3})
    message = error(response, 422, "invalid")
    assert message.count(";") == 5
    assert message.endswith("; and 2 more")


def test_long_values_are_cut_and_odd_ones_are_told() -> None:
    assert len(brief("x" * 1000)) == 80
    assert brief(object()).startswith("<object")
    assert sentence({"type": "new_kind", "loc": ("query", "a"), "msg": "Input is odd", "input": 1}) == (
        "`a` is wrong: input is odd, but got 1"
    )
    assert sentence({"type": "value_error", "loc": ("body", "a"), "msg": "x", "ctx": {"error": "own words"}}) == (
        "`a`: own words"
    )


# Headers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health/live", "/docs", "/openapi.json", "/nowhere", "/v1/fails/badly", "/metrics"])
@pytest.mark.filterwarnings("ignore")
def test_security_headers(path: str) -> None:
    headers = ask(build(), "GET", path).headers
    assert headers["x-content-type-options"] == "nosniff"
    if path == "/docs":  # a browser shows it
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in policy.get("script-src", "")
    assert "http" not in headers["content-security-policy"]
    if path == "/docs":
        assert policy["script-src"] == policy["connect-src"] == "'self'"


def test_a_web_socket_is_refused() -> None:
    sent: list[Message] = []

    async def connect() -> None:
        async def receive() -> Message:
            return {"type": "websocket.connect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await build()({"type": "websocket", "path": "/v1/rank", "headers": []}, receive, send)

    asyncio.run(connect())
    assert sent == [{"type": "websocket.close", "code": 1008}]


# The reference ---------------------------------------------------------------------------------------


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_reference_is_whole_and_asks_nobody_else() -> None:
    app = build()
    text = ask(app, "GET", "/docs").text
    page = _Page(text)
    assert page.open == []
    assert not any(tag in ("script", "link", "img", "iframe") for tag, _ in page.seen)
    ids = [attributes["id"] for _, attributes in page.seen if attributes.get("id")]
    assert len(set(ids)) == len(ids)
    for _, attributes in page.seen:
        target = attributes.get("href") or "#main"
        assert target[1:] in ids if target.startswith("#") else target == "/openapi.json"
    for path, operations in app.app.openapi()["paths"].items():
        for method in operations:
            assert f'<span class="method">{method.upper()}</span>{path}</code>' in text
    assert "<td>integer, ≥ <code>1</code>, ≤ <code>1000</code>, default <code>20</code></td>" in text


def test_the_reference_escapes_what_it_shows() -> None:
    assert "<script>" not in ask(build(title="<script>alert(1)</script>"), "GET", "/docs").text


def test_the_document_has_roles_and_errors_as_they_are() -> None:
    document = json.loads(ask(build(), "GET", "/openapi.json").text)
    rank = document["paths"]["/v1/rank"]["post"]
    assert rank["x-role"] == "write"
    assert rank["security"] == [{"key": []}]
    assert rank["responses"].keys() == {"200", "4XX", "5XX"}
    assert document["paths"]["/v1/items/{item}"]["delete"]["x-role"] == "admin"
    assert "security" not in document["paths"]["/health/live"]["get"]
    assert "HTTPValidationError" not in document["components"]["schemas"]
    named = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert named <= document["components"]["schemas"].keys()


# Figures ---------------------------------------------------------------------------------------------


def _samples(text: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_figures() -> None:
    metrics = Metrics()
    metrics.watch(pool_size=lambda: {"ucb1": 7, "kl-ucb": 5}, pending=lambda: 3, degraded=lambda: 0)
    metrics.engine.accepted.add(4)
    metrics.engine.duplicate.add()
    metrics.engine.commit_events.observe(100)
    metrics.engine.commit_seconds.observe(0.004)
    app = build(metrics=metrics)
    ask(app, "POST", "/v1/rank", json={"items": []})
    ask(app, "POST", "/v1/rank", json={})
    ask(app, "GET", "/v1/items/a")
    ask(app, "GET", "/v1/items/b")
    ask(app, "GET", "/made/up/1")
    ask(app, "MADEUP", "/made/up/2")
    response = ask(app, "GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    found = _samples(response.text)
    counts = {name: value for name, value in found.items() if name.startswith("hellinger_requests_total")}
    assert counts == {
        'hellinger_requests_total{method="POST",route="/v1/rank",status="200"}': 1,
        'hellinger_requests_total{method="POST",route="/v1/rank",status="422"}': 1,
        'hellinger_requests_total{method="GET",route="/v1/items/{item}",status="200"}': 2,
        'hellinger_requests_total{method="GET",route="none",status="404"}': 1,
        'hellinger_requests_total{method="other",route="none",status="404"}': 1,
    }
    for edge in ("0.001", "0.002", "0.005", "0.01", "0.02", "+Inf"):
        assert f'hellinger_rank_seconds_bucket{{le="{edge}"}}' in found
    assert found['hellinger_rank_seconds_bucket{le="+Inf"}'] == found["hellinger_rank_seconds_count"] == 2
    assert found["hellinger_rank_seconds_sum"] > 0
    assert found['hellinger_pool_size{variant="kl-ucb"}'] == 5
    assert found["hellinger_pending"] == 3
    assert found["hellinger_feedback_accepted_total"] == 4
    assert found["hellinger_feedback_duplicate_total"] == 1
    assert found["hellinger_feedback_late_total"] == 0
    assert found['hellinger_commit_events_bucket{le="100.0"}'] == 1
    assert found['hellinger_commit_events_bucket{le="50.0"}'] == 0
    assert found["hellinger_commit_seconds_count"] == 1
    assert "process_cpu_seconds_total" in found


def test_a_histogram_counts_what_is_at_or_below_an_edge() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 3.0):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]
    assert histogram.total == 8.0
    assert {0.001, 0.002, 0.005, 0.01, 0.02} <= set(SECONDS)


def test_gauges_have_names() -> None:
    with pytest.raises(ValueError, match="a gauge must be one of pool_size"):
        Metrics().watch(size=lambda: 1)


# Logs ------------------------------------------------------------------------------------------------


def test_the_access_log(log: io.StringIO) -> None:
    app = build(*KEYS, access_log=True)
    ask(app, "GET", "/v1/items/a%0Ab?q=hush", role="read", headers={"X-Request-ID": "r-1"})
    (line,) = (json.loads(line) for line in log.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("at"))
    assert line.pop("ms") > 0
    assert line == {
        "level": "info",
        "logger": "hellinger.access",
        "message": "GET /v1/items/a\nb 200",
        "trace_id": "r-1",
        "route": "/v1/items/{item}",
        "status": 200,
        "key": "read",
        "client": "127.0.0.1",
    }


def test_without_the_access_log_only_failures_are_logged(log: io.StringIO) -> None:
    ask(build(), "GET", "/v1/items/a")
    ask(build(), "GET", "/nowhere")
    assert log.getvalue() == ""


def test_uvicorns_logs_are_ours(log: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("said by %s", "uvicorn", extra={"color_message": "x"})
    logging.getLogger("uvicorn.access").info("not said")
    (line,) = (json.loads(line) for line in log.getvalue().splitlines())
    assert (line["message"], line["logger"]) == ("said by uvicorn", "uvicorn.error")
    assert "color_message" not in line


def test_lines_stay_lines_whatever_they_hold() -> None:
    record = logging.makeLogRecord({"msg": "a\nb\ud800", "name": "n", "levelname": "INFO", "odd": {1: object()}})
    assert "\n" not in logs.JsonFormatter().format(record)
    assert json.loads(logs.JsonFormatter().format(record))["level"]
    assert "\n" not in logs.TextFormatter().format(record)
    try:
        raise RuntimeError("why")
    except RuntimeError as failure:
        record.exc_info = (type(failure), failure, failure.__traceback__)
    assert "RuntimeError: why" in logs.TextFormatter().format(record)
    assert "RuntimeError: why" in json.loads(logs.JsonFormatter().format(record))["trace"]


def test_a_response_that_is_no_json_passes_unchanged() -> None:
    app = build()

    @app.app.get("/page")
    @needs("open")
    async def page() -> Response:
        return JSONResponse({"a": 1}, 201, headers={"X-Own": "kept"})

    response = ask(app, "GET", "/page")
    assert (response.status_code, response.headers["x-own"], response.json()) == (201, "kept", {"a": 1})
