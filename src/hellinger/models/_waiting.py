"""What was met too seldom to have a column yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

__all__ = ["Waited", "Waiting"]

Waited: TypeAlias = list[tuple[int, list[float]]]
"""Where something was met before, and how much of it."""

MOST = 4096
"""Features that may wait; of more, those that were not met for longest begin anew when they are met again."""
_SPREAD, _ALL = 0x9E3779B97F4A7C15, (1 << 64) - 1


class Waiting:
    """Counts of features that have no column, each by a number: in how many different places each was met.

    It never counts one too many: of a feature that had to make room it counts less, and of a place that looks like
    another. What it remembers of a place is sixteen bits that differ from feature to feature, unless it ``remembers``.

    Parameters
    ----------
    enough
        In how many places a feature is to be met.
    remembers
        Whether places are kept whole, with how much of the feature each had.
    """

    def __init__(self, enough: int, *, remembers: bool) -> None:
        self.enough, self.remembers = enough, remembers
        self._met: dict[int, dict[int, list[float]]] = {}
        """By feature, those met last at the end."""

    def __len__(self) -> int:
        return len(self._met)

    def meet(self, number: int, place: int, amounts: list[float]) -> Waited | None:
        """Note that a feature is met; where it was before, if it waits no more: it has been met often enough."""
        met = self._met.pop(number, {})
        where = place if self.remembers else ((place ^ number) * _SPREAD & _ALL) >> 48
        if where not in met and len(met) + 1 >= self.enough:
            return list(met.items())
        met.setdefault(where, amounts if self.remembers else [])
        self._met[number] = met
        if len(self._met) > MOST:
            del self._met[next(iter(self._met))]
        return None

    def state(self) -> list[Any]:
        """Everything, as JSON can hold it exactly."""
        return [[number, [[place, *amounts] for place, amounts in met.items()]] for number, met in self._met.items()]

    def restore(self, state: Iterable[Any]) -> None:
        """Go on from what :meth:`state` gave."""
        self._met = {
            int(number): {int(place): [float(each) for each in amounts] for place, *amounts in met}
            for number, met in state
        }
