"""How the variants stand, over time, and one item"s story."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from hellinger.serve.models.fields import Body, Name

__all__ = [
    "AllocationBody",
    "Experiment",
    "Former",
    "History",
    "HistoryColumn",
    "Mark",
    "Phase",
    "Phases",
    "Series",
    "SeriesColumn",
    "VariantRow",
]


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
    intended: float = Field(description="The share it was meant to have, over all phases.")
    design_effect: float = Field(description="How many times the variance is that of independent impressions.")
    policy: str = Field(description="The algorithm's full spec.")


class Former(BaseModel):
    """A variant that is configured no more."""

    variant: str
    requests: float
    impressions: float
    reward: float


class AllocationBody(Body):
    """What the next phase is to have otherwise."""

    variants: dict[Name, str] | None = Field(
        None,
        description="Policies of new variants, or other ones of those there are.",
        examples=[{"new": "cold-start"}],
    )
    weights: dict[Name, float] | None = Field(
        None,
        description="Of every variant that is to have traffic: others stop. Without them a new one has weight 1.",
        examples=[{"cold-start": 9, "ucb1": 1}],
    )
    split: Literal["random", "sticky"] | None = None
    control: str | None = Field(None, description="Variant the others are compared with; empty for the last.")
    after: int | None = Field(None, description="Only if this phase, by its `seq`, is still in force: otherwise 409.")


class Phase(BaseModel):
    """A time in which the allocation of traffic stayed the same."""

    seq: int = Field(description="Place in the log where it began.")
    since: str
    by: str = Field(description="Who began it: `settings`, or the name of a key.")
    variants: dict[str, str]
    weights: dict[str, float]
    split: Literal["random", "sticky"]
    control: str
    requests: dict[str, int] = Field(description="Rankings that were made in it, by variant.")


class Phases(BaseModel):
    """The experiment's phases, oldest first; the last is in force."""

    phases: list[Phase]


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
