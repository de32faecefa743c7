"""Fixed policies to be evaluated on a log: an order of items by score, or chances by item and position."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hellinger.errors import InputError, needs_extra, require
from hellinger.evaluate.parts import LogPart
from hellinger.evaluate.survey import Survey
from hellinger.world.tops import Tops

__all__ = ["ChanceTable", "EvenChances", "Order", "Target", "Variant", "Wanted", "read_target"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Wanted(NamedTuple):
    """What a policy would have shown on some rankings."""

    chance: Floats
    """For each row, the chance that the policy shows this item at this position."""
    position: Ints | None
    """For each row, where the policy would show this item; 0 for nowhere; None where it draws."""
    items: Ints | None
    """For each row, the item that the policy would show at its position; −1 for none; None where it draws."""


class Target(Protocol):
    """A policy that stands still."""

    name: str
    predicts: bool
    """Whether what it would show is known, and not only with what chance it shows what was shown."""
    leaves_out: str
    """Why it has no chances on some rankings, in words; empty where that goes without saying."""

    def wanted(self, part: LogPart, before: int) -> Wanted:
        """What it would have shown on these rankings, of which there were so many before."""

    def average(self, rates: Floats, part: LogPart, before: int) -> Floats:
        """The mean rate of what it would show at each row's position; only of a policy that draws."""

    def heaviest(self, log: Survey) -> float:
        """What no weight of it can be above, if no propensity is below the least of the log."""


class Order:
    """The items with the largest scores, best first, among those that were there and not left out by a filter.

    An item is taken to be there from the first to the last ranking that shows it.
    """

    predicts = True
    leaves_out = "they were filtered by tags, or by lists that the log or the export does not have in full"

    def __init__(self, name: str, scores: Floats, log: Survey) -> None:
        self.name = name
        best = np.argsort(-scores, kind="stable")
        self._tops = Tops(best[np.isfinite(scores[best])], log.born, log.gone, log.slots)

    def wanted(self, part: LogPart, before: int) -> Wanted:
        """Where each row's item would be, and what would be in its place."""
        position, items = self._tops.follow(
            before, part.first, part.item, part.position, part.filters.exclude, part.filters.among
        )
        chance = np.where(np.repeat(part.filters.unclear, part.sizes), np.nan, items == part.item)
        return Wanted(chance, position, items)

    def average(self, rates: Floats, part: LogPart, before: int) -> Floats:
        """Not asked for."""
        raise NotImplementedError

    def heaviest(self, log: Survey) -> float:
        """Of a place that it is sure of."""
        return 1.0 / log.least


class ChanceTable:
    """Chances of each item at each position, the same for every ranking without filters."""

    predicts = True
    leaves_out = "they had filters, and a table of chances does not say what it would show then"

    def __init__(self, name: str, table: Floats) -> None:
        self.name = name
        self._table = table

    def wanted(self, part: LogPart, before: int) -> Wanted:
        """Each row's chance."""
        inside = part.position <= self._table.shape[1]
        chance = np.where(inside, self._table[part.item, np.minimum(part.position, self._table.shape[1]) - 1], 0.0)
        return Wanted(np.where(np.repeat(part.filters.some, part.sizes), np.nan, chance), None, None)

    def average(self, rates: Floats, part: LogPart, before: int) -> Floats:
        """The mean rate at each position."""
        means = np.append(rates @ self._table, 0.0)
        return np.asarray(means[np.minimum(part.position - 1, self._table.shape[1])])

    def heaviest(self, log: Survey) -> float:
        """Of the largest chance."""
        return float(self._table.max()) / log.least


class EvenChances:
    """Every item that a ranking could have shown with the same chance, at every position."""

    name = "uniform"
    predicts = True
    leaves_out = "they had filters, and how many items these left is not logged"

    def __init__(self, log: Survey) -> None:
        self._log = log
        self._born, self._gone = _Ends(log.born), _Ends(log.gone)

    def wanted(self, part: LogPart, before: int) -> Wanted:
        """One over how many there were."""
        eligible = self._log.eligible[before : before + part.first.size]
        return Wanted(np.repeat(1.0 / eligible, part.sizes), None, None)

    def average(self, rates: Floats, part: LogPart, before: int) -> Floats:
        """The mean rate of those that are there by their impressions."""
        log, number = self._log, np.arange(before, before + part.first.size)
        begun, ended = self._born.before(rates, number + 1), self._gone.before(rates, number)
        return np.asarray(np.repeat((begun - ended) / log.there(number), part.sizes))

    def heaviest(self, log: Survey) -> float:
        """Of the least propensity, relative to an even chance."""
        return 1.0 / log.least_even


class Variant:
    """A variant that shared the traffic, as it was at each ranking; from a log gone through again."""

    predicts = False
    leaves_out = ""

    def __init__(self, variant: str) -> None:
        self.name = f"variant {variant}"
        self._variant = variant

    def wanted(self, part: LogPart, before: int) -> Wanted:
        """Each row's chance; NaN where the variant had no traffic."""
        columns = part.variants.get(self._variant)
        return Wanted(np.full(part.item.size, np.nan) if columns is None else columns.chance, None, None)

    def average(self, rates: Floats, part: LogPart, before: int) -> Floats:
        """Not asked for."""
        raise NotImplementedError

    def heaviest(self, log: Survey) -> float:
        """Of a place that it is sure of."""
        return 1.0 / log.least


class _Ends:
    """When items come, or go, in the order of time."""

    def __init__(self, ends: Ints) -> None:
        self._order = np.argsort(ends)
        self._sorted = ends[self._order]

    def before(self, rates: Floats, number: Ints) -> Floats:
        """The sum of the rates of all items whose end is before each number."""
        upto = np.concatenate([[0.0], np.cumsum(rates[self._order])])
        return np.asarray(upto[np.searchsorted(self._sorted, number)])


def read_target(path: str | Path, log: Survey) -> Order | ChanceTable:
    """A policy from a table of scores or chances."""
    frame = _read_items(path)
    codes = {name: code for code, name in enumerate(log.names)}
    name = Path(path).name
    items: Sequence[str] = frame["item"].to_list()
    known = np.array([codes.get(item, -1) for item in items], np.int64)
    shared = int((known >= 0).sum())
    require(shared > 0, "scores name items of the log", scores=items[:3], log=log.names[:3])
    if "score" in frame.columns:
        scores = np.full(log.items, -np.inf)
        scores[known[known >= 0]] = frame["score"].to_numpy()[known >= 0]
        return Order(name, scores, log)
    chance = frame["chance"].to_numpy()
    require(bool(((chance >= 0.0) & (chance <= 1.0)).all()), "0 <= chance <= 1", chance=(chance.min(), chance.max()))
    table = np.zeros((log.items, log.slots))
    if "position" not in frame.columns:
        table[known[known >= 0]] = chance[known >= 0, None]
    else:
        places = frame["position"].to_numpy().astype(np.int64)
        used = (known >= 0) & (places >= 1) & (places <= log.slots)
        table[known[used], places[used] - 1] = chance[used]
    whole = float(table.sum(axis=0).max())
    require(whole <= 1.0 + 1e-6, "the chances of a position add up to at most 1", sum=whole)
    return ChanceTable(name, table)


def _read_items(path: str | Path) -> Any:
    """A table of items: the columns ``item`` and ``score``, or ``item``, ``chance`` and perhaps ``position``."""
    with needs_extra("lab"):
        import polars as pl
    file = Path(path)
    if not file.is_file():
        raise InputError(f"scores must be a CSV with the columns item and score, but there is no file {str(path)!r}")
    try:
        frame = pl.read_csv(
            file, schema_overrides={"item": pl.String, "item_id": pl.String}, infer_schema_length=10_000
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{str(path)!r} cannot be read: {str(error).splitlines()[0]}") from None
    if "item_id" in frame.columns and "item" not in frame.columns:
        frame = frame.rename({"item_id": "item"})
    if "item" not in frame.columns or not {"score", "chance"} & set(frame.columns):
        raise InputError(
            f"scores must have the columns item and score, or item, position and chance, but {str(path)!r} has "
            f"{', '.join(frame.columns)}"
        )
    value = "score" if "score" in frame.columns else "chance"
    numbers = frame[value].cast(pl.Float64, strict=False)
    bad = int(numbers.is_null().sum()) + int((~numbers.fill_null(0.0).is_finite()).sum())
    require(bad == 0, f"every {value} is a number", rows_that_are_not=bad)
    return frame.with_columns(numbers.alias(value))
