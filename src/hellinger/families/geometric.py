"""Geometric rewards: failures before the first success."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np

from hellinger._random import geometric
from hellinger.families.negative_binomial import NegativeBinomial

__all__ = ["Geometric"]


class Geometric(NegativeBinomial):
    """Counts 0, 1, 2… with variance m + m²: :class:`NegativeBinomial` with r = 1.

    >>> Geometric().hellinger_upper(1.0, 0.1)
    3.135...
    """

    __slots__ = ()
    name = "geometric"
    reference = "Morris 1982 (quadratic variance)"
    posterior = "BetaPrime(½ + s, n), from Jeffreys' prior"

    def __new__(cls) -> Self:
        """Take no parameter."""
        return super().__new__(cls, 1.0)

    def __repr__(self) -> str:
        return "Geometric()"

    def _draw(self, m: float, z: np.uint64) -> float:
        return geometric(m, z)

    @property
    def spec(self) -> str:
        """Its name alone."""
        return self.name

    @classmethod
    def cases(cls) -> Iterator[Self]:
        """There is only one."""
        yield cls()
