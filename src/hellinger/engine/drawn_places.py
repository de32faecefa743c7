r"""The chance of each place where every item's index is a draw from its own law: Thompson sampling, exactly.

The items are ranked by independent draws with distribution functions F. Item i is at place j, from 0, where exactly j
of the others have drawn more:

.. math:: P_{ij} = \int P\Big(\sum_{l \ne i} 1[X_l > x] = j\Big)\, dF_i(x)

The number of others above x is a sum of independent yes and no, whose law is a product of polynomials, cut after the
last place. Items of equal counts have equal laws, so that a pool of ten thousand has some hundreds of factors. The
integral is a sum over a grid of x, in steps of equal angle (x = sin²φ/2, in which a beta law's spread depends on its
impressions alone), from where nearly all places are taken to where nobody draws so much. Half the grid tells the error,
and a finer one is taken where that is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["DrawnPlaces", "beta_law", "logit_law"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Law = Callable[[Floats, Floats, Floats], Floats]
"""Impressions and rewards of items as columns, numbers as a row: the distribution function of each at each."""

_COARSE = 513
_NODES = 257
_MOST = 8 * (_NODES - 1) + 1
"""The finest grid; what error it has is told."""
_CLOSE = 1e-3
"""Relative error that is small enough."""
_RARE = 1e-6
"""A chance of which the error is told as if it were this."""
_NOBODY = 1e-10
"""Expected number of items above a number that is none."""


def beta_law(n: Floats, s: Floats, x: Floats) -> Floats:
    """Distribution functions of Beta(1 + s, 1 + n − s), which Thompson sampling draws rates from."""
    from scipy.special import betainc

    return np.asarray(betainc(1.0 + s, 1.0 + np.maximum(n - s, 0.0), x))


def logit_law(n: Floats, s: Floats, x: Floats) -> Floats:
    """Distribution functions of rates whose log-odds are normal, as Laplace's Thompson sampling draws them; 0 < n."""
    from scipy.special import logit, ndtr

    pulls = n + 1.0
    mean = (s + 0.5) / pulls
    with np.errstate(divide="ignore"):
        return np.asarray(ndtr((logit(x) - logit(mean)) * np.sqrt(pulls * mean * (1.0 - mean))))


class DrawnPlaces:
    """Chances of places by a law; what is known of items from the last ranking serves the next.

    Parameters
    ----------
    law
        The distribution function of an item's draw, from its impressions and rewards.

    Examples
    --------
    Of two items without impressions each is first with chance ½; then the first is known to be good.

    >>> places = DrawnPlaces(beta_law)
    >>> found, error = places.chances(np.array([0.0, 0.0]), np.array([0.0, 0.0]), [1])
    >>> round(found[0], 6), error < 1e-3
    (0.5, True)
    >>> found, _ = places.chances(np.array([8.0, 0.0]), np.array([8.0, 0.0]), [0, 1])
    >>> [round(each, 4) for each in found]
    [0.9, 0.9]
    """

    def __init__(self, law: Law) -> None:
        self._law = law
        self._nodes = _NODES
        self._grid: Floats | None = None
        self._rows: dict[tuple[float, float], Floats] = {}
        """Distribution functions on the grid, by counts."""

    def chances(self, n: Floats, s: Floats, shown: Sequence[int]) -> tuple[list[float], float]:
        """The chance of each item shown, by its number, at its place; and the largest relative error.

        ``n`` and ``s`` are the counts of all items that could have been shown; −1 is one that could not.
        """
        k = len(shown)
        places = [j for j, number in enumerate(shown) if number >= 0]
        if not places:
            return [0.0] * k, 0.0
        cells, of = np.unique(np.stack([n, s], axis=1), axis=0, return_inverse=True)
        of = of.reshape(-1)
        many = np.bincount(of, minlength=len(cells))
        whose = of[[shown[j] for j in places]]
        if self._grid is None or not self._covers(cells, many, k):
            self._choose(cells, many, k)
        while True:
            values, errors = self._integrals(self._laws(cells), many, whose, places, k)
            worst = float((errors / np.maximum(values, _RARE)).max())
            if worst <= _CLOSE or self._nodes >= _MOST:
                found = np.zeros(k)
                found[places] = values
                return found.tolist(), worst
            self._nodes = 2 * self._nodes - 1
            self._choose(cells, many, k)

    def _laws(self, cells: Floats) -> Floats:
        assert self._grid is not None
        keys = list(map(tuple, cells.tolist()))
        fresh = [j for j, key in enumerate(keys) if key not in self._rows]
        if fresh:
            rows = self._law(cells[fresh, 0, None], cells[fresh, 1, None], self._grid)
            self._rows.update((keys[j], row) for j, row in zip(fresh, rows, strict=True))
        return np.stack([self._rows[key] for key in keys])

    def _covers(self, cells: Floats, many: Ints, k: int) -> bool:
        """Whether the grid of the last ranking does for this one."""
        assert self._grid is not None
        if len(self._rows) > 20 * len(cells) + 10_000:
            self._rows.clear()
        above = many @ (1.0 - self._laws(cells)[:, [0, -1]])
        return bool((self._grid[0] == 0.0 or above[0] > _full(k) / 2) and above[1] < 100 * _NOBODY)

    def _choose(self, cells: Floats, many: Ints, k: int) -> None:
        angles = np.linspace(0.0, math.pi, _COARSE)
        law = self._law(cells[:, 0, None], cells[:, 1, None], np.sin(angles / 2.0) ** 2)
        above = many @ (1.0 - law)
        first = max(int(np.count_nonzero(above > _full(k))) - 1, 0)
        last = min(int(np.count_nonzero(above > _NOBODY)), _COARSE - 1)
        self._grid = np.sin(np.linspace(angles[first], angles[max(last, first + 1)], self._nodes) / 2.0) ** 2
        self._rows.clear()

    def _integrals(self, law: Floats, many: Ints, whose: Ints, places: list[int], k: int) -> tuple[Floats, Floats]:
        """Chances and their errors, of items of these cells, each at its place of k."""
        left = many - np.bincount(whose, minlength=many.size)
        above = 1.0 - law
        base = np.zeros((k, law.shape[1]))
        base[0] = 1.0
        for cell in np.flatnonzero(left * above[:, 0] > _NOBODY / 100.0):
            base = _joined(base, above[cell], int(left[cell]))
        found, errors = np.empty(whose.size), np.empty(whose.size)
        for j, (cell, place) in enumerate(zip(whose.tolist(), places, strict=True)):
            others = base
            for number, other in enumerate(whose.tolist()):
                if number != j:
                    others = _joined(others, above[other], 1)
            fine, rough = _integral(others[place], law[cell]), _integral(others[place][::2], law[cell][::2])
            found[j] = max(fine + (fine - rough) / 3.0, 0.0)
            errors[j] = abs(fine - rough) / 3.0
        return found, errors


def _full(k: int) -> float:
    """Expected number of items above a number where k places are taken for certain."""
    return k + 12.0 * math.sqrt(k) + 40.0


def _integral(g: Floats, law: Floats) -> float:
    return float(0.5 * (g[1:] + g[:-1]) @ np.diff(law))


def _joined(pmf: Floats, p: Floats, many: int) -> Floats:
    """The law of a number plus that of ``many`` more, each there with chance p; cut as it was."""
    if many == 1:
        out = pmf * (1.0 - p)
        out[1:] += pmf[:-1] * p
        return out
    k = pmf.shape[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        chance, rest = np.log(p), np.log1p(-p)
    out = np.zeros_like(pmf)
    for r in range(min(k - 1, many) + 1):
        log = math.lgamma(many + 1) - math.lgamma(r + 1) - math.lgamma(many - r + 1)
        terms = np.full(p.shape, log)
        if r:
            terms = terms + r * chance
        if many > r:
            terms = terms + (many - r) * rest
        out[r:] += pmf[: k - r] * np.exp(terms)
    return out
