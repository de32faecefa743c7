"""Answers that come line by line: JSON lines, and server-sent events."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from hellinger.client.answers import LiveMessage

__all__ = ["EventReader", "LineReader"]


class LineReader:
    r"""Cuts bytes at line feeds, and nowhere else: text may hold other separators of lines, as U+2028.

    >>> reader = LineReader()
    >>> [line for part in (b"a\nb", b"c\n") for line in reader.take(part)]
    [b'a', b'bc']
    """

    def __init__(self) -> None:
        self._rest = b""

    def take(self, part: bytes) -> list[bytes]:
        """The lines that this part completes."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        return lines


class EventReader:
    r"""Reads server-sent events whose data are one line of JSON; comments, ids and retry times are left out.

    >>> reader = EventReader()
    >>> list(reader.take(b'event: tick\ndata: {"at": 1}\n\n'))
    [LiveMessage(kind='tick', data={'at': 1})]
    """

    def __init__(self) -> None:
        self._lines = LineReader()
        self._kind = b"message"

    def take(self, part: bytes) -> Iterator[LiveMessage]:
        """The messages that this part completes."""
        for line in self._lines.take(part):
            name, _, value = line.partition(b": ")
            if name == b"event":
                self._kind = value
            elif name == b"data":
                yield LiveMessage(self._kind.decode(), orjson.loads(value))
                self._kind = b"message"
