"""What compiled code may ask of a family: each function calls the family's method of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hellinger._jit import dispatch

if TYPE_CHECKING:
    from hellinger.families._base import Family

__all__ = [
    "bhattacharyya",
    "draw",
    "hellinger2",
    "hellinger_lower",
    "hellinger_upper",
    "infimum",
    "kl",
    "kl_lower",
    "kl_upper",
    "log_partition",
    "mean",
    "natural",
    "natural_bounds",
    "posterior_draw",
    "posterior_upper",
    "proper_prior",
    "supremum",
    "variance",
]

Rng: TypeAlias = np.random.Generator


@dispatch
def infimum(self: Family) -> float:
    """Lower end of the means."""
    return self._infimum()


@dispatch
def natural_bounds(self: Family) -> tuple[float, float]:
    """Ends of the open interval of natural parameters."""
    return self._natural_bounds()


@dispatch
def supremum(self: Family) -> float:
    """Upper end of the means: the index of an arm never played."""
    return self._supremum()


@dispatch
def log_partition(self: Family, theta: float) -> float:
    """ψ(θ), the log-partition (cumulant) function."""
    value: float = self._log_partition(theta)
    return value


@dispatch
def mean(self: Family, theta: float) -> float:
    """ψ′(θ)."""
    return self._mean(theta)


@dispatch
def natural(self: Family, m: float) -> float:
    """The natural parameter θ with ψ′(θ) = m."""
    return self._natural(m)


@dispatch
def variance(self: Family, m: float) -> float:
    """ψ″ as a function of the mean: the variance of a reward."""
    return self._variance(m)


@dispatch
def kl(self: Family, p: float, q: float) -> float:
    """Kullback–Leibler divergence from the member with mean p to that with mean q."""
    return self._kl(p, q)


@dispatch
def bhattacharyya(self: Family, p: float, q: float) -> float:
    """−log(1 − H²)."""
    return self._bhattacharyya(p, q)


@dispatch
def hellinger2(self: Family, p: float, q: float) -> float:
    """Squared Hellinger distance H²."""
    return self._hellinger2(p, q)


@dispatch
def hellinger_upper(self: Family, m: float, x: float) -> float:
    """Largest q with bhattacharyya(m, q) ≤ x."""
    return self._hellinger_upper(m, x)


@dispatch
def kl_upper(self: Family, m: float, x: float) -> float:
    """Largest q with kl(m, q) ≤ x."""
    return self._kl_upper(m, x)


@dispatch
def hellinger_lower(self: Family, m: float, x: float) -> float:
    """Smallest q with bhattacharyya(m, q) ≤ x."""
    return self._hellinger_lower(m, x)


@dispatch
def kl_lower(self: Family, m: float, x: float) -> float:
    """Smallest q with kl(m, q) ≤ x."""
    return self._kl_lower(m, x)


@dispatch
def draw(self: Family, m: float, z: np.uint64) -> float:
    """One reward of the member with mean m, as a function of one random word."""
    return self._draw(m, z)


@dispatch
def proper_prior(self: Family) -> bool:
    """Whether the posterior exists before the first reward."""
    return self._proper_prior()


@dispatch
def posterior_draw(self: Family, rng: Rng, s: float, n: float) -> float:
    """One draw of the mean from its conjugate posterior after n rewards of sum s."""
    return self._posterior_draw(rng, s, n)


@dispatch
def posterior_upper(self: Family, s: float, n: float, tail: float) -> float:
    """The mean exceeded with posterior probability ``tail`` after n rewards of sum s."""
    return self._posterior_upper(s, n, tail)
