"""Rates: how far n·KL(empirical mean ‖ mean) may go before an arm's mean is ruled out.

A rate is one class here: its ``_threshold(s, n, t)`` for an arm with n rewards of sum s in round t, and ``constant``,
what of it depends on the number of arms and δ alone. With probability 1 − δ no arm's true mean is ever beyond it.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

from hellinger._jit import Component, dispatch
from hellinger.errors import UnknownNameError, require
from hellinger.families import Bernoulli, Family

__all__ = [
    "BetaRate",
    "KlLucbRate",
    "Lucb1Rate",
    "MixtureRate",
    "Rate",
    "available",
    "get",
    "threshold",
    "timed",
]


class _Parameters(NamedTuple):
    scale: float
    constant: float


class Rate(Component, _Parameters):
    """scale · threshold; the scale is the ball's, ½ for Hellinger, for 2B ≤ KL."""

    __slots__ = ()
    name: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]

    @staticmethod
    def constant_for(arms: int, delta: float) -> float:
        """What depends on the number of arms and δ alone."""
        return math.log(arms / delta)

    def _threshold(self, s: float, n: float, t: float) -> float:
        raise NotImplementedError

    def _timed(self) -> bool:
        return False


@dispatch
def threshold(self: Rate, s: float, n: float, t: float) -> float:
    """Largest n·KL that an arm with n rewards of sum s may have in round t."""
    return self._threshold(s, n, t)


@dispatch
def timed(self: Rate) -> bool:
    """Whether the threshold depends on the round."""
    return self._timed()


class MixtureRate(Rate):
    """Holds for all n at once, in every exponential family: no round appears in it."""

    __slots__ = ()
    name = "mixture"
    formula = "3·log(1 + log n) + T(log(K/δ))"
    reference = "Kaufmann & Koolen 2021, Mixture martingales revisited"

    @staticmethod
    def constant_for(arms: int, delta: float) -> float:
        """T(log(K/δ))."""
        return _mixture_constant(math.log(arms / delta))

    def _threshold(self, s: float, n: float, t: float) -> float:
        return self.scale * (self.constant + 3.0 * math.log1p(math.log(n)))


class BetaRate(Rate):
    """Holds for all n at once, for rewards in [0, 1] with the Bernoulli family's divergence.

    The likelihood ratio of a uniform mixture of all rates against one rate is a martingale, or for rewards between 0
    and 1 a supermartingale: Ville's inequality bounds how far it ever rises.
    """

    __slots__ = ()
    name = "beta"
    formula = "log(K/δ) + log(m^s·(1−m)^(n−s)/B(1+s, 1+n−s)), m = s/n"
    reference = "Robbins 1970; Ville 1939 (a uniform mixture of Bernoulli likelihoods)"

    def _threshold(self, s: float, n: float, t: float) -> float:
        f = n - s
        most = (s * math.log(s / n) if s > 0.0 else 0.0) + (f * math.log(f / n) if f > 0.0 else 0.0)
        mixed = math.lgamma(1.0 + s) + math.lgamma(1.0 + f) - math.lgamma(2.0 + n)
        return self.scale * (self.constant + (most - mixed))


class KlLucbRate(Rate):
    """As published for KL-LUCB, with α = 1.1 and k₁ = 405.5 > 2e + 1 + e/(α−1) + (e+1)/(α−1)²."""

    __slots__ = ()
    name = "kl-lucb"
    formula = "y + log y, y = log(405.5·K·t^1.1/δ), t the round"
    reference = "Kaufmann & Kalyanakrishnan 2013"

    @staticmethod
    def constant_for(arms: int, delta: float) -> float:
        """log(k₁·K/δ)."""
        return math.log(405.5 * arms / delta)

    def _threshold(self, s: float, n: float, t: float) -> float:
        y = self.constant + 1.1 * math.log(t)
        return self.scale * (y + math.log(y))

    def _timed(self) -> bool:
        return True


class Lucb1Rate(Rate):
    """As published for LUCB1, whose ball is the Gaussian one."""

    __slots__ = ()
    name = "lucb1"
    formula = "log(5/4·K·t⁴/δ), t the round"
    reference = "Kalyanakrishnan, Tewari, Auer & Stone 2012"

    @staticmethod
    def constant_for(arms: int, delta: float) -> float:
        """log(5/4·K/δ)."""
        return math.log(1.25 * arms / delta)

    def _threshold(self, s: float, n: float, t: float) -> float:
        return self.scale * (self.constant + 4.0 * math.log(t))

    def _timed(self) -> bool:
        return True


def available() -> dict[str, type[Rate]]:
    """Every rate by name, the tightest first."""
    return {rate.name: rate for rate in (BetaRate, MixtureRate, KlLucbRate, Lucb1Rate)}


def get(name: str | None, *, family: Family, scale: float, arms: int, delta: float) -> Rate:
    """Return the rate of that name; without one the tightest that holds for the family at any time."""
    bernoulli = isinstance(family, Bernoulli)
    if name is None:
        name = "beta" if bernoulli else "mixture"
    if name not in available():
        raise UnknownNameError("rate", name, list(available()))
    require(name != "beta" or bernoulli, "rate beta goes with family bernoulli", family=family)
    cls = available()[name]
    return cls(scale, cls.constant_for(arms, delta))


# T(x) of Kaufmann & Koolen ---------------------------------------------------------------------------


def _mixture_constant(x: float) -> float:
    """T(x) = 2·h̃((h⁻¹(1 + x) + log 2ζ(2))/2)."""
    return 2.0 * _h_tilde(0.5 * (_h_inverse(1.0 + x) + math.log(math.pi**2 / 3.0)))


def _h_inverse(y: float) -> float:
    """The u ≥ 1 with h(u) = u − log u = y, by Newton's method from above: h is convex."""
    u = y + math.log(y) + 1.0
    for _ in range(100):
        following = u - (u - math.log(u) - y) / (1.0 - 1.0 / u) if u > 1.0 else 1.0
        if not 1.0 <= following < u:
            break
        u = following
    return u


def _h_tilde(y: float) -> float:
    """The least of z·(y − log log z) over 1 < z ≤ 3/2: in the inside it is e^(1/u)·u with u = h⁻¹(y)."""
    most = math.log(1.5)
    if y >= 1.0 / most + math.log(most):
        u = _h_inverse(y)
        return u * math.exp(1.0 / u)
    return 1.5 * (y - math.log(most))
