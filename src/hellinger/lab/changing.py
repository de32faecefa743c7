"""Means that change in time: at some rounds, slowly, with the seasons, or as a file says."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._spec import parse_spec
from hellinger.errors import InputError, UnknownNameError, require, require_memory

__all__ = ["Changing", "changing", "is_changing"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STEPS = 1000
"""Rows of means that change slowly: they stand still for a thousandth of the rounds at a time."""


class Changing(NamedTuple):
    """Means of the arms, a row for each stretch of rounds.

    Attributes
    ----------
    table
        A row for each stretch, a column for each arm.
    since
        The round from which on each row is in force, rising, the first 1.

    Examples
    --------
    >>> means = Changing.make([[0.1, 0.5], [0.6, 0.5]], since=[1, 1000])
    >>> means.variation
    0.5
    >>> changing("piecewise(arms=3, changes=4)", horizon=1000).since.tolist()
    [1, 201, 401, 601, 801]
    """

    table: Floats
    since: Ints

    @classmethod
    def make(cls, table: npt.ArrayLike, since: Sequence[int]) -> Changing:
        """Check a table of means and the rounds from which on its rows are in force."""
        rows, rounds = np.asarray(table, np.float64), np.asarray(since, np.int64)
        require(rows.ndim == 2 and rows.size > 0, "means have a row for each stretch of rounds", shape=rows.shape)
        require(rounds.shape == rows.shape[:1], "one round for each row of means", rows=len(rows), since=len(rounds))
        rising = rounds[0] == 1 and bool((np.diff(rounds) > 0).all())
        require(rising, "since rises from 1", since=rounds.tolist()[:10])
        require(bool(np.isfinite(rows).all()), "means are numbers", means=rows.tolist()[:3])
        return cls(np.ascontiguousarray(rows), rounds)

    @property
    def variation(self) -> float:
        """Σ over the changes of the largest change of any mean: the budget of Besbes, Gur & Zeevi 2014, eq. 2."""
        return float(np.abs(np.diff(self.table, axis=0)).max(axis=1, initial=0.0).sum())

    def until(self, horizon: int) -> Changing:
        """The rows that come into force by this round."""
        rows = int((self.since <= horizon).sum())
        return Changing(self.table[:rows], self.since[:rows])

    def average(self, horizon: int) -> Floats:
        """Each arm's mean over so many rounds."""
        ends = np.append(self.since[1:], horizon + 1)
        mean: Floats = ((ends - self.since)[:, None] * self.table).sum(axis=0) / horizon
        return mean


def is_changing(text: str) -> bool:
    """Whether a text says how means change: a spec of :func:`changing`, or a file with a column ``round``."""
    name = text.partition("(")[0].strip().lower()
    if name in _KINDS:
        return True
    path = Path(text)
    if path.suffix != ".csv" or not path.is_file():
        return False
    with path.open(newline="", encoding="utf-8-sig") as file:
        return next(csv.reader(file), [""])[0].strip().lower() == "round"


def changing(text: str, *, horizon: int, seed: int = 0) -> Changing:
    """Means that change by a spec, over so many rounds; or by a file.

    ``piecewise(arms=10, changes=5, low=0, high=1)`` draws all means anew at so many rounds, evenly spaced.
    ``drift(arms=10, variation=1, low=0, high=1)`` lets each wander, by so much in all (:attr:`Changing.variation`).
    ``seasonal(arms=2, cycles=1.5, low=0, high=1)`` has each go up and down as a sine, one after the other.
    A file is CSV with a column ``round`` and one for each arm; a row is in force from its round on.
    """
    path = Path(text)
    if path.suffix == ".csv":
        return _read(path)
    name, arguments = parse_spec(text)
    if name not in _KINDS:
        raise UnknownNameError("kind of change", name, list(_KINDS))
    make, defaults = _KINDS[name]
    unknown = arguments.keys() - defaults.keys()
    require(not unknown, f"{name} takes {', '.join(defaults)}", unknown=sorted(unknown))
    numbers: dict[str, float] = {}
    for key, value in (defaults | arguments).items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
            raise InputError(f"`{key}` must be a number, but got {key}={value!r} in {text!r}")
        numbers[key] = value
    arms = numbers["arms"]
    require(arms >= 1 and arms % 1 == 0, "1 <= arms, a whole number", arms=arms)
    require(numbers["low"] < numbers["high"], "low < high", low=numbers["low"], high=numbers["high"])
    require_memory(8 * int(arms) * _STEPS, f"{int(arms):,} means that change")
    return make(numbers, horizon, np.random.default_rng([seed, 0x6368]))


def _piecewise(given: dict[str, float], horizon: int, rng: np.random.Generator) -> Changing:
    changes = given["changes"]
    require(0 <= changes < horizon and changes % 1 == 0, "0 <= changes < horizon, a whole number", changes=changes)
    rows = int(changes) + 1
    table = rng.uniform(given["low"], given["high"], (rows, int(given["arms"])))
    return Changing.make(table, (np.arange(rows) * horizon // rows + 1).tolist())


def _drift(given: dict[str, float], horizon: int, rng: np.random.Generator) -> Changing:
    low, high, variation = given["low"], given["high"], given["variation"]
    require(0 <= variation, "0 <= variation", variation=variation)
    rows = min(_STEPS, horizon)
    steps = rng.standard_normal((rows, int(given["arms"])))
    steps[0] = 0.0
    largest = np.abs(steps).max(axis=1).sum()
    path = rng.uniform(low, high, int(given["arms"])) + np.cumsum(steps * (variation / max(largest, 1e-300)), axis=0)
    # reflected at both ends: a step keeps its size, but for those that meet an end
    inside = np.abs((path - low) % (2 * (high - low)))
    table = low + np.where(inside > high - low, 2 * (high - low) - inside, inside)
    return Changing.make(table, _evenly(rows, horizon))


def _seasonal(given: dict[str, float], horizon: int, rng: np.random.Generator) -> Changing:
    low, high, arms = given["low"], given["high"], int(given["arms"])
    rows = min(_STEPS, horizon)
    time, turn = np.arange(rows)[:, None] / rows, np.arange(arms) / arms
    wave = np.sin(2 * math.pi * (given["cycles"] * time + turn))
    return Changing.make(0.5 * (low + high) + 0.5 * (high - low) * wave, _evenly(rows, horizon))


def _evenly(rows: int, horizon: int) -> list[int]:
    out: list[int] = (np.arange(rows) * horizon // rows + 1).tolist()
    return out


_KINDS = {
    "piecewise": (_piecewise, {"arms": 10, "changes": 5, "low": 0.0, "high": 1.0}),
    "drift": (_drift, {"arms": 10, "variation": 1.0, "low": 0.0, "high": 1.0}),
    "seasonal": (_seasonal, {"arms": 2, "cycles": 1.5, "low": 0.0, "high": 1.0}),
}


def _read(path: Path) -> Changing:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            heading, *rows = [row for row in csv.reader(file) if row]
            numbers = [[float(cell) for cell in row] for row in rows]
    except (OSError, ValueError) as error:
        raise InputError(f"`means` must be a CSV of numbers with a heading, but {str(path)!r}: {error}") from None
    named = heading[0].strip().lower() == "round" and all(len(row) == len(heading) > 1 for row in numbers)
    require(named and len(numbers) > 0, "the file has a column round and one for each arm", file=str(path))
    return Changing.make([row[1:] for row in numbers], [int(row[0]) for row in numbers])
