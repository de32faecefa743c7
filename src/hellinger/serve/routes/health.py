"""Health checks."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hellinger.serve import models
from hellinger.serve.access import needs
from hellinger.serve.routes._common import json_response, service_of

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/health/live", response_model=models.LiveAnswer)
@needs("open")
async def live() -> Response:
    """The process answers."""
    return json_response({"status": "live"})


@router.get("/health/ready", response_model=models.ReadyAnswer)
@needs("open")
async def ready(request: Request) -> Response:
    """Whether rankings can be had, 503 if not.

    ``degraded`` while the store cannot be reached: rankings come from memory alone, and feedback is refused. Also while
    memory is rebuilt from the log after a failure, when nothing can be had, and while this replica is thousands of
    events behind the log. ``refusing`` where the log needs a newer version. Of several workers, the one that answers.
    """
    service = service_of(request)
    status = service.status()
    answer = {"status": status.name, "items": len(service.desk.ledger.catalogue), "waiting": service.journal.waiting}
    return json_response(answer | {"reason": status.reason}, 200 if status.ready else 503)
