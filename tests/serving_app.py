"""The whole application without a socket: its event loop in a thread, requests through ASGI, alone or at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from hellinger.engine.service import Service
from hellinger.serve.shell import Shell
from served import application

T = TypeVar("T")


class Api:
    """An application that runs, and requests to it."""

    def __init__(self, shell: Shell, loop: asyncio.AbstractEventLoop) -> None:
        self.app = shell.app
        self.loop = loop
        transport = httpx.ASGITransport(shell, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    @property
    def service(self) -> Service:
        found: Service = self.app.state.service
        return found

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        """Wait for something on the application's loop."""
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(60)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request."""
        return self.run(self.client.request(method, path, **options))

    def together(self, requests: Sequence[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """Many requests at once."""

        async def all_of_them() -> list[httpx.Response]:
            return await asyncio.gather(*(self.client.request(m, path, **options) for m, path, options in requests))

        return self.run(all_of_them())

    # In short: what is sent must be accepted

    def get(self, path: str, **params: Any) -> Any:
        response = self.send("GET", path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        response = self.send("POST", path, **({"json": body} if body is not None else {}), **options)
        assert response.status_code == 200, response.text
        return response.json()

    def add(self, *names: str, **fields: Any) -> Any:
        return self.post("/v1/items", {"items": [{"id": name} | fields for name in names]})

    def item(self, name: str) -> Any:
        return self.get(item_path(name))

    def rank(self, k: int = 20, headers: dict[str, str] | None = None, **query: Any) -> Any:
        return self.post("/v1/rank", {"k": k} | query, headers=headers)

    def feedback(self, *events: tuple[str, str] | tuple[str, str, str]) -> Any:
        names = ("ranking_id", "item", "kind")
        return self.post("/v1/feedback", {"events": [dict(zip(names, event, strict=False)) for event in events]})

    def wait_for(self, what: Any) -> None:
        """Wait until something holds, the chores being done meanwhile."""

        async def until() -> None:
            for _ in range(400):
                if what():
                    return
                await asyncio.sleep(0.02)
            raise AssertionError("it never came about")

        self.run(until())


def item_path(name: str, action: str = "") -> str:
    """Where an item is found."""
    return f"/v1/items/{quote(name, safe='')}{action}"


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Api]:
    """The application, started and afterwards stopped."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()
    try:
        api = Api(application(folder, **settings), loop)
        started = stack.enter_async_context(api.app.router.lifespan_context(api.app))
        asyncio.run_coroutine_threadsafe(started, loop).result(600)
        try:
            yield api
        finally:
            api.run(api.client.aclose())
            api.run(stack.aclose())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
