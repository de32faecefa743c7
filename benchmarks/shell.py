"""What the service's shell costs a request, beside an empty endpoint of the same framework.

Both are called as the server calls them, without a socket; the shell checks a key, a limit, a size, and counts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Scope

from hellinger.engine.settings import Settings
from hellinger.serve.access import needs
from hellinger.serve.frame import make_app
from hellinger.serve.keys import Key, Keys
from hellinger.serve.metrics import Metrics
from hellinger.serve.shell import Shell
from hellinger.serve.shortcut import shortcut

TOKEN = b"hk_" + b"x" * 43
KEYS = Keys([Key("web", "write", hashlib.sha256(TOKEN).hexdigest())])
HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"user-agent", b"benchmark"),
    (b"accept", b"*/*"),
    (b"connection", b"keep-alive"),
    (b"content-length", b"2"),
    (b"content-type", b"application/json"),
    (b"authorization", b"Bearer " + TOKEN),
]


def scope() -> Scope:
    """A request as uvicorn hands it over."""
    return {
        "type": "http",
        "method": "POST",
        "path": "/v1/rank",
        "root_path": "",
        "query_string": b"",
        "headers": HEADERS,
        "client": ("127.0.0.1", 1),
    }


async def receive() -> Message:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def send(message: Message) -> None: ...


async def microseconds(apps: dict[str, ASGIApp], *, calls: int = 500, rounds: int = 100) -> dict[str, float]:
    """The best of many rounds, each of all, for others use the machine too."""
    best = dict.fromkeys(apps, float("inf"))
    for _ in range(rounds):
        for name, app in apps.items():
            begun = perf_counter()
            for _ in range(calls):
                await app(scope(), receive, send)
            best[name] = min(best[name], (perf_counter() - begun) / calls * 1e6)
    return best


def ours(endpoint: Callable[..., Any]) -> Shell:
    """An endpoint as the service has it: with a key, a limit, a size, and figures."""
    metrics, settings = Metrics(), Settings(rate_limit=1e9)
    app = make_app(settings, metrics)
    app.state.service = None
    app.post("/v1/rank")(needs("write")(endpoint))
    return Shell(app, settings=settings, keys=KEYS, metrics=metrics)


async def main() -> None:
    empty = FastAPI()

    @empty.post("/v1/rank")
    async def nothing() -> dict[str, str]:
        return {}

    async def brief(*_: object) -> bytes:
        return b"{}"

    async def again() -> dict[str, str]:
        return {}

    short = shortcut(bytes, brief)(again)
    figures = await microseconds(
        {"empty endpoint of FastAPI": empty, "the same in our shell": ours(nothing), "by a shortcut": ours(short)}
    )
    baseline = figures["empty endpoint of FastAPI"]
    for name, value in figures.items():
        print(f"{name:28} {value:7.1f} µs  {value / baseline:5.2f}×")


if __name__ == "__main__":
    asyncio.run(main())
