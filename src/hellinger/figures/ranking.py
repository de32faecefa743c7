"""A leaderboard: policies by rank, each a dot with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hellinger.errors import require
from hellinger.figures._style import QUIET, blank, kin_colour, spread_axis, styled

__all__ = ["Place", "draw_ranking"]


_LONG = 20
"""Letters of a name beside which little width is left: what is under the axis then begins below the names."""


class Place(NamedTuple):
    """A policy's regret: mean, the ends of its interval, and a high quantile."""

    label: str
    mean: float
    low: float
    high: float
    tail: float | None = None


def draw_ranking(
    places: Sequence[Place],
    *,
    title: str = "",
    tail: str = "99 % of runs stay below",
    what: str = "mean regret ± 95 %",
    unit: str = "reward units",
    lower: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Dots with intervals, best on top, kin in one colour; high quantiles as hollow triangles; a lower bound dotted."""
    require(len(places) > 0, "there is at least one policy", places=len(places))
    ranked = sorted(places, key=lambda place: place.mean)
    with styled():
        figure, axes = blank(height=0.9 + 0.17 * len(ranked), title=title, ax=ax)
        rows = np.arange(len(ranked), 0, -1)
        for row, place in zip(rows, ranked, strict=True):
            colour = kin_colour(place.label)
            axes.plot([place.low, place.high], [row, row], "-", color=colour, linewidth=1.6, solid_capstyle="butt")
            axes.plot([place.mean], [row], "o", color=colour, markersize=4)
        tails = [(place.tail, row) for row, place in zip(rows, ranked, strict=True) if place.tail is not None]
        if tails:
            axes.plot(
                *zip(*tails, strict=True), ">", color=QUIET, markerfacecolor="none", markersize=3.5, mew=0.7, label=tail
            )
        ends = [place.low for place in ranked] + [place.high for place in ranked] + [end for end, _ in tails]
        if lower is not None:
            axes.axvline(lower, linestyle=":", color="black", linewidth=1.0, label="lower bound")
            ends.append(lower)
        spread_axis(axes, ends, what, unit)
        if max(len(place.label) for place in ranked) > _LONG:
            axes.set_xlabel(axes.get_xlabel(), loc="right")
        axes.set_yticks(rows, [place.label for place in ranked])
        axes.set_ylim(0.3, len(ranked) + 0.7)
        axes.grid(visible=True, axis="y", linestyle=":")
        if tails or lower is not None:
            figure.legend(loc="outside lower right")
    return figure
