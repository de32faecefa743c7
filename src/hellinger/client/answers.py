"""What is sent and what comes back, with types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

__all__ = [
    "Added",
    "BestItem",
    "BestItemsAnswer",
    "CalibrationClass",
    "CheckedVariant",
    "CheckedVariants",
    "CountRow",
    "Experiment",
    "ExperimentPhase",
    "ExperimentSummary",
    "Feedback",
    "Health",
    "HistoryMark",
    "Imported",
    "Item",
    "ItemHistory",
    "ItemHistoryColumn",
    "LearnedEffect",
    "LearnedGroup",
    "LearnedGroups",
    "LearnedModel",
    "LiveMessage",
    "NewItem",
    "Outcome",
    "Position",
    "Positions",
    "RankedItem",
    "Ranking",
    "Rejected",
    "Series",
    "SeriesColumn",
    "ShadowStanding",
    "Standing",
    "VariantStanding",
]


# Sent -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to add, or to change where its id is known."""

    id: str
    tags: tuple[str, ...] = ()
    expires_at: datetime | None = None
    metadata: Mapping[str, Any] | None = None
    group: str | Sequence[str] = ()
    """What it belongs to, from broad to narrow."""
    features: Mapping[str, Any] | None = None
    """What it is: numbers, words, lists of words."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a user did with an item of a ranking."""

    ranking_id: str
    item: str
    kind: str = "click"
    value: float = 1.0
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CountRow:
    """Counts of one item, gathered elsewhere between two times."""

    item: str
    impressions: int
    rewards: float
    since: datetime | None = None
    until: datetime | None = None


# Answered ---------------------------------------------------------------------------------------------


class _Answer:
    """Reads itself from JSON; fields that a newer service adds are passed over."""

    __slots__ = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """The answer as it came."""
        return cls(**{f.name: raw[f.name] for f in fields(cls) if f.name in raw})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Added(_Answer):
    """How many items were added, how many were there and have changed, and how many were sent as they were.

    After a retry that followed a lost answer, those added by the first attempt count as unchanged.
    """

    added: int
    updated: int
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class RankedItem(_Answer):
    """An item in a ranking; ``score`` is its upper confidence bound, None if it has none yet."""

    id: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A ranking, best first, and the variant that made it."""

    ranking_id: str
    variant: str
    items: tuple[RankedItem, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Ranking:
        """The answer as it came."""
        items = tuple([RankedItem(item["id"], item["score"]) for item in raw["items"]])
        return cls(raw["ranking_id"], raw["variant"], items)

    @property
    def ids(self) -> list[str]:
        """The items' ids, best first."""
        return [item.id for item in self.items]


@dataclass(frozen=True, slots=True)
class Rejected(_Answer):
    """One of those sent that was refused, and why."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of feedback or confirmations; the five add up to what was sent.

    After a retry that followed a lost answer, what the first attempt brought counts as duplicate.
    """

    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    unknown: int = 0
    rejected: tuple[Rejected, ...] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Outcome:
        """The answer as it came."""
        rejected = tuple([Rejected.of(one) for one in raw["rejected"]])
        return cls(raw["accepted"], raw["duplicate"], raw["late"], raw["unknown"], rejected)

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.accepted + other.accepted,
            self.duplicate + other.duplicate,
            self.late + other.late,
            self.unknown + other.unknown,
            self.rejected + other.rejected,
        )


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a batch of counts; ``duplicate`` if it was there before."""

    accepted: int
    duplicate: bool
    unknown: int
    rejected: tuple[Rejected, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Imported:
        """The answer as it came."""
        rejected = tuple([Rejected.of(one) for one in raw["rejected"]])
        return cls(raw["accepted"], raw["duplicate"], raw["unknown"], rejected)


@dataclass(frozen=True, slots=True)
class Standing:
    """How an item stands with one variant: estimate and interval are given for single items, not in lists."""

    impressions: float
    rewards: float
    index: float | None
    """Upper confidence bound it is ranked by; None if it is not in the variant's pool."""
    left: Mapping[str, Any] | None = None
    """Why and with what it left the variant's pool."""
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    rankings_left: float | None = None
    """Rankings that it is expected to have left until it expires, where its index is by that."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Standing:
        """The answer as it came."""
        index = raw["index"] if "index" in raw else raw.get("score")
        rest = {name: raw.get(name) for name in ("left", "estimate", "low", "high", "rankings_left")}
        return cls(raw["impressions"], raw["rewards"], index, **rest)


@dataclass(frozen=True, slots=True)
class Item:
    """An item, and how it stands with every variant; lists do not give ``metadata`` and ``features``."""

    id: str
    state: str
    tags: tuple[str, ...]
    added_at: datetime | None
    expires_at: datetime | None
    impressions: float
    rewards: float
    variants: Mapping[str, Standing]
    metadata: Mapping[str, Any] | None = None
    group: tuple[str, ...] = ()
    features: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Item:
        """The answer as it came."""
        return cls(
            raw["id"],
            raw["state"],
            tuple(raw["tags"]),
            _time(raw["added_at"]),
            _time(raw["expires_at"]),
            raw["impressions"],
            raw["rewards"],
            {name: Standing.of(standing) for name, standing in raw["variants"].items()},
            raw.get("metadata"),
            tuple(raw.get("group", ())),
            raw.get("features"),
        )


@dataclass(frozen=True, slots=True)
class VariantStanding(_Answer):
    """A variant's totals, and its rate with an interval that is valid at every moment."""

    variant: str
    requests: int
    impressions: float
    reward: float
    rate: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ShadowStanding(_Answer):
    """A candidate that ranks unseen: what it would have shown and earned, and whether it is safe to promote it.

    ``same`` is the share of what was shown that it would have shown too; ``rate`` and its ends are None where there is
    no answer, and the sentence says why.
    """

    shadow: str
    policy: str
    requests: int
    settled_requests: int
    share: float | None
    same: float | None
    same_place: float | None
    logged: float | None
    rate: float | None
    low: float | None
    high: float | None
    lift_low: float | None
    lift_high: float | None
    safe: bool
    unsupported: float | None
    assumption: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """How the variants stand; ``raw`` is everything the service says of it."""

    variants: tuple[VariantStanding, ...]
    raw: Mapping[str, Any] = field(repr=False)
    shadows: tuple[ShadowStanding, ...] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Experiment:
        """The answer as it came."""
        shadows = tuple([ShadowStanding.of(row) for row in raw.get("shadows", ())])  # an older service has none
        return cls(tuple([VariantStanding.of(row) for row in raw["variants"]]), raw, shadows)

    def __getitem__(self, variant: str) -> VariantStanding:
        for row in self.variants:
            if row.variant == variant:
                return row
        raise KeyError(variant)


@dataclass(frozen=True, slots=True)
class ExperimentPhase(_Answer):
    """A time in which the allocation of traffic stayed the same; ``requests``: rankings made in it, by variant."""

    seq: int
    since: str
    by: str
    variants: dict[str, str]
    weights: dict[str, float]
    split: str
    control: str
    why: str
    traffic: float
    ended: bool
    requests: dict[str, int]
    shadows: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExperimentSummary(_Answer):
    """An experiment in a list: what it plays, on what part of the traffic, and since when."""

    name: str
    state: str
    since: str | None
    until: str | None
    placement: str | None
    traffic: float
    variants: dict[str, str]
    weights: dict[str, float]
    split: str
    control: str
    learning: str
    guardrail: str | None
    phase: int
    phases: int
    requests: int
    shadows: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeriesColumn(_Answer):
    """A variant's figures, one for each step; ``cumulative`` is the reward since the beginning."""

    requests: list[float]
    impressions: list[float]
    reward: list[float]
    cumulative: list[float]


@dataclass(frozen=True, slots=True)
class Series:
    """The experiment over time: when each step begins, and each variant's figures."""

    resolution: str
    steps: tuple[datetime, ...]
    variants: Mapping[str, SeriesColumn]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Series:
        """The answer as it came."""
        steps = tuple([datetime.fromisoformat(step) for step in raw["steps"]])
        columns = {name: SeriesColumn.of(column) for name, column in raw["variants"].items()}
        return cls(raw["resolution"], steps, columns)


@dataclass(frozen=True, slots=True)
class ItemHistoryColumn(_Answer):
    """An item's figures under one variant, one for each step."""

    impressions: list[float]
    reward: list[float]


@dataclass(frozen=True, slots=True)
class HistoryMark:
    """Something that was done with an item, or that it did, and in whose pool."""

    at: datetime
    what: str
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class ItemHistory:
    """An item over time; ``complete`` where the events read reach back to its beginning.

    ``variants`` has counts that were no variant's under the name ``""``.
    """

    item: str
    complete: bool
    events_read: int
    resolution: str
    steps: tuple[datetime, ...]
    variants: Mapping[str, ItemHistoryColumn]
    marks: tuple[HistoryMark, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> ItemHistory:
        """The answer as it came."""
        return cls(
            raw["item"],
            raw["complete"],
            raw["events_read"],
            raw["resolution"],
            tuple([datetime.fromisoformat(step) for step in raw["steps"]]),
            {name: ItemHistoryColumn.of(column) for name, column in raw["variants"].items()},
            tuple([HistoryMark(datetime.fromisoformat(m["at"]), m["what"], m.get("variant")) for m in raw["marks"]]),
        )


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """A message of the live stream: ``hello`` or ``tick``, and what the experiment looks like by then."""

    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Health(_Answer):
    """Whether rankings can be had: ``ready``, or ``degraded`` while the store is away; events that wait for it."""

    status: str
    items: int = 0
    waiting: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LearnedEffect(_Answer):
    """What a feature, or a pair of them, adds to the natural parameter (for clicks, log-odds); 95 % interval."""

    name: str
    effect: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CalibrationClass(_Answer):
    """Impressions with about the same prediction, and what came of them, with a 95 % interval."""

    predicted: float
    observed: float
    low: float
    high: float
    impressions: float


@dataclass(frozen=True, slots=True)
class LearnedModel:
    """What the model of a variant has learned."""

    variant: str
    policy: str
    model: str
    items: int
    impressions: float
    effects: tuple[LearnedEffect, ...]
    """Those that all items share, the surest first."""
    calibration: tuple[CalibrationClass, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> LearnedModel:
        """The answer as it came."""
        effects = tuple([LearnedEffect.of(row) for row in raw["effects"]])
        calibration = tuple([CalibrationClass.of(row) for row in raw["calibration"]])
        plain = {f.name: raw[f.name] for f in fields(cls)} | {"effects": effects, "calibration": calibration}
        return cls(**plain)


@dataclass(frozen=True, slots=True)
class LearnedGroup:
    """How many times the rate of the whole a group's is, with a 95 % interval, and what is behind it."""

    group: tuple[str, ...]
    """Names from broad to narrow; empty for items that share tags alone."""
    tags: tuple[str, ...]
    effect: float
    low: float
    high: float
    items: int
    impressions: float

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> LearnedGroup:
        """The answer as it came."""
        plain = {f.name: raw[f.name] for f in fields(cls)}
        return cls(**plain | {"group": tuple(raw["group"]), "tags": tuple(raw["tags"])})


@dataclass(frozen=True, slots=True)
class LearnedGroups:
    """What a variant has learned of groups."""

    variant: str
    policy: str
    rate: float
    """Click rate of an item of which nothing is known: what effects are times of."""
    shares: tuple[float, ...]
    """Of the variance of click rates, how much lies between the groups of each level, broad to narrow."""
    sentence: str
    groups: tuple[LearnedGroup, ...]
    """Those that stand out most."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> LearnedGroups:
        """The answer as it came."""
        shares = tuple([float(row["share"]) for row in raw["levels"]])
        groups = tuple([LearnedGroup.of(row) for row in raw["groups"]])
        return cls(raw["variant"], raw["policy"], raw["rate"], shares, raw["sentence"], groups)


@dataclass(frozen=True, slots=True)
class BestItem:
    """An item that is among the best, or may be."""

    id: str
    certain: bool
    """Whether it is surely among the best, or at most ``epsilon`` below them."""
    impressions: float
    worth: float
    """What these count by where they were shown."""
    rewards: float
    unsettled: float
    """Of the impressions, how many may still be rewarded, at most."""
    rate: float | None
    """Rewards for what the impressions are worth."""
    low: float
    """Bounds of its rate, valid for all items at all times together."""
    high: float

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> BestItem:
        """The answer as it came."""
        return cls(**{f.name: raw[f.name] for f in fields(cls)})


@dataclass(frozen=True, slots=True)
class BestItemsAnswer:
    """How sure the best items of an experiment are."""

    state: str
    """``found``, ``open``, ``few`` (no more items than wanted) or ``refused``."""
    sentence: str
    notes: tuple[str, ...]
    """What is taken for granted, or was left out."""
    items: int
    """Items that may be shown."""
    certain: int
    contending: int
    """Items that may be among the best or not."""
    impressions: float
    unsettled: float
    best: tuple[BestItem, ...]
    """The certain ones first, then by rate: as many as wanted."""

    @property
    def done(self) -> bool:
        """Whether all that are wanted are certain."""
        return self.state == "found"

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> BestItemsAnswer:
        """The answer as it came."""
        plain = {f.name: raw[f.name] for f in fields(cls)}
        best = tuple([BestItem.of(row) for row in raw["best"]])
        return cls(**plain | {"notes": tuple(raw["notes"]), "best": best})


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class Position(_Answer):
    """A position of rankings: how much it is looked at, with a 95 % interval, and what an impression counts there."""

    position: int
    looked: float | None
    low: float | None
    high: float | None
    worth: float


@dataclass(frozen=True, slots=True)
class Positions:
    """How much positions are looked at, relative to the first, and what that changes."""

    setting: str
    known: bool
    """Whether what was learned is known well enough to be used."""
    rewards: float
    """In random order, that it was last learned from."""
    effect: float
    """How far the curve is from a flat one: root mean square of its logarithm."""
    error: float
    """The same of its standard error: known if the effect is more than 1.5 times that."""
    impressions: float
    worth: float
    """What all impressions so far count together, for what the algorithms learn."""
    sentence: str
    positions: tuple[Position, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Positions:
        """The answer as it came."""
        rows = tuple([Position.of(row) for row in raw["positions"]])
        rest = {f.name: raw[f.name] for f in fields(cls) if f.name != "positions"}
        return cls(**rest, positions=rows)


@dataclass(frozen=True, slots=True)
class CheckedVariant(_Answer):
    """A variant estimated from the others' traffic, and measured, in reward of a place that they share."""

    variant: str
    rankings: int
    others: int
    shared: float
    """Part of its places that the others show too."""
    estimated: float | None
    low: float | None
    high: float | None
    measured: float | None
    measured_low: float | None
    measured_high: float | None
    agrees: bool | None
    """Whether the two intervals have something in common; None where the log cannot tell."""
    refusal: str
    """Why it cannot; empty where it can."""
    sentence: str


@dataclass(frozen=True, slots=True)
class CheckedVariants:
    """The last self-check of the log; ``running`` while a newer one is under way."""

    state: str
    at: datetime | None
    since: datetime | None
    """The first ranking that was gone through."""
    rankings: int
    chances: str
    """How far the chances of what was shown can be trusted."""
    reason: str | None
    """Why the last one failed."""
    variants: tuple[CheckedVariant, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> CheckedVariants:
        """The answer as it came."""
        plain = {name: raw[name] for name in ("state", "rankings", "chances", "reason")}
        rows = tuple([CheckedVariant.of(row) for row in raw["variants"]])
        return cls(**plain, at=_time(raw["at"]), since=_time(raw["since"]), variants=rows)
