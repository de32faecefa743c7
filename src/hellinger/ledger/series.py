"""Requests, impressions and reward of each variant, in total and over time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["RESOLUTIONS", "Series", "Share"]

RESOLUTIONS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
"""Milliseconds in a step."""

KEEP_MINUTES = 2 * 24 * 60
"""Minutes told apart: the newest of those in which anything happened."""

Cell = list[float]


class Share:
    """What one variant had in one phase, and how rewards lie together in its requests.

    For the last four see ``hellinger.experiment.Pages``. Phase 0 is all that belongs to none: imports, and rankings of
    before there were phases.
    """

    __slots__ = ("count", "impressions", "largest", "most", "requests", "reward", "squares")

    def __init__(
        self,
        requests: int = 0,
        impressions: float = 0.0,
        reward: float = 0.0,
        count: int = 0,
        squares: float = 0.0,
        largest: int = 0,
        most: float = 0.0,
    ) -> None:
        self.requests = requests
        self.impressions = impressions
        self.reward = reward
        self.count = count
        self.squares = squares
        self.largest = largest
        self.most = most

    def opened(self, size: int, shown: int, requests: int = 1) -> None:
        """A request showed so many items, of which so many count at once; or several, the largest of them so many."""
        self.requests += requests
        self.impressions += shown
        self.count += requests
        self.largest = max(self.largest, size)

    def rose(self, reward: npt.NDArray[np.float64], rise: npt.NDArray[np.float64], shown: float) -> None:
        """Requests' rewards have risen to these, one after another, each by so much; so many items were seen."""
        # one after another, so that the sum does not depend on how many came at once
        self.squares = float(np.cumsum(np.append(self.squares, rise * (2.0 * reward - rise)))[-1])
        self.most = max(self.most, float(reward.max()))
        self.reward += float(rise.sum())
        self.impressions += shown

    def brought(self, impressions: float, reward: float) -> None:
        """Impressions came without their requests: each is taken for one."""
        self.impressions += impressions
        self.reward += reward
        self.count += int(impressions)
        self.squares += reward
        self.largest = max(self.largest, 1 if impressions else 0)
        self.most = max(self.most, 1.0 if reward else 0.0)  # which impressions the reward was for is not known

    def as_json(self) -> list[float]:
        """The numbers, in the order in which they are given to make one."""
        return [self.requests, self.impressions, self.reward, self.count, self.squares, self.largest, self.most]

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Share:
        """What :meth:`as_json` wrote."""
        requests, impressions, reward, count, squares, largest, most = numbers
        return cls(int(requests), impressions, reward, int(count), squares, int(largest), most)


class Series:
    """Sums of (requests, impressions, reward) by variant: in all, and by minute, hour and day.

    The newest minutes are kept, as many as two days have; hours and days for ever. Which they are does not depend on
    the order in which things are counted.
    """

    def __init__(self) -> None:
        self.totals: dict[str, Cell] = {}
        self.shares: dict[tuple[int, str], Share] = {}
        """By phase and variant."""
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

    def share(self, phase: int, variant: str) -> Share:
        """What a variant had in a phase, to be added to."""
        share = self.shares.get((phase, variant))
        if share is None:
            share = self.shares[phase, variant] = Share()
        return share

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
            "shares": [[*key, *share.as_json()] for key, share in self.shares.items()],
            "steps": {name: {str(k): v for k, v in steps.items()} for name, steps in self.steps.items()},
        }

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Series:
        """What :meth:`as_json` wrote."""
        series = cls()
        series.totals = fields["totals"]
        for phase, variant, *numbers in fields.get("shares", ()):
            series.shares[phase, variant] = Share.of(numbers)
        for variant, numbers in fields.get("pages", {}).items():  # of before there were phases
            series.shares[0, variant] = Share.of([*series.totals.get(variant, (0, 0, 0)), *numbers])
        series.steps = {name: {int(k): v for k, v in steps.items()} for name, steps in fields["steps"].items()}
        series._minutes = sorted(series.steps["minute"])
        return series
