"""What no log could hold is refused before it reaches a database, so that every store refuses the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from hellinger.errors import InputError, require
from hellinger.events import Row
from hellinger.store.limits import KEY_BYTES, PART_BYTES

__all__ = ["checked_part", "distinct"]

_TIMES = 1 << 63
_SURE = KEY_BYTES // 4  # characters: one has four bytes at most


def distinct(events: Sequence[Row]) -> Sequence[Row]:
    """The events in order, less those whose key stood earlier; all must be such as a log can hold."""
    if not events:
        return events
    # whole columns at a time: this is done for every event there is, and a loop would cost as much as the insertion
    keys, kinds, ats, bodies = zip(*events, strict=True)
    few = set(kinds)
    if (
        max(map(len, keys)) > _SURE
        or max(map(len, few)) > _SURE
        or not -_TIMES <= min(ats) <= max(ats) < _TIMES
        or "\0" in "".join(chain(keys, few, bodies))
    ):
        for event in events:
            _require_fit(event)
    if len(set(keys)) == len(keys):
        return events
    first: dict[str, Row] = {}
    for event in events:
        first.setdefault(event[0], event)
    return list(first.values())


def _require_fit(event: Row) -> None:
    key, kind, at, body = event
    for what, text in (("key", key), ("kind", kind)):
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > KEY_BYTES:
            raise InputError(f"a {what} must have at most {KEY_BYTES} bytes, but got {size}: {text[:40]!r}…")
    if "\0" in key or "\0" in kind or "\0" in body:
        raise InputError(f"text must be without NUL characters, but got some at {key!r}")
    if not -_TIMES <= at < _TIMES:
        raise InputError(f"`-2⁶³ <= at < 2⁶³` must hold, but got at={at} for {key!r}")


def checked_part(part: bytes) -> bytes:
    """A part of a snapshot, if it is not too large."""
    require(len(part) <= PART_BYTES, f"len(part) <= {PART_BYTES}", part=len(part))
    return part
