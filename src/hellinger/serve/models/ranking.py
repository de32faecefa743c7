"""Rankings, feedback, confirmations and imported counts."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from pydantic import BaseModel, Field

from hellinger.engine.drafts import FeedbackRow
from hellinger.serve.models.fields import (
    NAME_LENGTH,
    REQUEST_LENGTH,
    Body,
    Features,
    Kind,
    Moment,
    Name,
    RequestId,
    are_names,
    are_requests,
    is_kind,
    milliseconds,
)

__all__ = [
    "FeedbackAnswer",
    "FeedbackBody",
    "FeedbackEvent",
    "ImportAnswer",
    "ImportBody",
    "ImportRow",
    "RankAnswer",
    "RankBody",
    "RankedItemAnswer",
    "RejectedAnswer",
    "SeenAnswer",
    "SeenBody",
    "SeenEvent",
    "feedback_rows",
    "feedback_rows_of",
    "plain_feedback_rows",
]


class RankBody(Body):
    """A ranking wanted."""

    k: int = Field(20, ge=1, strict=True, description="How many.", examples=[20])
    user: Name | None = Field(None, description="For a split that is sticky.")
    segment: Name | None = Field(None, description="Segment of users, ranked by its own counts once it has enough.")
    placement: Name | None = Field(
        None, description="Where it is shown, as `front page`: experiments may have a placement to themselves."
    )
    context: Features | None = Field(
        None, description="Who asks: numbers, words, lists of words.", examples=[{"age": 31, "gender": "F"}]
    )
    exclude: list[Name] = Field(  # a factory, since a list given here would be copied deeply for every request
        default_factory=list,
        fail_fast=True,
        description="Ids to leave out, those already seen; unknown ones do no harm.",
    )
    tags: list[Name] | None = Field(None, fail_fast=True, description="Only items with at least one of these.")
    among: list[Name] | None = Field(None, fail_fast=True, description="Only these items.")


class RankedItemAnswer(BaseModel):
    """An item in a ranking."""

    id: str
    score: float | None = Field(description="Upper confidence bound; null if it has none yet.")


class RankAnswer(BaseModel):
    """A ranking, best first."""

    ranking_id: str
    variant: str
    items: list[RankedItemAnswer]


class FeedbackEvent(Body):
    """What a user did with an item of a ranking."""

    ranking_id: RequestId
    item: Name
    kind: Kind = Field("click", examples=["click", "like", "comment"])
    value: float = Field(1.0, ge=0, le=1, strict=True, description="Share of the kind's points.")
    at: Moment | None = Field(None, description="When it happened, by the caller's clock; kept, not used.")


class FeedbackBody(Body):
    """Feedback, in any order and as often as it takes to be answered."""

    events: list[FeedbackEvent] = Field(min_length=1, fail_fast=True)


def feedback_rows_of(events: Iterable[FeedbackEvent]) -> list[FeedbackRow]:
    """Request, item, kind, value and time of each."""
    return [(e.ranking_id, e.item, e.kind, e.value, None if e.at is None else milliseconds(e.at)) for e in events]


def feedback_rows(content: bytes) -> list[FeedbackRow]:
    """The rows of a :class:`FeedbackBody`; the model reads what is not plain, and refuses what is wrong."""
    rows = plain_feedback_rows(content)
    return feedback_rows_of(FeedbackBody.model_validate_json(content).events) if rows is None else rows


def plain_feedback_rows(content: bytes) -> list[FeedbackRow] | None:
    """The rows of feedback as nearly all of it looks: a request, an item and a kind and nothing else.

    It is read in a third of the time that the model takes: all strings are checked at once, by the model's own
    patterns. None for everything else.
    """
    try:
        body = orjson.loads(content)
        rows: list[FeedbackRow] = [
            (e["ranking_id"], e["item"], e["kind"], 1.0, None) for e in body["events"] if len(e) == 3
        ]
        every, items, kinds, _, _ = zip(*rows, strict=True)
        names = set(every)
        if (
            len(body) == 1
            and len(rows) == len(body["events"])
            and max(map(len, names)) <= REQUEST_LENGTH
            and max(map(len, items)) <= NAME_LENGTH
            and all(names)
            and all(items)
            and are_requests("".join(names))
            and are_names("".join(items))
            and all(map(is_kind, set(kinds)))
        ):
            return rows
    except (KeyError, TypeError, ValueError):
        pass
    return None


class RejectedAnswer(BaseModel):
    """One that was refused, and why."""

    index: int
    reason: str


class FeedbackAnswer(BaseModel):
    """What became of each: the five add up to what was sent."""

    accepted: int
    duplicate: int = Field(description="The same request, item and kind was there before.")
    late: int = Field(description="After the attribution window: stored, not learned.")
    unknown: int = Field(description="No such request.")
    rejected: list[RejectedAnswer]


class SeenEvent(Body):
    """An item of a ranking that was really seen."""

    ranking_id: RequestId
    item: Name


class SeenBody(Body):
    """Impressions to confirm."""

    events: list[SeenEvent] = Field(min_length=1, fail_fast=True)


class SeenAnswer(FeedbackAnswer):
    """What became of each."""


class ImportRow(Body):
    """Counts of one item over some time."""

    item: Name
    impressions: int = Field(ge=0, le=10**12, strict=True)
    rewards: float = Field(ge=0, le=10**12, strict=True, description="At most one for each impression.")
    from_: Moment | None = Field(None, alias="from")
    to: Moment | None = None


class ImportBody(Body):
    """Counts gathered elsewhere, as a data flow delivers them every minute or hour."""

    batch: Name = Field(description="Names this delivery: the same name twice counts once.")
    variant: str | None = Field(
        None, max_length=64, description="Whose traffic it was; null: nobody's, and every variant learns it."
    )
    segment: Name | None = None
    rows: list[ImportRow] = Field(min_length=1, fail_fast=True)


class ImportAnswer(BaseModel):
    """What became of the rows."""

    accepted: int
    duplicate: bool
    unknown: int = Field(description="Rows of items that are not in the catalogue.")
    rejected: list[RejectedAnswer]


# The experiment -----------------------------------------------------------------------------------------
