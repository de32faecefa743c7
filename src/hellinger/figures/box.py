"""Regret at the last round, run by run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hellinger.errors import require
from hellinger.figures._style import INK, blank, colours, spread_axis, styled

__all__ = ["draw_final"]


def draw_final(finals: Mapping[str, npt.NDArray[np.float64]], *, title: str = "", ax: Axes | None = None) -> Figure:
    """Box plot of final regrets: quartiles, whiskers to 1.5 IQR, every run as a dot, the mean as a diamond.

    The axis is logarithmic where values differ too much for a linear one and none is zero or less.
    """
    require(len(finals) > 0, "there is at least one policy", policies=len(finals))
    labels = list(finals)
    values = np.concatenate([finals[label] for label in labels])
    with styled():
        figure, axes = blank(height=2.6 + 0.12 * max(0, len(labels) - 4), title=title, ax=ax)
        chosen = colours(labels)
        positions = np.arange(len(labels), 0, -1)
        for at, label in zip(positions, labels, strict=True):
            runs, colour = finals[label], chosen[label]
            # spread by rank in the golden ratio's sequence: even, and the same at every drawing
            jitter = (np.arange(runs.size) * 0.6180339887) % 1.0 - 0.5
            axes.plot(runs, at - 0.36 + 0.12 * jitter, ".", color=colour, markersize=2.4, alpha=0.6, mew=0)
            _box(axes, runs, float(at), colour)
        spread_axis(axes, values, "regret at the last round", "reward units")
        axes.set_yticks(positions, labels)
        axes.set_ylim(0.35, len(labels) + 0.5)
        axes.grid(visible=False, axis="y")
    return figure


def _box(axes: Axes, runs: npt.NDArray[np.float64], at: float, colour: str) -> None:
    """Draw one box; Axes.boxplot would load pyplot and with it choose a backend for the whole process."""
    low, median, high = np.quantile(runs, [0.25, 0.5, 0.75])
    reach = 1.5 * (high - low)
    ends = runs[runs >= low - reach].min(), runs[runs <= high + reach].max()
    for inner, end in zip((low, high), ends, strict=True):
        axes.plot([inner, end], [at, at], "-", color=colour, linewidth=0.9)
        axes.plot([end, end], [at - 0.08, at + 0.08], "-", color=colour, linewidth=0.9)
    box = Rectangle((low, at - 0.17), high - low, 0.34, facecolor=colour + "33", edgecolor=colour, linewidth=0.9)
    axes.add_patch(box)
    axes.plot([median, median], [at - 0.17, at + 0.17], "-", color=colour, linewidth=1.6, solid_capstyle="butt")
    axes.plot([runs.mean()], [at], "D", color=INK, markersize=2.6, markeredgecolor="white", markeredgewidth=0.5)
