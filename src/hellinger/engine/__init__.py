"""The service without the web: what it decides, what it remembers, and how it writes its log."""

from __future__ import annotations

__all__: list[str] = []
