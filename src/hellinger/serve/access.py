"""Who may pass: the role each route needs, how often a key may come, and whom to turn away where there are no keys."""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from hellinger.errors import require
from hellinger.serve.keys import ROLES
from hellinger.serve.metrics import Metrics, RouteFigures

__all__ = ["Door", "Doors", "Pace", "needs", "own_host", "role_of", "same_origin", "template_of"]

OPEN = "open"
"""The role of what anybody may ask for: health, the page, the reference."""

_MARK = "_hellinger_role"
_LEVELS = {OPEN: 0} | {role: level for level, role in enumerate(ROLES, start=1)}
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
Endpoint = TypeVar("Endpoint")


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


class Door:
    """One route and method: what it is called in figures, who may pass."""

    __slots__ = ("figures", "level", "paced", "page", "role", "template")

    def __init__(self, template: str, role: str, figures: RouteFigures) -> None:
        self.template = template
        self.role = role
        self.level = _LEVELS[role]
        self.figures = figures
        self.paced = not template.startswith("/health")  # a balancer that is told 429 would take the copy out
        self.page = not template.startswith(("/v1/", "/health", "/metrics", "/openapi.json"))


class Doors:
    """Every route of an application, found as its router finds it: the first that fits.

    A request that fits none is turned away here and never reaches the router, so that the two cannot disagree on who
    may pass.
    """

    def __init__(self, app: FastAPI, metrics: Metrics) -> None:
        self._metrics = metrics
        self._routes: list[tuple[re.Pattern[str], frozenset[str] | None, str, str]] = []
        static: set[tuple[str, str]] = set()
        for route in iter_route_contexts(app.routes):
            endpoint = route.endpoint if route.endpoint is not None else getattr(route, "app", None)
            methods = frozenset(route.methods) if route.methods else None
            pattern: re.Pattern[str] = route.path_regex
            template = template_of(route.path)
            self._routes.append((pattern, methods, template, role_of(endpoint)))
            if "{" not in template and methods:
                static |= {(method, template) for method in methods}
        self._made: dict[tuple[str, str], Door] = {}
        self._static = {(method, path): door for method, path in static if (door := self._look(method, path))}

    def find(self, method: str, path: str) -> Door | None:
        """The door of a request, if it has one."""
        return self._static.get((method, path)) or self._look(method, path)

    def _look(self, method: str, path: str) -> Door | None:
        for pattern, methods, template, role in self._routes:
            if (methods is None or method in methods) and pattern.match(path):
                known = method if method in _METHODS else "other"
                door = self._made.get((known, template))
                if door is None:
                    door = Door(template, role, self._metrics.route(known, template))
                    self._made[known, template] = door
                return door
        return None

    def allowed(self, path: str) -> list[str]:
        """Methods that a path knows; none where there is no such path."""
        found: set[str] = set()
        for pattern, methods, _, _ in self._routes:
            if methods and pattern.match(path):
                found |= methods
        return sorted(found)

    def stranger(self, method: str) -> RouteFigures:
        """Figures of requests that fit no route; what clients make up is not made into labels."""
        return self._metrics.route(method if method in _METHODS else "other", "none")


class Pace:
    """A bucket of tokens for each key, filled at ``rate`` a second up to ``burst``, on the monotonic clock."""

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._buckets: dict[str, list[float]] = {}

    def wait(self, name: str) -> float:
        """Take a token: 0 if there was one, else the seconds until there is.

        >>> pace = Pace(2, 1, clock=lambda: 0.0)
        >>> pace.wait("web"), pace.wait("web"), pace.wait("app")
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
