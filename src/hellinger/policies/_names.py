"""Names that users' classes and functions may take."""

from __future__ import annotations

from typing import Any

from hellinger.errors import InputError

__all__ = ["note_name"]


def note_name(kind: str, known: dict[str, Any], name: str, value: Any) -> None:
    """Enter a name; only a later definition of the same thing, as in a notebook, may replace the one there is."""
    there = known.get(name)
    if there is not None and (there.__module__, there.__qualname__) != (value.__module__, value.__qualname__):
        raise InputError(
            f"a {kind}'s name must be its own, but {name!r} is that of {there.__module__}.{there.__qualname__} "
            f"and of {value.__module__}.{value.__qualname__}"
        )
    known[name] = value
