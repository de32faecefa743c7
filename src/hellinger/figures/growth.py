"""How something grows with something else: both on logarithmic axes, where a power is a straight line."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hellinger.errors import require
from hellinger.figures._style import INK, blank, colours, several, styled

__all__ = ["draw_growth"]


def draw_growth(
    lines: Mapping[str, npt.ArrayLike],
    *,
    of: str,
    against: str,
    power: float | None = None,
    through: str | None = None,
    beside: Mapping[str, npt.ArrayLike] | None = None,
    beside_of: str = "",
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw lines through points (against, of), a row for each; and, dotted, how a power of ``against`` would grow.

    The power's line begins where the line ``through`` does, or at the lowest of the first points. ``beside`` has, for
    some of the labels, what else grows (``beside_of``); it is drawn in a panel to the right.
    """
    require(len(lines) > 0, "there is at least one line", lines=len(lines))
    require(through is None or through in lines, "through is one of the lines", through=through)
    require(beside is None or (set(beside) <= set(lines) and ax is None), "beside is of lines, and without ax", ax=ax)
    with styled():
        if beside is None:
            figure, at = blank(width=5.0, height=2.9, title=title, ax=ax)
        else:
            figure, ((at, right),) = several(1, 2, width=7.0, height=2.9, title=title)
        chosen = colours(list(lines))
        _draw(at, lines, chosen, of, against)
        if power is not None:
            x = np.unique(np.concatenate([np.asarray(points)[:, 0] for points in lines.values()]))
            first = np.array([np.asarray(points)[0] for points in lines.values()])
            start = first[first[:, 1].argmin()] if through is None else np.asarray(lines[through])[0]
            at.plot(x, start[1] * (x / start[0]) ** power, ":", color=INK, label=f"power {power:.2g}")
        if beside is not None:
            _draw(right, beside, chosen, beside_of, against)
        figure.legend(*at.get_legend_handles_labels(), loc="outside right center")  # the title is at the top
    return figure


def _draw(at: Axes, lines: Mapping[str, npt.ArrayLike], chosen: Mapping[str, str], of: str, against: str) -> None:
    """One panel."""
    for label, points in lines.items():
        at.plot(*np.asarray(points).T, "-o", color=chosen[label], label=label, markersize=2.6, linewidth=1.2)
    at.set_xscale("log")
    at.set_yscale("log")
    for axis in (at.xaxis, at.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())
    at.set_xlabel(f"{against} (log scale)")
    at.set_ylabel(f"{of} (log scale)")
