"""Items: added, changed, hidden, looked at."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from hellinger.engine.service import Service
from hellinger.events import now
from hellinger.ledger import DELETED, STATES
from hellinger.serve import bodies, listing, models
from hellinger.serve.access import needs
from hellinger.serve.answers import ApiError
from hellinger.serve.live import Live
from hellinger.serve.routes._common import ERRORS, described, error, json_response, limited, service_of, short
from hellinger.serve.shortcut import shortcut

__all__ = ["router"]

router = APIRouter(prefix="/v1/items", tags=["items"], responses=ERRORS)
MISSING: dict[int | str, dict[str, Any]] = {404: error("No such item.")}


async def answer_add(service: Service, body: models.ItemsBody, *_: object) -> bytes:
    """The answer to items that are added or changed, as JSON."""
    limited("items", body.items, service.settings.max_batch)
    items: list[dict[str, Any]] = []
    async for part in bodies.slices(body.items):
        for item in part:
            short("id", service.settings, item.id)
            limited("tags", item.tags, service.settings.max_tags)
            tags = sorted(set(item.tags))
            limited("group", item.group or (), service.settings.max_group_levels)
            short("group", service.settings, *item.group or ())
            row: dict[str, Any] = {"id": item.id, "tags": tags, "expires_at": models.milliseconds(item.expires_at)}
            row["metadata"] = item.metadata
            if item.group:
                row["group"] = item.group
            if (features := described("features", service.settings, item.features)) is not None:
                row["features"] = features
            items.append(row)
    added, updated, unchanged = await service.describe(items)
    return orjson.dumps({"added": added, "updated": updated, "unchanged": unchanged})


@router.post("", response_model=models.ItemsAnswer)
@needs("write")
@shortcut(models.ItemsBody.model_validate_json, answer_add, large=partial(bodies.read, models.ItemsBody, "items"))
async def add(body: Annotated[models.ItemsBody, models.FEW_MISTAKES], request: Request) -> Response:
    """Add items, or change those whose id is known. None where one of them is refused.

    A thousand are written at a time. After a 503 some may be in: sent again, they are `unchanged`.
    """
    return Response(await answer_add(service_of(request), body), media_type="application/json")


@router.get("", response_model=models.ItemPage)
@needs("read")
async def page(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most on a page.")] = 100,
    cursor: Annotated[str | None, Query(max_length=64, description="`next` of the page before.")] = None,
    tag: Annotated[str | None, Query(max_length=1024, description="Only those with this tag.")] = None,
    state: Annotated[
        Literal["shown", "hidden", "expired", "graduated", "outclassed"] | None, Query(description="Only those so.")
    ] = None,
    search: Annotated[str | None, Query(max_length=1024, description="Only those whose id has this in it.")] = None,
    sort: Annotated[
        Literal["newest", "oldest", "impressions", "rewards", "estimate", "rising"],
        Query(description="Which come first; with `rising`, only those whose rate of late is surely above the pool's."),
    ] = "newest",
    reverse: Annotated[bool, Query(description="The last of that order first; `rising` has one order only.")] = False,
) -> Response:
    """List items, a page at a time."""
    service = service_of(request)
    start = listing.offset(cursor)
    live: Live = request.app.state.live
    async with live.listing:
        rises = await live.rising.find(now()) if sort == "rising" else None
        desk = service.desk  # one and the same to the end: slots of another would be other items
        found = await listing.matching(
            desk, tag=tag, state=state, search=search, sort=sort, reverse=reverse, rises=rises
        )
        rows = await listing.rows(desk, found[start : start + limit], rises)
    after = start + limit
    return json_response(
        {
            "items": rows,
            "total": len(found),
            "next": listing.cursor(after) if after < len(found) else None,
            "since": models.iso(rises.since) if rises is not None else None,
        }
    )


@router.get("/{item:path}", response_model=models.ItemAnswer, responses=MISSING)
@needs("read")
async def one(item: str, request: Request) -> Response:
    """An item: its counts, and its estimate, interval and index under each variant."""
    service = service_of(request)
    (metadata,) = await service.metadata([await _slot(service, item)])
    slot = await _slot(service, item)  # again: it may have gone while the log was read
    catalogue = service.desk.ledger.catalogue
    standings = service.desk.about(item)
    ends = listing.intervals([(each["impressions"], each["rewards"]) for each in standings.values()])
    variants = {}
    for (name, standing), (low, high) in zip(standings.items(), ends, strict=True):
        n, s = standing["impressions"], standing["rewards"]
        variants[name] = {
            "impressions": n,
            "rewards": s,
            "estimate": s / n if n else None,
            "low": low,
            "high": high,
            "index": standing["score"],
            "left": standing["left"],
            "rankings_left": standing["rankings_left"],
        }
    n, s = service.desk.ledger.sums([slot])
    return json_response(
        {
            "id": item,
            "state": STATES[catalogue["state"][slot]],
            "tags": list(catalogue.tags_of(slot)),
            "group": list(catalogue.group_of(slot)),
            "features": catalogue.features_of(slot),
            "added_at": models.iso(int(catalogue["added_at"][slot])),
            "expires_at": models.iso(int(catalogue["expires_at"][slot])),
            "metadata": metadata,
            "impressions": float(n[0]),
            "rewards": float(s[0]),
            "variants": variants,
        }
    )


@router.post("/{item:path}/hide", response_model=models.ItemState, responses=MISSING)
@needs("write")
async def hide(item: str, request: Request) -> Response:
    """Leave an item out of every ranking until it is brought back; its counts go on."""
    return await _turn(item, "hidden", request)


@router.post("/{item:path}/unhide", response_model=models.ItemState, responses=MISSING)
@needs("write")
async def unhide(item: str, request: Request) -> Response:
    """Bring a hidden item back."""
    return await _turn(item, "shown", request)


@router.delete("/{item:path}", response_model=models.ItemState, responses=MISSING)
@needs("write")
async def delete(item: str, request: Request) -> Response:
    """Take an item out for good. Added again, it begins anew."""
    return await _turn(item, "deleted", request)


async def _turn(item: str, state: str, request: Request) -> Response:
    service = service_of(request)
    await _slot(service, item)
    await service.set_state(item, state)
    catalogue = service.desk.ledger.catalogue
    slot = catalogue.slots.get(item)  # anew: what had its slot before may have gone meanwhile
    return json_response({"id": item, "state": STATES[DELETED if slot is None else catalogue["state"][slot]]})


async def _slot(service: Service, item: str) -> int:
    slot = await service.slot(item)
    if slot is None:
        raise ApiError(404, f"`id` must be that of an item, but got {item!r}")
    return slot
