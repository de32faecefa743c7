"""What no log could hold is refused before it reaches a database, so that every store refuses the same."""

from __future__ import annotations

from collections.abc import Sequence

from hellinger.errors import require
from hellinger.events import Event
from hellinger.store.limits import KEY_BYTES, PART_BYTES

__all__ = ["checked_part", "distinct"]

_PLACES = 1 << 63


def distinct(events: Sequence[Event]) -> Sequence[Event]:
    """The events in order, less those whose key stood earlier; all must be such as a log can hold."""
    first: dict[str, Event] = {}
    for event in events:
        key, kind, at, body = event
        if len(key) > KEY_BYTES // 4 or len(kind) > KEY_BYTES // 4:  # a character has four bytes at most
            _require_short("key", key)
            _require_short("kind", kind)
        if "\0" in key or "\0" in kind or "\0" in body:
            raise ValueError(f"text must be without NUL characters, but got {key!r}")
        if not -_PLACES <= at < _PLACES:
            raise ValueError(f"`-2⁶³ <= at < 2⁶³` must hold, but got at={at} for {key!r}")
        first.setdefault(key, event)
    return events if len(first) == len(events) else list(first.values())


def _require_short(what: str, text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > KEY_BYTES:
        raise ValueError(f"a {what} must have at most {KEY_BYTES} bytes, but got {size}: {text[:40]!r}…")


def checked_part(part: bytes) -> bytes:
    """A part of a snapshot, if it is not too large."""
    require(len(part) <= PART_BYTES, f"len(part) <= {PART_BYTES}", part=len(part))
    return part
