"""The simulated world: where click rates come from, a site's pages and users, and how many runs are played."""

from __future__ import annotations

__all__: list[str] = []
