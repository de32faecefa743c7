"""The law from which items' rates are drawn: Beta, or one of finitely many rates."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger._jit import jit
from hellinger.errors import require

__all__ = ["BetaLaw", "DiscreteLaw", "Law", "laws_of"]

Floats = npt.NDArray[np.float64]

_EDGE = 1e-12
"""Rates are this far from 0 and 1 at least, so that their logarithms are numbers."""


class BetaLaw:
    """Rates from Beta(a, b)."""

    def __init__(self, a: float, b: float) -> None:
        self.a, self.strength = a, a + b
        self.mean = a / (a + b)

    def means(self, _depth: int) -> Floats:
        """No table: they are a quotient."""
        return np.empty(0)

    def table(self, deep: int, wide: int) -> Floats:
        """Posterior means by impressions, below ``deep``, and rewards, at most ``wide``."""
        n, s = np.arange(deep)[:, None], np.arange(wide + 1)
        return np.where(s <= n, (self.a + s) / (self.strength + n), 0.0)

    def known(self, s: Floats, n: Floats, price: float) -> tuple[Floats, Floats]:
        """E[(rate − price)⁺] and P(rate > price) after s rewards in n impressions."""
        from scipy.special import betaincc

        a, b = self.a + s, self.strength - self.a + n - s
        more: Floats = betaincc(a, b, price)
        return a / (a + b) * betaincc(a + 1.0, b, price) - price * more, more


class DiscreteLaw:
    """Rates that are some of finitely many, with weights."""

    def __init__(self, rates: Floats, weights: Floats) -> None:
        self.a = self.strength = math.nan
        self.rates = np.clip(rates, _EDGE, 1.0 - _EDGE)
        self.weights = weights / weights.sum()
        self.mean = float(self.rates @ self.weights)

    def means(self, depth: int) -> Floats:
        """Posterior means after 0, …, n rewards in n impressions, for n = 0, 1, … below the depth."""
        out = np.empty(depth * (depth + 1) // 2)
        _posterior_means(self.rates, np.log(self.weights), depth, out)
        return out

    def table(self, deep: int, wide: int) -> Floats:
        """Posterior means by impressions, below ``deep``, and rewards, at most ``wide``."""
        out, means, at = np.zeros((deep, wide + 1)), self.means(deep), 0
        for n in range(deep):
            kept = min(n, wide) + 1
            out[n, :kept] = means[at : at + kept]
            at += n + 1
        return out

    def known(self, s: Floats, n: Floats, price: float) -> tuple[Floats, Floats]:
        """E[(rate − price)⁺] and P(rate > price) after s rewards in n impressions."""
        s, n = s[:, None], n[:, None]
        logs = np.log(self.weights) + s * np.log(self.rates) + (n - s) * np.log1p(-self.rates)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        return weights @ np.maximum(self.rates - price, 0.0), weights @ (self.rates > price).astype(np.float64)


@jit
def _posterior_means(rates: Floats, logs: Floats, depth: int, out: Floats) -> None:
    """Posterior means of rates with these logarithms of prior weights, row after row.

    One reward more in place of a failure multiplies a weight by the odds of its rate. So a weight is computed from
    logarithms at every 32nd sum, and by multiplication in between: what is too small there stays too small.
    """
    odds = rates / (1.0 - rates)
    scaled = odds / odds.max()
    weight = np.empty(rates.size)
    at = 0
    for n in range(depth):
        for s in range(n + 1):
            if s % 32 == 0:
                top = -np.inf
                for j in range(rates.size):
                    weight[j] = logs[j] + s * math.log(rates[j]) + (n - s) * math.log1p(-rates[j])
                    top = max(top, weight[j])
                for j in range(rates.size):
                    weight[j] = math.exp(weight[j] - top)
            total, mean = 0.0, 0.0
            for j in range(rates.size):
                total += weight[j]
                mean += weight[j] * rates[j]
            out[at] = mean / total
            at += 1
            for j in range(rates.size):
                weight[j] *= scaled[j]


Law: TypeAlias = BetaLaw | DiscreteLaw


def laws_of(
    a: npt.ArrayLike | None, b: npt.ArrayLike | None, rates: npt.ArrayLike | None, weights: npt.ArrayLike | None
) -> list[Law]:
    """The law of rates, or that of each group."""
    if rates is None:
        rule = "the law is Beta(a, b) with 0 < a and 0 < b, or rates"
        require(a is not None and b is not None and weights is None, rule, a=a, b=b)
        pairs = [np.asarray(each, np.float64).ravel() for each in (a, b)]
        require(pairs[0].size == pairs[1].size or 1 in (pairs[0].size, pairs[1].size), rule, a=a, b=b)
        require(all(bool(((each > 0) & (each < math.inf)).all()) and each.size for each in pairs), rule, a=a, b=b)
        first, second = np.broadcast_arrays(*pairs)
        return [BetaLaw(*pair) for pair in zip(first.tolist(), second.tolist(), strict=True)]
    require(a is None and b is None, "the law is Beta(a, b) or rates, not both", a=a, b=b)
    values = np.asarray(rates, np.float64)
    require(values.ndim == 1 and values.size > 0, "rates is a list of at least one number", rates=rates)
    require(bool(((values >= 0) & (values <= 1)).all()), "0 <= rates <= 1", rates=values)
    shares = np.ones(values.size) if weights is None else np.asarray(weights, np.float64)
    require(shares.shape == values.shape, "one weight for each rate", weights=shares.shape, rates=values.shape)
    require(bool(((shares > 0) & (shares < math.inf)).all()), "0 < weights", weights=shares)
    return [DiscreteLaw(values, shares)]
