"""What can be wrong with an event of the log."""

from __future__ import annotations

from hellinger.errors import InputError

__all__ = ["EventError", "OutdatedError", "UnknownKindError"]


class OutdatedError(InputError):
    """Part of a snapshot is another version's, and has to be made from the log."""


class EventError(InputError):
    """An event of the log cannot be read or applied; the message names its place."""

    def __init__(self, seq: int, kind: str, key: str, reason: object) -> None:
        super().__init__(f"event {seq} of the log ({kind} {key!r}) cannot be applied: {reason}")
        self.seq = seq


class UnknownKindError(EventError):
    """An event is of a kind that this version does not know: a newer one wrote it."""

    def __init__(self, seq: int, kind: str, key: str, writer: str | None, version: str) -> None:
        who = f"hellinger {writer}" if writer else "a newer version that does not say its number"
        reason = (
            f"its kind is not known to hellinger {version}; it was written by {who}: run that version or a newer one"
        )
        super().__init__(seq, kind, key, reason)
