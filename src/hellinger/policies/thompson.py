"""Thompson sampling from the conjugate posterior."""

from __future__ import annotations

from typing import Any, NamedTuple

from hellinger.errors import InputError
from hellinger.families import Family
from hellinger.families import _dispatch as families
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["Thompson"]


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


@named("thompson")
def thompson(family: Family) -> Rule:
    """Thompson sampling: each arm is played with the probability that it is best.

    Formula: a draw from the conjugate posterior of the mean.
    Reference: Thompson 1933; Kaufmann, Korda & Munos 2012; Korda, Kaufmann & Munos 2013.
    """
    if family.posterior is None:
        raise InputError(f"thompson needs a family with a conjugate posterior, but got {family}")
    return Thompson(family)
