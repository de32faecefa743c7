"""The routes, a file for each thing they are about."""

from __future__ import annotations

__all__: list[str] = []
