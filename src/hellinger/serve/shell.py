"""What stands around every request: its id, its size, who sends it and how often, headers, figures, logs, errors.

One layer around the application, for each costs every request some microseconds.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from hellinger.engine.settings import Settings
from hellinger.serve.access import Access, RouteEntry, RouteTable
from hellinger.serve.answers import ApiError
from hellinger.serve.keys import CALLER, Keys
from hellinger.serve.logs import trace_id
from hellinger.serve.metrics import Metrics
from hellinger.serve.protocol import CYCLE, send_whole

__all__ = ["Shell"]

_LOG = logging.getLogger("hellinger.serve")
_ACCESS = logging.getLogger("hellinger.access")
_GOOD_ID = re.compile(rb"[A-Za-z0-9._:@/+=-]{1,128}").fullmatch

Headers = list[tuple[bytes, bytes]]

# on every answer: no more than it needs, for the server looks through each name and value once more
_API_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
_JSON: Headers = [(b"content-type", b"application/json")]
_JSON_LINES = b"".join(b"%b: %b\r\n" % header for header in (*_JSON, *_API_HEADERS))
_POLICY = (
    b"default-src 'none'; script-src 'self'; "
    b"style-src 'self' 'unsafe-inline'; "  # charts set style attributes
    b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _POLICY),
]


class Shell:
    """The application as it is served.

    Parameters
    ----------
    app
        What it stands around, made by :func:`hellinger.serve.frame.make_app`.
    keys
        Who may pass; without keys everybody on this machine may.
    """

    def __init__(self, app: FastAPI, *, settings: Settings, keys: Keys, metrics: Metrics) -> None:
        self.app = app
        self._access = Access(settings, keys)
        self._metrics = metrics
        self._most = settings.max_body_bytes
        self._access_log = settings.access_log
        self._table: RouteTable | None = None
        self._prefix = secrets.token_hex(6).encode()
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; let the server's own messages through."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        begun = perf_counter()
        cycle = scope.pop(CYCLE, None)
        scope["app"] = self.app
        headers: dict[bytes, bytes] = dict(scope["headers"])
        name = headers.get(b"x-request-id")
        if name is None or not _GOOD_ID(name):
            name = b"%s-%x" % (self._prefix, next(self._numbers))  # a UUID for each would take 8 % of a ranking
        trace_id.set(name.decode())
        table = self._table
        if table is None:  # not sooner: routes may be added until the first request
            table = self._table = RouteTable(self.app, self._metrics)
        path: str = scope["path"]
        if root := scope.get("root_path"):
            path = path.removeprefix(root)
        entry = table.find(scope["method"], path)
        more = _PAGE_HEADERS if entry is not None and entry.page else _API_HEADERS
        status = 0

        async def deliver(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *more, (b"x-request-id", name)]
            await send(message)

        try:
            if entry is None:
                raise table.refusal(path)
            self._access.admit(scope, headers, entry)
            length = headers.get(b"content-length")
            if length is None:
                receive = self._measured(receive)
            elif not length.isdigit() or len(length) > 15 or int(length) > self._most:
                raise await self._too_large(length, headers, receive)
            if entry.shortcut is not None:
                content = await entry.shortcut.take(scope, headers, receive, deliver, self.app)
                if content is not None and cycle is not None:
                    status = 200
                    lines = b"%bcontent-length: %d\r\nx-request-id: %b\r\n" % (_JSON_LINES, len(content), name)
                    await send_whole(cycle, lines, content)
                elif content is not None:  # another server
                    about = [*_JSON, (b"content-length", b"%d" % len(content))]
                    await deliver({"type": "http.response.start", "status": 200, "headers": about})
                    await deliver({"type": "http.response.body", "body": content})
            else:
                await self.app(scope, receive, deliver)
        except Exception as error:
            if status:
                _LOG.exception("%s %s failed", scope["method"], path)
            else:
                await self._fail(error, scope, receive, deliver)
        seconds = perf_counter() - begun
        figures = entry.figures if entry is not None else table.unmatched(scope["method"])
        figures.observe(status, seconds)
        if self._access_log or status >= 500:
            self._log(scope, path, entry, status, seconds)

    async def _fail(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application answers this kind of error; what it has no kind for is a failure of ours."""
        handlers: dict[Any, Any] = self.app.exception_handlers
        kind = next(kind for kind in type(error).__mro__ if kind in handlers)
        if kind is Exception:
            _LOG.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
        response = await handlers[kind](Request(scope), error)
        await response(scope, receive, send)

    # How large it may be ----------------------------------------------------------------------------

    async def _too_large(self, length: bytes, headers: dict[bytes, bytes], receive: Receive) -> ApiError:
        close = {"Connection": "close"}
        if not length.isdigit():
            return ApiError(400, "Content-Length must be a number of bytes", headers=close)
        if b"expect" not in headers and len(length) <= 15 and int(length) <= 4 * self._most:
            # most clients read no answer before they have sent everything: a little more is taken in, and dropped
            try:
                async with asyncio.timeout(5.0):
                    while (await receive()).get("more_body"):
                        pass
            except TimeoutError:
                pass
        message = f"a body must have at most {self._most} bytes, but this has {length.decode()[:20]}"
        return ApiError(413, message, headers=close)

    def _measured(self, receive: Receive) -> Receive:
        """Count what arrives without a length given before."""
        taken = 0

        async def measured() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._most:
                raise ApiError(413, f"a body must have at most {self._most} bytes", headers={"Connection": "close"})
            return message

        return measured

    # Afterwards -------------------------------------------------------------------------------------

    def _log(self, scope: Scope, path: str, entry: RouteEntry | None, status: int, seconds: float) -> None:
        client = scope.get("client")
        extra = {
            "route": entry.template if entry is not None else None,
            "status": status,
            "ms": round(seconds * 1e3, 3),
            "key": scope.get(CALLER) or None,
            "client": client[0] if client else None,
        }
        level = logging.ERROR if status >= 500 else logging.INFO
        _ACCESS.log(level, "%s %s %d", scope["method"], path, status, extra=extra)
