"""Large bodies, checked some entries of their list at a time: rankings have their turn in between."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from hellinger.engine.journal import pause

__all__ = ["ENTRIES", "read", "slices"]

ENTRIES = 250
"""Entries of a list that are checked or gone through at once: a millisecond, two where they have many tags."""

MISTAKES = 1000
"""Wrong fields that are listed one by one."""

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)


async def slices(entries: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The entries, ``ENTRIES`` at a time; after each slice others have as long as its user took."""
    for start in range(0, len(entries), ENTRIES):
        begun = time.perf_counter()
        yield entries[start : start + ENTRIES]
        if start + ENTRIES < len(entries):
            await pause(begun)


async def read(model: type[Model], name: str, content: bytes) -> Model:
    """A body whose field ``name`` is the list that may be long.

    Each slice is checked as a body of its own, so no rule is written twice. Errors are those of the body as if it had
    been checked whole: its list up to the first wrong entry, and every other field. A ValueError says that it is not
    worth telling apart here: no JSON, no long list, or very many unknown fields.
    """
    begun = time.perf_counter()
    given = from_json(content, allow_inf_nan=False)
    entries = given.get(name) if isinstance(given, dict) else None
    if not isinstance(entries, list) or len(entries) <= ENTRIES:
        return model.model_validate(given)
    await pause(begun)
    whole: Model | None = None
    wrong: list[dict[str, Any]] = []
    start = 0
    async for part in slices(entries):
        try:
            checked = model.model_validate({**given, name: part})
        except ValidationError as error:
            if error.error_count() > MISTAKES:
                raise
            wrong = [_placed(each, name, start) for each in error.errors(include_url=False)]
            if any(each["loc"][1] == name for each in wrong):
                break
        else:
            if whole is None:
                whole = checked
            else:
                getattr(whole, name).extend(getattr(checked, name))
        start += len(part)
    if wrong:
        raise RequestValidationError(wrong, body=given)
    assert whole is not None
    return whole


def _placed(mistake: Any, name: str, start: int) -> dict[str, Any]:
    """A mistake in a slice as one in the body."""
    field, *rest = mistake["loc"]
    if field == name and rest:
        rest[0] += start
    return {**mistake, "loc": ("body", field, *rest)}
