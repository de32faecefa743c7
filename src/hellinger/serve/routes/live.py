"""The experiment as it goes on, and one item's story."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from hellinger.ledger import MAIN
from hellinger.serve import models
from hellinger.serve.access import needs
from hellinger.serve.answers import ApiError
from hellinger.serve.history import history as item_history
from hellinger.serve.keys import CALLER
from hellinger.serve.live import Live, Stream
from hellinger.serve.routes._common import ERRORS, Control, compared_with, error, json_response, service_of

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["experiment"], responses=ERRORS)
Named = Annotated[str, Query(max_length=32, description="Name of an experiment.")]
_EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}, "description": "Messages."}}


@router.get("/stream", response_class=Response, responses=_EVENTS)
@needs("read")
async def stream(request: Request, control: Control = None, experiment: Named = MAIN) -> Response:
    """Follow an experiment by server-sent events: ``hello`` with the last five minutes, then ``tick`` every second."""
    live: Live = request.app.state.live
    compared = compared_with(service_of(request), experiment, control)
    listener = await live.join(experiment, compared, request.scope[CALLER])
    return Stream(live, listener)


@router.get("/history", response_model=models.HistoryAnswer, responses={404: error("No such item.")})
@needs("read")
async def history(
    request: Request, item: Annotated[str, Query(max_length=1024, description="Id of the item.")]
) -> Response:
    """An item over time, from the newest events of the log; ``complete``: they reach back to its beginning."""
    service = service_of(request)
    catalogue = service.desk.ledger.catalogue
    slot = catalogue.slots.get(item)
    if slot is None:
        raise ApiError(404, f"`item` must be the id of an item, but got {item!r}")
    live: Live = request.app.state.live
    async with live.reading:  # reading costs time that rankings could use
        since, last = int(catalogue["since"][slot]), service.desk.ledger.seq
        return json_response(await asyncio.to_thread(item_history, service.store, item, since, last))
