"""The experiment: how the variants stand, over time, and the log behind it."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from hellinger.engine.best import BestQuestion
from hellinger.engine.experiments import UnknownExperimentError
from hellinger.experiment.names import full_name
from hellinger.ledger import RESOLUTIONS
from hellinger.serve import best, looks, models, standing
from hellinger.serve.access import needs
from hellinger.serve.answers import ApiError
from hellinger.serve.exports import Exports, Streamed
from hellinger.serve.groups import GroupsLearned
from hellinger.serve.keys import CALLER, ROLE
from hellinger.serve.learned import learned
from hellinger.serve.live import Live
from hellinger.serve.routes._common import (
    ERRORS,
    Control,
    compared_with,
    error,
    json_response,
    known_experiment,
    service_of,
)
from hellinger.serve.selfcheck import SelfChecking
from hellinger.store import StoreUnavailableError

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["experiment"], responses=ERRORS)
Time = Annotated[datetime | None, Query(examples=["2026-01-31T12:00:00Z"])]
_TEXT = {"schema": {"type": "string"}}
_FILE = {"schema": {"type": "string", "format": "binary"}}
_ROWS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The rows.",
        "content": {"application/x-ndjson": _TEXT, "application/vnd.apache.parquet": _FILE},
    }
}


Named = Annotated[str, Path(max_length=32, description="Name of an experiment; `main` is the first one.")]
_CONFLICT: dict[int | str, dict[str, Any]] = {409: error("Another phase is in force.")}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: error("No such experiment.")}


@router.get("/experiments", response_model=models.ExperimentsAnswer)
@needs("read")
async def experiments(request: Request) -> Response:
    """All experiments, the main one first; those that have ended stay."""
    return _listed(request)


@router.post("/experiments", response_model=models.ExperimentsAnswer, responses=_CONFLICT)
@needs("admin")
async def start(body: Annotated[models.StartBody, models.FEW_MISTAKES], request: Request) -> Response:
    """Start an experiment on its part of the traffic, on all replicas at once.

    It takes its share of the rankings with its placement, or of all; the main experiment has the rest.
    """
    await _change(request, service_of(request).experiments.start(_by(request), **body.asked()))
    return _listed(request)


@router.get("/experiments/{name}", response_model=models.ExperimentAnswer, responses=_UNKNOWN)
@needs("read")
async def experiment(request: Request, name: Named, control: Control = None) -> Response:
    """How the variants stand: totals, rates with intervals that are valid at every moment, lifts, and a sentence."""
    service = service_of(request)
    return json_response(await standing.standing(service, name, compared_with(service, name, control)))


@router.get("/positions", response_model=models.PositionsAnswer)
@needs("read")
async def positions(request: Request) -> Response:
    """How much each position is looked at, with its certainty, and what an impression counts there."""
    return json_response(looks.positions(service_of(request).desk))


@router.get("/experiments/{name}/phases", response_model=models.PhasesAnswer, responses=_UNKNOWN)
@needs("read")
async def phases(request: Request, name: Named) -> Response:
    """The phases of an experiment: times in which weights and variants stayed the same."""
    service = service_of(request)
    known_experiment(service, name)
    return json_response({"phases": standing.phases(service.desk.ledger, name)})


@router.post("/experiments/{name}/phases", response_model=models.PhasesAnswer, responses=_CONFLICT | _UNKNOWN)
@needs("admin")
async def change(
    body: Annotated[models.AllocationBody, models.FEW_MISTAKES], request: Request, name: Named
) -> Response:
    """Begin another phase, on all replicas at once: other weights, new variants, or some that stop.

    What was learned stays. A variant that stops gives its traffic to the others.
    """
    service = service_of(request)
    await _change(request, service.experiments.change(_by(request), name, **body.asked()))
    return json_response({"phases": standing.phases(service.desk.ledger, name)})


@router.post("/experiments/{name}/end", response_model=models.PhasesAnswer, responses=_CONFLICT | _UNKNOWN)
@needs("admin")
async def end(body: Annotated[models.EndBody, models.FEW_MISTAKES], request: Request, name: Named) -> Response:
    """End an experiment: the main one has its traffic again, and its figures stay."""
    service = service_of(request)
    await _change(request, service.experiments.end(_by(request), name, **body.asked()))
    return json_response({"phases": standing.phases(service.desk.ledger, name)})


def _listed(request: Request) -> Response:
    return json_response({"experiments": standing.experiments(service_of(request)), "role": request.scope[ROLE]})


def _by(request: Request) -> str:
    """Who asks."""
    return request.scope[CALLER] or "anyone"


async def _change(request: Request, change: Awaitable[bool]) -> None:
    """Have an experiment changed, or say why not."""
    try:
        begun = await change
    except UnknownExperimentError as unknown:
        raise ApiError(404, str(unknown)) from None
    except ValueError as wrong:
        raise ApiError(422, str(wrong)) from None
    if not begun:
        place = service_of(request).desk.ledger.phase_place
        raise ApiError(409, f"the phase in force must be the one of `after`, but another began at event {place}")


@router.get("/experiments/{name}/models", response_model=models.ModelsAnswer, responses=_UNKNOWN)
@needs("read")
async def learned_by_models(request: Request, name: Named) -> Response:
    """What an experiment's variants have learned of features, by models or priors, and how true predictions were."""
    service = service_of(request)
    known_experiment(service, name)
    desk = service.desk
    return json_response({"models": learned(desk.ledger, standing.variants(service, name), desk.pools.variants)})


@router.get("/experiments/{name}/groups", response_model=models.GroupsAnswer, responses=_UNKNOWN)
@needs("read")
async def learned_of_groups(request: Request, name: Named) -> Response:
    """What an experiment's variants have learned of groups: how much they tell, and which stand out most."""
    service = service_of(request)
    known_experiment(service, name)
    groups: GroupsLearned = request.app.state.groups
    return json_response({"variants": await groups.find(standing.variants(service, name))})


@router.get("/experiments/{name}/best", response_model=models.BestAnswer, responses=_UNKNOWN)
@needs("read")
async def best_items(
    request: Request,
    name: Named,
    k: Annotated[int, Query(ge=1, le=1000, description="How many are wanted.")] = 20,
    delta: Annotated[float, Query(gt=0, lt=1, description="Chance with which the answer may be wrong.")] = 0.05,
    epsilon: Annotated[
        float, Query(ge=0, lt=1, description="A rate so much below the k-th best is good enough.")
    ] = 0.0,
    variant: Annotated[str | None, Query(max_length=64, description="Count this variant's impressions alone.")] = None,
) -> Response:
    """Which k items have the highest rates, and which of them are certain; valid however often one asks."""
    service = service_of(request)
    of = standing.variants(service, name) if known_experiment(service, name) else []
    if variant is not None:
        if (full := full_name(name, variant)) not in of:
            raise ApiError(422, f"`variant` must be one of {', '.join(of)}, but got {variant!r}")
        of = [full]
    live: Live = request.app.state.live
    return json_response(await best.best_items(service.desk, live.best, BestQuestion(tuple(of), k, delta, epsilon)))


@router.get("/experiments/{name}/self-check", response_model=models.SelfCheckAnswer, responses=_UNKNOWN)
@needs("read")
async def self_check(
    request: Request,
    name: Named,
    begin: Annotated[bool, Query(description="Begin a check, unless the last one is new.")] = True,
) -> Response:
    """Each variant estimated from the others' traffic, and what it earned itself: the last check, at once.

    A check goes through the newest 20,000 rankings again, in a process of its own; ask again while it is `running`.
    """
    service = service_of(request)
    known_experiment(service, name)
    if begin and service.journal.away:
        raise StoreUnavailableError("the store is away")
    checking: SelfChecking = request.app.state.self_check
    found = checking.look(standing.variants(service, name), begin=begin, place=service.desk.ledger.seq)
    return json_response(found)


@router.get("/experiments/{name}/series", response_model=models.SeriesAnswer, responses=_UNKNOWN)
@needs("read")
async def series(
    request: Request,
    name: Named,
    resolution: Annotated[Literal["minute", "hour", "day"], Query(description="Length of a step.")] = "hour",
    since: Time = None,
    until: Time = None,
) -> Response:
    """The variants over time. The newest 2,880 minutes with traffic are kept, hours and days for good."""
    first, last = models.milliseconds(since), models.milliseconds(until)
    service = service_of(request)
    known_experiment(service, name)
    names = standing.variants(service, name)
    length = RESOLUTIONS[resolution]
    return json_response(standing.series(service.desk.ledger.series, names, resolution, length, first, last))


@router.get("/export", response_class=Response, responses=_ROWS)
@needs("read")
async def export(
    request: Request,
    format: Annotated[Literal["jsonl", "parquet"], Query(description="JSON lines, or Parquet.")] = "jsonl",  # noqa: A002
    since: Time = None,
    until: Time = None,
    retrace: Annotated[bool, Query(description="Go through the log again for the chances of every variant.")] = False,
) -> Response:
    """The log, a row for each item shown: propensity, policy, position, score, and what came of it."""
    if service_of(request).journal.away:
        raise StoreUnavailableError("the store is away")
    exports: Exports = request.app.state.exports
    caller = request.scope[CALLER]
    times = models.milliseconds(since), models.milliseconds(until)
    return Streamed(exports, format, *times, retrace=retrace, caller=caller)
