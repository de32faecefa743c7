"""Regret as it grows: on a logarithmic time axis, where logarithmic growth is a straight line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from hellinger.errors import require
from hellinger.figures._style import INK, blank, colours, styled

__all__ = ["Curve", "Line", "draw_average", "draw_regret"]

Floats = npt.NDArray[np.float64]


class Curve(NamedTuple):
    """A policy's regret over time: mean, and the band it is drawn with."""

    label: str
    t: npt.NDArray[np.int64]
    mean: Floats
    low: Floats
    high: Floats


class Line(NamedTuple):
    """A reference line; ``of`` names the curve whose colour it takes."""

    label: str
    t: npt.NDArray[np.int64]
    values: Floats
    of: str = ""


def draw_regret(
    curves: Sequence[Curve],
    *,
    bounds: Sequence[Line] = (),
    lower: Line | None = None,
    focus: Sequence[str] = (),
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Mean regret with its band, dashed bounds, and a dotted lower line.

    Parameters
    ----------
    curves
        One for each policy.
    bounds
        Drawn dashed, each in the colour of its policy.
    lower
        Drawn dotted in black: the Lai–Robbins line.
    focus
        Labels of the curves the axis is made for; one that leaves it is named where it does. All if empty.
    title
        What the figure shows.
    ax
        Axes to draw in; a figure of its own if not given.
    """
    require(len(curves) > 0, "there is at least one curve", curves=len(curves))
    with styled():
        figure, axes = blank(title=title, ax=ax)
        chosen = colours([curve.label for curve in curves])
        for curve in curves:
            axes.fill_between(curve.t, curve.low, curve.high, color=chosen[curve.label], alpha=0.18, linewidth=0)
            axes.plot(curve.t, curve.mean, color=chosen[curve.label], label=curve.label)
        for bound in bounds:
            colour = chosen.get(bound.of, INK)
            axes.plot(bound.t, bound.values, "--", color=colour, linewidth=0.9, label=bound.label)
        if lower is not None:
            axes.plot(lower.t, lower.values, ":", color=INK, linewidth=1.1, label=lower.label)
        if focus:
            _focus(axes, curves, focus, bounds, chosen)
        _time_axis(axes, curves)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("cumulative regret (reward units)")
        axes.legend(loc="upper left")
    return figure


def draw_average(curves: Sequence[Curve], *, start: int = 1, title: str = "", ax: Axes | None = None) -> Figure:
    """Mean regret per round with its band, from round ``start`` on."""
    require(len(curves) > 0, "there is at least one curve", curves=len(curves))
    with styled():
        figure, axes = blank(title=title, ax=ax)
        chosen = colours([curve.label for curve in curves])
        for curve in curves:
            axes.fill_between(
                curve.t, curve.low / curve.t, curve.high / curve.t, color=chosen[curve.label], alpha=0.18, linewidth=0
            )
            axes.plot(curve.t, curve.mean / curve.t, color=chosen[curve.label], label=curve.label)
        _time_axis(axes, curves, start)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("regret per round (reward units)")
        axes.legend(loc="lower left")
    return figure


def _time_axis(axes: Axes, curves: Sequence[Curve], start: int = 1) -> None:
    axes.set_xscale("log")
    end = max(int(curve.t[-1]) for curve in curves)
    if start < end:
        axes.set_xlim(start, end)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:,.0f}"))
    axes.set_xlabel("round t (log scale)")


def _focus(
    axes: Axes, curves: Sequence[Curve], focus: Sequence[str], bounds: Sequence[Line], chosen: dict[str, str]
) -> None:
    """Make the axis fit some curves; say where the others went."""
    inside = [curve.high[-1] for curve in curves if curve.label in focus] + [line.values[-1] for line in bounds]
    top = 1.25 * float(max(inside))
    axes.set_ylim(0, top)
    for curve in curves:
        if curve.mean[-1] > top:
            at = float(np.interp(top, curve.mean, curve.t))
            axes.annotate(
                f"{curve.label}: {curve.mean[-1]:,.0f}\nat t = {curve.t[-1]:,}",
                (at, top),
                xytext=(4, -3),
                textcoords="offset points",
                va="top",
                fontsize=6.5,
                color=chosen[curve.label],
            )
