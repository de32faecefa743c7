"""Time to score arms, against their number and a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from hellinger.errors import require
from hellinger.figures._style import INK, QUIET, blank, colours, styled

__all__ = ["Timing", "draw_latency"]

Floats = npt.NDArray[np.float64]


class Timing(NamedTuple):
    """How long one method took for several numbers of arms: median and the range drawn around it."""

    label: str
    arms: npt.NDArray[np.int64]
    ms: Floats
    low: Floats
    high: Floats
    baseline: bool = False


def draw_latency(
    timings: Sequence[Timing],
    *,
    limit_ms: float = 10.0,
    mark: int = 10_000,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Milliseconds against arms, both logarithmic, with the limit and the number of arms it is set for.

    Parameters
    ----------
    timings
        One for each method; baselines are drawn dashed.
    limit_ms, mark
        The horizontal line, and the number of arms at which times are written out in the legend.
    title
        What the figure shows.
    """
    require(len(timings) > 0, "there is at least one method", timings=len(timings))
    with styled():
        figure, axes = blank(height=2.8, title=title, ax=ax)
        chosen = colours([timing.label for timing in timings])
        for timing in timings:
            colour = QUIET if timing.baseline else chosen[timing.label]
            at = np.flatnonzero(timing.arms == mark)
            label = f"{timing.label}: {timing.ms[at[0]]:.2g} ms" if at.size else timing.label
            axes.fill_between(timing.arms, timing.low, timing.high, color=colour, alpha=0.18, linewidth=0)
            style = "--o" if timing.baseline else "-o"
            axes.plot(timing.arms, timing.ms, style, color=colour, markersize=3, label=label)
        axes.axhline(limit_ms, color=INK, linewidth=1.0)
        axes.axvline(mark, color=QUIET, linewidth=0.6, linestyle=":")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.annotate(
            f"limit: {limit_ms:g} ms",
            (min(int(timing.arms[0]) for timing in timings), limit_ms),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=6.5,
            color=INK,
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:,.0f}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
        axes.set_xlabel("arms (log scale)")
        axes.set_ylabel("time a ranking (ms, log scale)")
        figure.legend(
            loc="outside lower left",
            title=f"at {mark:,} arms",
            title_fontsize=6.8,
            alignment="left",
            ncols=2,
            columnspacing=1.2,
        )
    return figure
