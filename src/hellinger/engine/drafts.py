"""What is asked of the engine, and the events it makes of that, on their way to the log."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from hellinger.events import Event, Row, new_token

__all__ = [
    "WRITER",
    "Draft",
    "DraftRow",
    "FeedbackRow",
    "GivenFeedback",
    "Query",
    "Sorted",
    "item_draft",
    "state_draft",
]

WRITER = version("hellinger")
"""The version that writes: kinds of events that came later than the first ones say it."""


class Query(NamedTuple):
    """What is asked of a ranking."""

    k: int
    user: str | None = None
    segment: str | None = None
    exclude: Sequence[str] = ()
    tags: Sequence[str] | None = None
    among: Sequence[str] | None = None
    placement: str | None = None
    context: dict[str, Any] | None = None


class Draft(NamedTuple):
    """An event not yet in the log, with its fields."""

    event: Event
    fields: dict[str, Any]

    @classmethod
    def of(cls, key: str, kind: str, at: int, fields: dict[str, Any]) -> Draft:
        """An event with these fields."""
        return cls(Event.of(key, kind, at, fields), fields)


DraftRow = tuple[Row, Any]
"""The same as a plain tuple; of feedback, fields are ``hellinger.events.FeedbackFields``, a position for the item."""


class GivenFeedback(NamedTuple):
    """What a user did with an item of a ranking."""

    request: str
    item: str
    kind: str
    value: float = 1.0
    happened: int | None = None


FeedbackRow = tuple[str, str, str, float, int | None]
"""The same as a plain tuple, which is made in half the time."""


class Sorted(NamedTuple):
    """Feedback, classified: indices of what was given, and drafts of what is to be logged."""

    drafts: list[DraftRow]
    places: list[int]
    """Which of those given each draft comes from."""
    late: set[int]
    duplicate: list[int]
    unknown: list[int]
    rejected: list[tuple[int, str]]


def item_draft(item: dict[str, Any], at: int) -> Draft:
    """Add an item or change it: id, tags, expires_at, metadata, group, features."""
    return Draft.of(f"item/{new_token()}", "item", at, item)


def state_draft(item: str, state: str, at: int, **more: Any) -> Draft:
    """Bring an item to a state."""
    return Draft.of(f"state/{new_token()}", "state", at, {"id": item, "state": state, **more})
