"""Shortcuts: the way to the endpoints that are asked thousands of times a second, or with very much at once.

By FastAPI's way to an endpoint (error handling, exit stacks, routers, dependencies, request, response) a ranking over
HTTP takes more than twice as long, by a plain Starlette route among FastAPI's a third longer. A shortcut reads the body
by the endpoint's own rules and answers by its own function. What is unusual, an invalid body or another content type,
goes FastAPI's way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hellinger.serve.keys import CALLER

__all__ = ["LARGE", "Shortcut", "shortcut", "shortcut_of"]

LARGE = 1 << 15
"""Bytes of a body that are read at once: a millisecond."""
_MARK = "_hellinger_shortcut"
Read = Callable[[bytes], Any]
ReadSlowly = Callable[[bytes], Awaitable[Any]]
Answer = Callable[[Any, Any, str | None, str], Awaitable[bytes]]
Endpoint = TypeVar("Endpoint")


def shortcut(read: Read, answer: Answer, *, large: ReadSlowly | None = None) -> Callable[[Endpoint], Endpoint]:
    """Give an endpoint a shortcut.

    Parameters
    ----------
    read
        Reads a body, and raises ValueError where it is not valid.
    answer
        Gets the application's ``state.service``, what was read, the idempotency key or None, and the caller's name, and
        returns JSON.
    large
        Reads a body of more than ``LARGE`` bytes, with pauses.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _MARK, Shortcut(read, answer, large))
        return endpoint

    return mark


def shortcut_of(endpoint: object) -> Shortcut | None:
    """The shortcut to an endpoint, if it has one."""
    found: Shortcut | None = getattr(endpoint, _MARK, None)
    return found


class Shortcut:
    """What reads the body of a request, and what answers it."""

    def __init__(self, read: Read, answer: Answer, large: ReadSlowly | None) -> None:
        self._read = read
        self._answer = answer
        self._large = large

    async def take(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, otherwise: ASGIApp
    ) -> bytes | None:
        """JSON to answer a request that may pass; None where nobody waits, or ``otherwise`` has answered it."""
        message = await receive()
        content = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            content += message.get("body", b"")
        if message["type"] == "http.disconnect":
            return None
        key = headers.get(b"idempotency-key")
        try:
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip()
            if kind != b"application/json" or (key is not None and not 1 <= len(key) <= 256):
                raise ValueError
            if self._large is not None and len(content) > LARGE:
                body = await self._large(content)
            else:
                body = self._read(content)
        except ValueError:
            await otherwise(scope, _again(content, receive), send)
            return None
        name = None if key is None else key.decode("latin-1")
        return await self._answer(scope["app"].state.service, body, name, scope[CALLER])


def _again(content: bytes, receive: Receive) -> Receive:
    """What gives the body once more, and then goes on as before."""
    given = False

    async def once_more() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": content, "more_body": False}

    return once_more
