"""The two clients: the same calls, sent from a thread or from an event loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar
from urllib.request import getproxies

import httpx
import orjson

from hellinger.client import calls
from hellinger.client._lines import EventReader, LineReader
from hellinger.client.answers import Added, Item, LiveMessage, NewItem
from hellinger.client.calls import Call, Page, Sort, State
from hellinger.client.errors import ServiceError, UnreachableError
from hellinger.client.lanes import Lanes
from hellinger.client.retry import Retry, exchange
from hellinger.errors import require

__all__ = ["AsyncClient", "Client"]

P = ParamSpec("P")
T = TypeVar("T")
_BATCH = 2000
"""Items in one request: well below the service's limits."""


class _Settings:
    """What both clients are made from."""

    def __init__(self, url: str, key: str | None, timeout: float, retry: Retry | None, transport: Any) -> None:
        require(url.startswith(("http://", "https://")), "url begins with http:// or https://", url=url)
        self.url = url.rstrip("/")
        self.retry = (retry or Retry()).check()
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.options: dict[str, Any] = {"base_url": self.url, "headers": headers, "timeout": timeout}
        if transport is not None:
            self.options["transport"] = transport


def _signed(method: Any, call: Callable[..., Any]) -> Any:
    """A method with the call's documentation and signature, ``self`` in front."""
    functools.update_wrapper(method, call)
    signature = inspect.signature(call)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])
    return method


def _blocking(call: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(call(*args, **kwargs))

    return _signed(method, call)  # type: ignore[no-any-return]


def _awaited(call: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    async def method(self: AsyncClient, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(call(*args, **kwargs))

    return _signed(method, call)  # type: ignore[no-any-return]


class Client:
    """A client of the service. Connection errors, 429 and 503 are tried again, which never makes anything count twice.

    Parameters
    ----------
    url
        Where the service is: ``http://127.0.0.1:8000``.
    key
        One made by ``hellinger keys new``, where the service has keys.
    timeout
        Seconds to wait for a connection, or for the next part of an answer.
    retry
        How persistent to be.
    transport
        Of httpx, instead of the network.

    Examples
    --------
    ::

        with hellinger.Client("http://127.0.0.1:8000") as service:
            service.add_items(["a", "b", "c"])
            ranking = service.rank(2, user="ada")
            service.feedback([Feedback(ranking.ranking_id, ranking.ids[0], "click")])
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 10.0,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        settings = _Settings(url, key, timeout, retry, transport)
        self.url = settings.url
        self.retry = settings.retry
        self._http = httpx.Client(**settings.options)
        self._sleep: Callable[[float], object] = time.sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a call, as often as it takes."""
        steps = exchange(call, self.retry)
        wait = next(steps)
        arguments = call.sent()
        while True:
            if wait > 0.0:
                self._sleep(wait)
            came: httpx.Response | httpx.TransportError
            try:
                came = self._http.request(call.method, call.path, **arguments)
            except httpx.TransportError as error:
                came = error
            try:
                wait = steps.send(came)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]

    item = _blocking(calls.item)
    page = _blocking(calls.page)
    history = _blocking(calls.history)
    hide = _blocking(calls.hide)
    unhide = _blocking(calls.unhide)
    delete = _blocking(calls.delete)
    rank = _blocking(calls.rank)
    feedback = _blocking(calls.feedback)
    impressions = _blocking(calls.impressions)
    import_counts = _blocking(calls.import_counts)
    experiment = _blocking(calls.experiment)
    phases = _blocking(calls.phases)
    experiments = _blocking(calls.experiments)
    start_experiment = _blocking(calls.start_experiment)
    change_experiment = _blocking(calls.change_experiment)
    end_experiment = _blocking(calls.end_experiment)
    series = _blocking(calls.series)
    positions = _blocking(calls.positions)
    learned_models = _blocking(calls.learned_models)
    learned_groups = _blocking(calls.learned_groups)
    best_items = _blocking(calls.best_items)
    self_check = _blocking(calls.self_check)
    health = _blocking(calls.health)
    live = _blocking(calls.live)

    def add_items(self, items: Iterable[NewItem | str]) -> Added:
        """Add items, or change those whose id is known; some thousands at a time, none where one is refused."""
        added = updated = unchanged = 0
        for some in _batches(items):
            answer = self.send(calls.add_items(some))
            added, updated = added + answer.added, updated + answer.updated
            unchanged += answer.unchanged
        return Added(added, updated, unchanged)

    def items(
        self,
        *,
        tag: str | None = None,
        state: State | None = None,
        search: str | None = None,
        sort: Sort = "oldest",
        limit: int = 1000,
    ) -> Iterator[Item]:
        """Every item that matches, page by page. Oldest first, those added meanwhile come at the end."""
        cursor: str | None = None
        while True:
            page: Page = self.page(limit=limit, cursor=cursor, tag=tag, state=state, search=search, sort=sort)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def export(self, *, since: datetime | None = None, until: datetime | None = None) -> Iterator[dict[str, Any]]:
        """The log, a row for each item shown, as it is read."""
        with self._stream("jsonl", since, until) as response:
            yield from _rows(response)

    def state(self) -> Iterator[dict[str, Any]]:
        """What every pool ranks by, in parts, for ``hellinger check --service``; needs the role admin."""
        with _Stream(self._http, self._http.build_request("GET", "/v1/state")) as response:
            yield from _rows(response)

    def stream(self, experiment: str = "main", *, control: str | None = None) -> Iterator[LiveMessage]:
        """Follow an experiment: ``hello`` with the last five minutes, then a ``tick`` every second, without end."""
        request = self._http.build_request("GET", "/v1/stream", params=_followed(experiment, control))
        reading = EventReader()
        with _Stream(self._http, request) as response:
            for part in response.iter_bytes():
                yield from reading.take(part)

    def export_file(
        self,
        path: str | Path,
        *,
        form: Literal["jsonl", "parquet"] = "parquet",
        since: datetime | None = None,
        until: datetime | None = None,
        retrace: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Path:
        """The same rows as a file, of JSON lines or Parquet; ``retrace``: with the chances of every variant.

        ``progress`` is called with the bytes so far.
        """
        path = Path(path)
        with self._stream(form, since, until, retrace=retrace) as response, path.open("wb") as file:
            for part in response.iter_bytes():
                file.write(part)
                if progress is not None:
                    progress(file.tell())
        return path

    def _stream(self, form: str, since: datetime | None, until: datetime | None, *, retrace: bool = False) -> _Stream:
        params = calls.exported(form, since, until, retrace=retrace)
        request = self._http.build_request("GET", "/v1/export", params=params, **_patience(self._http))
        return _Stream(self._http, request)


class _Stream:
    """An answer read while it comes; an error before its first byte is the service's word."""

    def __init__(self, http: httpx.Client, request: httpx.Request) -> None:
        self._http = http
        self._request = request

    def __enter__(self) -> httpx.Response:
        try:
            self._response = self._http.send(self._request, stream=True)
            if not self._response.is_success:
                self._response.read()
        except httpx.TransportError as error:
            raise UnreachableError(f"the service must answer, but {self._request.url}: {error}") from error
        if not self._response.is_success:
            self._response.close()
            raise ServiceError.of(self._response)
        return self._response

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        self._response.close()
        if isinstance(error, httpx.TransportError):
            raise UnreachableError(f"the answer must be read to its end, but broke off: {error}") from error


class AsyncClient:
    """The same for an event loop; see :class:`Client`. ``connections`` are used at once, at most."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 10.0,
        retry: Retry | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        connections: int = 100,
    ) -> None:
        settings = _Settings(url, key, timeout, retry, transport)
        self.url = settings.url
        self.retry = settings.retry
        require(connections >= 1, "1 <= connections", connections=connections)
        if transport is None and not getproxies():  # a proxy is httpx's own business
            verify = httpx.create_ssl_context() if self.url.startswith("https://") else False
            settings.options["transport"] = Lanes(connections, verify=verify)
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._http = httpx.AsyncClient(**settings.options, limits=limits)
        self._sleep = asyncio.sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let the connections go."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send a call, as often as it takes."""
        steps = exchange(call, self.retry)
        wait = next(steps)
        arguments = call.sent()
        while True:
            if wait > 0.0:
                await self._sleep(wait)
            came: httpx.Response | httpx.TransportError
            try:
                came = await self._http.request(call.method, call.path, **arguments)
            except httpx.TransportError as error:
                came = error
            try:
                wait = steps.send(came)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]

    item = _awaited(calls.item)
    page = _awaited(calls.page)
    history = _awaited(calls.history)
    hide = _awaited(calls.hide)
    unhide = _awaited(calls.unhide)
    delete = _awaited(calls.delete)
    rank = _awaited(calls.rank)
    feedback = _awaited(calls.feedback)
    impressions = _awaited(calls.impressions)
    import_counts = _awaited(calls.import_counts)
    experiment = _awaited(calls.experiment)
    phases = _awaited(calls.phases)
    experiments = _awaited(calls.experiments)
    start_experiment = _awaited(calls.start_experiment)
    change_experiment = _awaited(calls.change_experiment)
    end_experiment = _awaited(calls.end_experiment)
    series = _awaited(calls.series)
    positions = _awaited(calls.positions)
    learned_models = _awaited(calls.learned_models)
    learned_groups = _awaited(calls.learned_groups)
    best_items = _awaited(calls.best_items)
    self_check = _awaited(calls.self_check)
    health = _awaited(calls.health)
    live = _awaited(calls.live)

    async def add_items(self, items: Iterable[NewItem | str]) -> Added:
        """Add items, or change those whose id is known; some thousands at a time, none where one is refused."""
        added = updated = unchanged = 0
        for some in _batches(items):
            answer = await self.send(calls.add_items(some))
            added, updated = added + answer.added, updated + answer.updated
            unchanged += answer.unchanged
        return Added(added, updated, unchanged)

    async def items(
        self,
        *,
        tag: str | None = None,
        state: State | None = None,
        search: str | None = None,
        sort: Sort = "oldest",
        limit: int = 1000,
    ) -> AsyncIterator[Item]:
        """Every item that matches, page by page. Oldest first, those added meanwhile come at the end."""
        cursor: str | None = None
        while True:
            page: Page = await self.page(limit=limit, cursor=cursor, tag=tag, state=state, search=search, sort=sort)
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return

    async def export(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """The log, a row for each item shown, as it is read."""
        params = {"format": "jsonl"} | calls.window(since, until)
        async for row in self._lines("/v1/export", params, **_patience(self._http)):
            yield row

    async def export_file(
        self,
        path: str | Path,
        *,
        form: Literal["jsonl", "parquet"] = "parquet",
        since: datetime | None = None,
        until: datetime | None = None,
        retrace: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Path:
        """The same rows as a file, of JSON lines or Parquet; ``retrace``: with the chances of every variant.

        ``progress`` is called with the bytes so far.
        """
        path = Path(path)
        params = calls.exported(form, since, until, retrace=retrace)
        async with self._stream("/v1/export", params, **_patience(self._http)) as response:
            with path.open("wb") as file:
                async for part in response.aiter_bytes():
                    file.write(part)
                    if progress is not None:
                        progress(file.tell())
        return path

    async def stream(self, experiment: str = "main", *, control: str | None = None) -> AsyncIterator[LiveMessage]:
        """Follow an experiment: ``hello`` with the last five minutes, then a ``tick`` every second, without end."""
        reading = EventReader()
        async with self._stream("/v1/stream", _followed(experiment, control)) as response:
            async for part in response.aiter_bytes():
                for message in reading.take(part):
                    yield message

    async def state(self) -> AsyncIterator[dict[str, Any]]:
        """What every pool ranks by, in parts; needs the role admin."""
        async for part in self._lines("/v1/state", {}):
            yield part

    async def _lines(self, path: str, params: dict[str, str], **options: Any) -> AsyncIterator[dict[str, Any]]:
        """An answer of JSON lines, as it is read."""
        lines = LineReader()
        async with self._stream(path, params, **options) as response:
            async for part in response.aiter_bytes():
                for line in lines.take(part):
                    yield orjson.loads(line)

    @asynccontextmanager
    async def _stream(self, path: str, params: dict[str, str], **options: Any) -> AsyncIterator[httpx.Response]:
        """An answer read while it comes; an error before its first byte is the service's word."""
        try:
            async with self._http.stream("GET", path, params=params, **options) as response:
                if not response.is_success:
                    await response.aread()
                    raise ServiceError.of(response)
                yield response
        except httpx.TransportError as error:
            raise UnreachableError(f"the answer must be read to its end, but broke off: {error}") from error


def _patience(http: httpx.Client | httpx.AsyncClient) -> dict[str, Any]:
    """How long to wait for an export."""
    return {"timeout": httpx.Timeout(http.timeout.connect, read=calls.EXPORTING)}


def _rows(response: httpx.Response) -> Iterator[dict[str, Any]]:
    lines = LineReader()
    for part in response.iter_bytes():
        yield from map(orjson.loads, lines.take(part))


def _followed(experiment: str, control: str | None) -> dict[str, str]:
    return {"experiment": experiment} | ({} if control is None else {"control": control})


def _batches(items: Iterable[NewItem | str]) -> Iterator[list[NewItem | str]]:
    rest = iter(items)
    while some := list(islice(rest, _BATCH)):
        yield some
