"""What a log says of other policies: estimates with their intervals, and how much of the log speaks of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from hellinger.errors import require
from hellinger.figures._style import COLUMN, INK, QUIET, blank, colours, several, styled

__all__ = ["EstimateBar", "SupportPanel", "draw_estimates", "draw_support"]

_REACH = 4.0
"""How many times the largest value an interval is drawn to; one that goes on has an arrow."""
_APART = 30.0
"""How many times the smallest sample the largest one is, where small ones would not be seen beside it."""


class EstimateBar(NamedTuple):
    """A policy's value by one estimator."""

    policy: str
    estimator: str
    value: float
    low: float
    high: float
    refused: bool = False


class SupportPanel(NamedTuple):
    """How much of a log speaks of a policy, by place and over time."""

    policy: str
    effective: Sequence[float]
    """Effective sample at each position."""
    by_place: Sequence[float]
    """Mean weight at each position."""
    weights: Sequence[float]
    """Mean weight in stretches of time, in their order."""
    overlap: Sequence[float]
    """Share of places that were as the policy would have them."""


def draw_estimates(bars: Sequence[EstimateBar], *, logged: float, unit: str = "reward a ranking") -> Figure:
    """Values and intervals, a line each, grouped by policy; what was logged is an upright line."""
    require(len(bars) > 0, "there is at least one estimate", bars=len(bars))
    with styled():
        figure, axes = blank(width=1.6 * COLUMN, height=0.9 + 0.22 * len(bars))
        chosen = colours(list(dict.fromkeys(bar.policy for bar in bars)))
        reach = _REACH * max([logged, *(bar.value for bar in bars if math.isfinite(bar.value))])
        for row, bar in enumerate(bars):
            colour = QUIET if bar.refused else chosen[bar.policy]
            high = min(bar.high, reach)
            axes.plot([bar.low, high], [row, row], color=colour, linestyle=":" if bar.refused else "-")
            if bar.high > reach:
                axes.plot(reach, row, ">", color=colour, markersize=4)
            if math.isfinite(bar.value):
                axes.plot(
                    bar.value, row, "o", color=colour, markersize=3.5, fillstyle="none" if bar.refused else "full"
                )
        axes.axvline(logged, color=INK, linewidth=0.9)
        axes.annotate("logged", (logged, -0.8), fontsize=6.5, color=INK, ha="center", annotation_clip=False)
        axes.set_yticks(range(len(bars)), [f"{bar.policy}: {bar.estimator}" for bar in bars])
        axes.set_ylim(len(bars) - 0.5, -0.7)
        axes.set_xlim(0.0, reach * 1.03 if reach > 0.0 else 1.0)
        axes.set_xlabel(f"{unit}, 95 % at all times")
    return figure


def draw_support(panels: Sequence[SupportPanel]) -> Figure:
    """Effective sample and mean weight by position; mean weight and overlap over time."""
    require(len(panels) > 0, "there is at least one panel", panels=len(panels))
    with styled():
        figure, axes = several(2, 2, width=2.2 * COLUMN, height=4.0)
        chosen = colours([panel.policy for panel in panels])
        (sample, placed), (weight, overlap) = axes
        for number, panel in enumerate(panels):
            shift = 0.8 * (number - (len(panels) - 1) / 2) / len(panels)
            for at, bars in ((sample, panel.effective), (placed, panel.by_place)):
                places = [place + 1 + shift for place in range(len(bars))]
                at.bar(places, bars, 0.8 / len(panels), color=chosen[panel.policy], label=panel.policy)
            for at, values in ((weight, panel.weights), (overlap, panel.overlap)):
                steps = [(step + 0.5) / len(values) for step in range(len(values))]
                at.plot(steps, values, color=chosen[panel.policy])
        for at, label in ((sample, "effective sample"), (placed, "mean weight (1 expected)")):
            at.set_xlabel("position")
            at.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
            at.set_ylabel(label)
        for at, label in ((weight, "mean weight (1 expected)"), (overlap, "places as it would have them")):
            at.set_xlabel("part of the log, in its order")
            at.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            at.set_ylabel(label)
            at.set_ylim(bottom=0.0)
            at.set_xlim(0.0, 1.0)
        some = [value for panel in panels for value in panel.effective if value >= 1.0]
        if some and max(some) > _APART * min(some):
            sample.set_yscale("log")
            sample.set_ylim(bottom=1.0)
        for at in (placed, weight):
            at.axhline(1.0, color=INK, linewidth=0.8)
        overlap.yaxis.set_major_formatter(PercentFormatter(1.0))
        figure.legend(*sample.get_legend_handles_labels(), loc="outside upper left", ncols=4)
    return figure
