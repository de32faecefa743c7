"""Exponential rewards: waiting times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Self

import numpy as np

from hellinger._random import positive
from hellinger.families.gamma import Gamma

__all__ = ["Exponential"]


class Exponential(Gamma):
    """Positive rewards with variance mean²: :class:`Gamma` of shape 1.

    >>> Exponential().kl_upper(1.0, 0.5)
    3.314...
    """

    __slots__ = ()
    name = "exponential"
    reference = "Garivier & Cappé 2011, section 6"
    posterior = "s/Gamma(n), from Jeffreys' prior on the rate"

    def __new__(cls) -> Self:
        """Take no parameter."""
        return super().__new__(cls, 1.0)

    def __repr__(self) -> str:
        return "Exponential()"

    def _draw(self, m: float, z: np.uint64) -> float:
        return -m * math.log(positive(z))

    @property
    def spec(self) -> str:
        """Its name alone."""
        return self.name

    @classmethod
    def cases(cls) -> Iterator[Self]:
        """There is only one."""
        yield cls()
