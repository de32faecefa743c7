"""Balls: the confidence region around an empirical mean, whose largest mean is the index.

A new ball is one class here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

from hellinger.errors import UnknownNameError, require
from hellinger.families import Family
from hellinger.families import _dispatch as d

__all__ = ["Ball", "Gaussian", "Hellinger", "KullbackLeibler", "get"]


class Ball:
    """Where the truth may be, given a mean: everything within radius x of it."""

    __slots__ = ()
    name: str

    def _upper(self, family: Family, m: float, x: float) -> float:
        raise NotImplementedError

    def _ceiling(self, family: Family) -> float:
        return d.supremum(family)

    def _distance(self, family: Family, p: float, q: float) -> float:
        raise NotImplementedError


class _NoParameters(NamedTuple):
    pass


class _Variance(NamedTuple):
    variance: float


class Hellinger(Ball, _NoParameters):
    """B(m, q) ≤ x, B = −log(1 − H²)."""

    __slots__ = ()
    name = "hellinger"

    def _upper(self, family: Family, m: float, x: float) -> float:
        return d.hellinger_upper(family, m, x)

    def _distance(self, family: Family, p: float, q: float) -> float:
        return 4.0 * d.bhattacharyya(family, p, q)


class KullbackLeibler(Ball, _NoParameters):
    """KL(m ‖ q) ≤ x."""

    __slots__ = ()
    name = "kl"

    def _upper(self, family: Family, m: float, x: float) -> float:
        return d.kl_upper(family, m, x)

    def _distance(self, family: Family, p: float, q: float) -> float:
        return d.kl(family, p, q)


class Gaussian(Ball, _Variance):
    """(q − m)²/2σ² ≤ x, whatever the family: m + √(2σ²x). σ² = 1 is UCB1's, ¼ Hoeffding's for [0, 1]."""

    __slots__ = ()
    name = "gaussian"

    def _upper(self, family: Family, m: float, x: float) -> float:
        return m + math.sqrt(2.0 * self.variance * x)

    def _ceiling(self, family: Family) -> float:
        return math.inf

    def _distance(self, family: Family, p: float, q: float) -> float:
        return (q - p) * (q - p) / (2.0 * self.variance)


def get(ball: str | Ball, *, variance: float = 1.0) -> Ball:
    """Return the ball of that name."""
    if isinstance(ball, Ball):
        return ball
    require(0 < variance < math.inf, "0 < variance", variance=variance)
    found: dict[str, type[Any]] = {cls.name: cls for cls in Ball.__subclasses__()}
    if ball not in found:
        raise UnknownNameError("ball", ball, list(found))
    return cast("Ball", found[ball](variance) if issubclass(found[ball], _Variance) else found[ball]())
