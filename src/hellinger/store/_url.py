"""Settings that belong to this package, taken off a database's URL."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode

from hellinger.errors import require

__all__ = ["settings"]


def settings(url: str, defaults: Mapping[str, float]) -> tuple[str, dict[str, float]]:
    """Split a URL into what the database is to see and the numbers given for these settings.

    >>> settings("postgresql://host/log?timeout=0.5&sslmode=require", {"timeout": 2.0})
    ('postgresql://host/log?sslmode=require', {'timeout': 0.5})
    """
    address, _, query = url.partition("?")
    given = dict(defaults)
    rest = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in defaults:
            rest.append((name, value))
            continue
        try:
            given[name] = float(value)
        except ValueError:
            given[name] = 0.0
        require(0.0 < given[name] < float("inf"), f"0 < {name}", **{name: value})
    return address + ("?" + urlencode(rest, quote_via=quote) if rest else ""), given
