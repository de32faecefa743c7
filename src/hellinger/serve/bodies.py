"""Large bodies, checked some entries of their list at a time: rankings have their turn in between."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from pydantic import BaseModel
from pydantic_core import from_json

from hellinger.engine.journal import pause

__all__ = ["ENTRIES", "read", "slices"]

ENTRIES = 250
"""Entries of a list that are checked or gone through at once: a millisecond, two where they have many tags."""

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
    """A body whose field ``name`` is the list that may be long; ValueError where any of it is not valid.

    Each slice is checked as a body of its own, so no rule is written twice. Which rules the whole breaks, and where, is
    for the caller to find out.
    """
    begun = time.perf_counter()
    given = from_json(content, allow_inf_nan=False)
    entries = given.get(name) if isinstance(given, dict) else None
    if not isinstance(entries, list) or len(entries) <= ENTRIES:
        return model.model_validate(given)
    await pause(begun)
    whole: Model | None = None
    async for part in slices(entries):
        checked = model.model_validate({**given, name: part})
        if whole is None:
            whole = checked
        else:
            getattr(whole, name).extend(getattr(checked, name))
    assert whole is not None
    return whole
