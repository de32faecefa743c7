"""Balls: the confidence region around an empirical mean, whose largest mean is the index.

A new ball is one class here.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, cast

from hellinger._jit import Component
from hellinger.errors import UnknownNameError, require
from hellinger.families import Family
from hellinger.families import _dispatch as d
from hellinger.policies._names import note_name

__all__ = ["Ball", "GaussianBall", "Hellinger", "KullbackLeibler", "available", "get"]


class Ball(Component):
    """Where the truth may be, given a mean: everything within radius x of it.

    A ball of your own is a subclass of this and of a NamedTuple of its parameters, all with defaults. It has a
    ``name``, by which ``ucb(ball=…)`` finds it, and writes ``_upper(family, m, x)``, the largest q within radius x of
    m; and ``_ceiling(family)``, the index of an arm never played, where that is not the family's supremum. To identify
    the best arms it also needs ``_lower(family, m, x)``, the smallest q, and ``within_kl``.
    """

    __slots__ = ()
    name: ClassVar[str]
    monotone: ClassVar[bool] = False
    """Whether the largest q rises with m and x: only then do pool and simulator use shortcuts that rest on it."""
    within_kl: ClassVar[float] = 0.0
    """The largest c such that radius c·x holds all of the KL ball of radius x; 0 where there is none."""

    def __init_subclass__(cls) -> None:
        """Note the ball's name, which must be its own."""
        super().__init_subclass__()
        if "name" in vars(cls):
            note_name("ball", _BALLS, cls.name, cls)

    def _upper(self, family: Family, m: float, x: float) -> float:
        raise NotImplementedError

    def _lower(self, family: Family, m: float, x: float) -> float:
        raise NotImplementedError

    def _ceiling(self, family: Family) -> float:
        return d.supremum(family)

    def _distance(self, family: Family, p: float, q: float) -> float:
        raise NotImplementedError


_BALLS: dict[str, type[Ball]] = {}


class _NoParameters(NamedTuple):
    pass


class _Variance(NamedTuple):
    variance: float


class Hellinger(Ball, _NoParameters):
    """B(m, q) ≤ x, B = −log(1 − H²)."""

    __slots__ = ()
    name = "hellinger"
    monotone = True
    within_kl = 0.5  # 2B ≤ KL

    def _upper(self, family: Family, m: float, x: float) -> float:
        return d.hellinger_upper(family, m, x)

    def _lower(self, family: Family, m: float, x: float) -> float:
        return d.hellinger_lower(family, m, x)

    def _distance(self, family: Family, p: float, q: float) -> float:
        return 4.0 * d.bhattacharyya(family, p, q)


class KullbackLeibler(Ball, _NoParameters):
    """KL(m ‖ q) ≤ x."""

    __slots__ = ()
    name = "kl"
    monotone = True
    within_kl = 1.0

    def _upper(self, family: Family, m: float, x: float) -> float:
        return d.kl_upper(family, m, x)

    def _lower(self, family: Family, m: float, x: float) -> float:
        return d.kl_lower(family, m, x)

    def _distance(self, family: Family, p: float, q: float) -> float:
        return d.kl(family, p, q)


class GaussianBall(Ball, _Variance):
    """(q − m)²/2σ² ≤ x, whatever the family: m + √(2σ²x). σ² = 1 is UCB1's, ¼ Hoeffding's for [0, 1]."""

    __slots__ = ()
    name = "gaussian"
    monotone = True
    within_kl = 1.0  # where the variance is at least that of every member: Pinsker's inequality and its kin

    def _upper(self, family: Family, m: float, x: float) -> float:
        return m + math.sqrt(2.0 * self.variance * x)

    def _lower(self, family: Family, m: float, x: float) -> float:
        return m - math.sqrt(2.0 * self.variance * x)

    def _ceiling(self, family: Family) -> float:
        return math.inf

    def _distance(self, family: Family, p: float, q: float) -> float:
        return (q - p) * (q - p) / (2.0 * self.variance)


def available() -> dict[str, type[Ball]]:
    """Every ball by name."""
    return dict(sorted(_BALLS.items()))


def get(ball: str | Ball | type[Ball], *, variance: float = 1.0) -> Ball:
    """Return the ball of that name or class; a ball passes through unchanged."""
    if isinstance(ball, Ball):
        return ball
    require(0 < variance < math.inf, "0 < variance", variance=variance)
    if isinstance(ball, str):
        if ball not in _BALLS:
            raise UnknownNameError("ball", ball, list(_BALLS))
        ball = _BALLS[ball]
    made: Any = ball
    return cast("Ball", made(variance) if issubclass(ball, _Variance) else made())
