"""Some rankings of a log as columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.world.tops import ItemLists

__all__ = ["LogPart", "RankingFilters", "VariantColumns"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class VariantColumns(NamedTuple):
    """A variant that shared the traffic, row by row."""

    share: Floats
    """Of the traffic; 0 where it had none."""
    chance: Floats
    """With which it would have shown the row's item there; NaN where it is not known, or had no traffic."""
    own: Flags
    """Whether the row is of a ranking of its own."""


class RankingFilters(NamedTuple):
    """What each ranking was asked to leave out, or to keep to."""

    some: Flags
    """Whether it had any filter."""
    unclear: Flags
    """Whether it had one that the log does not have item by item: tags, a list that was cut, or one not exported."""
    exclude: ItemLists
    among: ItemLists

    def cut(self, begin: int, end: int) -> RankingFilters:
        """The rankings from one number to before another."""
        lists = self.exclude.cut(begin, end), self.among.cut(begin, end)
        return RankingFilters(self.some[begin:end], self.unclear[begin:end], *lists)

    @classmethod
    def none(cls, rankings: int) -> RankingFilters:
        """No filters for any of so many rankings."""
        no = np.zeros(rankings, bool)
        return cls(no, no, ItemLists.none(rankings), ItemLists.none(rankings))


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
    drawn: Flags
    """Whether the row's ranking was drawn at random."""
    explored: Flags
    """Whether the row's place was given to one of the items that follow."""
    variants: dict[str, VariantColumns]
    """Of a log gone through again: the variants that shared the traffic."""
    eligible: Floats
    """How many items each ranking could have shown; NaN where it is not known."""
    filters: RankingFilters
    tie: Ints
    """For each row the number of its tie, a run of equal scores in random order; −1 where it is in none."""

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
        of_rankings = self.eligible[begin:end], self.filters.cut(begin, end)
        return LogPart(
            first - first[0], self.at[begin:end], *columns, self.explored[rows], variants, *of_rankings, self.tie[rows]
        )
