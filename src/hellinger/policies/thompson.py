"""Thompson sampling: from the conjugate posterior, or from a normal one of the natural parameter."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hellinger.errors import InputError
from hellinger.families import Family
from hellinger.families import _dispatch as families
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["LaplaceThompson", "Thompson"]


class _Parameters(NamedTuple):
    family: Family


class Thompson(_Parameters, Rule):
    """A draw from each arm's posterior; the supremum for an arm never played, if the prior is improper."""

    __slots__ = ()
    random = True

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        for i in range(sums.size):
            if pulls[i] > 0.0 or families.proper_prior(self.family):
                out[i] = families.posterior_draw(self.family, rng, sums[i], pulls[i])
            else:
                out[i] = families.supremum(self.family)


class LaplaceThompson(_Parameters, Rule):
    """The mean at a normal draw of the natural parameter; the supremum for an arm never played.

    Half a reward at each end, or at none where there is no end, keeps the natural parameter finite.
    """

    __slots__ = ()
    random = True

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        low, high = families.infimum(self.family), families.supremum(self.family)
        for i in range(sums.size):
            n, s = pulls[i], sums[i]
            if n == 0.0:
                out[i] = high
                continue
            if low == 0.0:
                n, s = n + 1.0, s + 0.5 * min(high, 1.0)
            m = s / n
            spread = 1.0 / math.sqrt(n * families.variance(self.family, m))
            out[i] = families.mean(self.family, families.natural(self.family, m) + spread * rng.standard_normal())


@named("laplace-thompson")
def laplace_thompson(family: Family) -> Rule:
    """Thompson sampling by a normal law of the natural parameter: with a logistic model, logistic Thompson.

    Formula: μ(η + z/√(n·V(m))), μ(η) = m, z standard normal.
    Reference: Chapelle & Li 2011, algorithm 3.
    """
    if family._natural_bounds() != (-math.inf, math.inf):
        raise InputError(f"laplace-thompson needs a family whose natural parameter may be any number, but got {family}")
    return LaplaceThompson(family)


@named("thompson")
def thompson(family: Family) -> Rule:
    """Thompson sampling: each arm is played with the probability that it is best.

    Formula: a draw from the conjugate posterior of the mean.
    Reference: Thompson 1933; Kaufmann, Korda & Munos 2012; Korda, Kaufmann & Munos 2013.
    """
    if family.posterior is None:
        raise InputError(f"thompson needs a family with a conjugate posterior, but got {family}")
    return Thompson(family)
