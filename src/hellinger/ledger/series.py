"""Requests, impressions and reward of each variant, in total and over time."""

from __future__ import annotations

import heapq
from typing import Any

from hellinger.ledger.shadows import ShadowShares
from hellinger.ledger.shares import Share, Shares, Users

__all__ = ["RESOLUTIONS", "TimeSeries"]

RESOLUTIONS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
"""Milliseconds in a step."""

KEEP_MINUTES = 2 * 24 * 60
"""Minutes kept apart: the newest of those in which anything happened."""

Cell = list[float]


class TimeSeries:
    """Sums of (requests, impressions, reward) by variant: in all, and by minute, hour and day.

    The newest minutes are kept, as many as two days have; hours and days for ever. Which they are does not depend on
    the order in which things are counted.
    """

    def __init__(self) -> None:
        self.totals: dict[str, Cell] = {}
        self.shares: dict[tuple[int, str], Shares] = {}
        """By phase and variant; under phase 0 what belongs to none: imports, and rankings older than phases."""
        self.shadows: dict[tuple[int, str], ShadowShares] = {}
        """By phase and shadow: what it would have earned."""
        self.users: dict[str, Users] = {}
        """By experiment, where users keep their variant."""
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
            cells = self._cells[variant] = [self._cell(steps, variant) for steps in (self.totals, *steps)]
        for cell in cells:
            cell[0] += requests
            cell[1] += impressions
            cell[2] += reward

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
            "shares": [[*key, *shares.as_json()] for key, shares in self.shares.items()],
            "shadows": [[*key, *shares.as_json()] for key, shares in self.shadows.items()],
            "users": {name: users.as_json() for name, users in self.users.items()},
            "steps": {name: {str(k): v for k, v in steps.items()} for name, steps in self.steps.items()},
        }

    @classmethod
    def of(cls, fields: dict[str, Any]) -> TimeSeries:
        """What :meth:`as_json` wrote."""
        series = cls()
        series.totals = fields["totals"]
        for phase, variant, *numbers in fields.get("shares", ()):
            if "users" in fields:
                series.shares[phase, variant] = Shares.of(numbers)
            else:  # from a version that did not note when rankings were made
                series.shares[phase, variant] = _all_final(numbers)
        for variant, numbers in fields.get("pages", {}).items():  # of before there were phases
            series.shares[0, variant] = _all_final([*series.totals.get(variant, (0, 0, 0)), *numbers])
        for phase, shadow, *numbers in fields.get("shadows", ()):  # an older snapshot has none
            series.shadows[phase, shadow] = ShadowShares.of(numbers)
        series.users = {name: Users.of(numbers) for name, numbers in fields.get("users", {}).items()}
        series.steps = {name: {int(k): v for k, v in steps.items()} for name, steps in fields["steps"].items()}
        series._minutes = sorted(series.steps["minute"])
        return series


def _all_final(numbers: list[float]) -> Shares:
    shares = Shares(None)
    shares.final = Share.of(numbers)
    return shares
