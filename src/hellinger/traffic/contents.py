"""Contents and how attractive each is: by a law, or from the user's own figures."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hellinger.coldstart.experiment import LAWS
from hellinger.errors import UnknownNameError, require

__all__ = ["Content", "Supply", "from_csv", "from_law"]

SHRINK = 20.0
"""Impressions at the overall rate that are added to each item of a file of counts."""

TAGS = ("news", "sport", "music", "film", "food", "travel", "games", "science")


class Content(NamedTuple):
    """An item, and the chance that a user who looks at it clicks."""

    id: str
    rate: float
    tags: tuple[str, ...] = ()


class Supply:
    """Where items come from, one after the other, and what anybody's item is worth.

    Parameters
    ----------
    items
        In the order in which they come.
    law
        Of the rates of items that are not among these.
    salt
        Makes other rates from the same law. An item's rate depends on its id and this alone, so that they stay the
        same from one run to the next.
    """

    def __init__(self, contents: Iterator[Content], law: str, salt: int) -> None:
        self._contents = contents
        self._law = law
        self._salt = salt
        self.rates: dict[str, float] = {}

    def take(self, number: int) -> list[Content]:
        """The next items, fewer where there are no more."""
        out = []
        for content in self._contents:
            self.rates[content.id] = content.rate
            out.append(content)
            if len(out) == number:
                break
        return out

    def rate(self, item: str) -> float:
        """An item's rate, whoever added it."""
        found = self.rates.get(item)
        if found is None:
            found = self.rates[item] = drawn(self._law, item, self._salt)
        return found


def drawn(law: str, item: str, salt: int = 0) -> float:
    """The rate that a law has for an item.

    >>> round(drawn("beta", "a"), 4), round(drawn("beta", "a", salt=1), 4)
    (0.0..., 0.0...)
    """
    key = blake2b(item.encode(), digest_size=8, salt=salt.to_bytes(8, "big")).digest()
    return float(LAWS[law](np.random.default_rng(int.from_bytes(key, "big")), 1)[0])


def from_law(law: str, *, salt: int = 0, prefix: str = "content-") -> Supply:
    """Made-up items without end, their rates from a law of ``hellinger coldstart``."""
    if law not in LAWS:
        raise UnknownNameError("law", law, list(LAWS))
    require(0 <= salt < 2**64, "0 <= salt < 2^64", salt=salt)

    def endless() -> Iterator[Content]:
        for number in count(1):
            name = f"{prefix}{number:05d}"
            yield Content(name, drawn(law, name, salt), (TAGS[number % len(TAGS)],))

    return Supply(endless(), law, salt)


def from_csv(path: Path, *, law: str = "beta", salt: int = 0) -> Supply:
    """Contents from a file with a heading, ``item,ctr`` or ``item,impressions,clicks``, in any order of columns.

    Counts become rates (clicks + 20·r)/(impressions + 20), where r is the file's overall rate: one click in one
    impression is no reason to expect a click every time.
    """
    contents = _rates(_read(path), path)
    require(len(contents) > 0, "the file has a row", file=str(path))
    return Supply(iter(contents), law, salt)


class _Row(NamedTuple):
    item: str
    clicks: float
    impressions: float | None  # None: clicks is a rate


def _read(path: Path) -> list[_Row]:
    rows: dict[str, _Row] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = [name.strip().lower() for name in reader.fieldnames or ()]
        reader.fieldnames = columns
        counted = {"item", "impressions", "clicks"} <= set(columns)
        good = counted or {"item", "ctr"} <= set(columns)
        require(good, "the heading has item,ctr or item,impressions,clicks", file=str(path), heading=columns)
        for row in reader:
            where = f"line {reader.line_num} of {path}"
            item = (row["item"] or "").strip()
            require(bool(item), f"item is not empty in {where}", item=item)
            require(item not in rows, f"an item stands in the file once, but {where}", item=item)
            if counted:
                n, s = _number(row["impressions"], where), _number(row["clicks"], where)
                require(0 <= s <= n, f"0 <= clicks <= impressions in {where}", clicks=s, impressions=n)
                rows[item] = _Row(item, s, n)
            else:
                rate = _number(row["ctr"], where)
                require(0 <= rate <= 1, f"0 <= ctr <= 1 in {where}", ctr=rate)
                rows[item] = _Row(item, rate, None)
    return list(rows.values())


def _number(text: str | None, where: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    require(math.isfinite(value), f"a number stands in {where}", text=text)
    return value


def _rates(rows: list[_Row], path: Path) -> list[Content]:
    shown = sum(row.impressions or 0.0 for row in rows)
    clicked = sum(row.clicks for row in rows if row.impressions is not None)
    counted = any(row.impressions is not None for row in rows)
    require(not counted or shown > 0, "some item has impressions", file=str(path))
    overall = clicked / shown if counted else 0.0
    out = []
    for row in rows:
        n = row.impressions
        rate = row.clicks if n is None else (row.clicks + SHRINK * overall) / (n + SHRINK)
        out.append(Content(row.item, rate))
    return out
