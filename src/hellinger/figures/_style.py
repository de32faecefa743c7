"""What all figures share: size, type, colours, and how they are written to disk."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hellinger.errors import InputError

__all__ = [
    "COLUMN",
    "DPI",
    "INK",
    "QUIET",
    "blank",
    "colours",
    "kin_colour",
    "render",
    "save",
    "several",
    "spread_axis",
    "styled",
]

COLUMN = 3.5
"""Width of a paper's column, in inches."""
DPI = 200
INK, QUIET = "#222222", "#767676"
_WIDE = 5.0

# Okabe & Ito's colours, distinct with any kind of colour vision, yellow and orange darker, for lines. The page
# (serve/page/charts.js) has the same, and lighter ones on dark; a test compares them.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B57A00", "#56B4E9", "#6A3D9A", "#8C510A", "#444444")
_HABITUAL = {
    "hellinger-ucb": 0,
    "kl-ucb": 1,
    "ucb1": 2,
    "thompson": 3,
    "imed": 4,
    "hellinger-imed": 5,
    "cold-start": 6,
    "uniform": 8,
}

_KINDS = {0: ("hellinger", "cold-start"), 1: ("kl", "imed"), 2: ("ucb", "moss", "ada"), 3: ("thompson", "bayes")}

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "figure.titlesize": 8.5,
    "figure.titleweight": "bold",
    "axes.labelsize": 8,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 6.8,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.borderaxespad": 0.2,
    "legend.labelspacing": 0.35,
    "lines.linewidth": 1.4,
    "svg.hashsalt": "hellinger",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,  # journals refuse type 3
}


@contextmanager
def styled() -> Iterator[None]:
    """The style of these figures, for as long as a figure is made or written."""
    with rc_context(_STYLE):
        yield


def blank(
    *, width: float = COLUMN, height: float = 2.6, title: str = "", ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """An empty figure that no window manager knows of; or the axes given, and the figure that they are part of."""
    if ax is not None:
        ax.set_title(title, loc="left")
        return cast("Figure", ax.get_figure()), ax
    figure, axes = several(1, 1, width=width, height=height, title=title)
    return figure, axes[0, 0]


def several(
    rows: int,
    columns: int,
    *,
    width: float,
    height: float,
    title: str = "",
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, Any]:
    """An empty figure of several panels, as a table of axes."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    if title:
        figure.suptitle(title, x=0.01, horizontalalignment="left")
    return figure, axes


def spread_axis(axes: Axes, values: Iterable[float], label: str, unit: str) -> None:
    """Label the x axis; make it logarithmic where values differ so much that a linear one hides the small."""
    found = list(values)
    if min(found) > 0 and max(found) > _WIDE * min(found):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        unit = f"{unit}, log scale"
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
    axes.set_xlabel(f"{label} ({unit})")


def colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label: the habitual one of the policy it names, else the first one free.

    >>> colours(["kl-ucb", "ucb1"])["kl-ucb"] == colours(["hellinger-ucb", "kl-ucb"])["kl-ucb"]
    True
    """
    chosen: dict[str, str] = {}
    for label in labels:
        habitual = _HABITUAL.get(label.partition("(")[0])
        if habitual is not None and _PALETTE[habitual] not in chosen.values():
            chosen[label] = _PALETTE[habitual]
    free = itertools.chain((c for c in _PALETTE if c not in chosen.values()), itertools.cycle(_PALETTE))
    for label in labels:
        if label not in chosen:
            chosen[label] = next(free)
    return chosen


def kin_colour(label: str) -> str:
    """A colour shared by policies of one kind, where there are more of them than distinct colours."""
    for colour, beginnings in _KINDS.items():
        if label.startswith(beginnings):
            return _PALETTE[colour]
    return QUIET


def render(figure: Figure, kind: str) -> bytes:
    """The figure as a file's bytes, the same for the same figure."""
    stamp = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=stamp)
    return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> list[Path]:
    """Write the figure; a path without suffix gives PNG and SVG.

    Returns
    -------
    The files written.
    """
    target = Path(path)
    kind = target.suffix.lstrip(".").lower()
    if kind and kind not in ("png", "svg", "pdf"):
        raise InputError(f"a figure's suffix must be .png, .svg or .pdf, but got {target.name!r}")
    kinds = [kind] if kind else ["png", "svg"]
    files = [target if kind else target.with_name(f"{target.name}.{each}") for each in kinds]
    for file, each in zip(files, kinds, strict=True):
        file.write_bytes(render(figure, each))
    return files
