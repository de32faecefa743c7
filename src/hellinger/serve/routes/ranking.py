"""Rankings, and what came of them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response

from hellinger.engine.drafts import FeedbackRow, Query
from hellinger.engine.service import FeedbackOutcome, Service
from hellinger.serve import bodies, models
from hellinger.serve.access import needs
from hellinger.serve.answers import ApiError
from hellinger.serve.keys import CALLER
from hellinger.serve.routes._common import ERRORS, described, known_segment, limited, service_of, short
from hellinger.serve.shortcut import shortcut

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["ranking"], responses=ERRORS)


async def answer_rank(
    service: Service, body: models.RankBody, idempotency_key: str | None = None, caller: str = ""
) -> bytes:
    """The answer to a ranking wanted, as JSON."""
    settings = service.settings
    if body.k > settings.max_k:
        raise ApiError(422, f"`k` must be <= {settings.max_k}, but got {body.k}")
    if body.exclude:
        limited("exclude", body.exclude, settings.max_exclude)
    if body.among is not None:
        limited("among", body.among, settings.max_exclude)
    if body.tags is not None:
        limited("tags", body.tags, settings.max_tags)
    short("user", settings, body.user)
    short("placement", settings, body.placement)
    known_segment(service, body.segment)
    context = None if body.context is None else described("context", settings, body.context)
    query = Query(body.k, body.user, body.segment, body.exclude, body.tags, body.among, body.placement, context)
    made = await service.rank(query, idempotency_key, caller)
    items = [{"id": item, "score": score} for item, score in zip(made["items"], made["scores"], strict=True)]
    return orjson.dumps({"ranking_id": made["ranking_id"], "variant": made["variant"], "items": items})


@router.post("/rank", response_model=models.RankAnswer)
@needs("write")
@shortcut(models.RankBody.model_validate_json, answer_rank)
async def rank(
    body: Annotated[models.RankBody, models.FEW_MISTAKES],
    request: Request,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=256, description="The same key gives the same ranking, once.")
    ] = None,
) -> Response:
    """Rank the best k items for one request, by one of the variants, and count them as shown."""
    return _json(await answer_rank(service_of(request), body, idempotency_key, request.scope[CALLER]))


async def _read_feedback(content: bytes) -> list[FeedbackRow]:
    rows = models.plain_feedback_rows(content)
    if rows is None:
        body = await bodies.read(models.FeedbackBody, "events", content)
        rows = []
        async for part in bodies.slices(body.events):
            rows += models.feedback_rows_of(part)
    return rows


async def answer_feedback(service: Service, rows: list[FeedbackRow], *_: object) -> bytes:
    """The answer to feedback, as JSON."""
    limited("events", rows, service.settings.max_batch)
    return _outcome(await service.feedback(rows))


@router.post("/feedback", response_model=models.FeedbackAnswer)
@needs("write")
@shortcut(models.feedback_rows, answer_feedback, large=_read_feedback)
async def feedback(body: Annotated[models.FeedbackBody, models.FEW_MISTAKES], request: Request) -> Response:
    """Tell what users did with the items of rankings. Counted once, however often it is sent."""
    return _json(await answer_feedback(service_of(request), models.feedback_rows_of(body.events)))


async def answer_impressions(service: Service, body: models.SeenBody, *_: object) -> bytes:
    """The answer to confirmed impressions, as JSON."""
    limited("events", body.events, service.settings.max_batch)
    return _outcome(await service.seen([(event.ranking_id, event.item) for event in body.events]))


@router.post("/impressions", response_model=models.SeenAnswer)
@needs("write")
@shortcut(
    models.SeenBody.model_validate_json, answer_impressions, large=partial(bodies.read, models.SeenBody, "events")
)
async def impressions(body: Annotated[models.SeenBody, models.FEW_MISTAKES], request: Request) -> Response:
    """Confirm which items of rankings were really seen, where impressions count only then."""
    return _json(await answer_impressions(service_of(request), body))


def _outcome(outcome: FeedbackOutcome) -> bytes:
    fields: dict[str, Any] = outcome._asdict()
    fields["rejected"] = [{"index": index, "reason": reason} for index, reason in outcome.rejected]
    return orjson.dumps(fields)


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


async def answer_import(service: Service, body: models.ImportBody, *_: object) -> bytes:
    """The answer to counts gathered elsewhere, as JSON."""
    settings = service.settings
    limited("rows", body.rows, settings.max_batch)
    short("batch", settings, body.batch)
    if body.variant is not None and body.variant not in service.desk.variants:
        names = ", ".join(service.desk.variants)
        raise ApiError(422, f"`variant` must be one of {names}, but got {body.variant!r}")
    known_segment(service, body.segment)  # last: it is known from now on
    rows: list[dict[str, Any]] = []
    async for part in bodies.slices(body.rows):
        rows += (
            {
                "item": row.item,
                "impressions": row.impressions,
                "rewards": row.rewards,
                "from": models.milliseconds(row.from_),
                "to": models.milliseconds(row.to),
            }
            for row in part
        )
    accepted, duplicate, unknown, rejected = await service.import_counts(body.batch, body.variant, body.segment, rows)
    reasons = [{"index": index, "reason": reason} for index, reason in rejected]
    return orjson.dumps({"accepted": accepted, "duplicate": duplicate, "unknown": unknown, "rejected": reasons})


@router.post("/counts", response_model=models.ImportAnswer)
@needs("write")
@shortcut(models.ImportBody.model_validate_json, answer_import, large=partial(bodies.read, models.ImportBody, "rows"))
async def import_counts(body: Annotated[models.ImportBody, models.FEW_MISTAKES], request: Request) -> Response:
    """Bring in counts gathered elsewhere, by the batch; a batch counts once."""
    return _json(await answer_import(service_of(request), body))
