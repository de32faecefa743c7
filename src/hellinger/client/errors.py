"""What a service's refusals and silences become."""

from __future__ import annotations

from typing import Any

import httpx
import orjson

__all__ = ["ServiceError", "UnreachableError"]


class ServiceError(OSError):
    """The service refused a request: its status, code, message and request id say why.

    Attributes
    ----------
    status
        The HTTP status.
    code
        What went wrong, for programs: ``"not_found"``, ``"invalid"``, ``"rate_limited"``, …
    message
        The rule and the value, for people.
    trace_id
        Under which the service's logs tell of it.
    """

    def __init__(self, status: int, code: str, message: str, trace_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.trace_id = trace_id

    def __str__(self) -> str:
        known = f" (request {self.trace_id})" if self.trace_id else ""
        return f"{self.message} [{self.status} {self.code}]{known}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.code, self.message, self.trace_id)

    @classmethod
    def of(cls, response: httpx.Response) -> ServiceError:
        """What an answer of 400 or above says."""
        told: Any = None
        try:
            told = orjson.loads(response.content)["error"]
            return cls(response.status_code, told["code"], told["message"], told.get("trace_id"))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):  # a proxy's words, not the service's
            text = response.text.strip()[:200] or response.reason_phrase
            return cls(response.status_code, f"http_{response.status_code}", text)


class UnreachableError(ConnectionError):
    """No answer came, and trying again did not help."""
