"""Whether the service is well."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

__all__ = ["LiveAnswer", "ReadyAnswer"]


class LiveAnswer(BaseModel):
    """The process answers."""

    status: Literal["live"]


class ReadyAnswer(BaseModel):
    """Whether rankings can be had, and feedback given."""

    status: Literal["ready", "degraded", "refusing"] = Field(
        description="Degraded: the store is away, memory is being rebuilt, or it is far behind the log. "
        "Refusing: the log needs a newer version."
    )
    items: int
    waiting: int = Field(description="Events not yet in the log.")
    reason: str | None = Field(None, description="What is wrong.")
