"""The experiment: how the variants stand, over time, and the log behind it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from hellinger.ledger import RESOLUTIONS
from hellinger.serve import models, standing
from hellinger.serve.access import needs
from hellinger.serve.answers import ApiError
from hellinger.serve.exports import Exports, Streamed
from hellinger.serve.keys import CALLER
from hellinger.serve.routes._common import ERRORS, Control, compared_with, error, json_response, service_of
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


@router.get("/experiment", response_model=models.Experiment)
@needs("read")
async def experiment(request: Request, control: Control = None) -> Response:
    """How the variants stand: totals, rates with intervals that are valid at every moment, lifts, and a sentence."""
    service = service_of(request)
    return json_response(await standing.standing(service, compared_with(service, control)))


@router.get("/experiment/phases", response_model=models.Phases)
@needs("read")
async def phases(request: Request) -> Response:
    """The phases of the experiment: times in which weights and variants stayed the same."""
    return json_response({"phases": standing.phases(service_of(request).desk.ledger)})


@router.post("/experiment/phases", response_model=models.Phases, responses={409: error("Another phase is in force.")})
@needs("admin")
async def change(body: Annotated[models.AllocationBody, models.FEW_MISTAKES], request: Request) -> Response:
    """Begin another phase, on all copies at once: other weights, new variants, or some that stop.

    What was learned stays. A variant that stops gives its traffic to the others.
    """
    service = service_of(request)
    by = request.scope[CALLER] or "anyone"
    try:
        begun = await service.change(by, **body.model_dump())
    except ValueError as wrong:
        raise ApiError(422, str(wrong)) from None
    if not begun:
        place = service.desk.ledger.phase_place
        raise ApiError(409, f"the phase in force must be the one of `after`, but it began at event {place} of the log")
    return json_response({"phases": standing.phases(service.desk.ledger)})


@router.get("/experiment/series", response_model=models.Series)
@needs("read")
async def series(
    request: Request,
    resolution: Annotated[Literal["minute", "hour", "day"], Query(description="Length of a step.")] = "hour",
    since: Time = None,
    until: Time = None,
) -> Response:
    """The variants over time. The newest 2,880 minutes with traffic are kept, hours and days for good."""
    first, last = models.milliseconds(since), models.milliseconds(until)
    held = service_of(request).desk.ledger.series
    names = list(dict.fromkeys([*service_of(request).desk.variants, *held.totals]))
    return json_response(standing.series(held, names, resolution, RESOLUTIONS[resolution], first, last))


@router.get("/export", response_class=Response, responses=_ROWS)
@needs("read")
async def export(
    request: Request,
    format: Annotated[Literal["jsonl", "parquet"], Query(description="JSON lines, or Parquet.")] = "jsonl",  # noqa: A002
    since: Time = None,
    until: Time = None,
) -> Response:
    """The log, a row for each item shown: propensity, policy, position, score, and what came of it."""
    if service_of(request).journal.away:
        raise StoreUnavailableError("the store is away")
    exports: Exports = request.app.state.exports
    return Streamed(exports, format, models.milliseconds(since), models.milliseconds(until))
