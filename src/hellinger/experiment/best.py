r"""How probable it is that each variant has the highest rate, by Bayes' rule."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from hellinger.errors import require

__all__ = ["probability_best"]

Floats = npt.NDArray[np.float64]

_NODES = 8
_SPREADS = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 17, 22, 30, 40])
"""Ends of panels, in standard deviations from the mean: a Beta law's tail is between a normal one and exponential."""
_HALVINGS = 0.5 ** np.arange(1, 11)
_FEW = 4.0
_NONE = 1e-12


@cache
def _rule() -> tuple[Floats, Floats, Floats]:
    """Gauss and Legendre's nodes and weights on [0, 1], and the matrix that integrates from 0 to each node."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    powers = np.arange(1, _NODES + 1)
    moments = nodes[:, None] ** powers / powers - (-1.0) ** powers / powers
    up_to = moments @ np.linalg.inv(nodes[:, None] ** (powers - 1))
    return 0.5 * (nodes + 1.0), 0.5 * weights, 0.5 * up_to


def _edges(a: Floats, b: Floats) -> Floats:
    """Ends of panels on [0, 1], fine wherever one of the densities is."""
    mean = a / (a + b)
    spread = np.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
    steps = np.concatenate([-_SPREADS[:0:-1], _SPREADS])
    points = [(mean[:, None] + spread[:, None] * steps).ravel()]
    # powers below 2 or so are no polynomials near the ends
    points += [m * _HALVINGS for m in mean[a < _FEW]] + [1.0 - (1.0 - m) * _HALVINGS for m in mean[b < _FEW]]
    return np.unique(np.clip(np.concatenate([*points, [0.0, 1.0]]), 0.0, 1.0))


def probability_best(successes: npt.ArrayLike, failures: npt.ArrayLike) -> Floats:
    r"""Posterior probability that each rate is the highest, rates being independent and uniform before.

    .. math:: P_i = \int_0^1 f_i(x) \prod_{j \ne i} F_j(x)\, dx

    with f and F density and distribution function of Beta(1 + s, 1 + failures), by Gauss's rule on panels as fine as
    the finest of the densities; no random numbers, and as exact for 10⁹ impressions as for ten.

    >>> probability_best([12, 10, 8], [188, 190, 192]).round(4)
    array([0.5941, 0.2902, 0.1158])
    """
    s, f = np.atleast_1d(np.asarray(successes, float)), np.atleast_1d(np.asarray(failures, float))
    require(s.shape == f.shape and s.ndim == 1, "as many failures as successes", successes=s.shape, failures=f.shape)
    require(bool(np.all((s >= 0.0) & (f >= 0.0))), "0 <= successes and 0 <= failures", successes=s, failures=f)
    edges = _edges(s + 1.0, f + 1.0)
    nodes, weights, up_to = _rule()
    width = np.diff(edges)
    x = edges[:-1, None] + width[:, None] * nodes
    # relative to its mode, a density of millions of impressions is no difference of large logarithms
    log_density = np.zeros((s.size, *x.shape))
    for count, side in ((s, x), (f, 1.0 - x)):
        some = count > _NONE
        mode = (count / np.maximum(s + f, 1e-300))[some, None, None]
        with np.errstate(divide="ignore"):
            log_density[some] += count[some, None, None] * np.log1p((side - mode) / mode)
    density = np.exp(log_density) * width[:, None]
    panels = density @ weights
    whole = panels.sum(axis=1)
    before = np.cumsum(panels, axis=1) - panels
    # a polynomial through a density's far tail may dip below 0
    below = np.clip((before[..., None] + density @ up_to.T) / whole[:, None, None], 0.0, 1.0)
    chances = np.empty(s.size)
    for i in range(s.size):
        others = np.delete(below, i, axis=0).prod(axis=0)
        chances[i] = ((density[i] * others) @ weights).sum() / whole[i]
    chances = np.maximum(chances, 0.0)  # quadrature may end a rounding error below
    return np.asarray(chances / chances.sum())
