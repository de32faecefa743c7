"""What goes over the wire: the bodies of requests and answers, as the OpenAPI document shows them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from hellinger.engine.drafts import FeedbackRow

__all__ = [
    "Experiment",
    "FeedbackAnswer",
    "FeedbackBody",
    "FeedbackEvent",
    "Former",
    "History",
    "HistoryColumn",
    "ImportAnswer",
    "ImportBody",
    "ImportRow",
    "Item",
    "ItemPage",
    "ItemRow",
    "ItemState",
    "ItemsAnswer",
    "ItemsBody",
    "Left",
    "Live",
    "Mark",
    "NewItem",
    "RankAnswer",
    "RankBody",
    "RankedItem",
    "Ready",
    "Recent",
    "Rejected",
    "RowStanding",
    "SeenAnswer",
    "SeenBody",
    "SeenEvent",
    "Series",
    "SeriesColumn",
    "Standing",
    "VariantRow",
    "iso",
    "milliseconds",
]


def milliseconds(moment: datetime | None) -> int | None:
    """A time as milliseconds since 1970; without a zone it is taken as UTC."""
    return None if moment is None else round(_in_utc(moment).timestamp() * 1000)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def iso(at: int | None) -> str | None:
    """Milliseconds since 1970 as text."""
    return (
        None
        if not at
        else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _no_number(value: Any) -> Any:
    if isinstance(value, (int, float)):
        raise ValueError("a time is written as in 2026-01-31T12:00:00Z")
    return value


def _zoned(moment: datetime) -> datetime:
    """The time with its zone, UTC where none is given; within limits that every arithmetic can hold."""
    zoned = _in_utc(moment)
    if not _FIRST <= zoned <= _LAST:
        raise ValueError(f"must lie between {_FIRST:%Y-%m-%d} and {_LAST:%Y-%m-%d}, but got {moment.isoformat()}")
    return zoned


_FIRST, _LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_REQUEST_LENGTH, _NAME_LENGTH = 64, 1024
_REQUEST_PATTERN, _NAME_PATTERN, _KIND_PATTERN = (
    r"^[\x21-\x7e]+$",
    r"^[^\x00-\x1f\x7f]+$",
    r"^[A-Za-z][A-Za-z0-9_.-]{0,31}$",
)
_REQUESTS, _NAMES, _KIND = (
    re.compile(pattern).fullmatch for pattern in (_REQUEST_PATTERN, _NAME_PATTERN, _KIND_PATTERN)
)
RequestId = Annotated[str, Field(min_length=1, max_length=_REQUEST_LENGTH, pattern=_REQUEST_PATTERN)]
Name = Annotated[str, Field(min_length=1, max_length=_NAME_LENGTH, pattern=_NAME_PATTERN)]
Moment = Annotated[
    datetime,
    BeforeValidator(_no_number, json_schema_input_type=datetime),
    AfterValidator(_zoned),
]
Kind = Annotated[str, Field(pattern=_KIND_PATTERN)]


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    """What JSON in UTF-8 with numbers of 64 bits can hold: the log is no wider."""
    try:
        given_back = orjson.loads(orjson.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"must be JSON that others can read, but {str(error).lower() or 'it is nested too deeply'}"
        ) from None
    if given_back != value:
        raise ValueError("must be JSON that others can read, but holds NaN or an infinity")
    return value


Metadata = Annotated[dict[str, Any], AfterValidator(_storable)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)


# Contents ---------------------------------------------------------------------------------------------


class NewItem(_Body):
    """A content to add, or to change where its id is known."""

    id: Name = Field(examples=["article-1"])
    tags: list[Name] = Field(default_factory=list, max_length=64, description="Labels to filter and to learn by.")
    expires_at: Moment | None = Field(None, description="When to stop showing it.")
    metadata: Metadata | None = Field(None, description="Anything; given back, never looked at.")


class ItemsBody(_Body):
    """Contents to add or to change."""

    items: list[NewItem] = Field(min_length=1)


class ItemsAnswer(BaseModel):
    """How many were added, how many were there already and have changed, and how many were sent as they were."""

    added: int
    updated: int
    unchanged: int


class ItemState(BaseModel):
    """A content and the state it is in now."""

    id: str
    state: Literal["shown", "hidden", "expired", "deleted"]


class Left(BaseModel):
    """How a content left one variant's pool."""

    reason: Literal["graduated", "outclassed", "expired"]
    at: int = Field(description="When, in milliseconds since 1970.")
    impressions: float
    rewards: float


class Standing(BaseModel):
    """A content's standing with one variant."""

    impressions: float
    rewards: float
    estimate: float | None = Field(description="Rewards per impression; null before the first.")
    low: float = Field(description="Lower end of the 95 % interval, valid at every moment.")
    high: float
    index: float | None = Field(
        description="Upper confidence bound it is ranked by; null if not in the pool, or if it has none yet."
    )
    left: Left | None = Field(description="Why and with what it left this variant's pool; null if it has not.")


class Item(BaseModel):
    """A content, and how it stands with every variant."""

    id: str
    state: str
    tags: list[str]
    added_at: str
    expires_at: str | None
    metadata: dict[str, Any] | None
    impressions: float
    rewards: float
    variants: dict[str, Standing]


class Recent(BaseModel):
    """What a content gathered of late."""

    impressions: float
    rewards: float
    low: float = Field(description="Wilson's lower bound of its rate, 95 % on one side: what the rising are sorted by.")


class RowStanding(BaseModel):
    """A content's standing with one variant, in a list."""

    impressions: float
    rewards: float
    score: float | None = Field(description="Upper confidence bound; null if not in the pool, or if it has none yet.")
    left: Left | None = Field(description="Why and with what it left this variant's pool; null if it has not.")


class ItemRow(BaseModel):
    """A content in a list."""

    id: str
    state: str
    tags: list[str]
    added_at: str
    expires_at: str | None
    impressions: float
    rewards: float
    estimate: float | None
    low: float = Field(description="Lower end of the 95 % interval of the estimate, valid at every moment.")
    high: float
    recent: Recent | None = Field(description="What it gathered of late, where the rising were asked for.")
    variants: dict[str, RowStanding]


class ItemPage(BaseModel):
    """A page of contents, and where the next begins."""

    items: list[ItemRow]
    since: str | None = Field(description="When `recent` begins: 12 to 24 hours ago, or when this copy started.")
    total: int = Field(description="Contents that match.")
    next: str | None = Field(description="`cursor` of the next page; null on the last.")


# Rankings and feedback ------------------------------------------------------------------------------------


class RankBody(_Body):
    """A ranking wanted."""

    k: int = Field(20, ge=1, strict=True, description="How many.", examples=[20])
    user: Name | None = Field(None, description="For a split that is sticky.")
    segment: Name | None = Field(None, description="Segment of users, ranked by its own counts once it has enough.")
    exclude: list[Name] = Field(  # a factory, since a list given here would be copied deeply for every request
        default_factory=list, description="Ids to leave out, those already seen; unknown ones do no harm."
    )
    tags: list[Name] | None = Field(None, description="Only contents with at least one of these.")
    among: list[Name] | None = Field(None, description="Only these contents.")


class RankedItem(BaseModel):
    """A content in a ranking."""

    id: str
    score: float | None = Field(description="Upper confidence bound; null if it has none yet.")


class RankAnswer(BaseModel):
    """A ranking, best first."""

    request_id: str
    variant: str
    items: list[RankedItem]


class FeedbackEvent(_Body):
    """What a user did with an item of a ranking."""

    request_id: RequestId
    item: Name
    kind: Kind = Field("click", examples=["click", "like", "comment"])
    value: float = Field(1.0, ge=0, le=1, strict=True, description="Share of the kind's points.")
    at: Moment | None = Field(None, description="When it happened, by the caller's clock; kept, not used.")


class FeedbackBody(_Body):
    """Feedback, in any order and as often as it takes to be answered."""

    events: list[FeedbackEvent] = Field(min_length=1)

    @property
    def rows(self) -> list[FeedbackRow]:
        """Request, item, kind, value and time of each."""
        return [
            (e.request_id, e.item, e.kind, e.value, None if e.at is None else milliseconds(e.at)) for e in self.events
        ]


def feedback_rows(content: bytes) -> list[FeedbackRow]:
    """The rows of a :class:`FeedbackBody`.

    What nearly all feedback looks like, a request, an item and a kind and nothing else, is read in a third of the time
    that the model takes: all strings are checked at once, by the model's own patterns. The model reads everything else,
    and refuses what is wrong.
    """
    try:
        body = orjson.loads(content)
        rows: list[FeedbackRow] = [
            (e["request_id"], e["item"], e["kind"], 1.0, None) for e in body["events"] if len(e) == 3
        ]
        every, items, kinds, _, _ = zip(*rows, strict=True)
        names = set(every)
        if (
            len(body) == 1
            and len(rows) == len(body["events"])
            and max(map(len, names)) <= _REQUEST_LENGTH
            and max(map(len, items)) <= _NAME_LENGTH
            and all(names)
            and all(items)
            and _REQUESTS("".join(names))
            and _NAMES("".join(items))
            and all(map(_KIND, set(kinds)))
        ):
            return rows
    except (KeyError, TypeError, ValueError):
        pass
    return FeedbackBody.model_validate_json(content).rows


class Rejected(BaseModel):
    """One that was refused, and why."""

    index: int
    reason: str


class FeedbackAnswer(BaseModel):
    """What became of each: the five add up to what was sent."""

    accepted: int
    duplicate: int = Field(description="The same request, item and kind was there before.")
    late: int = Field(description="After the attribution window: stored, not learned.")
    unknown: int = Field(description="No such request.")
    rejected: list[Rejected]


class SeenEvent(_Body):
    """An item of a ranking that was really seen."""

    request_id: RequestId
    item: Name


class SeenBody(_Body):
    """Impressions to confirm."""

    events: list[SeenEvent] = Field(min_length=1)


class SeenAnswer(FeedbackAnswer):
    """What became of each."""


class ImportRow(_Body):
    """Counts of one content over some time."""

    item: Name
    impressions: int = Field(ge=0, le=10**12, strict=True)
    rewards: float = Field(ge=0, le=10**12, strict=True, description="At most one for each impression.")
    from_: Moment | None = Field(None, alias="from")
    to: Moment | None = None


class ImportBody(_Body):
    """Counts gathered elsewhere, as a data flow delivers them every minute or hour."""

    batch: Name = Field(description="Names this delivery: the same name twice counts once.")
    variant: str | None = Field(None, description="Whose traffic it was; null: nobody's, and every variant learns it.")
    segment: Name | None = None
    rows: list[ImportRow] = Field(min_length=1)


class ImportAnswer(BaseModel):
    """What became of the rows."""

    accepted: int
    duplicate: bool
    unknown: int = Field(description="Rows of contents that are not in the catalogue.")
    rejected: list[Rejected]


# The experiment -----------------------------------------------------------------------------------------


class VariantRow(BaseModel):
    """A variant's figures."""

    variant: str
    requests: int
    impressions: float
    reward: float
    rate: float | None = Field(description="Reward an impression; null before the first.")
    low: float = Field(description="Lower end of the 95 % interval of the rate, valid at every moment.")
    high: float
    lift: float | None = Field(description="Rate over the control's, less 1; null for the control itself.")
    lift_low: float | None
    lift_high: float | None = Field(description="Null while the control's rate may be 0.")
    probability_best: float = Field(description="Chance of having the highest rate, by a posterior.")
    share: float | None = Field(description="Of all requests.")
    intended: float = Field(description="The share it was meant to have.")
    design_effect: float = Field(description="How many times the variance is that of independent impressions.")
    policy: str = Field(description="The algorithm's full spec.")


class Former(BaseModel):
    """A variant that is configured no more."""

    variant: str
    requests: float
    impressions: float
    reward: float


class Experiment(BaseModel):
    """How the variants stand, best first."""

    variants: list[VariantRow]
    control: str | None = Field(description="The variant that lifts are over.")
    confidence: float = Field(description="Of all intervals, over all moments at once.")
    sample_ratio: dict[str, Any] | None = Field(
        description="Whether requests were shared out as intended; null where the split is sticky."
    )
    verdict: str = Field(description="What it all says, for programs.")
    sentence: str = Field(description="What it all says, for people.")
    title: str
    split: Literal["random", "sticky"]
    learning: Literal["isolated", "shared"]
    counting: Literal["served", "confirmed"]
    items: int = Field(description="Contents there are, hidden and expired ones included.")
    since: str | None = Field(description="Hour of the first figure.")
    events: int = Field(description="Place in the log that this is as of.")
    former: list[Former]


class SeriesColumn(BaseModel):
    """A variant's figures, one for each step."""

    requests: list[float]
    impressions: list[float]
    reward: list[float]
    cumulative: list[float] = Field(description="Reward up to the end of each step, since the beginning.")


class Series(BaseModel):
    """The experiment over time."""

    resolution: Literal["minute", "hour", "day"]
    steps: list[str] = Field(description="When each step begins.")
    variants: dict[str, SeriesColumn]


class Live(BaseModel):
    """The process answers."""

    status: Literal["live"]


class Ready(BaseModel):
    """Whether rankings can be had, and feedback given."""

    status: Literal["ready", "degraded", "refusing"] = Field(
        description="Degraded: the store is away, or memory is being rebuilt. Refusing: the log needs a newer version."
    )
    items: int
    waiting: int = Field(description="Events not yet in the log.")
    reason: str | None = Field(None, description="What is wrong.")


class HistoryColumn(BaseModel):
    """A content's figures under one variant, one for each step."""

    impressions: list[float]
    reward: list[float]


class Mark(BaseModel):
    """Something that was done with a content, or that it did."""

    at: str
    what: str = Field(description="added, changed, hidden, shown, expired, graduated or outclassed.")
    variant: str | None = Field(None, description="Whose pool it left.")


class History(BaseModel):
    """A content over time."""

    item: str
    complete: bool = Field(description="Whether the events read reach back to the content's start.")
    events_read: int
    resolution: Literal["hour", "day"]
    steps: list[str] = Field(description="When each step begins.")
    variants: dict[str, HistoryColumn] = Field(description="Under the name '', counts that were nobody's.")
    marks: list[Mark]
