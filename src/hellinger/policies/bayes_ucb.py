"""Bayes-UCB: a quantile of the posterior instead of a draw."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

from hellinger import _special
from hellinger.errors import InputError, require
from hellinger.families import Family
from hellinger.families import _dispatch as families
from hellinger.policies._registry import named
from hellinger.policies._rule import Rule

__all__ = ["BayesUcb"]


class _Parameters(NamedTuple):
    family: Family
    c: float
    log_horizon: float


class BayesUcb(_Parameters, Rule):
    """The mean exceeded with posterior probability 1/(t·(log T)ᶜ)."""

    __slots__ = ()

    def __new__(cls, family: Family, c: float, log_horizon: float) -> Self:
        """Bind SciPy's quantiles too, here because another process unpickles the rule without making it anew."""
        _special.load()
        return super().__new__(cls, family, c, log_horizon)

    @property
    def horizon(self) -> float:
        """0 where c = 0 leaves it out."""
        return 0.0 if self.c == 0.0 else math.exp(self.log_horizon)

    @property
    def rising(self) -> bool:
        """The quantile's order rises with t."""
        return True

    @property
    def monotone(self) -> bool:
        """Not claimed: quantiles of every posterior have not been shown to be."""
        return False

    def at_horizon(self, horizon: float) -> Rule:
        """Set the horizon, where c > 0."""
        return self if self.c == 0.0 else self._replace(log_horizon=math.log(horizon))

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        if n == 0.0:
            return families.supremum(self.family)
        scale = 1.0 if self.c == 0.0 else self.log_horizon**self.c
        return families.posterior_upper(self.family, s, n, min(1.0, 1.0 / (t * scale)))


@named("bayes-ucb")
def bayes_ucb(family: Family, *, c: float = 0.0, horizon: float | None = None) -> Rule:
    """Bayes-UCB; c = 5 is the proof's, 0 the practice's.

    Formula: the posterior quantile of the mean at 1 − 1/(t·(log T)ᶜ).
    Reference: Kaufmann, Cappé & Garivier 2012, algorithm 1.
    """
    require(0 <= c < math.inf, "0 <= c", c=c)
    require(horizon is None or 1 < horizon < math.inf, "1 < horizon", horizon=horizon)
    if not family.posterior_quantile:
        raise InputError(f"bayes-ucb needs a family whose posterior has a quantile function, but got {family}")
    return BayesUcb(family, float(c), math.nan if horizon is None else math.log(horizon))
