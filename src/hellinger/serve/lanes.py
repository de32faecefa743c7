"""Fast lanes: the routes that are asked thousands of times a second, past the framework's machinery.

FastAPI resolves dependencies, opens exit stacks and walks its routers for every request: twice the work of a ranking.
A lane reads the body by the route's own rules, and calls the route's own function. Whatever is unusual,
an invalid body or another content type, takes the way that every other request takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hellinger.serve.answers import ApiError
from hellinger.serve.shell import HEADERS, KEY

__all__ = ["Lane", "Lanes", "caller_of"]


class Lane:
    """A route to be taken fast: what reads its body, and what answers it with JSON as bytes.

    ``read`` raises for a body that is not valid. ``answers`` gets the application's ``state.service``, what was read,
    the idempotency key or None, and the caller's name.
    """

    def __init__(
        self, read: Callable[[bytes], Any], answers: Callable[[Any, Any, str | None, str], Awaitable[bytes]]
    ) -> None:
        self.read = read
        self.answers = answers


class Lanes:
    """The middleware, next inside the shell: whoever comes here has been let in."""

    def __init__(self, app: ASGIApp, *, owner: FastAPI, lanes: dict[str, Lane]) -> None:
        self.app = app
        self.owner = owner
        self.lanes = lanes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by a lane, or pass on."""
        lane = self.lanes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if lane is None:
            await self.app(scope, receive, send)
            return
        try:
            message = await receive()
            whole = message.get("body", b"")
            while message.get("more_body"):
                message = await receive()
                whole += message.get("body", b"")
        except ApiError as error:  # too large
            await self._fail(error, scope, receive, send)
            return
        if message["type"] == "http.disconnect":
            return
        headers: dict[bytes, bytes] = scope[HEADERS]
        kind, key = headers.get(b"content-type", b""), None
        if b"idempotency-key" in headers:
            key = headers[b"idempotency-key"].decode("latin-1")
        try:
            if kind.partition(b";")[0].strip() != b"application/json" or (key is not None and not 1 <= len(key) <= 256):
                raise ValueError
            body = lane.read(whole)
        except (ValidationError, ValueError):
            await self.app(scope, _again(whole, receive), send)
            return
        try:
            content = await lane.answers(self.owner.state.service, body, key, caller_of(scope))
        except Exception as error:
            await self._fail(error, scope, receive, send)
            return
        told = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": told})
        await send({"type": "http.response.body", "body": content})

    async def _fail(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application would, or raise what it has no answer to."""
        handler = _handler(self.owner, error)
        if handler is None:
            raise error
        response = await handler(Request(scope), error)
        await response(scope, receive, send)


def caller_of(scope: Scope) -> str:
    """The name of the key that a request came with; nothing where there are no keys."""
    key = scope.get(KEY)
    return "" if key is None else str(key.name)


def _again(whole: bytes, receive: Receive) -> Receive:
    """What gives the body once more, and then goes on as before."""
    given = False

    async def once_more() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": whole, "more_body": False}

    return once_more


def _handler(app: FastAPI, error: Exception) -> Callable[[Request, Exception], Awaitable[Any]] | None:
    for kind in type(error).__mro__:
        if kind is Exception:  # for the shell, which logs it
            break
        if kind in app.exception_handlers:
            return app.exception_handlers[kind]  # type: ignore[return-value]
    return None
