"""Requests, impressions and reward of each variant, in total and over time."""

from __future__ import annotations

from typing import Any

__all__ = ["RESOLUTIONS", "Series"]

RESOLUTIONS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
"""Milliseconds in a step."""

KEEP_MINUTES = 2 * 24 * 60
"""Minutes told apart, counted back from the newest."""

Cell = list[float]


class Series:
    """Sums of (requests, impressions, reward) by variant: in all, and by minute, hour and day.

    Minutes are kept for two days, hours and days for ever.
    """

    def __init__(self) -> None:
        self.totals: dict[str, Cell] = {}
        self.steps: dict[str, dict[int, dict[str, Cell]]] = {name: {} for name in RESOLUTIONS}
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

    def _step(self, name: str, step: int) -> dict[str, Cell]:
        steps = self.steps[name]
        if step not in steps:
            steps[step] = {}
            if name == "minute" and len(steps) > 1.1 * KEEP_MINUTES:
                for old in sorted(steps)[:-KEEP_MINUTES]:
                    del steps[old]
        return steps[step]

    @staticmethod
    def _cell(cells: dict[str, Cell], variant: str) -> Cell:
        cell = cells.get(variant)
        if cell is None:
            cell = cells[variant] = [0.0, 0.0, 0.0]
        return cell

    def as_json(self) -> dict[str, Any]:
        """Everything, for :meth:`of`."""
        return {"totals": self.totals, "steps": {n: {str(k): v for k, v in s.items()} for n, s in self.steps.items()}}

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Series:
        """What :meth:`as_json` wrote."""
        series = cls()
        series.totals = fields["totals"]
        series.steps = {name: {int(k): v for k, v in steps.items()} for name, steps in fields["steps"].items()}
        return series
