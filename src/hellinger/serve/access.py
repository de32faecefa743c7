"""Who may pass: the role each route needs, how often a key may come, and whom to refuse where there are no keys."""

from __future__ import annotations

import ipaddress
import math
import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.types import Scope

from hellinger.engine.settings import Settings
from hellinger.errors import require
from hellinger.serve.answers import ApiError
from hellinger.serve.keys import CALLER, ROLE, ROLES, Key, Keys
from hellinger.serve.metrics import Metrics, RouteFigures
from hellinger.serve.shortcut import Shortcut, shortcut_of

__all__ = [
    "Access",
    "RateLimit",
    "RouteEntry",
    "RouteTable",
    "needs",
    "own_host",
    "role_of",
    "same_origin",
    "template_of",
]

OPEN = "open"
"""The role of what anybody may ask for: health, the page, the reference."""

_MARK = "_hellinger_role"
_LEVELS = {OPEN: 0} | {role: level for level, role in enumerate(ROLES, start=1)}
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
Endpoint = TypeVar("Endpoint")


# Routes ----------------------------------------------------------------------------------------------


def needs(role: str) -> Callable[[Endpoint], Endpoint]:
    """Declare the role an endpoint needs: ``open``, ``read``, ``write`` or ``admin``; undeclared, ``admin``."""
    require(role in _LEVELS, f"role is one of {', '.join(_LEVELS)}", role=role)

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _MARK, role)
        return endpoint

    return mark


def role_of(endpoint: object) -> str:
    """The role an endpoint needs."""
    return str(getattr(endpoint, _MARK, ROLES[-1]))


def template_of(path: str | None) -> str:
    """A route's path as the OpenAPI document writes it.

    >>> template_of("/v1/items/{item:path}/hide")
    '/v1/items/{item}/hide'
    """
    return re.sub(r":\w+}", "}", path or "/")


class RouteEntry:
    """One route and method: its name in figures, who may pass, and the shortcut to it."""

    __slots__ = ("figures", "level", "limited", "page", "role", "shortcut", "template")

    def __init__(self, template: str, endpoint: object, figures: RouteFigures) -> None:
        self.template = template
        self.role = role_of(endpoint)
        self.level = _LEVELS[self.role]
        self.shortcut: Shortcut | None = shortcut_of(endpoint)
        self.figures = figures
        self.limited = not template.startswith("/health")  # a balancer that gets 429 would take the replica out
        self.page = not template.startswith(("/v1/", "/health", "/metrics", "/openapi.json"))


class RouteTable:
    """Every route of an application, found as its router finds it: the first that fits.

    A request that fits none is refused here and never reaches the router, so that the two cannot disagree on who
    may pass.
    """

    def __init__(self, app: FastAPI, metrics: Metrics) -> None:
        self._metrics = metrics
        self._routes: list[tuple[re.Pattern[str], frozenset[str] | None, str, object]] = []
        for route in iter_route_contexts(app.routes):
            endpoint = route.endpoint if route.endpoint is not None else getattr(route, "app", None)
            methods = frozenset(route.methods) if route.methods else None
            self._routes.append((route.path_regex, methods, template_of(route.path), endpoint))
        self._entries: dict[tuple[str, str], RouteEntry] = {}
        self.find = lru_cache(maxsize=256)(self._find)
        """The entry of a request by its method and path, if it has one."""

    def _find(self, method: str, path: str) -> RouteEntry | None:
        for pattern, methods, template, endpoint in self._routes:
            if (methods is None or method in methods) and pattern.match(path):
                known = method if method in _METHODS else "other"
                entry = self._entries.get((known, template))
                if entry is None:
                    entry = RouteEntry(template, endpoint, self._metrics.route(known, template))
                    self._entries[known, template] = entry
                return entry
        return None

    def refusal(self, path: str) -> ApiError:
        """What to say to a request that has no entry."""
        allowed = sorted({m for pattern, methods, _, _ in self._routes if pattern.match(path) for m in methods or ()})
        if allowed:
            allow = ", ".join(allowed)
            return ApiError(405, f"the method must be one of {allow}", headers={"Allow": allow})
        return ApiError(404, "there is nothing at this path; /docs lists what there is")

    def unmatched(self, method: str) -> RouteFigures:
        """Figures of requests that fit no route; what clients make up is not made into labels."""
        return self._metrics.route(method if method in _METHODS else "other", "none")


# Requests --------------------------------------------------------------------------------------------


class Access:
    """Lets requests pass, or raises what to answer.

    Parameters
    ----------
    keys
        Who may pass; without keys everybody on this machine may.
    """

    def __init__(self, settings: Settings, keys: Keys) -> None:
        self._keys = keys
        self._limit: RateLimit | None = None
        self._allowed = settings.rate_limit
        if settings.rate_limit > 0:
            burst = settings.rate_burst or max(1, math.ceil(2 * settings.rate_limit))
            # a key's requests reach all workers, which know nothing of each other's: each allows its share
            self._limit = RateLimit(settings.rate_limit / settings.workers, max(1.0, burst / settings.workers))

    def admit(self, scope: Scope, headers: dict[bytes, bytes], entry: RouteEntry) -> None:
        """Raise unless the request may go where it wants to; note who sends it."""
        caller, role = "", OPEN
        if not self._keys.required:
            _check_local(scope["method"], headers)
            role = ROLES[-1]
        elif entry.level:
            key = self._key(headers, entry)
            caller, role = key.name, key.role
        scope[CALLER], scope[ROLE] = caller, role
        if self._limit is not None and entry.limited and (entry.level or not self._keys.required):
            wait = self._limit.wait(caller)
            if wait > 0.0:
                message = f"at most {self._allowed:g} requests a second are allowed"
                raise ApiError(429, message, retry_after=math.ceil(wait))

    def _key(self, headers: dict[bytes, bytes], entry: RouteEntry) -> Key:
        """The key that a request comes with."""
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not token:
            raise _unauthorized(401, "a key must be sent as Authorization: Bearer KEY")
        key = self._keys.find(token.strip())
        if key is None:
            raise _unauthorized(401, "the key must be one in force, but this one is not", ', error="invalid_token"')
        if key.level < entry.level:
            message = f"the key's role must be {entry.role} or above, but it is {key.role}"
            raise _unauthorized(403, message, f', error="insufficient_scope", scope="{entry.role}"')
        return key


def _unauthorized(status: int, message: str, why: str = "") -> ApiError:
    return ApiError(status, message, headers={"WWW-Authenticate": f'Bearer realm="api"{why}'})


def _check_local(method: str, headers: dict[bytes, bytes]) -> None:
    """Without keys: raise for what a stranger's web page would send by way of a browser on this machine."""
    host = headers.get(b"host", b"").decode("latin-1")
    if not own_host(host):
        raise ApiError(403, "without keys the Host must be this machine's, as localhost; see `hellinger keys`")
    origin = headers.get(b"origin")
    if origin is not None and method not in _SAFE_METHODS and not same_origin(origin.decode("latin-1"), host):
        raise ApiError(403, "without keys a request must not come from another site's page; see `hellinger keys`")


@lru_cache(maxsize=128)  # few hosts are asked for; to read the header each time would take 10 % of a ranking
def own_host(header: str) -> bool:
    """Whether a Host names this machine, or a name without a dot, which no stranger's name server answers for.

    Without keys, being on this machine is what gives access. A web page of a stranger, open in a browser here, could
    point its own name at 127.0.0.1 and use that; the browser would send the stranger's name as Host.

    >>> [own_host(host) for host in ("localhost:8000", "127.0.0.1", "[::1]:8000", "evil.example:8000", "10.0.0.1")]
    [True, True, True, False, False]
    """
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return "." not in name or name.endswith(".localhost")


def same_origin(origin: str, host: str) -> bool:
    """Whether a page that sends a request came from here.

    >>> same_origin("http://localhost:8000", "localhost:8000"), same_origin("https://evil.example", "localhost:8000")
    (True, False)
    """
    return origin.partition("://")[2].lower() == host.lower()


class RateLimit:
    """A bucket of tokens for each key, filled at ``rate`` a second up to ``burst``, on the monotonic clock."""

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._buckets: dict[str, list[float]] = {}

    def wait(self, name: str) -> float:
        """Take a token: 0 if there was one, else the seconds until there is.

        >>> limit = RateLimit(2, 1, clock=lambda: 0.0)
        >>> limit.wait("web"), limit.wait("web"), limit.wait("app")
        (0.0, 0.5, 0.0)
        """
        now = self._clock()
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = [self.burst, now]
        tokens = min(self.burst, bucket[0] + (now - bucket[1]) * self.rate)
        bucket[1] = now
        if tokens >= 1.0:
            bucket[0] = tokens - 1.0
            return 0.0
        bucket[0] = tokens
        return (1.0 - tokens) / self.rate
