"""The application without its routes: errors, figures, and the reference at ``/docs``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts
from starlette.responses import Response

from hellinger.engine.settings import Settings
from hellinger.serve.access import OPEN, needs, role_of, template_of
from hellinger.serve.answers import ERROR_SCHEMA, install_handlers
from hellinger.serve.metrics import Metrics
from hellinger.serve.reference import render

__all__ = ["make_app"]

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]


def make_app(
    settings: Settings,
    metrics: Metrics,
    *,
    lifespan: Lifespan | None = None,
    unavailable: Iterable[type[Exception]] = (),
) -> FastAPI:
    """An application to add routes to, each with the role it :func:`~hellinger.serve.access.needs`.

    It is served in a :class:`~hellinger.serve.shell.Shell`, and has ``/metrics`` (read), ``/docs`` and
    ``/openapi.json`` (open).

    Parameters
    ----------
    lifespan
        What happens before the first request and after the last.
    unavailable
        Exceptions that are answered 503 with Retry-After.
    """
    app = FastAPI(
        title=settings.title,
        version=version("hellinger"),
        description="Ranks items that are new, and learns from what becomes of them.",
        docs_url=None,  # FastAPI's own load their scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        # to ask for each request whether OpenTelemetry is set up takes 8 % of a ranking; figures are at /metrics
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        lifespan=lifespan,
    )
    install_handlers(app, unavailable=unavailable)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]

    @app.get(
        "/metrics",
        tags=["operation"],
        summary="Figures for Prometheus",
        response_class=Response,
        responses={200: {"description": "The figures.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    @needs("read")
    async def figures() -> Response:
        content, kind = metrics.page()
        return Response(content, media_type=kind)

    @app.get("/openapi.json", include_in_schema=False)
    @needs(OPEN)
    async def document() -> Response:
        return Response(orjson.dumps(app.openapi()), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    @needs(OPEN)
    async def reference() -> Response:
        return Response(render(app.openapi()), media_type="text/html")

    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: FastAPI's, with roles, and with errors as they are."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Error"] = ERROR_SCHEMA
    document["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key made by `hellinger keys new`."}
    }
    roles = {
        (template_of(route.path), method.lower()): role_of(route.endpoint)
        for route in iter_route_contexts(app.routes)
        for method in route.methods or ()
    }
    wrong = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            role = roles.get((path, method), OPEN)
            if role != OPEN:
                operation["security"] = [{"key": []}]
                operation["x-role"] = role
            responses = operation["responses"]
            responses.pop("422", None)
            responses["4XX"] = {"description": "The request was refused, and the message says why.", **wrong}
            responses["5XX"] = {"description": "Not now: try again after Retry-After, where it is given.", **wrong}
    app.openapi_schema = document
    return document
