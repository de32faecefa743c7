"""What the service ranks by, for a comparison with its log."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hellinger.engine.checking import portrait
from hellinger.serve.access import needs
from hellinger.serve.routes._common import ERRORS, service_of

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["operation"], responses=ERRORS)
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The parts.", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}
}


@router.get("/state", response_class=Response, responses=_LINES)
@needs("admin")
async def state(request: Request) -> Response:
    """Give every pool's numbers as JSON lines, each with its place in the log: see `hellinger check --service`."""
    return StreamingResponse(portrait(service_of(request)), media_type="application/x-ndjson")
