"""A load generator: HTTP/1.1 over kept-alive connections, as cheap as Python can be, so that the server is measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import uvloop

Body = Callable[[], bytes]
Seen = Callable[[bytes], None]


class Load(NamedTuple):
    """What a spell of load showed."""

    seconds: float
    latencies: np.ndarray
    failed: int

    @property
    def rate(self) -> float:
        return self.latencies.size / self.seconds

    def percentile(self, q: float) -> float:
        """Milliseconds."""
        return float(np.percentile(self.latencies, q)) * 1e3


class _Connection(asyncio.Protocol):
    """One request at a time; calls back with the answer's body."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.waiter: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end])
        at = head.lower().find(b"content-length: ")
        size = int(head[at + 16 : head.find(b"\r", at) if head.find(b"\r", at) > 0 else None])
        if len(self.buffer) >= end + 4 + size and self.waiter is not None:
            body = bytes(self.buffer[end + 4 : end + 4 + size])
            del self.buffer[: end + 4 + size]
            waiter, self.waiter = self.waiter, None
            waiter.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(ConnectionError("the server closed the connection"))


async def _drive(
    port: int, path: str, body: Body, seconds: float, connections: int, rate: float | None, seen: Seen | None
) -> Load:
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    failed = 0
    begun = time.perf_counter()
    end = begun + seconds
    number = 0

    async def one() -> None:
        nonlocal failed, number
        _, link = await loop.create_connection(_Connection, "127.0.0.1", port)
        while True:
            due = None
            if rate is not None:
                due = begun + number / rate
                number += 1
                if due >= end:
                    break
                wait = due - time.perf_counter()
                if wait > 0:
                    await asyncio.sleep(wait)
            elif time.perf_counter() >= end:
                break
            content = body()
            head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(content)}\r\n\r\n"
            sent = time.perf_counter()
            link.waiter = loop.create_future()
            link.transport.write(head.encode() + content)  # type: ignore[attr-defined]
            status, answer = await link.waiter
            # behind schedule counts as latency: a user who had to wait for a connection waited all the same
            latencies.append(time.perf_counter() - (sent if due is None else min(sent, due)))
            if status != 200:
                failed += 1
            elif seen is not None:
                seen(answer)
        link.transport.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return Load(time.perf_counter() - begun, np.array(latencies), failed)


def drive(
    port: int,
    path: str,
    body: Body,
    *,
    seconds: float = 5.0,
    connections: int = 16,
    rate: float | None = None,
    seen: Seen | None = None,
) -> Load:
    """Send requests for so long, as fast as they are answered or at a rate."""
    return uvloop.run(_drive(port, path, body, seconds, connections, rate, seen))
