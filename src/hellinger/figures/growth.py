"""How something grows with something else: both on logarithmic axes, where a power is a straight line."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hellinger.errors import require
from hellinger.figures._style import INK, blank, colours, styled

__all__ = ["draw_growth"]


def draw_growth(
    lines: Mapping[str, npt.ArrayLike],
    *,
    of: str,
    against: str,
    power: float | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw lines through points (against, of), a row for each; and, dotted, how a power of ``against`` would grow.

    The power's line begins at the lowest of the first points.
    """
    require(len(lines) > 0, "there is at least one line", lines=len(lines))
    with styled():
        figure, at = blank(width=5.0, height=2.9, title=title, ax=ax)
        chosen = colours(list(lines))
        first = np.array([np.asarray(points)[0] for points in lines.values()])
        for label, points in lines.items():
            at.plot(*np.asarray(points).T, "-o", color=chosen[label], label=label, markersize=2.6, linewidth=1.2)
        if power is not None:
            x = np.unique(np.concatenate([np.asarray(points)[:, 0] for points in lines.values()]))
            start = first[first[:, 1].argmin()]
            at.plot(x, start[1] * (x / start[0]) ** power, ":", color=INK, label=f"power {power:.2g}")
        at.set_xscale("log")
        at.set_yscale("log")
        for axis in (at.xaxis, at.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
        at.set_xlabel(f"{against} (log scale)")
        at.set_ylabel(f"{of} (log scale)")
        figure.legend(*at.get_legend_handles_labels(), loc="outside right upper")
    return figure
