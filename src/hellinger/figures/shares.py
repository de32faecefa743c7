"""Clicks as a share of the most that there could be, against the traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from hellinger.errors import require
from hellinger.figures._style import COLUMN, colours, several, styled

__all__ = ["SharePanel", "draw_shares"]


class SharePanel(NamedTuple):
    """One setting: for each policy a row (traffic, share) for each level of traffic."""

    title: str
    shares: Mapping[str, npt.NDArray[np.float64]]


def draw_shares(
    panels: Sequence[SharePanel],
    *,
    of: str,
    first: str = "",
    ceiling: str = "",
    columns: int = 3,
    title: str = "",
    traffic: str = "impressions per item",
) -> Figure:
    """Shares against the traffic, log scale.

    ``of`` says whose clicks are 100 %, ``first`` is drawn thick, and ``ceiling``, which is no policy, dashed.
    """
    require(len(panels) > 0, "there is at least one panel", panels=len(panels))
    rows = -(-len(panels) // columns)
    labels = list(dict.fromkeys(label for panel in panels for label in panel.shares if label != ceiling))
    with styled():
        figure, axes = several(
            rows,
            columns,
            width=COLUMN * (0.8 * columns + 0.6),
            height=0.4 + 2.2 * rows,
            title=title,
            sharex=True,
            sharey=True,
        )
        chosen = colours(labels) | {ceiling: "black"}
        for spare in axes.flat[len(panels) :]:
            spare.set_axis_off()
        for at, panel in zip(axes.flat, panels, strict=False):
            for label, points in panel.shares.items():
                ours, line = label == first, "--" if label == ceiling else "-o"
                at.plot(
                    *np.asarray(points).T, line, color=chosen[label], label=label, markersize=2.6,
                    linewidth=2.2 if ours else 1.1, zorder=3 if ours else 2,
                )  # fmt: skip
            at.set_title(panel.title, loc="left", fontsize=7.5)
        at = axes.flat[0]
        at.set_ylim(0, 1)
        at.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        at.set_xscale("log")
        at.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        at.xaxis.set_major_formatter(FuncFormatter(lambda level, _: f"{level:,g}"))
        at.xaxis.set_minor_formatter(NullFormatter())
        for at in axes[-1]:
            at.set_xlabel(f"{traffic} (log scale)")
        for at in axes[:, 0]:
            at.set_ylabel(f"share of {of} clicks")
        figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside right upper")
    return figure
