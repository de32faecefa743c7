"""Times, names and bodies, as every model has them."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from hellinger.models import check_features
from hellinger.models.encoder import MOST_KEYS

__all__ = [
    "FEW_MISTAKES",
    "NAME_LENGTH",
    "REQUEST_LENGTH",
    "Body",
    "Features",
    "Group",
    "Kind",
    "Metadata",
    "Moment",
    "Name",
    "RequestId",
    "are_names",
    "are_requests",
    "is_kind",
    "iso",
    "milliseconds",
]


def milliseconds(moment: datetime | None) -> int | None:
    """A time as milliseconds since 1970; without a zone it is taken as UTC."""
    return None if moment is None else round(_in_utc(moment).timestamp() * 1000)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def iso(at: int | None) -> str | None:
    """Milliseconds since 1970 as text."""
    return (
        None
        if not at
        else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _no_number(value: Any) -> Any:
    if isinstance(value, (int, float)):
        raise ValueError("a time is written as in 2026-01-31T12:00:00Z")
    return value


def _zoned(moment: datetime) -> datetime:
    """The time with its zone, UTC where none is given; within limits that every arithmetic can hold."""
    zoned = _in_utc(moment)
    if not _FIRST <= zoned <= _LAST:
        raise ValueError(f"must lie between {_FIRST:%Y-%m-%d} and {_LAST:%Y-%m-%d}, but got {moment.isoformat()}")
    return zoned


_FIRST, _LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
REQUEST_LENGTH, NAME_LENGTH = 64, 1024
_REQUEST_PATTERN, _NAME_PATTERN, _KIND_PATTERN = (
    r"^[\x21-\x7e]+$",
    r"^[^\x00-\x1f\x7f]+$",
    r"^[A-Za-z][A-Za-z0-9_.-]{0,31}$",
)
are_requests, are_names, is_kind = (
    re.compile(pattern).fullmatch for pattern in (_REQUEST_PATTERN, _NAME_PATTERN, _KIND_PATTERN)
)
RequestId = Annotated[str, Field(min_length=1, max_length=REQUEST_LENGTH, pattern=_REQUEST_PATTERN)]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH, pattern=_NAME_PATTERN)]
Moment = Annotated[
    datetime,
    BeforeValidator(_no_number, json_schema_input_type=datetime),
    AfterValidator(_zoned),
]
Kind = Annotated[str, Field(pattern=_KIND_PATTERN)]


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    """What JSON in UTF-8 with numbers of 64 bits can hold: the log is no wider."""
    try:
        given_back = orjson.loads(orjson.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"must be JSON that others can read, but {str(error).lower() or 'it is nested too deeply'}"
        ) from None
    if given_back != value:
        raise ValueError("must be JSON that others can read, but holds NaN or an infinity")
    return value


Metadata = Annotated[dict[str, Any], AfterValidator(_storable)]


def _plain_features(value: dict[str, Any]) -> dict[str, Any]:
    """Numbers as such, without what is null, which says nothing; of too many, as they are: the route refuses them."""
    if len(value) > MOST_KEYS:
        return value
    found = {name: _plain_feature(name, each) for name, each in value.items() if each is not None}
    check_features(found)
    return _storable(found)


def _plain_feature(name: str, value: Any) -> bool | float | str | list[str]:
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and -_HUGE <= value <= _HUGE:
        return float(value)
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    raise ValueError(
        f"{name!r} must be a finite number, true or false, text, or a list of texts, but got {str(value)[:80]}"
    )


_HUGE = sys.float_info.max
_Feature = bool | float | str | list[str] | None
Features = Annotated[
    dict[Name, Any],
    BeforeValidator(lambda given: given, json_schema_input_type=dict[Name, _Feature]),
    AfterValidator(_plain_features),
]
"""What an item is, or who asks: numbers, words, and lists of words."""


def _levels(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


Group = Annotated[Name | list[Name], AfterValidator(_levels)]
"""From broad to narrow; one name is a group of one level."""


class Body(BaseModel):
    """What a client sends: nothing that is not asked for.

    Its lists are read up to the first wrong entry (``fail_fast``): to list two million takes ten seconds.
    """

    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)


_MOST_MISTAKES = 1000


def _few_mistakes(given: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(given)
    except ValidationError as error:
        found = error.error_count()
        if found <= _MOST_MISTAKES:
            raise
        context = {"most": _MOST_MISTAKES, "found": found}
        raise PydanticCustomError("too_many", "{found} rules are broken", context) from None


FEW_MISTAKES = WrapValidator(_few_mistakes)
"""With a body's type: where very many fields are unknown, say how many instead of which."""


# Items ---------------------------------------------------------------------------------------------
