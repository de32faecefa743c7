"""How far weights spread before anything is known, learned from what they have become: empirical Bayes."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from hellinger._jit import jit

__all__ = ["DOUBT", "PLACES", "ROWS", "fit", "move"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DOUBT = 2.0
"""Weights' worth of belief in the spread that was given."""
ROWS = 1024
"""Items whose own weights are looked at."""
_ROUNDS = 8


def _places() -> list[int]:
    return list(itertools.accumulate(range(120), lambda place, _: place + place // 4, initial=16))


PLACES = frozenset(_places())
"""Numbers of events after which spreads are learned: 16, 20, 25, …, each a quarter more than the one before."""


@jit
def fit(
    mean: Floats, variance: Floats, before: Floats, kinds: Ints, start: Floats, scale: float, doubt: float
) -> Floats:
    """The variance of each kind of weights before anything is known.

    A weight of mean θ and variance s, where τ² was believed of it, was told θ/s with precision 1/s − 1/τ²; with another
    τ² it would have another mean and variance. Of each kind the variance is Σθ²/Σ(1 − s/τ²), the squares over the
    number of weights that events determined (MacKay 1992), with some weights' worth of belief in the one that was
    given. The first round is exact; those that follow leave out what the covariances of weights would change.
    """
    spread = start.copy()
    for _ in range(_ROUNDS):
        squares, known = np.zeros(spread.size), np.zeros(spread.size)
        for j in range(mean.size):
            kind = kinds[j]
            if not variance[j] > 0.0:  # rounding
                continue
            told = max(1.0 / variance[j] - 1.0 / before[j], 0.0)
            precision = told + 1.0 / spread[kind]
            theta = mean[j] / (variance[j] * precision)
            squares[kind] += theta * theta
            known[kind] += told / precision
        for kind in range(spread.size):
            fitted = (squares[kind] + doubt * scale * scale) / (known[kind] + doubt)
            spread[kind] = min(max(fitted, 1e-6 * scale * scale), 100.0 * scale * scale)
    return spread


@jit
def move(mean: Floats, cov: Floats, before: Floats, kinds: Ints, spread: Floats, first: int, last: int) -> None:
    """Let the posterior be what it would be if weights from first up to last had their kind's spread from the start.

    For each that is to be told, or to be untold, that it is 0: one step with the difference of the two precisions.
    """
    size = mean.size
    column = np.empty(size)
    for j in range(first, last):
        wanted = spread[kinds[j]]
        if before[j] != wanted:
            more = 1.0 / wanted - 1.0 / before[j]
            factor = more / (1.0 + more * cov[j, j])
            pull = factor * mean[j]
            for i in range(size):
                column[i] = cov[i, j]
            for i in range(size):
                mean[i] -= pull * column[i]
                step = factor * column[i]
                if step != 0.0:
                    for c in range(size):
                        cov[i, c] -= step * column[c]
            before[j] = wanted
