"""Many connections at once, without looking at all of them for every request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx

__all__ = ["Lanes"]


class Lanes(httpx.AsyncBaseTransport):
    """A transport of single connections, the one used last taken first.

    httpx's own pool looks at every connection at every request: with 32 of them that takes three times as long as the
    request itself.

    Parameters
    ----------
    most
        Connections; further requests wait.
    verify
        For TLS; made once, for it takes a while.
    """

    def __init__(self, most: int, *, verify: ssl.SSLContext | bool) -> None:
        self._verify = verify
        self._limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        self._free = asyncio.Semaphore(most)
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._all: set[httpx.AsyncHTTPTransport] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request on a free connection, which is free again once the answer has been read."""
        await self._free.acquire()
        lane = self._idle.pop() if self._idle else self._new()
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            await self._release(lane, whole=False)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream, lambda whole: self._release(lane, whole=whole))
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        for lane in list(self._all):
            await lane.aclose()

    def _new(self) -> httpx.AsyncHTTPTransport:
        lane = httpx.AsyncHTTPTransport(verify=self._verify, limits=self._limits)
        self._all.add(lane)
        return lane

    async def _release(self, lane: httpx.AsyncHTTPTransport, *, whole: bool) -> None:
        """Let others use a connection; one whose exchange was cut is given up.

        httpcore does not always notice a cancelled request, and keeps its place in the pool, which is the only one.
        """
        self._free.release()
        if whole:
            self._idle.append(lane)
        else:
            self._all.discard(lane)
            await lane.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer, which tells when it is closed, and whether it was read to its end."""

    def __init__(self, inner: httpx.AsyncByteStream, closed: Callable[[bool], Awaitable[None]]) -> None:
        self._inner = inner
        self._closed: Callable[[bool], Awaitable[None]] | None = closed
        self._whole = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            yield part
        self._whole = True

    async def aclose(self) -> None:
        closed, self._closed = self._closed, None
        whole = False
        try:
            await self._inner.aclose()
            whole = self._whole
        finally:
            if closed is not None:
                await closed(whole)
