"""Items, as they are sent and shown."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from hellinger.serve.models.fields import Body, Features, Group, Metadata, Moment, Name

__all__ = [
    "ItemAnswer",
    "ItemPage",
    "ItemRow",
    "ItemState",
    "ItemsAnswer",
    "ItemsBody",
    "Left",
    "NewItemBody",
    "Recent",
    "RowStanding",
    "StandingAnswer",
]


class NewItemBody(Body):
    """An item to add, or to change where its id is known."""

    id: Name = Field(examples=["article-1"])
    tags: list[Name] = Field(default_factory=list, fail_fast=True, description="Labels to filter and to learn by.")
    group: Group | None = Field(
        None,
        description='What it belongs to, as `story-17` or, from broad to narrow, `["sport", "story-17"]`.',
        examples=[["sport", "story-17"]],
    )
    features: Features | None = Field(
        None, description="What it is: numbers, words, lists of words.", examples=[{"length": 4.2, "genre": ["drama"]}]
    )
    expires_at: Moment | None = Field(None, description="When to stop showing it.")
    metadata: Metadata | None = Field(None, description="Anything; given back, never looked at.")


class ItemsBody(Body):
    """Items to add or to change."""

    items: list[NewItemBody] = Field(min_length=1, fail_fast=True)


class ItemsAnswer(BaseModel):
    """How many were added, how many were there already and have changed, and how many were sent as they were."""

    added: int
    updated: int
    unchanged: int


class ItemState(BaseModel):
    """An item and the state it is in now."""

    id: str
    state: Literal["shown", "hidden", "expired", "deleted"]


class Left(BaseModel):
    """How an item left one variant's pool."""

    reason: Literal["graduated", "outclassed", "expired"]
    at: int = Field(description="When, in milliseconds since 1970.")
    impressions: float
    rewards: float


class StandingAnswer(BaseModel):
    """An item's standing with one variant."""

    impressions: float
    rewards: float
    estimate: float | None = Field(description="Rewards per impression; null before the first.")
    low: float = Field(description="Lower end of the 95 % interval, valid at every moment.")
    high: float
    index: float | None = Field(
        description="Upper confidence bound it is ranked by; null if not in the pool, or if it has none yet."
    )
    left: Left | None = Field(description="Why and with what it left this variant's pool; null if it has not.")
    rankings_left: float | None = Field(
        description="Rankings it is expected to have left until it expires, to half an octave, where that is known "
        "and the variant's policy can use it; null otherwise."
    )


class ItemAnswer(BaseModel):
    """An item, and how it stands with every variant."""

    id: str
    state: str
    tags: list[str]
    group: list[str]
    features: dict[str, Any] | None
    added_at: str
    expires_at: str | None
    metadata: dict[str, Any] | None
    impressions: float
    rewards: float
    variants: dict[str, StandingAnswer]


class Recent(BaseModel):
    """What an item gathered of late."""

    impressions: float
    rewards: float
    low: float = Field(description="Wilson's lower bound of its rate, 95 % on one side: what the rising are sorted by.")


class RowStanding(BaseModel):
    """An item's standing with one variant, in a list."""

    impressions: float
    rewards: float
    score: float | None = Field(description="Upper confidence bound; null if not in the pool, or if it has none yet.")
    left: Left | None = Field(description="Why and with what it left this variant's pool; null if it has not.")


class ItemRow(BaseModel):
    """An item in a list."""

    id: str
    state: str
    tags: list[str]
    group: list[str]
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
    """A page of items, and where the next begins."""

    items: list[ItemRow]
    since: str | None = Field(description="When `recent` begins: 12 to 24 hours ago, or when this replica started.")
    total: int = Field(description="Items that match.")
    next: str | None = Field(description="`cursor` of the next page; null on the last.")


# Rankings and feedback ------------------------------------------------------------------------------------
