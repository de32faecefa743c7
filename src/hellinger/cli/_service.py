"""A running service, reached at once or not at all: people, unlike programs, do not wait for its restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hellinger.client import Client

from hellinger.errors import InputError

__all__ = ["answering", "reached"]

_PATIENCE = 120.0
"""Seconds for an answer: a policy that a service has not ranked by yet is compiled, for up to a minute."""


@contextmanager
def answering(url: str) -> Iterator[dict[str, Any]]:
    """Give a client's timeout and retries, and say in one sentence that nobody answers at an address."""
    import httpx

    from hellinger.client import Retry, UnreachableError

    try:
        yield {"timeout": httpx.Timeout(_PATIENCE, connect=1.0), "retry": Retry(times=2, patience=1.0)}
    except UnreachableError as error:
        if isinstance(error.__cause__, httpx.ReadTimeout):
            raise InputError(
                f"{url} has not answered within {_PATIENCE:g} s: see whether it has done what you asked, and try again"
            ) from None
        raise InputError(
            f"no service answers at {url}: start one with `hellinger serve`, or name its address"
        ) from None
    except httpx.InvalidURL:
        raise InputError(f"the service's address must read as in http://127.0.0.1:8000, but got {url!r}") from None


@contextmanager
def reached(url: str, key: str | None) -> Iterator[Client]:
    """A client of the service at this address."""
    from hellinger.client import Client

    with answering(url) as options, Client(url, key=key, **options) as client:
        yield client
