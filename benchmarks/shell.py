"""What the service's shell costs a request, beside an empty endpoint of the same framework.

Both are called as the server calls them, without a socket; the shell checks a key, a pace, a size, and counts.
"""

from __future__ import annotations

import asyncio
import hashlib
from time import perf_counter

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hellinger.engine.settings import Settings
from hellinger.serve.access import needs
from hellinger.serve.frame import make_app
from hellinger.serve.keys import Key, Keys
from hellinger.serve.metrics import Metrics
from hellinger.serve.shell import Shell

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


def scope(app: FastAPI) -> Scope:
    """A request as uvicorn hands it over, and the application notes itself in it."""
    return {
        "app": app,
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


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})


async def microseconds(
    ours: FastAPI, apps: dict[str, ASGIApp], *, calls: int = 500, rounds: int = 100
) -> dict[str, float]:
    """The best of many rounds, each of all, for others use the machine too."""
    best = dict.fromkeys(apps, float("inf"))
    for _ in range(rounds):
        for name, app in apps.items():
            begun = perf_counter()
            for _ in range(calls):
                await app(scope(ours), receive, send)
            best[name] = min(best[name], (perf_counter() - begun) / calls * 1e6)
    return best


async def main() -> None:
    empty = FastAPI()

    @empty.post("/v1/rank")
    async def nothing() -> dict[str, str]:
        return {}

    metrics = Metrics()
    settings = Settings(rate_limit=1e9)
    ours = make_app(settings, KEYS, metrics)
    ours.post("/v1/rank")(needs("write")(nothing))
    shell = Shell(bare, settings=settings, keys=KEYS, metrics=metrics)
    figures = await microseconds(
        ours, {"nothing": bare, "shell": shell, "empty endpoint of FastAPI": empty, "the same in our frame": ours}
    )
    figures["shell"] -= figures.pop("nothing")
    baseline = figures["empty endpoint of FastAPI"]
    for name, value in figures.items():
        print(f"{name:28} {value:7.1f} µs  {value / baseline:5.2f}×")


if __name__ == "__main__":
    asyncio.run(main())
