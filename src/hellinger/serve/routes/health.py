"""Whether the service is well, for whoever watches it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hellinger.serve import models
from hellinger.serve.access import needs
from hellinger.serve.routes._common import json_response, service_of

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/health/live", response_model=models.Live)
@needs("open")
async def live() -> Response:
    """The process answers."""
    return json_response({"status": "live"})


@router.get("/health/ready", response_model=models.Ready)
@needs("open")
async def ready(request: Request) -> Response:
    """Rankings can be had. ``degraded``: from memory alone, for the store cannot be reached; feedback is refused."""
    service = service_of(request)
    status = "degraded" if service.journal.away else "ready"
    return json_response(
        {"status": status, "items": len(service.desk.ledger.catalogue), "waiting": service.journal.waiting}
    )
