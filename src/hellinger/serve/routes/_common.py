"""What routes share."""

from __future__ import annotations

from collections.abc import Sized
from typing import Annotated, Any

import orjson
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from hellinger.engine.allocation import Allocation
from hellinger.engine.experiments import UnknownExperimentError
from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.experiment.names import full_name
from hellinger.serve.answers import ERROR_SCHEMA, ApiError

__all__ = [
    "ERRORS",
    "Control",
    "compared_with",
    "described",
    "error",
    "json_response",
    "known_experiment",
    "known_segment",
    "limited",
    "service_of",
    "short",
]


def error(text: str) -> dict[str, Any]:
    """An answer of 400 or above, as the OpenAPI document describes it."""
    return {"description": text, "content": {"application/json": {"schema": ERROR_SCHEMA}}}


ERRORS: dict[int | str, dict[str, Any]] = {
    status: error(text)
    for status, text in {
        400: "Not JSON.",
        401: "No key, or an unknown one.",
        403: "The key's role does not allow this.",
        413: "The body or a list in it is too large.",
        415: "The Content-Type is not JSON.",
        422: "A field breaks a rule.",
        429: "Too many requests with this key.",
        503: "The store cannot be reached just now.",
    }.items()
}

Control = Annotated[str | None, Query(max_length=64, description="Variant the others are compared with.")]


def service_of(request: Request) -> Service:
    """The service behind the application."""
    service: Service = request.app.state.service
    return service


def known_experiment(service: Service, name: str) -> Allocation:
    """How this experiment shares its traffic."""
    try:
        return service.experiments.allocation(name)
    except UnknownExperimentError as unknown:
        raise ApiError(404, str(unknown)) from None


def compared_with(service: Service, name: str, control: str | None) -> str | None:
    """The control asked for, if the experiment has such a variant."""
    known = known_experiment(service, name).variants
    if control is None:
        return None
    if (found := full_name(name, control)) not in known:
        raise ApiError(422, f"`control` must be one of {', '.join(known)}, but got {control!r}")
    return found


def json_response(content: Any, status: int = 200) -> Response:
    """An answer as JSON."""
    return Response(orjson.dumps(content), status, media_type="application/json")


def limited(what: str, given: Sized, most: int) -> None:
    """Refuse a list that is too long."""
    if len(given) > most:
        raise ApiError(413, f"`{what}` must have at most {most} entries, but got {len(given)}")


def described(what: str, settings: Settings, features: dict[str, Any] | None) -> dict[str, Any] | None:
    """Features of an item or a context; None where they say nothing, refused where they are too large."""
    if not features:
        return None
    if (fields := len(features)) > settings.max_features:
        raise ApiError(
            413, f"`{what}` must have at most {settings.max_features} fields (max_features), but got {fields}"
        )
    if (size := len(orjson.dumps(features))) > settings.max_features_bytes:
        most = f"{settings.max_features_bytes} bytes of JSON (max_features_bytes)"
        raise ApiError(413, f"`{what}` must have at most {most}, but got {size}")
    return features


def short(what: str, settings: Settings, *names: str | None) -> None:
    """Refuse a name that is too long."""
    for name in names:
        if name is not None and len(name) > settings.max_id_length:
            raise ApiError(422, f"`{what}` must have at most {settings.max_id_length} characters, but got {len(name)}")


def known_segment(service: Service, segment: str | None) -> None:
    """Refuse a segment that is one too many: each takes the memory of another pool."""
    if segment is None:
        return
    short("segment", service.settings, segment)
    known, most = service.desk.segments, service.settings.max_segments
    if segment in known:
        return
    known.update(service.desk.ledger.segments)  # those of other replicas
    if segment not in known and len(known) >= most:
        raise ApiError(422, f"there must be at most {most} segments (max_segments), but {segment!r} would be one more")
    known.add(segment)
