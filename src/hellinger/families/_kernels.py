"""Loops over arrays: one per function of a family, written once for all families."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hellinger._jit import jit
from hellinger.families import _dispatch as d

if TYPE_CHECKING:
    from hellinger.families._base import Family

Floats = npt.NDArray[np.float64]


@jit
def kl(family: Family, p: Floats, q: Floats, out: Floats) -> None:
    """KL(p ‖ q)."""
    for i in range(out.size):
        out[i] = d.kl(family, p[i], q[i]) + 0.0 * p[i]  # p is finite, or NaN whatever q is


@jit
def bhattacharyya(family: Family, p: Floats, q: Floats, out: Floats) -> None:
    """B(p, q)."""
    for i in range(out.size):
        out[i] = d.bhattacharyya(family, p[i], q[i]) + 0.0 * p[i]  # p is finite, or NaN whatever q is


@jit
def hellinger2(family: Family, p: Floats, q: Floats, out: Floats) -> None:
    """H²(p, q)."""
    for i in range(out.size):
        out[i] = d.hellinger2(family, p[i], q[i]) + 0.0 * p[i]  # p is finite, or NaN whatever q is


@jit
def hellinger_upper(family: Family, mean: Floats, radius: Floats, out: Floats) -> None:
    """Largest q with B(mean, q) ≤ radius."""
    for i in range(out.size):
        out[i] = d.hellinger_upper(family, mean[i], radius[i])


@jit
def kl_upper(family: Family, mean: Floats, radius: Floats, out: Floats) -> None:
    """Largest q with KL(mean ‖ q) ≤ radius."""
    for i in range(out.size):
        out[i] = d.kl_upper(family, mean[i], radius[i])


@jit
def hellinger_lower(family: Family, mean: Floats, radius: Floats, out: Floats) -> None:
    """Smallest q with B(mean, q) ≤ radius."""
    for i in range(out.size):
        out[i] = d.hellinger_lower(family, mean[i], radius[i])


@jit
def kl_lower(family: Family, mean: Floats, radius: Floats, out: Floats) -> None:
    """Smallest q with KL(mean ‖ q) ≤ radius."""
    for i in range(out.size):
        out[i] = d.kl_lower(family, mean[i], radius[i])


@jit
def natural(family: Family, mean: Floats, out: Floats) -> None:
    """θ with ψ′(θ) = mean."""
    for i in range(out.size):
        out[i] = d.natural(family, mean[i])


@jit
def mean(family: Family, theta: Floats, out: Floats) -> None:
    """ψ′(θ)."""
    for i in range(out.size):
        out[i] = d.mean(family, theta[i])


@jit
def log_partition(family: Family, theta: Floats, out: Floats) -> None:
    """ψ(θ)."""
    for i in range(out.size):
        out[i] = d.log_partition(family, theta[i])


@jit
def variance(family: Family, mean: Floats, out: Floats) -> None:
    """ψ″ at the mean."""
    for i in range(out.size):
        out[i] = d.variance(family, mean[i])
