"""Algorithms that share traffic: clicks day by day, and how far one leads the others at each traffic level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hellinger.errors import require
from hellinger.figures._style import COLUMN, INK, colours, several, styled

__all__ = ["Lead", "LeadPanel", "Reward", "draw_leads", "draw_rewards"]

Floats = npt.NDArray[np.float64]

_ROOM = 2.2
"""How far above the largest claim the scale goes."""


class Reward(NamedTuple):
    """One algorithm's clicks from the beginning to the end of each day: mean and interval."""

    label: str
    mean: Floats
    low: Floats
    high: Floats


class Lead(NamedTuple):
    """Clicks over those of a rival at each traffic level, with the interval; and what is claimed."""

    label: str
    levels: Floats
    ratio: Floats
    low: Floats
    high: Floats
    claim: float | None = None
    aside: bool = False
    """Whether it is drawn thin and dashed."""


class LeadPanel(NamedTuple):
    """Leads in one setting."""

    title: str
    leads: Sequence[Lead]


def draw_rewards(panels: Sequence[tuple[str, Sequence[Reward]]], *, title: str = "") -> Figure:
    """Cumulative clicks against days, one panel for each (title, algorithms), with a scale of its own."""
    require(len(panels) > 0, "there is at least one panel", panels=len(panels))
    with styled():
        figure, axes = several(1, len(panels), width=2 * COLUMN, height=2.9, title=title)
        chosen = colours(list(dict.fromkeys(reward.label for _, rewards in panels for reward in rewards)))
        for at, (name, rewards) in zip(axes.flat, panels, strict=True):
            for reward in rewards:
                days = np.arange(reward.mean.size + 1)
                mean, low, high = (np.concatenate([[0.0], part]) for part in reward[1:])
                at.fill_between(days, low, high, color=chosen[reward.label], alpha=0.18, linewidth=0)
                at.plot(days, mean, color=chosen[reward.label], label=reward.label)
            _name_ends(at, rewards, chosen)
            at.set_title(name, loc="left", fontsize=7.5)
            at.set_xlim(0, max(reward.mean.size for reward in rewards))
            at.set_xlabel("day")
            at.set_ylim(bottom=0)
            at.yaxis.set_major_formatter(FuncFormatter(lambda clicks, _: f"{clicks:,.0f}"))
        axes.flat[0].set_ylabel("cumulative reward (clicks)")
    return figure


def _name_ends(axes: Axes, rewards: Sequence[Reward], chosen: dict[str, str]) -> None:
    """Write each curve's name and end beside it, moved apart where they would overlap."""
    top = max(float(reward.mean[-1]) for reward in rewards)
    room, below = 0.075 * top, -np.inf
    for reward in sorted(rewards, key=lambda reward: float(reward.mean[-1])):
        end = float(reward.mean[-1])
        below = max(end, below + room)
        axes.annotate(
            f"{reward.label} {end:,.0f}",
            (1.0, below),
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
            color=chosen[reward.label],
        )


def draw_leads(panels: Sequence[LeadPanel], *, unit: str = "impressions per item", title: str = "") -> Figure:
    """Percent more clicks than each rival against the traffic level; what is claimed as lines in the rival's colour.

    The scale is made for the claims; a curve that leaves it is named where it does.
    """
    require(len(panels) > 0, "there is at least one panel", panels=len(panels))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    leads = [lead for panel in panels for lead in panel.leads]
    claims = [_percent(lead.claim) for lead in leads if lead.claim is not None]
    tops = [float(_percent(lead.ratio).max()) for lead in leads]
    top = min(1.1 * max(tops), _ROOM * max(claims)) if claims else 1.1 * max(tops)
    levels = sorted({float(level) for lead in leads for level in lead.levels})
    with styled():
        figure, axes = several(
            rows, columns, width=columns * COLUMN, height=0.5 + 2.1 * rows, title=title, sharex=True, sharey=True
        )
        chosen = colours(list(dict.fromkeys(_kin(lead.label) for lead in leads)))
        for spare in axes.flat[len(panels) :]:
            spare.set_axis_off()
        for at, panel in zip(axes.flat, panels, strict=False):
            _draw_panel(at, panel, chosen, top)
        at = axes.flat[0]
        at.set_ylim(-0.06 * top, top)
        at.set_xscale("log")
        at.set_xlim(levels[0], levels[-1] if levels[-1] > levels[0] else 2 * levels[0])
        at.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        at.xaxis.set_major_formatter(FuncFormatter(lambda level, _: f"{level:,g}"))
        at.xaxis.set_minor_formatter(NullFormatter())
        at.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:+,.0f} %" if share else "0"))
        for at in axes.flat:
            at.tick_params(axis="x", which="minor", length=0)
        for at in axes[-1]:
            at.set_xlabel(f"{unit} (log scale)")
        for at in axes[:, 0]:
            at.set_ylabel("more clicks than the rival")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), columnspacing=1.4)
    return figure


def _draw_panel(axes: Axes, panel: LeadPanel, chosen: dict[str, str], top: float) -> None:
    for lead in panel.leads:
        colour = chosen[_kin(lead.label)]
        share = _percent(lead.ratio)
        if lead.aside:
            axes.plot(lead.levels, share, "--", color=colour, linewidth=0.9, label=f"over {lead.label}")
        else:
            axes.fill_between(
                lead.levels, _percent(lead.low), _percent(lead.high), color=colour, alpha=0.18, linewidth=0
            )
            axes.plot(lead.levels, share, "-o", color=colour, markersize=2.6, label=f"over {lead.label}")
        if lead.claim is not None:
            axes.axhline(
                _percent(lead.claim), color=colour, linewidth=0.9, linestyle=":", label=f"claimed over {lead.label}"
            )
        if share.max() > top:
            at = int(share.argmax())
            back = share[-1] <= top  # within the scale again: there is room below the peak, else at the right
            axes.annotate(
                f"{lead.label}: {share[at]:+,.0f} %\nat {lead.levels[at]:,g}",
                (lead.levels[at], top) if back else (1.0, top),
                xycoords="data" if back else ("axes fraction", "data"),
                xytext=(0, -2),
                textcoords="offset points",
                ha="center" if back else "right",
                va="top",
                fontsize=6.5,
                color=colour,
            )
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_title(panel.title, loc="left", fontsize=7.5)


def _percent(ratio: Any) -> Any:
    """How many percent more."""
    return 100.0 * (ratio - 1.0)


def _kin(label: str) -> str:
    """What a policy is called without its arguments: one colour for all it can be given."""
    return label.partition("(")[0]
