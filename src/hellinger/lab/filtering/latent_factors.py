r"""Regression-based latent factors, after Agarwal & Chen 2009.

What person i gives item j is :math:`\alpha_i + \beta_j + u_i^\top v_j` with normal noise. Each of the four has a normal
prior whose mean is a linear regression on the features of the person or the item: who is new is judged by features, and
what has been seen moves away from them as much as it has shown.

Fitted by EM. The authors draw the factors in the E-step; here their distribution is approximated by a product of
normals, one for each person and each item, in closed form (mean-field), so that nothing is random. With
:math:`p = (1, \alpha, u)` and :math:`q = (\beta, 1, v)` the mean is :math:`p^\top q`, and both sides are one function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.lab.filtering._base import Filter, Ratings
from hellinger.world.contextual import ContextualProblem

__all__ = ["Factors", "LatentFactors"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_SHARE = 0.1
"""Part of the variance of rewards that biases, and products of factors, are first taken to explain."""
_RIDGE = 1.0
_WEIGHT = 2.0
"""How many observations the first guess of a variance is worth."""


class _Side(NamedTuple):
    """People or items: (1, bias, factors) of each, its mean and mean outer product; and the prior's parameters.

    Attributes
    ----------
    features
        A row for each.
    mean, square
        Of the distribution of (1, bias, factors) given what has been seen.
    weights
        The prior's mean of (bias, factors) is features @ weights.
    variance, first
        Of (bias, factors) around that; and the first guess of it.
    """

    features: Floats
    mean: Floats
    square: Floats
    weights: Floats
    variance: Floats
    first: Floats

    @classmethod
    def begin(cls, features: Floats, weights: Floats, variance: Floats) -> _Side:
        """Only the prior."""
        spread = np.broadcast_to(np.diag(variance), (len(features), variance.size, variance.size))
        return cls(features, *_moments(features @ weights, spread), weights, variance, variance)

    def turned(self) -> tuple[Floats, Floats]:
        """Mean and outer product of (bias, 1, factors), which meet the (1, bias, factors) of the other side."""
        order = np.arange(self.mean.shape[1])
        order[:2] = 1, 0
        return self.mean[:, order], self.square[:, order][:, :, order]

    def updated(self, counts: Any, sums: Any, other: _Side, noise: float) -> _Side:
        """The E-step of this side, then its M-step."""
        mean, square = other.turned()
        width = mean.shape[1] - 1
        told = (counts @ square[:, 1:, 1:].reshape(len(mean), -1)).reshape(-1, width, width)
        right = (sums @ mean[:, 1:] - counts @ square[:, 0, 1:]) / noise
        spread = np.linalg.inv(told / noise + np.diag(1.0 / self.variance))
        right += self.features @ self.weights / self.variance
        own = np.einsum("rij,rj->ri", spread, right)
        seen = np.asarray(counts.sum(axis=1)) > 0
        known = self.features[seen]
        weights = np.linalg.solve(known.T @ known + _RIDGE * np.eye(known.shape[1]), known.T @ own[seen])
        left = ((own[seen] - known @ weights) ** 2).sum(axis=0) + np.einsum("rii->i", spread[seen])
        variance = (_WEIGHT * self.first + left) / (_WEIGHT + seen.sum())
        # who has not been seen is as the prior has it: the new one
        own[~seen] = self.features[~seen] @ weights
        spread[~seen] = np.diag(variance)
        return _Side(self.features, *_moments(own, spread), weights, variance, self.first)


def _moments(own: Floats, spread: Floats) -> tuple[Floats, Floats]:
    mean = np.column_stack([np.ones(len(own)), own])
    square = mean[:, :, None] * mean[:, None, :]
    square[:, 1:, 1:] += spread
    return mean, square


class Factors(NamedTuple):
    """Both sides and the variance of the noise; ``passed`` is a step of EM."""

    people: _Side
    things: _Side
    noise: float
    first: float

    @classmethod
    def begin(cls, ratings: Ratings, people: Floats, things: Floats, *, rank: int, rng: np.random.Generator) -> Factors:
        """Before anything is fitted: variances from the rewards' own, factors' weights small and random."""
        total = float(ratings.counts.sum())
        rate = (float(ratings.sums.sum()) + 1.0) / (total + 2.0)
        noise = max(ratings.squares / total - rate**2, rate * (1.0 - rate) / total, 1e-9)
        variance = np.full(1 + rank, np.sqrt(_SHARE * noise / max(rank, 1)))
        variance[0] = _SHARE * noise

        def side(features: Floats) -> _Side:
            weights = rng.normal(size=(features.shape[1], 1 + rank)) * np.sqrt(variance / features.shape[1])
            weights[:, 0] = 0.0
            return _Side.begin(features, weights, variance)

        return cls(side(people), side(things), noise, noise)

    def passed(self, ratings: Ratings) -> Factors:
        """A pass over people, items and noise."""
        counts, sums = ratings.counts, ratings.sums
        people = self.people.updated(counts, sums, self.things, self.noise)
        things = self.things.updated(counts.T, sums.T, people, self.noise)
        mean, square = things.turned()
        pairs = counts.tocoo()
        who, what = pairs.coords
        expected = np.einsum("nij,nij->n", people.square[who], square[what])
        earned = sums.tocoo()
        means = np.einsum("ni,ni->n", people.mean[earned.coords[0]], mean[earned.coords[1]])
        left = ratings.squares - 2.0 * float(earned.data @ means) + float(pairs.data @ expected)
        noise = (_WEIGHT * self.first + left) / (_WEIGHT + float(pairs.data.sum()))
        return Factors(people, things, max(noise, 1e-9), self.first)

    def expected(self, person: int, items: Ints) -> Floats:
        """Mean rewards of a person for items."""
        mean = self.things.mean[items]
        own = self.people.mean[person]
        rewards: Floats = own[1] + mean[:, 1] + mean[:, 2:] @ own[2:]
        return rewards


class LatentFactors(Filter):
    """Biases and factors of people and items, with priors from their features.

    Parameters
    ----------
    problem, seed, others
        As :class:`Filter` has them.
    rank
        How many factors.
    passes
        Steps of EM at each fit, from where the last one ended.
    """

    name = "latent-factors"

    def __init__(self, problem: ContextualProblem, *, seed: int, rank: int = 4, passes: int = 3, **others: Any) -> None:
        super().__init__(problem, seed=seed, **others)
        require(0 <= rank <= 100, "0 <= rank <= 100", rank=rank)
        require(passes >= 1, "1 <= passes", passes=passes)
        self._rank, self._passes = rank, passes
        self._factors: Factors | None = None

    def fit(self, ratings: Ratings) -> None:
        """Some steps of EM."""
        factors = self._factors
        if factors is None:
            factors = Factors.begin(ratings, self.people, self.things, rank=self._rank, rng=self._rng)
        for _ in range(self._passes):
            factors = factors.passed(ratings)
        self._factors = factors

    def scores(self, person: int, items: Ints) -> Floats:
        """Mean rewards."""
        assert self._factors is not None
        return self._factors.expected(person, items)
