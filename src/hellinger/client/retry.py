"""When to try again, and how long to wait before."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar

import httpx

from hellinger.client.calls import Call
from hellinger.client.errors import ServiceError, UnreachableError
from hellinger.errors import require

__all__ = ["Retry", "exchange"]

T = TypeVar("T")

_AGAIN = frozenset({408, 429, 502, 503, 504})
"""Statuses that say nothing against the request itself; 502 and 504 are a proxy's word for no answer."""
_HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Retry(NamedTuple):
    """How persistent a client is.

    The wait after attempt i is min(``longest``, ``first``·2^i) seconds less a random part of up to half: clients that
    failed together do not come back together. A time that the service names (``Retry-After``) is added to that.

    Attributes
    ----------
    times
        Most attempts after the first.
    first, longest
        Seconds.
    patience
        Seconds after which no further attempt is begun, waits included.
    """

    times: int = 10
    first: float = 0.1
    longest: float = 5.0
    patience: float = 60.0

    def check(self) -> Retry:
        """Return this, or raise where it makes no sense."""
        require(self.times >= 0, "0 <= times", times=self.times)
        require(0 <= self.first <= self.longest, "0 <= first <= longest", first=self.first, longest=self.longest)
        require(self.patience >= 0, "0 <= patience", patience=self.patience)
        return self

    def pause(self, attempt: int, asked: float, chance: float) -> float:
        """Seconds to wait after so many retries, when the service asked for some; ``chance`` is uniform in [0, 1).

        >>> Retry(first=0.5, longest=3).pause(2, 0.0, 0.5), Retry(first=0.5, longest=3).pause(9, 1.0, 0.5)
        (1.5, 3.25)
        """
        return asked + (1.0 - chance / 2) * min(self.longest, self.first * 2.0 ** min(attempt, 60))


def exchange(call: Call[T], retry: Retry) -> Generator[float, httpx.Response | httpx.TransportError, T]:
    """One call with all its attempts: yields the seconds to wait before each, is sent what came of it."""
    began = time.monotonic()
    doubtful = False
    wait = 0.0
    for attempt in range(retry.times + 1):
        came = yield wait
        if isinstance(came, httpx.Response) and came.status_code not in _AGAIN:
            if came.is_success:
                return call.answer(came)
            if came.status_code == 404 and doubtful and call.done is not None:
                return call.done
            raise ServiceError.of(came)
        doubtful = doubtful or isinstance(came, httpx.TransportError) or came.status_code != 429
        wait = retry.pause(attempt, _asked(came), random.random())
        if isinstance(came, _HOPELESS) or time.monotonic() - began + wait > retry.patience:
            break
    if isinstance(came, httpx.Response):
        raise ServiceError.of(came)
    what = f"{type(came).__name__}: {came}".rstrip(": ")
    raise UnreachableError(f"the service must answer, but did not in {attempt + 1} attempts ({what})") from came


def _asked(came: httpx.Response | httpx.TransportError) -> float:
    """Seconds that an answer asks to wait, given as such or as a date."""
    text = came.headers.get("Retry-After", "") if isinstance(came, httpx.Response) else ""
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
