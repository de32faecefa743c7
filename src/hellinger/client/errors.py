"""What a service's refusals and silences become."""

from __future__ import annotations

from typing import Any

import httpx
import orjson

from hellinger.errors import HellingerError

__all__ = ["BufferFullError", "ClientError", "ServiceError", "UnreachableError"]


class ClientError(HellingerError):
    """A call that did not take effect, or that may not have: the service refused it, or did not answer."""


class ServiceError(ClientError):
    """The service refused a request: its status, code, message and trace id say why.

    Attributes
    ----------
    status
        The HTTP status.
    code
        What went wrong, for programs: ``"not_found"``, ``"invalid"``, ``"rate_limited"``, …
    message
        The rule and the value, for people.
    trace_id
        The request's name in the service's log lines.
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
        raw: Any = None
        try:
            raw = orjson.loads(response.content)["error"]
            return cls(response.status_code, raw["code"], raw["message"], raw.get("trace_id"))
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):  # a proxy's words, not the service's
            text = response.text.strip()[:200] or response.reason_phrase
            return cls(response.status_code, f"http_{response.status_code}", text)


class UnreachableError(ClientError):
    """No answer came, and trying again did not help."""


class BufferFullError(HellingerError):
    """More feedback waits to be sent than the buffer may hold."""
