"""How the variants stand, over time, and one item"s story."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from hellinger.serve.models.fields import Body, Name

__all__ = [
    "AllocationBody",
    "BestAnswer",
    "BestItemRow",
    "CalibrationRow",
    "ColumnsRow",
    "EffectRow",
    "EndBody",
    "ExperimentAnswer",
    "ExperimentsAnswer",
    "Former",
    "GroupLevelRow",
    "GroupRow",
    "GroupedVariantRow",
    "GroupsAnswer",
    "Guardrail",
    "GuardrailRow",
    "HistoryAnswer",
    "HistoryColumn",
    "Mark",
    "ModelColumns",
    "ModelRow",
    "ModelsAnswer",
    "PhaseAnswer",
    "PhasesAnswer",
    "PositionRow",
    "PositionsAnswer",
    "SelfCheckAnswer",
    "SelfCheckRow",
    "SeriesAnswer",
    "SeriesColumnAnswer",
    "ShadowEstimate",
    "ShadowRow",
    "StartBody",
    "Summary",
    "VariantRow",
]


class VariantRow(BaseModel):
    """A variant's figures."""

    variant: str
    requests: int
    impressions: float
    reward: float
    settled_requests: int = Field(description="Rankings whose reward is final: all that follows is of these.")
    settled_impressions: float
    settled_reward: float
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


Weights = Annotated[
    dict[Name, float] | None,
    Field(
        description="Of every variant that is to have traffic: others stop. Without them a new one has weight 1.",
        examples=[{"cold-start": 9, "ucb1": 1}],
    ),
]
Begin = Annotated[
    Literal["empty", "common"],
    Field(description="New variants begin with no counts, or with those of all variants together so far."),
]
Why = Annotated[str, Field(max_length=1000, description="A note for readers of the log.")]
After = Annotated[int | None, Field(description="Only if this phase, by its `seq`, is still in force: otherwise 409.")]


class _Asked(Body):
    def asked(self) -> dict[str, Any]:
        """What is asked for, by name."""
        return self.model_dump()


class AllocationBody(_Asked):
    """What the next phase is to have otherwise."""

    variants: dict[Name, str] | None = Field(
        None,
        description="Policies of new variants, or other ones of those there are.",
        examples=[{"new": "cold-start"}],
    )
    weights: Weights = None
    shadows: dict[Name, str | None] | None = Field(
        None,
        description="Policies of new shadows; null for one that ends. A shadow with a weight becomes a variant.",
        examples=[{"candidate": "cold-start"}],
    )
    split: Literal["random", "sticky"] | None = None
    control: str | None = Field(None, description="Variant the others are compared with; empty for the last.")
    guardrail: str | None = Field(None, max_length=64, description="A kind of feedback to watch; empty for none.")
    share: float | None = Field(None, gt=0, le=1, description="Of the traffic; the main experiment has the rest.")
    begin: Begin = "empty"
    why: Why = ""
    after: After = None


class StartBody(_Asked):
    """An experiment to be started."""

    name: str = Field(max_length=32, examples=["sidebar"])
    variants: dict[Name, str] = Field(
        description="Policy of each.", examples=[{"cold-start": "cold-start", "ucb1": "ucb1"}]
    )
    weights: Weights = None
    shadows: dict[Name, str] | None = Field(
        None, description="Policies of candidates that rank its traffic unseen.", examples=[{"candidate": "kl-ucb"}]
    )
    control: str | None = Field(None, description="Variant the others are compared with; the last if not given.")
    split: Literal["random", "sticky"] = "random"
    placement: Name | None = Field(None, description="Its share is of rankings with this placement; else of all.")
    share: float = Field(1.0, gt=0, le=1, description="Of the traffic with its placement, or of all.")
    learning: Literal["isolated", "shared"] | None = Field(
        None, description="From its own rankings, or from all; as the settings say if not given."
    )
    guardrail: str | None = Field(None, max_length=64, description="A kind of feedback to watch.", examples=["hide"])
    holdout: Literal["uniform", "fixed"] | None = Field(
        None, description="A further variant that does not learn: a random order, or that in which items were added."
    )
    holdout_share: float = Field(0.05, gt=0, lt=1, description="Of the experiment's traffic.")
    begin: Begin = "empty"
    why: Why = ""


class EndBody(_Asked):
    """Why an experiment ends."""

    why: Why = ""
    after: After = None


class PhaseAnswer(BaseModel):
    """A time in which the allocation of traffic stayed the same."""

    seq: int = Field(description="Place in the log where it began.")
    since: str
    by: str = Field(description="Who began it: `settings`, or the name of a key.")
    variants: dict[str, str]
    weights: dict[str, float]
    split: Literal["random", "sticky"]
    control: str
    guardrail: str
    why: str
    traffic: float = Field(description="The experiment's share of the traffic.")
    ended: bool = Field(description="Whether the experiment ended here.")
    shadows: dict[str, str] = Field(description="Candidates that rank unseen, with their policies.")
    requests: dict[str, int] = Field(description="Rankings that were made in it, by variant.")


class PhasesAnswer(BaseModel):
    """The experiment's phases, oldest first; the last is in force."""

    phases: list[PhaseAnswer]


class Summary(BaseModel):
    """An experiment in a list."""

    name: str
    state: Literal["running", "ended"]
    since: str | None
    until: str | None = Field(description="When it ended.")
    placement: str | None
    traffic: float = Field(description="Its share of the rankings with its placement, or of all.")
    variants: dict[str, str]
    weights: dict[str, float]
    split: Literal["random", "sticky"]
    control: str
    learning: Literal["isolated", "shared"]
    guardrail: str | None
    shadows: dict[str, str] = Field(description="Candidates that rank unseen, with their policies.")
    phase: int = Field(description="Place in the log where its last phase began.")
    phases: int
    requests: int


class ExperimentsAnswer(BaseModel):
    """All experiments, the main one first."""

    experiments: list[Summary]
    role: Literal["read", "write", "admin"] = Field(
        description="Of the key that asks; without keys everybody on this machine is admin."
    )


class GuardrailRow(BaseModel):
    """How often a variant's impressions had feedback of the guardrail's kind."""

    variant: str
    count: float
    rate: float | None
    low: float
    high: float
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    alarm: bool = Field(description="Whether it is more frequent than under the control for certain.")


class Guardrail(BaseModel):
    """A second metric, which no variant should have more of than the control."""

    kind: str
    variants: list[GuardrailRow]
    alarm: bool


class ShadowEstimate(BaseModel):
    """What one estimator says of a shadow."""

    estimator: Literal["ips", "items"]
    assumption: str = Field(description="On what its intervals rest, beside right propensities.")
    units: int = Field(description="Rankings that it is of.")
    value: float | None = Field(description="Reward an impression.")
    low: float | None
    high: float | None
    difference: float | None = Field(description="The value less what was shown.")
    difference_low: float | None
    difference_high: float | None
    lift_low: float | None
    lift_high: float | None
    mean_weight: float | None = Field(description="1 where all that it would show was shown as often as needed.")
    effective_sample: float
    unsupported: float = Field(description="Share of what it would show that nobody showed.")
    refusal: str = Field(description="Why there is no answer; empty where there is one.")
    sentence: str


class ShadowRow(BaseModel):
    """A candidate that ranks unseen: what it would have shown and earned."""

    shadow: str
    policy: str
    requests: int = Field(description="Rankings that it has ranked too.")
    settled_requests: int = Field(description="Those whose reward is final: all that follows is of these.")
    share: float | None = Field(description="Of all rankings of the experiment since it began; less under load.")
    same: float | None = Field(description="Share of what was shown that it would have shown too, in any order.")
    same_place: float | None = Field(description="The same at the same position.")
    logged: float | None = Field(description="Rate of what was shown.")
    rate: float | None = Field(description="Rate that it would have had; null where there is no answer.")
    low: float | None = Field(description="Lower end of its interval, valid at every moment.")
    high: float | None
    lift_low: float | None = Field(description="What it is over what was shown, at least.")
    lift_high: float | None
    safe: bool = Field(description="Whether it is certain to be better than what was shown.")
    estimator: Literal["ips", "items"]
    assumption: str
    unsupported: float | None
    sentence: str
    estimates: list[ShadowEstimate]


class ExperimentAnswer(BaseModel):
    """How the variants stand, best first."""

    name: str
    state: Literal["running", "ended"]

    variants: list[VariantRow]
    control: str | None = Field(description="The variant that lifts are over.")
    confidence: float = Field(description="Of all intervals, over all moments at once.")
    sample_ratio: dict[str, Any] | None = Field(
        description="Whether requests, or users where they keep their variant, were shared out as intended."
    )
    verdict: str = Field(description="What it all says, for programs.")
    sentence: str = Field(description="What it all says, for people.")
    next: str = Field(description="What to do now; empty where nothing is to be decided.")
    open_requests: int = Field(description="Rankings whose reward may still rise: they are in no rate yet.")
    guardrail: Guardrail | None
    shadows: list[ShadowRow] = Field(description="Candidates that rank unseen.")
    title: str
    placement: str | None
    traffic: float
    attribution_hours: float | None = Field(description="Hours until a ranking's reward is final.")
    phase: int = Field(description="Place in the log where the phase in force began.")
    until: str | None = Field(description="When it ended.")
    split: Literal["random", "sticky"]
    learning: Literal["isolated", "shared"]
    counting: Literal["served", "confirmed"]
    items: int = Field(description="Items there are, hidden and expired ones included.")
    since: str | None = Field(description="Hour of the first figure.")
    events: int = Field(description="Place in the log that this is as of.")
    former: list[Former]


class SeriesColumnAnswer(BaseModel):
    """A variant's figures, one for each step."""

    requests: list[float]
    impressions: list[float]
    reward: list[float]
    cumulative: list[float] = Field(description="Reward up to the end of each step, since the beginning.")


class SeriesAnswer(BaseModel):
    """The experiment over time."""

    resolution: Literal["minute", "hour", "day"]
    steps: list[str] = Field(description="When each step begins.")
    variants: dict[str, SeriesColumnAnswer]


class HistoryColumn(BaseModel):
    """An item's figures under one variant, one for each step."""

    impressions: list[float]
    reward: list[float]


class Mark(BaseModel):
    """Something that was done with an item, or that it did."""

    at: str
    what: str = Field(description="added, changed, hidden, shown, expired, graduated or outclassed.")
    variant: str | None = Field(None, description="Whose pool it left.")


class HistoryAnswer(BaseModel):
    """An item over time."""

    item: str
    complete: bool = Field(description="Whether the events read reach back to the item's start.")
    events_read: int
    resolution: Literal["hour", "day"]
    steps: list[str] = Field(description="When each step begins.")
    variants: dict[str, HistoryColumn] = Field(description="Under the name '', counts that were nobody's.")
    marks: list[Mark]


class EffectRow(BaseModel):
    """What a feature adds to the natural parameter: for clicks, to the logarithm of their odds."""

    name: str = Field(description="A feature of items, of people, or a pair of them: `age × genre=drama`.")
    effect: float
    low: float = Field(description="Lower end of its 95 % interval, given the model.")
    high: float


class CalibrationRow(BaseModel):
    """Impressions with about the same prediction, and what came of them."""

    predicted: float = Field(description="Their mean prediction, by what was learned without them.")
    observed: float
    low: float = Field(description="Lower end of the 95 % interval of what was observed.")
    high: float
    impressions: float


class ColumnsRow(BaseModel):
    """How features of people, or of items, fit into the columns that a model has for them."""

    used: int
    most: int = Field(description="The model's `columns`, or its `item_columns`.")
    left_out: list[str] = Field(
        description="Keys of features that found no column, the first 20: nothing is learned of them."
    )


class ModelColumns(BaseModel):
    """Columns of a model."""

    people: ColumnsRow
    items: ColumnsRow


class ModelRow(BaseModel):
    """What one variant's model, or its prior, has learned of features."""

    variant: str
    policy: str
    model: str = Field(description="`prior` where the variant has no model, but a prior that knows features of items.")
    items: int
    impressions: float = Field(description="Impressions that it has learned from, since it began.")
    behind: int = Field(description="Items and events of the log that it has yet to learn from; at most 20,000.")
    columns: ModelColumns | None = Field(description="How features fit into its columns; null for a prior.")
    effects: list[EffectRow] = Field(description="Those that all items share, the surest first.")
    calibration: list[CalibrationRow]


class ModelsAnswer(BaseModel):
    """The models of an experiment's variants."""

    models: list[ModelRow]


class GroupLevelRow(BaseModel):
    """A level of groups: 1 are the broadest."""

    share: float = Field(description="Of the variance of click rates, how much lies between the groups of this level.")
    groups: int = Field(description="How many there are.")


class GroupRow(BaseModel):
    """What was learned of one group."""

    group: list[str] = Field(description="Names from broad to narrow; empty for items that share tags alone.")
    tags: list[str] = Field(description="These tags.")
    effect: float = Field(description="How many times the rate of the whole its own is.")
    low: float = Field(description="Lower end of its 95 % interval.")
    high: float
    items: int = Field(description="Items there, in groups within it too.")
    impressions: float = Field(description="Of these, and of those that have left.")


class GroupedVariantRow(BaseModel):
    """What one variant has learned of groups."""

    variant: str
    policy: str
    rate: float = Field(description="Click rate of an item of which nothing is known: what effects are times of.")
    levels: list[GroupLevelRow] = Field(description="Broad to narrow; none where groups tell nothing.")
    sentence: str
    groups: list[GroupRow] = Field(description="Those that stand out most, at most 20.")


class GroupsAnswer(BaseModel):
    """What an experiment's variants have learned of groups; only those that learn from them."""

    variants: list[GroupedVariantRow]


class BestItemRow(BaseModel):
    """An item that is among the best, or may be."""

    id: str
    certain: bool = Field(description="Whether it is surely among the best, or at most `epsilon` below them.")
    impressions: float
    worth: float = Field(description="What these count by where they were shown.")
    rewards: float
    unsettled: float = Field(description="Of the impressions, how many may still be rewarded, at most.")
    rate: float | None = Field(description="Rewards for what the impressions are worth.")
    low: float = Field(description="Bounds of its rate, valid for all items at all times together.")
    high: float


class BestAnswer(BaseModel):
    """How sure the best items of an experiment are."""

    state: Literal["found", "open", "few", "refused"] = Field(
        description="The best are certain; not all are yet; there are no more items than wanted; nothing can be said."
    )
    sentence: str
    notes: list[str] = Field(description="What is taken for granted here, or was left out.")
    k: int
    delta: float
    epsilon: float
    variants: list[str] = Field(description="Whose impressions are counted.")
    items: int = Field(description="Items that may be shown.")
    certain: int = Field(description="Items that are surely among the best.")
    contending: int = Field(description="Items that may be among the best or not.")
    impressions: float
    unsettled: float = Field(description="Of the impressions, how many may still be rewarded, at most.")
    best: list[BestItemRow] = Field(description="The certain ones first, then by rate: as many as wanted.")


class SelfCheckRow(BaseModel):
    """A variant estimated from the others' traffic, and measured, in reward of a place that they share."""

    variant: str
    rankings: int = Field(description="Of its own.")
    others: int = Field(description="Rankings of the others.")
    shared: float = Field(description="Part of its places that the others show too.")
    estimated: float | None = Field(description="From the others' traffic; null where they share nothing.")
    low: float | None = Field(description="Lower end of an interval that holds at all times.")
    high: float | None
    measured: float | None = Field(description="From its own.")
    measured_low: float | None
    measured_high: float | None
    effective_sample: float
    agrees: bool | None = Field(description="Whether the intervals have something in common; null for no answer.")
    refusal: str = Field(description="Why the log cannot tell; empty where it can.")
    sentence: str


class SelfCheckAnswer(BaseModel):
    """The last self-check, and whether one is under way."""

    state: Literal["none", "running", "ready", "failed"] = Field(
        description="`running`: what is given is of the check before."
    )
    at: str | None = Field(description="When it was begun; null if there was none.")
    since: str | None = Field(description="The first ranking that was gone through.")
    rankings: int = Field(description="How many, of all experiments.")
    chances: str = Field(description="How far the chances of what was shown can be trusted, in words.")
    reason: str | None = Field(description="Why the last one failed.")
    variants: list[SelfCheckRow]


class PositionRow(BaseModel):
    """A position of rankings."""

    position: int = Field(description="From 1.")
    looked: float | None = Field(
        description="How much it is looked at, relative to the first; null if nothing is known."
    )
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None
    worth: float = Field(description="What an impression here counts from now on, for what the algorithms learn.")


class PositionsAnswer(BaseModel):
    """How much positions are looked at, and what that changes."""

    setting: Literal["learned", "none", "given"]
    known: bool = Field(description="Whether what was learned is known well enough to be used.")
    rewards: float = Field(description="Rewards in random order that it was last learned from.")
    effect: float = Field(description="How far `looked` is from 1: root mean square of its logarithm.")
    error: float = Field(description="The same of its standard error: `known` if the effect is 1.5 times that.")
    impressions: float = Field(description="All impressions so far.")
    worth: float = Field(description="What they count together, for what the algorithms learn.")
    sentence: str
    positions: list[PositionRow]
