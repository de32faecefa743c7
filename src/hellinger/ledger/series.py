"""Requests, impressions and reward of each variant, in total and over time."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["RESOLUTIONS", "Series", "Together"]

RESOLUTIONS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
"""Milliseconds in a step."""

KEEP_MINUTES = 2 * 24 * 60
"""Minutes told apart: the newest of those in which anything happened."""

Cell = list[float]


class Together:
    """How rewards lie together in the requests of one variant: see ``hellinger.experiment.Pages``."""

    __slots__ = ("count", "largest", "most", "squares")

    def __init__(self, count: int = 0, squares: float = 0.0, largest: int = 0, most: float = 0.0) -> None:
        self.count = count
        self.squares = squares
        self.largest = largest
        self.most = most

    def opened(self, size: int) -> None:
        """A request showed so many items."""
        self.count += 1
        self.largest = max(self.largest, size)

    def rose(self, reward: npt.NDArray[np.float64], rise: npt.NDArray[np.float64]) -> None:
        """Requests' rewards have risen to these, one after another, each by so much."""
        # one after another, so that the sum does not depend on how many came at once
        self.squares = float(np.cumsum(np.append(self.squares, rise * (2.0 * reward - rise)))[-1])
        self.most = max(self.most, float(reward.max()))

    def brought(self, impressions: float, reward: float) -> None:
        """Impressions came without their requests: each is taken for one."""
        self.count += int(impressions)
        self.squares += reward
        self.largest = max(self.largest, 1 if impressions else 0)
        self.most = max(self.most, 1.0 if reward else 0.0)  # which impressions the reward was for is not known

    def as_json(self) -> list[float]:
        """The four numbers."""
        return [self.count, self.squares, self.largest, self.most]


class Series:
    """Sums of (requests, impressions, reward) by variant: in all, and by minute, hour and day.

    The newest minutes are kept, as many as two days have; hours and days for ever. Which they are does not depend on
    the order in which things are counted.
    """

    def __init__(self) -> None:
        self.totals: dict[str, Cell] = {}
        self.pages: dict[str, Together] = {}
        self.steps: dict[str, dict[int, dict[str, Cell]]] = {name: {} for name in RESOLUTIONS}
        self._minutes: list[int] = []
        """The minutes that are kept, as a heap."""
        self._minute = -1
        self._cells: dict[str, list[Cell]] = {}

    def add(self, variant: str, at: int, requests: float, impressions: float, reward: float) -> None:
        """Count at a time."""
        minute = at // RESOLUTIONS["minute"]
        if minute != self._minute:
            self._minute, self._cells = minute, {}
        cells = self._cells.get(variant)
        if cells is None:
            steps = [self._step(name, at // length) for name, length in RESOLUTIONS.items()]
            cells = self._cells[variant] = [self._cell(held, variant) for held in (self.totals, *steps)]
        for cell in cells:
            cell[0] += requests
            cell[1] += impressions
            cell[2] += reward

    def together(self, variant: str) -> Together:
        """How a variant's rewards lie together."""
        pages = self.pages.get(variant)
        if pages is None:
            pages = self.pages[variant] = Together()
        return pages

    def _step(self, name: str, step: int) -> dict[str, Cell]:
        steps = self.steps[name]
        cells = steps.get(step)
        if cells is None:
            cells = steps[step] = {}
            if name == "minute":
                heapq.heappush(self._minutes, step)
                if len(self._minutes) > KEEP_MINUTES:
                    del steps[heapq.heappop(self._minutes)]
        return cells

    @staticmethod
    def _cell(cells: dict[str, Cell], variant: str) -> Cell:
        cell = cells.get(variant)
        if cell is None:
            cell = cells[variant] = [0.0, 0.0, 0.0]
        return cell

    def as_json(self) -> dict[str, Any]:
        """Everything, for :meth:`of`."""
        return {
            "totals": self.totals,
            "pages": {name: pages.as_json() for name, pages in self.pages.items()},
            "steps": {name: {str(k): v for k, v in steps.items()} for name, steps in self.steps.items()},
        }

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Series:
        """What :meth:`as_json` wrote."""
        series = cls()
        series.totals = fields["totals"]
        for name, (count, squares, largest, most) in fields["pages"].items():
            series.pages[name] = Together(int(count), squares, int(largest), most)
        series.steps = {name: {int(k): v for k, v in steps.items()} for name, steps in fields["steps"].items()}
        series._minutes = sorted(series.steps["minute"])
        return series
