"""HTTP on a connection, within limits: how long a request may take to arrive, and how large its headers may be.

uvicorn waits for the rest of a request, and for an answer to be read, as long as the connection lasts; httptools takes
headers of any size.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from hellinger.engine.settings import Settings
from hellinger.serve import answers

__all__ = ["CYCLE", "LimitedProtocol", "protocol_for", "send_whole"]

_LOG = logging.getLogger("hellinger.serve")

CYCLE = "hellinger.cycle"
"""Where a request's scope has uvicorn's side of it, for :func:`send_whole`. It is to be taken out: the two hold each
other."""

_NOTHING, _HEADERS, _BODY = range(3)
"""What of a request is under way."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which does not wait for ever.

    A timer runs only while a part of a request is missing, or nothing has been sent yet: nearly every request arrives
    in one piece and needs none. A connection that never sent anything is closed without a word, for a browser that
    opened it in advance would take an answer for that to its next request.
    """

    header_seconds = 10.0
    body_seconds = 60.0
    answer_seconds = 60.0
    max_header_bytes = 64 * 1024
    max_raw_bytes = 32 * 1024 * 1024
    """Bytes of a body as it is sent, with the sizes of its chunks and what follows them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._under_way = _NOTHING
        self._taken = 0
        """Bytes since the part under way began, by the piece in which they came."""
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        """Runs while the client takes nothing of an answer, and there is no room for more of it."""
        self._headers_too_large = False

    # What the transport says ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_timer()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request; see that the rest comes in time."""
        self._taken += len(data)
        HttpToolsProtocol.data_received(self, data)
        if self._under_way:
            self._check_unfinished()
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._start_timer()  # an empty line perhaps: it has ended uvicorn's own wait for the next request

    def _check_unfinished(self) -> None:
        if self.transport.is_closing():
            return
        if self._under_way == _HEADERS and self._taken > self.max_header_bytes:
            self._refuse_headers()
        elif self._under_way == _BODY and self._taken > self.max_raw_bytes:
            self._refuse(
                413, f"a body must be sent in at most {self.max_raw_bytes} bytes, chunks and trailers included"
            )
        elif self._timer is None:
            self._start_timer()

    # What the parser says -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._under_way = _HEADERS
        if self._timer is not None:
            self._stop_timer()
        HttpToolsProtocol.on_message_begin(self)

    def on_headers_complete(self) -> None:
        """The headers are there."""
        if self._taken > self.max_header_bytes and self._size_of_headers() > self.max_header_bytes:
            self._headers_too_large = True
            raise ValueError  # what stops the parser; uvicorn then asks for send_400_response
        HttpToolsProtocol.on_headers_complete(self)
        cast(Scope, self.scope)[CYCLE] = self.cycle
        self._under_way = _BODY
        self._taken = 0
        if self._timer is not None:
            self._stop_timer()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._under_way = _NOTHING
        self._taken = 0
        if self._timer is not None:
            self._stop_timer()
        HttpToolsProtocol.on_message_complete(self)

    def _size_of_headers(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    # Time -----------------------------------------------------------------------------------------------

    def _start_timer(self) -> None:
        seconds = self.body_seconds if self._under_way == _BODY else self.header_seconds
        self._timer = self.loop.call_later(seconds, self._time_is_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # the client may have sent everything: it is we who do not read
            self._start_timer()
        elif self._under_way == _BODY:
            self._refuse(408, f"a body must arrive within {self.body_seconds:g} seconds of the headers (body_seconds)")
        elif self._under_way == _HEADERS:
            seconds = f"{self.header_seconds:g} seconds (header_seconds)"
            self._refuse(408, f"the request line and headers must arrive within {seconds}")
        else:
            self.transport.close()

    # Answers without the application ----------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be read."""
        if self._headers_too_large:
            self._refuse_headers()
        else:
            self._refuse(400, f"the request must be HTTP/1.1, but {msg[:1].lower()}{msg[1:].rstrip('.')}")

    def _refuse_headers(self) -> None:
        limit = f"{self.max_header_bytes} bytes (max_header_bytes)"
        self._refuse(431, f"the request line and headers must have at most {limit}")

    def _refuse(self, status: int, message: str) -> None:
        """Answer, where no other answer has begun, and close the connection."""
        _LOG.info("a connection was closed with %d: %s", status, message)
        cycle = self.cycle
        if self._under_way == _BODY:  # of the last request there is
            unanswered = not cycle.response_started and not self.pipeline
        else:
            unanswered = cycle is None or cycle.response_complete
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # the application is not to answer too
            cycle.message_event.set()
        if not unanswered:
            self.transport.abort()
            return
        content = answers.body(status, message)
        about = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(content)
        self.transport.write(STATUS_LINE[status] + about + content)
        self.transport.close()


async def send_whole(cycle: RequestResponseCycle, head: bytes, content: bytes) -> None:
    """Answer a request with 200, the lines of these headers and this content, its length among the headers.

    As uvicorn does in two messages, but without a look through every header's name and value, and in one piece: with
    that a twelfth fewer rankings a second were answered.
    """
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return
    for name, value in cycle.default_headers:
        head += b"%b: %b\r\n" % (name, value)
    if not cycle.keep_alive:
        head += b"connection: close\r\n"
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[200], head, content))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


def protocol_for(settings: Settings) -> type[LimitedProtocol]:
    """The protocol with the limits that are set, as uvicorn's ``http=`` takes it."""

    class Protocol(LimitedProtocol):
        header_seconds = settings.header_seconds
        body_seconds = settings.body_seconds
        answer_seconds = settings.answer_seconds
        max_header_bytes = settings.max_header_bytes
        max_raw_bytes = 8 * settings.max_body_bytes  # in chunks of one byte each it takes six times as many

    return Protocol
