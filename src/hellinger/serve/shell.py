"""What stands around every request: its id, its size, who sends it and how often, headers, figures, logs, errors.

One ASGI middleware, for each layer costs every request some microseconds.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import re
import secrets
from collections.abc import Callable
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hellinger.engine.settings import Settings
from hellinger.serve.access import Door, Doors, Pace, own_host, same_origin
from hellinger.serve.answers import INSIDE, ApiError, body
from hellinger.serve.keys import Keys
from hellinger.serve.logs import request_id
from hellinger.serve.metrics import Metrics

__all__ = ["HEADERS", "KEY", "Shell"]

KEY = "hellinger.key"
"""Where a request's scope has the :class:`~hellinger.serve.keys.Key` it came with, or None."""

HEADERS = "hellinger.headers"
"""Where it has its headers as a dictionary."""

_LOG = logging.getLogger("hellinger.serve")
_ACCESS = logging.getLogger("hellinger.access")
_GOOD_ID = re.compile(rb"[A-Za-z0-9._:@/+=-]{1,128}").fullmatch
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

Headers = list[tuple[bytes, bytes]]

_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
_API_HEADERS: Headers = [*_ALWAYS, (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")]
_POLICY = (
    b"default-src 'none'; script-src 'self'; "
    b"style-src 'self' 'unsafe-inline'; "  # charts set style attributes
    b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Headers = [
    *_ALWAYS,
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _POLICY),
]


class _RefusedError(Exception):
    """An answer found before the application was asked."""

    def __init__(self, status: int, message: str, *headers: tuple[bytes, bytes], code: str | None = None) -> None:
        self.status = status
        self.message = message
        self.headers = list(headers)
        self.code = code


class Shell:
    """The middleware, outside of everything. Added by :func:`hellinger.serve.frame.make_app`.

    Parameters
    ----------
    app
        What it stands around.
    owner
        The application whose routes declare roles.
    keys
        Who may pass; without keys everybody on this machine may.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        owner: FastAPI,
        settings: Settings,
        keys: Keys,
        metrics: Metrics,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.app = app
        self._owner = owner
        self._keys = keys
        self._metrics = metrics
        self._most = settings.max_body_bytes
        self._access_log = settings.access_log
        self._pace: Pace | None = None
        if settings.rate_limit > 0:
            burst = settings.rate_burst or max(1, math.ceil(2 * settings.rate_limit))
            self._pace = Pace(settings.rate_limit, burst, **({"clock": clock} if clock else {}))
        self._doors: Doors | None = None
        self._prefix = secrets.token_hex(6).encode()
        self._numbers = itertools.count(1)
        self._hosts: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; let the server's own messages through."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        begun = perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        scope[HEADERS] = headers
        name = headers.get(b"x-request-id")
        if name is None or not _GOOD_ID(name):
            name = b"%s-%x" % (self._prefix, next(self._numbers))
        request_id.set(name.decode())
        doors = self._doors
        if doors is None:  # not sooner: routes may be added until the first request
            doors = self._doors = Doors(self._owner, self._metrics)
        path: str = scope["path"]
        if root := scope.get("root_path"):
            path = path.removeprefix(root)
        door = doors.find(scope["method"], path)
        more = _PAGE_HEADERS if door is not None and door.page else _API_HEADERS
        status = 0

        def deliver(message: Message) -> Any:  # not async: one coroutine fewer for each message
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *more, (b"x-request-id", name)]
            return send(message)

        try:
            if door is None:
                raise self._nowhere(doors, path)
            self._admit(scope, headers, door)
            length = headers.get(b"content-length")
            if length is None:
                receive = self._measured(receive)
            elif not length.isdigit() or len(length) > 15 or int(length) > self._most:
                raise await self._too_large(length, headers, receive)
            await self.app(scope, receive, deliver)
        except _RefusedError as refused:
            await _answer(deliver, refused.status, refused.message, refused.headers, refused.code)
        except Exception:
            _LOG.exception("%s %s failed", scope["method"], path)
            if not status:
                await _answer(deliver, 500, INSIDE, [], None)
        seconds = perf_counter() - begun
        figures = door.figures if door is not None else doors.stranger(scope["method"])
        figures.observe(status, seconds)
        if self._access_log or status >= 500:
            self._log(scope, path, door, status, seconds)

    # Whether it may pass ----------------------------------------------------------------------------

    def _nowhere(self, doors: Doors, path: str) -> _RefusedError:
        if methods := doors.allowed(path):
            allow = ", ".join(methods)
            return _RefusedError(405, f"the method must be one of {allow}", (b"allow", allow.encode()))
        return _RefusedError(404, "there is nothing at this path; /docs lists what there is")

    def _admit(self, scope: Scope, headers: dict[bytes, bytes], door: Door) -> None:
        """Raise unless the request may go where it wants to."""
        scope[KEY] = None
        who = ""
        if not self._keys.required:
            self._admit_local(scope["method"], headers)
        elif door.level:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not token:
                raise _RefusedError(
                    401, "a key must be sent as Authorization: Bearer KEY", (b"www-authenticate", b'Bearer realm="api"')
                )
            key = self._keys.find(token.strip())
            if key is None:
                said = b'Bearer realm="api", error="invalid_token"'
                raise _RefusedError(
                    401, "the key must be one in force, but this one is not", (b"www-authenticate", said)
                )
            if key.level < door.level:
                said = b'Bearer realm="api", error="insufficient_scope", scope="%s"' % door.role.encode()
                message = f"the key's role must be {door.role} or above, but it is {key.role}"
                raise _RefusedError(403, message, (b"www-authenticate", said))
            scope[KEY] = key
            who = key.name
        if self._pace is not None and door.paced and (door.level or not self._keys.required):
            wait = self._pace.wait(who)
            if wait > 0.0:
                message = f"at most {self._pace.rate:g} requests a second are allowed"
                raise _RefusedError(429, message, (b"retry-after", b"%d" % math.ceil(wait)))

    def _admit_local(self, method: str, headers: dict[bytes, bytes]) -> None:
        """Without keys: raise for what a stranger's web page would send by way of a browser on this machine."""
        host = headers.get(b"host", b"")
        if host not in self._hosts:
            if not own_host(host.decode("latin-1")):
                raise _RefusedError(
                    403, "without keys the Host must be this machine's, as localhost; see `hellinger keys`"
                )
            if len(self._hosts) < 100:
                self._hosts.add(host)
        origin = headers.get(b"origin")
        if (
            origin is not None
            and method not in _SAFE_METHODS
            and not same_origin(origin.decode("latin-1"), host.decode("latin-1"))
        ):
            raise _RefusedError(
                403, "without keys a request must not come from another site's page; see `hellinger keys`"
            )

    # How large it may be ----------------------------------------------------------------------------

    async def _too_large(self, length: bytes, headers: dict[bytes, bytes], receive: Receive) -> _RefusedError:
        close = (b"connection", b"close")
        if not length.isdigit():
            return _RefusedError(400, "Content-Length must be a number of bytes", close)
        if b"expect" not in headers and len(length) <= 15 and int(length) <= 4 * self._most:
            # most clients read no answer before they have sent everything: a little more is taken in, and dropped
            try:
                async with asyncio.timeout(5.0):
                    while (await receive()).get("more_body"):
                        pass
            except TimeoutError:
                pass
        return _RefusedError(
            413, f"a body must have at most {self._most} bytes, but this has {length.decode()[:20]}", close
        )

    def _measured(self, receive: Receive) -> Receive:
        """Count what arrives without a length told before."""
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

    def _log(self, scope: Scope, path: str, door: Door | None, status: int, seconds: float) -> None:
        level = logging.ERROR if status >= 500 else logging.INFO
        if not _ACCESS.isEnabledFor(level):
            return
        key, client = scope.get(KEY), scope.get("client")
        extra = {
            "route": door.template if door is not None else None,
            "status": status,
            "ms": round(seconds * 1e3, 3),
            "key": key.name if key is not None else None,
            "client": client[0] if client else None,
        }
        told = (scope["method"], path, status)
        # not _ACCESS.log, which would walk the stack for the file and line it is called from
        _ACCESS.handle(_ACCESS.makeRecord(_ACCESS.name, level, "", 0, "%s %s %d", told, None, extra=extra))


async def _answer(deliver: Send, status: int, message: str, headers: Headers, code: str | None) -> None:
    content = body(status, message, code)
    told = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content)), *headers]
    await deliver({"type": "http.response.start", "status": status, "headers": told})
    await deliver({"type": "http.response.body", "body": content})
