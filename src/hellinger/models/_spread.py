"""How far weights spread before anything is known, learned from what they have become: empirical Bayes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit

__all__ = ["learn"]

Floats = npt.NDArray[np.float64]

_ROUNDS = 8
_DOUBT = 4.0
"""Weights' worth of belief in the spread that was given."""


@helper
def _inverse(a: Floats) -> Floats:
    """The inverse of a positive definite matrix, by Cholesky: the same bits on every machine, as LAPACK's are not."""
    size = a.shape[0]
    low = a.copy()
    for j in range(size):
        for k in range(j):
            factor = low[j, k]
            if factor != 0.0:
                for i in range(j, size):
                    low[i, j] -= low[i, k] * factor
        root = np.sqrt(low[j, j])
        for i in range(j, size):
            low[i, j] /= root
    # columns of the inverse of the factor, as rows so that memory is read in order
    back = np.zeros((size, size))
    for j in range(size):
        back[j, j] = 1.0 / low[j, j]
        for i in range(j + 1, size):
            total = 0.0
            for k in range(j, i):
                total += low[i, k] * back[j, k]
            back[j, i] = -total / low[i, i]
    out = np.empty((size, size))
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, size):
                total += back[i, k] * back[j, k]
            out[i, j] = total
            out[j, i] = total
    return out


@jit
def learn(
    mean: Floats, cov: Floats, before: Floats, kinds: npt.NDArray[np.int64], start: Floats, scale: float
) -> Floats:
    """New variances of the kinds of weights; ``mean`` and ``cov`` become what they would be with these.

    The posterior's precision less that of the prior, and its product with the mean, are what events told; with another
    prior they give another posterior. Of each kind the variance is Σθ²/Σ(1 − Σⱼⱼ/τ²), the squares over the number of
    weights that events determined (MacKay 1992), with four weights' worth of belief in the variance that was given.
    Weights of variance 0, which the entry (0, 0) has, stay out.
    """
    size = mean.size - 1
    told = _inverse(cov[1:, 1:].copy())
    moment = np.zeros(size)
    for i in range(size):
        for j in range(size):
            moment[i] += told[i, j] * mean[1 + j]
    for i in range(size):
        told[i, i] -= 1.0 / before[1 + i]
    spread = start.copy()
    for _ in range(_ROUNDS):
        precision = told.copy()
        for i in range(size):
            precision[i, i] = max(precision[i, i], 0.0) + 1.0 / spread[kinds[1 + i]]
        found = _inverse(precision)
        squares, known = np.zeros(3), np.zeros(3)
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += found[i, j] * moment[j]
            mean[1 + i] = total
            kind = kinds[1 + i]
            squares[kind] += total * total
            known[kind] += 1.0 - found[i, i] / spread[kind]
        cov[1:, 1:] = found
        for kind in range(3):
            fitted = (squares[kind] + _DOUBT * scale * scale) / (max(known[kind], 0.0) + _DOUBT)
            spread[kind] = min(max(fitted, 1e-6 * scale * scale), 100.0 * scale * scale)
    # the posterior of the last variances
    precision = told.copy()
    for i in range(size):
        precision[i, i] = max(precision[i, i], 0.0) + 1.0 / spread[kinds[1 + i]]
    found = _inverse(precision)
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += found[i, j] * moment[j]
        mean[1 + i] = total
    cov[1:, 1:] = found
    return spread
