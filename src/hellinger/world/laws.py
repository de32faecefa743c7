"""Where items come from, and their click rates: by a law, in groups, or from the user's own figures."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.errors import UnknownNameError, require

__all__ = [
    "BETA",
    "LAWS",
    "TOPICS",
    "SiteItem",
    "Supply",
    "check_law",
    "drawn",
    "from_csv",
    "from_law",
    "from_stories",
    "grouped",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BETA = 1.6, 100.0
"""Of published content tests: median 1.3 %, 99th percentile 6 %."""

LAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "beta": lambda rng, size: rng.beta(*BETA, size),
    "heavy-tailed": lambda rng, size: np.minimum(0.5, 0.004 * (1.0 + rng.pareto(1.5, size))),
    "bimodal": lambda rng, size: np.where(rng.random(size) < 0.9, rng.beta(2, 200, size), rng.beta(20, 180, size)),
}
"""Click rates: Beta(1.6, 100); Pareto's with tail index 1.5 from 0.4 % to 50 %; one in ten near 10 %, else 1 %."""

SHRINK = 20.0
"""Impressions at the overall rate that are added to each item of a file of counts."""

TOPICS = ("news", "sport", "music", "film", "food", "travel", "games", "science")

STORY = 8
"""Items of a story."""
ALIKE = 0.9
"""Correlation of the normal scores of two items of one story."""


def check_law(law: str) -> str:
    """Return a law's name, or raise where there is none of this name."""
    if law not in LAWS:
        raise UnknownNameError("law", law, list(LAWS))
    return law


def grouped(law: str, rng: np.random.Generator, size: int, *, groups: int, sigma: float) -> tuple[Floats, Ints]:
    """Rates of items in groups, and each item's group.

    The log-odds of a rate from the law move by an effect of the group, normal with mean 0 and deviation ``sigma``.

    >>> rates, group = grouped("beta", np.random.default_rng(0), 1000, groups=4, sigma=1.0)
    >>> [round(float(rates[group == g].mean()), 3) for g in range(4)]
    [...]
    """
    require(groups >= 1 and 0 <= sigma < math.inf, "1 <= groups and 0 <= sigma < inf", groups=groups, sigma=sigma)
    base = LAWS[check_law(law)](rng, size)
    group = rng.integers(groups, size=size)
    odds = base / (1.0 - base) * np.exp(rng.normal(0.0, sigma, groups))[group]
    return odds / (1.0 + odds), group


class SiteItem(NamedTuple):
    """An item, and the chance that a user who looks at it clicks."""

    id: str
    rate: float
    tags: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    features: dict[str, str] | None = None


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

    def __init__(self, items: Iterator[SiteItem], law: str, salt: int) -> None:
        self._items = items
        self._law = law
        self._salt = salt
        self.rates: dict[str, float] = {}
        self.topics: dict[str, str] = {}
        """What an item is about, where that is known."""

    def take(self, number: int) -> list[SiteItem]:
        """The next items, fewer where there are no more."""
        out = []
        for item in self._items:
            self.rates[item.id] = item.rate
            if item.features:
                self.topics[item.id] = item.features["topic"]
            out.append(item)
            if len(out) == number:
                break
        return out

    def rate(self, item: str) -> float:
        """An item's rate, whoever added it."""
        rate = self.rates.get(item)
        if rate is None:
            rate = self.rates[item] = drawn(self._law, item, self._salt)
        return rate


def drawn(law: str, item: str, salt: int = 0) -> float:
    """The rate that a law has for an item.

    >>> round(drawn("beta", "a"), 4), round(drawn("beta", "a", salt=1), 4)
    (0.0..., 0.0...)
    """
    if item.startswith("item-"):  # the name under which published results were made: rates stay what they were
        item = f"content-{item[5:]}"
    key = blake2b(item.encode(), digest_size=8, salt=salt.to_bytes(8, "big")).digest()
    return float(LAWS[law](np.random.default_rng(int.from_bytes(key, "big")), 1)[0])


def from_law(law: str, *, salt: int = 0, prefix: str = "item-") -> Supply:
    """Made-up items without end, their rates from a law of ``hellinger coldstart``."""
    check_law(law)
    require(0 <= salt < 2**64, "0 <= salt < 2^64", salt=salt)

    def endless() -> Iterator[SiteItem]:
        for number in count(1):
            name = f"{prefix}{number:05d}"
            yield SiteItem(name, drawn(law, name, salt), (TOPICS[number % len(TOPICS)],))

    return Supply(endless(), law, salt)


def from_stories(law: str, *, salt: int = 0, prefix: str = "item-") -> Supply:
    """Made-up items without end that come in stories of eight, each of one topic.

    The rate of an item is the law's quantile at Φ(√0.9·z + √0.1·e), with a normal z of its story and a normal e of its
    own: each item by itself has a rate from the law, as those of :func:`from_law` have, but items of a story are alike.
    """
    check_law(law)
    require(0 <= salt < 2**64, "0 <= salt < 2^64", salt=salt)
    quantiles = np.sort(LAWS[law](np.random.default_rng([salt, 0]), 1 << 16))

    def endless() -> Iterator[SiteItem]:
        for number in count():
            rng = np.random.default_rng([salt, 1, number])
            topic, story = TOPICS[number % len(TOPICS)], f"story-{number + 1:04d}"
            scores = math.sqrt(ALIKE) * rng.normal() + math.sqrt(1.0 - ALIKE) * rng.normal(size=STORY)
            for place, score in enumerate(scores.tolist()):
                below = 0.5 * math.erfc(-score / math.sqrt(2.0))
                rate = float(quantiles[min(int(below * quantiles.size), quantiles.size - 1)])
                name = f"{prefix}{number * STORY + place + 1:05d}"
                yield SiteItem(name, rate, (topic,), (story,), {"topic": topic})

    return Supply(endless(), law, salt)


def from_csv(path: Path, *, law: str = "beta", salt: int = 0) -> Supply:
    """Items from a file with a heading, ``item,ctr`` or ``item,impressions,clicks``, in any order of columns.

    Counts become rates (clicks + 20·r)/(impressions + 20), where r is the file's overall rate: one click in one
    impression is no reason to expect a click every time.
    """
    items = _rates(_read(path), path)
    require(len(items) > 0, "the file has a row", file=str(path))
    return Supply(iter(items), law, salt)


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


def _rates(rows: list[_Row], path: Path) -> list[SiteItem]:
    shown = sum(row.impressions or 0.0 for row in rows)
    clicked = sum(row.clicks for row in rows if row.impressions is not None)
    counted = any(row.impressions is not None for row in rows)
    require(not counted or shown > 0, "some item has impressions", file=str(path))
    overall = clicked / shown if counted else 0.0
    out = []
    for row in rows:
        n = row.impressions
        rate = row.clicks if n is None else (row.clicks + SHRINK * overall) / (n + SHRINK)
        out.append(SiteItem(row.item, rate))
    return out
