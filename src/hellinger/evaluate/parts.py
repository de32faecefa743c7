"""Some rankings of a log as columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LogPart", "VariantColumns"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class VariantColumns(NamedTuple):
    """A variant that shared the traffic, row by row."""

    share: Floats
    """Of the traffic; 0 where it had none."""
    chance: Floats
    """With which it would have shown the row's item there; NaN where it is not known, or had no traffic."""
    own: npt.NDArray[np.bool_]
    """Whether the row is of a ranking of its own."""


class LogPart(NamedTuple):
    """Some whole rankings. The rows of a ranking are next to each other."""

    first: Ints
    """The first row of each ranking."""
    at: Ints
    """When each ranking was made, in milliseconds since 1970."""
    item: Ints
    """A number for each row's item: its place in the log's ``names``."""
    position: Ints
    reward: Floats
    propensity: Floats
    """NaN where it is not known."""
    drawn: npt.NDArray[np.bool_]
    """Whether the row's ranking was drawn at random."""
    explored: npt.NDArray[np.bool_]
    """Whether the row's place was given to one of the items that follow."""
    variants: dict[str, VariantColumns]
    """Of a log gone through again: the variants that shared the traffic."""
    eligible: Floats
    """How many items each ranking could have shown; NaN where it is not known."""

    @property
    def sizes(self) -> Ints:
        """Rows of each ranking."""
        return np.diff(self.first, append=self.item.size)

    @property
    def ranking(self) -> Ints:
        """The number of each row's ranking."""
        return np.repeat(np.arange(self.first.size), self.sizes)

    def cut(self, begin: int, end: int) -> LogPart:
        """The rankings from one number to before another."""
        last = int(self.first[end]) if end < self.first.size else self.item.size
        rows = slice(int(self.first[begin]), last)
        first = self.first[begin:end]
        columns = self.item[rows], self.position[rows], self.reward[rows], self.propensity[rows], self.drawn[rows]
        variants = {
            name: VariantColumns(found.share[rows], found.chance[rows], found.own[rows])
            for name, found in self.variants.items()
        }
        of_rankings = self.eligible[begin:end]
        return LogPart(first - first[0], self.at[begin:end], *columns, self.explored[rows], variants, of_rankings)
