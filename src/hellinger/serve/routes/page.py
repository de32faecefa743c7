"""The page, and what it is made of."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hellinger.serve.access import OPEN, needs
from hellinger.serve.answers import ApiError
from hellinger.serve.assets import Asset, Assets

__all__ = ["router"]

router = APIRouter(include_in_schema=False)
_FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/")
@needs(OPEN)
async def page(request: Request) -> Response:
    """The experiment as a page."""
    assets: Assets = request.app.state.assets
    tag = f'"{assets.digest}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return await _sent(assets.index, request, headers)


@router.get("/assets/{digest}/{name}")
@needs(OPEN)
async def asset(digest: str, name: str, request: Request) -> Response:
    """A file of the page."""
    assets: Assets = request.app.state.assets
    found = await assets.get(name) if digest == assets.digest else None
    if found is None:
        raise ApiError(404, "there is no such file; the page at / says which there are")
    return await _sent(found, request, {"Cache-Control": _FOR_EVER})


async def _sent(asset: Asset, request: Request, headers: dict[str, str]) -> Response:
    headers["Vary"] = "Accept-Encoding"
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=asset.kind)
    return Response(await asyncio.to_thread(lambda: asset.plain), headers=headers, media_type=asset.kind)
