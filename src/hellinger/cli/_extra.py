"""Commands that need more than the library: what to install when it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs_extra"]


@contextmanager
def needs_extra(extra: str = "serve") -> Iterator[None]:
    """Say what to install where an import of the service's packages fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "hellinger":  # ours, and missing: no package would help
            raise
        raise ValueError(
            f'this command needs packages of the service ({error.name} is missing): pip install "hellinger[{extra}]"'
        ) from None
