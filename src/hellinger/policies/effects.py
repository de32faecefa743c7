"""What an item is tells what to expect of it: a regression of click rates on features, fitted to all counts.

An item with features x is taken to have the odds of the pool's mean times exp(x·β); its rate is then the pool's times a
*factor* r. What features leave unexplained is the law of the pool, as if features were not there: an item's n
impressions count as n·r *exposures* of an item without features, and its prior Beta(a, T − a) becomes one of mean
m·r with the same a, so of strength T/r. Exposures take the place of impressions wherever something is learned of the
whole: the law of the pool, and what groups tell (:mod:`hellinger.policies.shares`).

β is the mode of a beta-binomial regression, in which the spread of rates around what features predict is respected: an
item of many impressions tells no more than its own rate. Each key has a variance of its weights, β ~ N(0, τ²), learned
by MacKay's rule. How far all of it is trusted is learned out of sample: items are predicted by weights that were
fitted without them, a fifth at a time, and the weights are shrunk by the factor that makes the items most likely.
Where that gains too little, there are no effects at all. The same predictions are the calibration that is reported.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, inline, jit
from hellinger._random import scramble
from hellinger.errors import require
from hellinger.policies.shares import log_chance

__all__ = [
    "FITTED",
    "MOST_COLUMNS",
    "STEPS",
    "Calibrated",
    "Column",
    "Described",
    "EffectTable",
    "Effects",
    "Named",
    "Rows",
    "calibrated",
    "column_key",
    "exposures",
    "factor_steps",
    "fit_effects",
    "row_marks",
    "some_of",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STEPS = 16
"""Steps in an octave to which an item's factor is rounded."""
MOST_STEPS = 4 * STEPS
"""Factors are between 1/16 and 16."""
MOST_COLUMNS = 1024
"""Columns that have a weight at most: those that tell most."""
FITTED = 8192
"""So many items suffice for the fit."""
_TRIED = 8192
"""Columns that are tried at most: the most frequent."""
_FAR = 4.0
"""Standard deviations beyond which a number says no more."""
_FOLDS = 5
_TRUST = (0.25, 0.5, 0.75, 1.0)
_LEAST_GAIN = 3.0
"""Logarithm of how many times more likely items must be by features that were fitted without them."""
_SURE = 1.5
"""Standard deviations by which that gain must be positive."""
_BINS = 10
_NUMBER = 2
_KINDS = {"category": 0, "text": 1, "number": _NUMBER}


class Named(NamedTuple):
    """A column in words: a category of a key, a word of a text, or a number."""

    kind: str
    key: str
    word: str

    def __str__(self) -> str:
        between = {"category": "=", "text": "~", "number": ""}[self.kind]
        return f"{self.key}{between}{self.word}"


class Column(NamedTuple):
    """What one column adds to the log-odds: its weight and the standard deviation of that.

    Of a number as many times as it is spreads from the center.
    """

    name: Named
    weight: float
    error: float
    center: float = 0.0
    spread: float = 1.0


class Calibrated(NamedTuple):
    """Items of like predictions, by features that were fitted without them: what was predicted, and what came of it.

    Attributes
    ----------
    impressions
        Of these items.
    predicted
        Their mean rate, by the predictions.
    observed
        Their mean rate, by what they earned.
    deviation
        Standard deviation of the latter: by how much items differ around their predictions, and by chance.
    """

    impressions: float
    predicted: float
    observed: float
    deviation: float


class Effects(NamedTuple):
    """What features tell, beside the law of what they leave open.

    Attributes
    ----------
    mean
        The click rate where no feature says anything.
    columns
        Every column with a weight.
    calibration
        Predictions out of sample against what was observed, the smallest first.
    """

    mean: float
    columns: tuple[Column, ...]
    calibration: tuple[Calibrated, ...] = ()

    def check(self) -> Self:
        """Return this, or raise where it cannot be."""
        require(0 < self.mean < 1, "0 < mean < 1", mean=self.mean)
        most = 0 < len(self.columns) <= MOST_COLUMNS
        require(most, f"effects have 1 to {MOST_COLUMNS} columns", columns=len(self.columns))
        for column in self.columns:
            require(column.name.kind in _KINDS, f"a column's kind is one of {', '.join(_KINDS)}", column=column)
            numbers = (column.weight, column.error, column.center, column.spread)
            require(all(map(math.isfinite, numbers)) and column.spread > 0, "finite numbers, 0 < spread", column=column)
        return self

    def told(self, parts: Mapping[Named, float]) -> list[tuple[Column, float, float]]:
        """What each of an item's features adds to its log-odds, and the standard deviation of that."""
        found = []
        for column in self.columns:
            if column.name in parts:
                x = min(max((parts[column.name] - column.center) / column.spread, -_FAR), _FAR)
                found.append((column, column.weight * x, column.error * abs(x)))
        return found

    def state(self) -> dict[str, Any]:
        """The effects as JSON can hold them exactly."""
        return {
            "mean": self.mean,
            "columns": [[*name, *rest] for name, *rest in self.columns],
            "calibration": [list(row) for row in self.calibration],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the effects that gave this state."""
        columns = tuple([Column(Named(*map(str, row[:3])), *map(float, row[3:])) for row in state["columns"]])
        calibration = tuple([Calibrated(*map(float, row)) for row in state.get("calibration", ())])
        return cls(float(state["mean"]), columns, calibration).check()


class Rows(NamedTuple):
    """What items are: the columns of the i-th are ``key[start[i]:start[i + 1]]``, and how much it has of each."""

    start: Ints
    key: Ints
    value: Floats

    @classmethod
    def of(cls, listed: Sequence[tuple[Sequence[int], Sequence[float]]]) -> Self:
        """Those of one item after the other."""
        start = np.zeros(len(listed) + 1, np.int64)
        np.cumsum([len(keys) for keys, _ in listed], out=start[1:])
        keys = np.array([key for each, _ in listed for key in each], np.int64)
        return cls(start, keys, np.array([value for _, each in listed for value in each], np.float64))

    def taken(self, places: Ints) -> Rows:
        """Those of these items alone."""
        size = np.diff(self.start)[places]
        start = np.concatenate(([0], np.cumsum(size)))
        where = np.arange(start[-1]) + np.repeat(self.start[:-1][places] - start[:-1], size)
        return Rows(start, self.key[where], self.value[where])

    def steps(self, effects: Effects) -> npt.NDArray[np.int32]:
        """The factor of each item, in steps."""
        out = np.zeros(self.start.size - 1, np.int32)
        factor_steps(EffectTable.of(effects), self.start[:-1], self.start[1:], self.key, self.value, out)
        return out

    def joined(self, other: Rows) -> Rows:
        """These, and then others."""
        start = np.concatenate([self.start, self.start[-1] + other.start[1:]])
        return Rows(start, np.concatenate([self.key, other.key]), np.concatenate([self.value, other.value]))


class Described(NamedTuple):
    """What the items of a fit are.

    Attributes
    ----------
    rows
        Gives the columns of items by their positions.
    named
        Gives the name of a column.
    marks
        A number for each item: where items are many, the fit is to some, drawn by these; by what they are if not given.
    left
        Rewards, impressions, columns and groups of items that have left: they tell what features are worth, too.
    """

    rows: Callable[[Ints], Rows]
    named: Callable[[int], Named]
    marks: npt.NDArray[np.uint64] | None = None
    left: tuple[Floats, Floats, Rows, npt.NDArray[np.uint64]] | None = None


@functools.lru_cache(1 << 16)
def column_key(kind: str, key: str, word: str) -> int:
    """A number for a column, the same in every process: its key's in the highest bits, its kind's in the lowest."""
    whose = int.from_bytes(blake2b(f"{kind}\0{key}".encode(), digest_size=2).digest(), "little")
    number = int.from_bytes(blake2b(f"{key}\0{word}".encode(), digest_size=6).digest(), "little")
    return (whose << 47 | number >> 1) & ~3 | _KINDS[kind]


# An item's factor -------------------------------------------------------------------------------------


class EffectTable(NamedTuple):
    """Effects as compiled code has them: an open-addressing table of the columns."""

    mean: float
    key: Ints
    column: Floats
    """Weight, center and spread of each."""

    @classmethod
    def of(cls, effects: Effects) -> Self:
        """The table of these effects."""
        size = 1 << (4 * len(effects.columns)).bit_length()
        table = cls(effects.mean, np.full(size, -1), np.zeros((size, 3)))
        keys = np.array([column_key(*column.name) for column in effects.columns], np.int64)
        _enter(table, keys, np.array([[each.weight, each.center, each.spread] for each in effects.columns]))
        return table


@inline
def _place(table: Any, key: int) -> Any:
    """Where a column is in the table, or the gap where it would be."""
    i = np.int64(scramble(np.uint64(key)) & np.uint64(table.key.size - 1))
    while table.key[i] != key and table.key[i] != -1:
        i = (i + 1) & (table.key.size - 1)
    return i


@jit
def _enter(table: Any, keys: Ints, columns: Floats) -> None:
    for j in range(keys.size):
        i = _place(table, keys[j])
        table.key[i] = keys[j]
        table.column[i] = columns[j]


@inline
def _seen(value: float, center: float, spread: float) -> float:
    return min(max((value - center) / spread, -_FAR), _FAR)


@jit
def factor_steps(table: Any, start: Ints, end: Ints, key: Ints, value: Floats, out: Any) -> None:
    """Write the factor of each item, in steps; its columns are ``key[start:end]``."""
    for i in range(start.size):
        eta = 0.0
        for j in range(start[i], end[i]):
            place = _place(table, key[j])
            if table.key[place] == key[j]:
                weight, center, spread = table.column[place]
                eta += weight * _seen(value[j], center, spread)
        # a rate of mean·r where the odds are the mean's times e^eta
        octaves = (eta - math.log(1.0 + table.mean * math.expm1(eta))) / math.log(2.0)
        out[i] = min(max(math.floor(octaves * STEPS + 0.5), -MOST_STEPS), MOST_STEPS)


def exposures(n: Floats, s: Floats, steps: npt.NDArray[Any]) -> Floats:
    """Impressions of items without features that would tell as much of the whole: n·r, at least the rewards."""
    found: Floats = np.maximum(n * np.exp2(steps / STEPS), s)
    return found


# The fit ----------------------------------------------------------------------------------------------


def some_of(mark: npt.NDArray[np.uint64], most: int = FITTED) -> Ints:
    """Positions of about so many items, all where there are no more: every so many of them in the order of marks."""
    order = np.argsort(mark, kind="stable")
    return np.sort(order[:: max(1, -(-mark.size // most))])


@jit
def row_marks(start: Ints, key: Ints, value: Floats, s: Floats, n: Floats) -> npt.NDArray[np.uint64]:
    """A number for each item by what it is and has, whatever its place."""
    out = np.empty(s.size, np.uint64)
    for i in range(s.size):
        mark = np.uint64(0)
        for j in range(start[i], start[i + 1]):
            mark += scramble(np.uint64(key[j]) ^ scramble(np.float64(value[j]).view(np.uint64)))
        out[i] = scramble(
            mark ^ scramble(np.float64(n[i]).view(np.uint64) ^ scramble(np.float64(s[i]).view(np.uint64)))
        )
    return out


class _Design(NamedTuple):
    """The regression's matrix by columns, each with the number of its key."""

    first: Ints
    item: Ints
    x: Floats
    whose: Ints


@helper
def _chances(s: float, n: float, eta: float, a: float) -> Any:
    """Slope and curvature of an item's log-likelihood by its log-odds, spread around the prediction respected."""
    p = 1.0 / (1.0 + math.exp(-eta))
    spread = 1.0 + n * p / a
    return (s - n * p) / spread, n * p * (1.0 - p) / spread


@jit
def _regress(
    s: Floats, n: Floats, use: Any, design: Any, keys: int, a: float, weights: Floats, errors: Floats
) -> float:
    """Write the weights of all columns fitted to the items in use, and their errors; returns the intercept.

    Newton's method in the log-odds; each step is solved by passes over the columns, one after the other, and is
    followed by MacKay's rule for the variance of each key's weights: Σβ² over the number of weights that are known.
    """
    size, columns = s.size, design.first.size - 1
    variance, before = np.full(keys, 0.05), np.empty(keys)
    won, shown = 0.0, 0.0
    for i in range(size):
        if use[i]:
            won += s[i]
            shown += n[i]
    intercept = math.log((won + 0.5) / (shown - won + 0.5))
    eta = np.full(size, intercept)
    slope, bend, curve = np.zeros(size), np.zeros(size), np.zeros(columns)
    weights[:] = 0.0
    for turn in range(40):
        total = 0.0
        for i in range(size):
            if use[i]:
                slope[i], bend[i] = _chances(s[i], n[i], eta[i], a)
                total += bend[i]
        for j in range(columns):
            h = 0.0
            for e in range(design.first[j], design.first[j + 1]):
                h += bend[design.item[e]] * design.x[e] * design.x[e]
            curve[j] = h
        largest = 0.0
        for _ in range(2):
            step = 0.0
            for i in range(size):
                step += slope[i]
            step = min(max(step / total, -1.0), 1.0)
            intercept += step
            largest = max(largest, abs(step))
            for i in range(size):
                slope[i] -= bend[i] * step
                eta[i] += step
            for j in range(columns):
                ridge = 1.0 / variance[design.whose[j]]
                g = -ridge * weights[j]
                for e in range(design.first[j], design.first[j + 1]):
                    g += slope[design.item[e]] * design.x[e]
                step = min(max(g / (curve[j] + ridge), -1.0), 1.0)
                if step == 0.0:
                    continue
                weights[j] += step
                largest = max(largest, abs(step))
                for e in range(design.first[j], design.first[j + 1]):
                    i = design.item[e]
                    slope[i] -= bend[i] * design.x[e] * step
                    eta[i] += design.x[e] * step
        squares, known = np.zeros(keys), np.zeros(keys)
        for j in range(columns):
            k = design.whose[j]
            squares[k] += weights[j] * weights[j]
            known[k] += curve[j] / (curve[j] + 1.0 / variance[k])
        change = 0.0
        for k in range(keys):
            before[k] = variance[k]
            variance[k] = min(max(squares[k] / max(known[k], 1e-9), 1e-5), 4.0)
            change = max(change, abs(math.log(variance[k] / before[k])))
        if turn >= 4 and largest < 1e-3 and change < 0.05:
            break
    for j in range(columns):
        errors[j] = 1.0 / math.sqrt(curve[j] + 1.0 / variance[design.whose[j]])
    return intercept


@jit
def _predict(design: Any, weights: Floats, intercept: float, use: Any, eta: Floats) -> None:
    """Write the log-odds of the items not in use."""
    for i in range(eta.size):
        if not use[i]:
            eta[i] = intercept
    for j in range(weights.size):
        for e in range(design.first[j], design.first[j + 1]):
            i = design.item[e]
            if not use[i]:
                eta[i] += weights[j] * design.x[e]


@jit
def _likelihoods(s: Floats, n: Floats, eta: Floats, base: float, trust: float, a: float, out: Floats) -> None:
    """Write each item's log-likelihood where a part of its distance from the base is believed."""
    for i in range(s.size):
        m = 1.0 / (1.0 + math.exp(-(base + trust * (eta[i] - base))))
        m = min(max(m, 1e-9), 1.0 - 1e-9)
        out[i] = log_chance(s[i], n[i], m, a / m)


def fit_effects(
    s: Floats,
    n: Floats,
    rows: Rows,
    named: Callable[[int], Named],
    a: float,
    mark: npt.NDArray[np.uint64],
) -> tuple[Effects, Floats] | None:
    """Return what features tell of these items, all of which have impressions; None where they tell nothing.

    The same items give the same effects, in whatever order. With them, the rate of each item by weights that were
    fitted without it, as a multiple of the mean: what features leave open is told by these.

    Parameters
    ----------
    s, n, rows
        Rewards, impressions and columns of each item.
    named
        Gives the name of a column.
    a
        Of the Beta law of click rates without features: how much rates differ.
    mark
        The group of each item by a number, 0 for none: those of one group are predicted without each other.
    """
    own = row_marks(rows.start, rows.key, rows.value, s, n)
    order = np.lexsort((own, mark))
    s, n, rows = s[order], n[order], rows.taken(order)
    design, whose, numbers = _design(rows)
    columns = design.first.size - 1
    if columns == 0 or s.size < 2 * _FOLDS or not 0.0 < s.sum() < n.sum():
        return None
    fold = _folds(mark[order])
    keys = int(design.whose.max()) + 1
    eta, weights, errors = np.zeros(s.size), np.zeros(columns), np.zeros(columns)
    for each in range(_FOLDS):
        use = fold != each
        if use.all() or not 0.0 < s[use].sum() < n[use].sum():
            return None
        _predict(design, weights, _regress(s, n, use, design, keys, a, weights, errors), use, eta)
    everything = np.ones(s.size, np.bool_)
    base = _regress(s, n, everything, design, keys, a, weights, errors)
    plain, tried = np.empty(s.size), np.empty(s.size)
    nothing = _Design(design.first[:1], design.item[:0], design.x[:0], design.whose[:0])
    usual = _regress(s, n, everything, nothing, 1, a, weights[:0], errors[:0])
    _likelihoods(s, n, eta, usual, 0.0, a, plain)
    best, trust = 0.0, 0.0
    for part in _TRUST:
        _likelihoods(s, n, eta, base, part, a, tried)
        gain = tried - plain
        total = float(gain.sum())
        if total > max(best, _LEAST_GAIN, _SURE * math.sqrt(float((gain * gain).sum()))):
            best, trust = total, part
    if not trust:
        return None
    weights *= trust
    told = np.zeros(columns)
    np.add.at(told, np.repeat(np.arange(columns), np.diff(design.first)), np.square(design.x))
    told *= np.square(weights)
    kept = np.sort(np.argsort(-told, kind="stable")[:MOST_COLUMNS])
    found = []
    for j in kept.tolist():
        weight = round(float(weights[j]), 3)
        if weight:
            center, spread = numbers.get(j, (0.0, 1.0))
            found.append(Column(named(int(whose[j])), weight, round(float(errors[j]), 3), center, spread))
    if not found:
        return None
    predicted = 1.0 / (1.0 + np.exp(-(base + trust * (eta - base))))
    mean = min(max(round(1.0 / (1.0 + math.exp(-base)), 9), 1e-9), 1.0 - 1e-9)
    found.sort(key=lambda column: column.name)
    unseen = np.empty(s.size)
    unseen[order] = predicted / mean
    return Effects(mean, tuple(found)), unseen


def _folds(mark: npt.NDArray[np.uint64]) -> Ints:
    """Which items are predicted together, without each other; they are sorted by their marks.

    Where there are but a few groups, each item is for itself.
    """
    number = np.concatenate(([0], np.cumsum((mark[1:] != mark[:-1]) | (mark[1:] == 0))))
    return (number if number[-1] >= 4 * _FOLDS else np.arange(mark.size)) % _FOLDS


def _design(rows: Rows) -> tuple[_Design, Ints, dict[int, tuple[float, float]]]:
    """The matrix; the key of each column; and center and spread of those that are numbers."""
    keys, column, items = np.unique(rows.key, return_inverse=True, return_counts=True)
    often = np.flatnonzero(items >= 2)
    if often.size > _TRIED:
        often = np.sort(often[np.argsort(-items[often], kind="stable")[:_TRIED]])
    place = np.full(keys.size, -1)
    place[often] = np.arange(often.size)
    column = place[column]
    there = np.flatnonzero(column >= 0)
    there = there[np.argsort(column[there], kind="stable")]
    item = np.repeat(np.arange(rows.start.size - 1), np.diff(rows.start))[there]
    x, column = rows.value[there], column[there]
    first = np.searchsorted(column, np.arange(often.size + 1))
    numbers = {}
    for j in np.flatnonzero((keys[often] & 3) == _NUMBER).tolist():
        values = x[first[j] : first[j + 1]]
        center, spread = float(values.mean()), float(values.std())
        if not spread > 1e-9 * abs(center):
            center, spread = float(values[0]), 1.0
        numbers[j] = center, spread
        x[first[j] : first[j + 1]] = np.clip((values - center) / spread, -_FAR, _FAR)
    whose = np.unique(keys[often] >> 47, return_inverse=True)[1] if often.size else np.empty(0, np.int64)
    return _Design(first.astype(np.int64), item, x, whose.astype(np.int64)), keys[often], numbers


def calibrated(
    s: Floats, n: Floats, predicted: Floats, steps: npt.NDArray[np.int32], a: float
) -> tuple[Calibrated, ...]:
    """Items by their factors, in classes that tell about as much each; a is that of what features leave open.

    An item counts with n/(T + n), as far as its posterior mean moves to s/n from the prediction. That mean is a
    martingale: whatever policy gave the impressions, and however it chose those that earned most, the classes lie
    around the predictions where these are true. Sums of rewards over sums of impressions would lie above.
    """
    strength = a / predicted
    weight = n / (strength + n)
    order = np.lexsort((s, n, predicted, steps))
    s, n, predicted, strength, weight = (array[order] for array in (s, n, predicted, strength, weight))
    # by factors, not by predictions: of like items, those are predicted less whose fold earned more
    _, alike = np.unique(steps[order], return_inverse=True)
    each_told = np.bincount(alike, weight)
    bins = ((np.cumsum(each_told) - 0.5 * each_told) / weight.sum() * _BINS).astype(np.int64)[alike]
    rows = []
    for each in range(_BINS):
        some = np.flatnonzero(bins == each)
        if some.size:
            m, w = predicted[some], weight[some]
            told = w.sum()
            mean = (w * m).sum() / told
            found = mean + (w * (s[some] / n[some] - m)).sum() / told
            deviation = math.sqrt((w * m * (1.0 - m) / (strength[some] + 1.0)).sum()) / told
            rows.append(Calibrated(float(n[some].sum()), *(round(float(x), 6) for x in (mean, found, deviation))))
    return tuple(sorted(rows, key=lambda row: row.predicted))
