"""What each method of a client sends, and how it reads the answer: written once for both clients."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import httpx
import orjson

from hellinger.client.answers import (
    Added,
    BestItemsAnswer,
    CheckedVariants,
    CountRow,
    Experiment,
    ExperimentPhase,
    ExperimentSummary,
    Feedback,
    Health,
    Imported,
    Item,
    ItemHistory,
    LearnedGroups,
    LearnedModel,
    NewItem,
    Outcome,
    Positions,
    Ranking,
    Series,
)
from hellinger.client.errors import ServiceError

__all__ = [
    "Call",
    "Page",
    "add_items",
    "best_items",
    "change_experiment",
    "delete",
    "end_experiment",
    "experiment",
    "experiments",
    "feedback",
    "health",
    "hide",
    "history",
    "import_counts",
    "impressions",
    "item",
    "learned_groups",
    "learned_models",
    "live",
    "page",
    "phases",
    "positions",
    "rank",
    "self_check",
    "series",
    "start_experiment",
    "unhide",
    "window",
]

EXPORTING = 3600.0
"""Seconds to wait for the next rows of an export: it is made while the service's processors have nothing else to do."""

T = TypeVar("T")
Resolution = Literal["minute", "hour", "day"]
State = Literal["shown", "hidden", "expired", "graduated", "outclassed"]
Sort = Literal["newest", "oldest", "impressions", "rewards", "estimate"]


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request that may be sent more than once without harm, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    done: T | None = None
    """What it means when a retry finds nothing there: an earlier attempt did it, and its answer was lost."""

    def sent(self) -> dict[str, Any]:
        """Arguments for httpx."""
        out: dict[str, Any] = {"headers": dict(self.headers)}
        if self.params:
            out["params"] = self.params
        if self.body is not None:
            out["content"] = orjson.dumps(self.body, default=_plain)
            out["headers"]["Content-Type"] = "application/json"
        return out

    def answer(self, response: httpx.Response) -> T:
        """What the service says, with types; what is no answer of this service is an error."""
        try:
            return self.read(orjson.loads(response.content))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            problem = f"the answer must be that of the service, but {self.method} {self.path} brought something else"
            raise ServiceError(response.status_code, "strange_answer", problem) from None


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot be sent as JSON: {type(value).__name__}")


def _moment(at: datetime | None) -> str | None:
    """A time as the service reads it; without a zone it is taken as UTC, as the service does."""
    return None if at is None else (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


def _path(item: str, what: str = "") -> str:
    # a path of dots would be resolved on the way
    return "/v1/items/" + (quote(item, safe="") if item.strip(".") else item.replace(".", "%2E")) + what


# Items ---------------------------------------------------------------------------------------------


def add_items(items: Iterable[NewItem | str]) -> Call[Added]:
    """Add items, or change those whose id is known; none where one of them is refused."""
    rows = []
    for each in items:
        item = NewItem(each) if isinstance(each, str) else each
        row: dict[str, Any] = {"id": item.id}
        if item.tags:
            row["tags"] = list(item.tags)
        if item.expires_at is not None:
            row["expires_at"] = _moment(item.expires_at)
        if item.metadata is not None:
            row["metadata"] = item.metadata
        if item.group:
            row["group"] = item.group if isinstance(item.group, str) else list(item.group)
        if item.features is not None:
            row["features"] = item.features
        rows.append(row)
    return Call("POST", "/v1/items", Added.of, {"items": rows})


def item(id: str) -> Call[Item]:  # noqa: A002
    """An item: its counts, and its estimate, interval and index under each variant."""
    return Call("GET", _path(id), Item.of)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of items, and where the next begins."""

    items: tuple[Item, ...]
    total: int
    next: str | None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Page:
        """The answer as it came."""
        return cls(tuple([Item.of(row) for row in raw["items"]]), raw["total"], raw["next"])


def page(
    *,
    limit: int = 1000,
    cursor: str | None = None,
    tag: str | None = None,
    state: State | None = None,
    search: str | None = None,
    sort: Sort = "oldest",
) -> Call[Page]:
    """One page of items."""
    asked = {"limit": str(limit), "cursor": cursor, "tag": tag, "state": state, "search": search, "sort": sort}
    return Call("GET", "/v1/items", Page.of, params={name: value for name, value in asked.items() if value is not None})


def hide(id: str) -> Call[str]:  # noqa: A002
    """Leave an item out of every ranking until it is brought back; the state it is in now."""
    return Call("POST", _path(id, "/hide"), _state)


def unhide(id: str) -> Call[str]:  # noqa: A002
    """Bring a hidden item back; the state it is in now."""
    return Call("POST", _path(id, "/unhide"), _state)


def delete(id: str) -> Call[str]:  # noqa: A002
    """Take an item out for good; ``"deleted"``."""
    return Call("DELETE", _path(id), _state, done="deleted")


def history(id: str) -> Call[ItemHistory]:  # noqa: A002
    """An item over time, from the newest events of the log."""
    return Call("GET", "/v1/history", ItemHistory.of, params={"item": id})


def _state(raw: Mapping[str, Any]) -> str:
    return str(raw["state"])


# Rankings and feedback --------------------------------------------------------------------------------


def rank(
    k: int = 20,
    *,
    user: str | None = None,
    segment: str | None = None,
    placement: str | None = None,
    context: Mapping[str, Any] | None = None,
    exclude: Sequence[str] = (),
    tags: Sequence[str] | None = None,
    among: Sequence[str] | None = None,
    key: str | None = None,
) -> Call[Ranking]:
    """Rank the best k items for one request, and count them as shown.

    ``placement`` names where they are shown: an experiment may have it to itself. ``context`` says who asks: numbers,
    words, lists of words. ``key`` names the request: sent again
    under the same key, it is answered as before and counts once. A new one is made where none is given.
    """
    body: dict[str, Any] = {"k": k} | _given(user=user, segment=segment, placement=placement, context=context)
    if exclude:
        body["exclude"] = list(exclude)
    if tags is not None:
        body["tags"] = list(tags)
    if among is not None:
        body["among"] = list(among)
    headers = {"Idempotency-Key": key if key is not None else secrets.token_urlsafe(16)}
    return Call("POST", "/v1/rank", Ranking.of, body, headers=headers)


def feedback(events: Iterable[Feedback]) -> Call[Outcome]:
    """Tell what users did with the items of rankings. Counted once, however often it is sent."""
    rows = []
    for event in events:
        row: dict[str, Any] = {"ranking_id": event.ranking_id, "item": event.item, "kind": event.kind}
        if event.value != 1.0:
            row["value"] = event.value
        if event.at is not None:
            row["at"] = _moment(event.at)
        rows.append(row)
    return Call("POST", "/v1/feedback", Outcome.of, {"events": rows})


def impressions(seen: Iterable[tuple[str, str]]) -> Call[Outcome]:
    """Confirm which items of rankings were really seen: pairs of request id and item."""
    rows = [{"ranking_id": request, "item": item} for request, item in seen]
    return Call("POST", "/v1/impressions", Outcome.of, {"events": rows})


def import_counts(
    batch: str, rows: Iterable[CountRow], *, variant: str | None = None, segment: str | None = None
) -> Call[Imported]:
    """Import counts gathered elsewhere; the same batch twice counts once."""
    sent = []
    for row in rows:
        one: dict[str, Any] = {"item": row.item, "impressions": row.impressions, "rewards": row.rewards}
        if row.since is not None:
            one["from"] = _moment(row.since)
        if row.until is not None:
            one["to"] = _moment(row.until)
        sent.append(one)
    body = {"batch": batch, "variant": variant, "segment": segment, "rows": sent}
    return Call("POST", "/v1/counts", Imported.of, body)


# The experiment ---------------------------------------------------------------------------------------


def experiments() -> Call[tuple[ExperimentSummary, ...]]:
    """All experiments, the main one first; those that have ended stay."""
    return Call("GET", "/v1/experiments", _experiments)


def experiment(name: str = "main", *, control: str | None = None) -> Call[Experiment]:
    """How an experiment's variants stand, compared with a control."""
    return Call("GET", _at(name), Experiment.of, params=_given(control=control))


def start_experiment(
    name: str,
    variants: Mapping[str, str],
    *,
    weights: Mapping[str, float] | None = None,
    shadows: Mapping[str, str] | None = None,
    control: str | None = None,
    split: Literal["random", "sticky"] | None = None,
    placement: str | None = None,
    share: float | None = None,
    learning: Literal["isolated", "shared"] | None = None,
    guardrail: str | None = None,
    holdout: Literal["uniform", "fixed"] | None = None,
    holdout_share: float | None = None,
    begin: Literal["empty", "common"] | None = None,
    why: str | None = None,
) -> Call[tuple[ExperimentSummary, ...]]:
    """Start an experiment on its share of the traffic, of all or of a ``placement``; all experiments.

    ``variants`` have a policy each; so do ``shadows``, which rank unseen. ``holdout``: a further variant that does not
    learn. ``begin``: variants begin with no counts, or with the ``common`` ones of all variants so far. ``guardrail``:
    a kind of feedback to watch.
    """
    body = {"name": name, "variants": dict(variants)} | _given(
        weights=weights,
        shadows=shadows,
        control=control,
        split=split,
        placement=placement,
        share=share,
        learning=learning,
        guardrail=guardrail,
        holdout=holdout,
        holdout_share=holdout_share,
        begin=begin,
        why=why,
    )
    return Call("POST", "/v1/experiments", _experiments, body)


def phases(name: str = "main") -> Call[tuple[ExperimentPhase, ...]]:
    """The phases of an experiment, oldest first; the last is in force."""
    return Call("GET", f"{_at(name)}/phases", _phases)


def change_experiment(
    name: str = "main",
    *,
    variants: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
    shadows: Mapping[str, str | None] | None = None,
    split: Literal["random", "sticky"] | None = None,
    control: str | None = None,
    guardrail: str | None = None,
    share: float | None = None,
    begin: Literal["empty", "common"] | None = None,
    why: str | None = None,
    after: int | None = None,
) -> Call[tuple[ExperimentPhase, ...]]:
    """Begin another phase of an experiment; all its phases.

    ``variants`` are policies of new variants, or other ones of those there are. ``weights`` are of every variant that
    is to have traffic: others stop. ``shadows`` are policies of new shadows, None for one that ends; one with a weight
    becomes a variant. ``after``: only if this phase, by its ``seq``, is still in force.
    """
    body = _given(
        variants=variants,
        weights=weights,
        shadows=shadows,
        split=split,
        control=control,
        guardrail=guardrail,
        share=share,
        begin=begin,
        why=why,
        after=after,
    )
    return Call("POST", f"{_at(name)}/phases", _phases, body)


def end_experiment(name: str, *, why: str | None = None, after: int | None = None) -> Call[tuple[ExperimentPhase, ...]]:
    """End an experiment: the main one has its traffic again, and its figures stay; all its phases."""
    return Call("POST", f"{_at(name)}/end", _phases, _given(why=why, after=after))


def _at(name: str) -> str:
    return f"/v1/experiments/{quote(name, safe='')}"


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _phases(raw: Mapping[str, Any]) -> tuple[ExperimentPhase, ...]:
    return tuple([ExperimentPhase.of(row) for row in raw["phases"]])


def _experiments(raw: Mapping[str, Any]) -> tuple[ExperimentSummary, ...]:
    return tuple([ExperimentSummary.of(row) for row in raw["experiments"]])


def series(
    resolution: Resolution = "hour",
    *,
    experiment: str = "main",
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[Series]:
    """An experiment's variants over time. Minutes are kept for two days, hours and days for good."""
    params = {"resolution": resolution} | window(since, until)
    return Call("GET", f"{_at(experiment)}/series", Series.of, params=params)


def window(since: datetime | None, until: datetime | None) -> dict[str, str]:
    """A stretch of time as the service's routes take it."""
    ends = {"since": _moment(since), "until": _moment(until)}
    return {name: text for name, text in ends.items() if text is not None}


def exported(form: str, since: datetime | None, until: datetime | None, *, retrace: bool) -> dict[str, str]:
    """What is asked of an export."""
    return {"format": form, **({"retrace": "true"} if retrace else {}), **window(since, until)}


def learned_models(experiment: str = "main") -> Call[tuple[LearnedModel, ...]]:
    """What the models of an experiment's variants have learned, and how true their predictions were."""
    return Call("GET", f"{_at(experiment)}/models", lambda raw: tuple(map(LearnedModel.of, raw["models"])))


def learned_groups(experiment: str = "main") -> Call[tuple[LearnedGroups, ...]]:
    """What an experiment's variants have learned of groups: how much they tell, and which stand out most."""
    return Call("GET", f"{_at(experiment)}/groups", lambda raw: tuple(map(LearnedGroups.of, raw["variants"])))


def best_items(
    experiment: str = "main", *, k: int = 20, delta: float = 0.05, epsilon: float = 0.0, variant: str | None = None
) -> Call[BestItemsAnswer]:
    """Which k items have the highest rates, and which of them are certain but for a chance of ``delta``.

    A rate at most ``epsilon`` below the k-th best is good enough; ``variant`` counts its impressions alone.
    """
    asked = {name: str(value) for name, value in _given(k=k, delta=delta, epsilon=epsilon, variant=variant).items()}
    return Call("GET", f"{_at(experiment)}/best", BestItemsAnswer.of, params=asked)


def self_check(experiment: str = "main", *, begin: bool = True) -> Call[CheckedVariants]:
    """Each variant estimated from the others' traffic, and what it earned itself; ``begin`` has an old check made anew.

    The answer is of the last check and comes at once: ask again while its ``state`` is ``running``.
    """
    params = {} if begin else {"begin": "false"}
    return Call("GET", f"{_at(experiment)}/self-check", CheckedVariants.of, params=params)


def positions() -> Call[Positions]:
    """How much each position of rankings is looked at, with its certainty, and what an impression counts there."""
    return Call("GET", "/v1/positions", Positions.of)


def health() -> Call[Health]:
    """Whether the service can rank, and whether its store is there."""
    return Call("GET", "/health/ready", Health.of)


def live() -> Call[bool]:
    """Whether the process answers, able to rank or not."""
    return Call("GET", "/health/live", lambda raw: bool(raw["status"] == "live"))
