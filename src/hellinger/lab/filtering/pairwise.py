r"""Pairwise preference regression, after Park & Chu 2009.

The score of item i for person u is bilinear in their features, :math:`s_{ui} = x_u^\top W z_i`, and W makes
differences of scores those of rewards, for any two impressions of one person:

.. math:: \min_W \sum_u \frac1{n_u} \sum_{i, j} \bigl((r_{ui} - r_{uj}) - (s_{ui} - s_{uj})\bigr)^2 + \lambda \|W\|^2

A sum over pairs of squared differences is 2n times the sum of squared distances from the mean, so no pair is ever
written down: with :math:`A_u = \sum_i (z_i - \bar z_u)(z_i - \bar z_u)^\top` and
:math:`b_u = \sum_i (z_i - \bar z_u) r_{ui}` the normal equations are
:math:`(2 \sum_u x_u x_u^\top \otimes A_u + \lambda I)\,\mathrm{vec}\,W = 2 \sum_u x_u \otimes b_u`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.lab.filtering._base import Filter, Ratings
from hellinger.world.contextual import ContextualProblem

__all__ = ["Pairwise", "preference_weights"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def preference_weights(ratings: Ratings, people: Floats, things: Floats, strength: float) -> Floats:
    """W of the module's equation, ``strength`` its λ; rows are features of people, columns of items."""
    from scipy.linalg import solve

    (users, wide), (items, high) = people.shape, things.shape
    seen = np.maximum(np.asarray(ratings.counts.sum(axis=1)), 1.0)
    means = (ratings.counts @ things) / seen[:, None]
    squares = ratings.counts @ (things[:, :, None] * things[:, None, :]).reshape(items, -1)
    scatter = squares - (seen[:, None, None] * means[:, :, None] * means[:, None, :]).reshape(users, -1)
    right = ratings.sums @ things - means * np.asarray(ratings.sums.sum(axis=1))[:, None]
    crossed = (people[:, :, None] * people[:, None, :]).reshape(users, -1)
    gram = (crossed.T @ scatter).reshape(wide, wide, high, high).transpose(0, 2, 1, 3).reshape(wide * high, -1)
    gram = 2.0 * gram + strength * np.eye(wide * high)
    weights: Floats = solve(gram, 2.0 * (people.T @ right).ravel(), assume_a="pos")
    return weights.reshape(wide, high)


class Pairwise(Filter):
    """Bilinear scores fitted to pairs of impressions of the same person.

    It knows items by their features alone: two with the same features have the same score.

    Parameters
    ----------
    problem, seed, others
        As :class:`Filter` has them.
    strength
        λ, how strongly weights are held at zero.
    """

    name = "pairwise"

    def __init__(self, problem: ContextualProblem, *, seed: int, strength: float = 100.0, **others: Any) -> None:
        super().__init__(problem, seed=seed, **others)
        require(strength > 0, "0 < strength", strength=strength)
        self._strength = strength
        self._things = self.things[:, 1:]  # a constant is the same on both sides of a pair
        self._tastes = np.zeros((len(self.people), self._things.shape[1]))

    def fit(self, ratings: Ratings) -> None:
        """Solve the normal equations."""
        self._tastes = self.people @ preference_weights(ratings, self.people, self._things, self._strength)

    def scores(self, person: int, items: Ints) -> Floats:
        """The bilinear form."""
        scores: Floats = self._things[items] @ self._tastes[person]
        return scores
