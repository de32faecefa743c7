"""Errors as clients see them: one JSON shape, the rule and the value in it, and nothing of the inside.

``{"error": {"code": "not_found", "message": "…", "trace_id": "…"}}``
"""

from __future__ import annotations

import http
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hellinger.engine.journal import NotAppliedError
from hellinger.serve.logs import trace_id

_LOG = logging.getLogger("hellinger.serve")

__all__ = ["INSIDE", "ApiError", "answer", "body", "install_handlers"]

ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "trace_id"],
            "properties": {
                "code": {"type": "string", "description": "What went wrong, for programs.", "examples": ["not_found"]},
                "message": {"type": "string", "description": "The rule and the value, for people."},
                "trace_id": {"type": "string", "description": "The name of this request in the service's log lines."},
            },
        }
    },
}
"""What every answer of 400 and above looks like."""

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    429: "rate_limited",
    500: "internal",
    503: "unavailable",
}


class ApiError(HTTPException):
    """An answer of 400 or above, raised where it is found out.

    Parameters
    ----------
    status
        The HTTP status.
    message
        For the client: the rule and the value, nothing of the inside.
    code
        For programs; by the status if not given.
    retry_after
        Seconds after which trying again makes sense.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        sent = dict(headers or {})
        if retry_after is not None:
            sent["Retry-After"] = str(retry_after)
        super().__init__(status, detail=message, headers=sent)
        self.code = code or _code(status)


INSIDE = "something went wrong inside; the service's log lines with this trace_id say what"
"""The message for a failure that is the service's own mistake."""


def _code(status: int) -> str:
    return _CODES.get(status) or http.HTTPStatus(status).phrase.lower().replace(" ", "_").replace("-", "_")


def body(status: int, message: str, code: str | None = None) -> bytes:
    """The bytes of an error."""
    message = message.encode("utf-8", "backslashreplace").decode()  # a client's lone surrogates are not UTF-8
    return orjson.dumps({"error": {"code": code or _code(status), "message": message, "trace_id": trace_id.get()}})


def answer(status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """An error as a response."""
    return Response(body(status, message, code), status, headers, media_type="application/json")


# Handlers --------------------------------------------------------------------------------------------


def install_handlers(app: FastAPI, *, unavailable: Iterable[type[Exception]] = ()) -> None:
    """Make an application answer its errors in the one shape.

    Parameters
    ----------
    unavailable
        Exceptions that mean "not now": answered 503 with Retry-After. What they say is for logs, not for clients.
    """
    app.add_exception_handler(Exception, _failed)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    for kind in unavailable:
        app.add_exception_handler(kind, _unavailable)


async def _failed(_request: Request, _error: Exception) -> Response:
    return answer(500, INSIDE)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = error.code if isinstance(error, ApiError) else None
    return answer(error.status_code, str(error.detail), code=code, headers=error.headers)


async def _unavailable(_request: Request, error: Exception) -> Response:
    _LOG.warning("answered 503: %s", error)
    message = str(error) if isinstance(error, NotAppliedError) else "the store cannot be reached just now: try again"
    return answer(503, message, headers={"Retry-After": "1"})


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if isinstance(error.body, bytes):  # FastAPI reads as JSON only what says it is
        kind = request.headers.get("content-type", "")
        return answer(415, f"Content-Type must be application/json, but got {brief(kind)}")
    if any(each["type"] == "json_invalid" for each in found):
        why = str(found[0].get("ctx", {}).get("error", "it is not")).rstrip(".")
        return answer(400, f"the body must be JSON, but {why} at character {found[0]['loc'][-1]}", code="bad_json")
    problems = list(dict.fromkeys(sentence(each) for each in plain(found, error.body)))
    more = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
    return answer(422, "; ".join(problems[:_TOLD]) + more)


_KEY = "[key]"
"""What pydantic adds to the place of a dictionary's key."""
_TOLD = 5
"""Errors listed in one answer."""

_RULES = {
    "missing": "must be given",
    "extra_forbidden": "is not known here",
    "greater_than": "must be > {gt}",
    "greater_than_equal": "must be >= {ge}",
    "less_than": "must be < {lt}",
    "less_than_equal": "must be <= {le}",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "string_unicode": "must be text in Unicode",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries, but got {actual_length}",
    "too_many": "breaks {found} rules, more than the {most} that are listed",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "literal_error": "must be {expected}",
    "none_of": "{rules}",
    "enum": "must be {expected}",
}
_OTHER_TYPE = ("_type", "_parsing", "_from_float", "literal_error", "enum")
_SAY_NOTHING_OF_THE_VALUE = {"missing", "extra_forbidden", "too_long", "too_many", "too_short"}


def plain(found: Iterable[Mapping[str, Any]], given: Any) -> list[Mapping[str, Any]]:
    """Pydantic's findings about a body, without its names for the alternatives that a field has.

    Of a field that may be this or that, those of the alternatives that the value is meant as are told; where it is none
    of them, one finding says what it may be.

    >>> wrong = {"type": "string_type", "loc": ("body", "group", "constrained-str"), "input": 3, "msg": ""}
    >>> plain([wrong, wrong | {"type": "list_type", "loc": ("body", "group", "list[str]")}], {"group": 3})
    [{'type': 'none_of', 'loc': ('body', 'group'), 'input': 3, 'ctx': {'rules': 'must be text, or a list'}, 'msg': ''}]
    """
    told: dict[Any, list[Mapping[str, Any]]] = {}
    for number, each in enumerate(found):
        place, alternatives = _in_body(each["loc"], given, each["type"] == "missing")
        told.setdefault(alternatives or number, []).append({**each, "loc": place})
    out: list[Mapping[str, Any]] = []
    for field_, findings in told.items():
        meant = [each for each in findings if each["loc"] != field_ or not each["type"].endswith(_OTHER_TYPE)]
        if isinstance(field_, int) or meant:
            out += meant if meant else findings
        else:
            rules = dict.fromkeys(_rule(each).removeprefix("must be ") for each in findings)
            more = {"ctx": {"rules": f"must be {', or '.join(rules)}"}, "msg": ""}
            out.append({"type": "none_of", "loc": field_, "input": findings[0].get("input")} | more)
    return out


def _in_body(
    place: Sequence[str | int], given: Any, missing: bool
) -> tuple[tuple[str | int, ...], tuple[str | int, ...] | None]:
    """A finding's place without names of alternatives; and the place of the last field that has them."""
    if not place or place[0] != "body":
        return tuple(place), None
    real: tuple[str | int, ...] = ("body",)
    alternatives = None
    for number, part in enumerate(place[1:], 2):
        there = isinstance(given, dict) and (part in given or (missing and number == len(place)))
        if isinstance(part, str) and part != _KEY and not there:
            alternatives = real
            continue
        real += (part,)
        if isinstance(given, dict):
            given = given.get(part)
        elif isinstance(given, list) and isinstance(part, int) and part < len(given):
            given = given[part]
    return real, alternatives


def _rule(found: Mapping[str, Any]) -> str:
    kind = found["type"]
    if kind in _RULES:
        return _RULES[kind].format(**(found.get("ctx") or {}))
    return f"is wrong: {found['msg'][:1].lower()}{found['msg'][1:]}"


def sentence(found: Mapping[str, Any]) -> str:
    """One of pydantic's findings: the field, the rule, the value.

    >>> sentence({"type": "less_than_equal", "loc": ("body", "k"), "input": 5000, "ctx": {"le": 1000}, "msg": ""})
    '`k` must be <= 1000, but got 5000'
    """
    kind, loc = found["type"], found["loc"]
    place = f"`{field(loc)}`" if loc[-1:] != (_KEY,) else f"a key of `{field(loc[:-2])}`"
    if kind == "value_error":  # a validator's own words, which have the value already
        return f"{place}: {(found.get('ctx') or {}).get('error', found['msg'])}"
    got = "" if kind in _SAY_NOTHING_OF_THE_VALUE else f", but got {brief(found.get('input'))}"
    return f"{place} {_rule(found)}{got}"


def field(place: Sequence[str | int]) -> str:
    """Name of a field: ``items[3].id``, without the part of the request it stands in.

    >>> field(("body", "items", 3, "id"))
    'items[3].id'
    """
    name = ""
    for part in place[1:] if len(place) > 1 else place:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return name


def brief(value: object, most: int = 80) -> str:
    """A value as JSON would have it, cut where it gets long.

    >>> brief({"a": None})
    '{"a":null}'
    """
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        text = ascii(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
