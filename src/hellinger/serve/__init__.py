"""The service: rankings, feedback and the experiment over HTTP."""

from __future__ import annotations

__all__: list[str] = []
