"""The report of the cold-start experiment: one HTML page that needs nothing else, and the figures as JSON."""

from __future__ import annotations

import base64
import html
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from hellinger.coldstart.experiment import OURS, Comparison, Plan, Result, compare

__all__ = ["TARGETS", "as_json", "setting", "targets", "write"]

TARGETS = {"hellinger-ucb": 1.8, "kl-ucb": 2.2, "thompson, learned prior": 1.15}
"""Least ratios of our clicks at 100 impressions per content, rates from Beta(1.6, 100), no arrivals."""

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
img { max-width: 100% } .ahead { color: #07622c } .behind { color: #a11 } tr.ours { font-weight: 600 }
"""


def setting(law: str, arrivals: bool) -> str:
    """A setting in words."""
    return f"{law}, {'with' if arrivals else 'without'} arrivals"


def targets(results: list[Result]) -> list[dict[str, Any]]:
    """The targets that these results bear on, and whether each is met."""
    found = []
    for c in compare(results):
        if c.policy in TARGETS and (c.law, c.arrivals, c.impressions) == ("beta", False, 100):
            least = TARGETS[c.policy]
            found.append(
                {
                    "policy": c.policy,
                    "target": least,
                    "ratio": c.ratio,
                    "low": c.low,
                    "high": c.high,
                    "met": c.ratio >= least,
                }
            )
    return found


def as_json(plan: Plan, results: list[Result]) -> dict[str, Any]:
    """Everything, as JSON can hold it."""
    return {
        "plan": plan._asdict(),
        "targets": targets(results),
        "results": [result._asdict() for result in results],
        "comparisons": [c._asdict() | {"verdict": c.verdict} for c in compare(results) if c.policy != OURS],
    }


def write(folder: Path, plan: Plan, results: list[Result]) -> Path:
    """Write ``results.json`` and ``report.html`` into a folder; returns the report's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(as_json(plan, results), indent=1), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(_page(plan, results), encoding="utf-8")
    return page


def _page(plan: Plan, results: list[Result]) -> str:
    comparisons = compare(results)
    settings = list(dict.fromkeys((c.law, c.arrivals) for c in comparisons))
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Cold start</title>",
        f"<style>{_STYLE}</style><h1>Cold start: clicks by policy</h1>",
        (
            f"<p>{plan.contents:,} contents, {plan.slots} slots a page, counts refreshed every {plan.pages} pages, "
            f"{plan.seeds} seeds. Every policy meets the same contents, and a content's so-manieth impression is "
            "clicked or not whichever policy gives it: ratios are paired, with 95 % intervals over the seeds. "
            f"With arrivals, {plan.arrivals} contents come and the {plan.arrivals} oldest go every day.</p>"
        ),
        f"<img alt='Clicks as a share of the oracle’s' src='data:image/png;base64,{_figure(results)}'>",
    ]
    if found := targets(results):
        parts.append("<h2>Targets</h2><ul>")
        for t in found:
            parts.append(
                f"<li class='{'ahead' if t['met'] else 'behind'}'>{html.escape(t['policy'])}: "
                f"{t['ratio']:.2f} times its clicks ({t['low']:.2f} … {t['high']:.2f}), target {t['target']}: "
                f"{'met' if t['met'] else 'missed'}</li>"
            )
        parts.append("</ul>")
    for law, arrivals in settings:
        here = [c for c in comparisons if (c.law, c.arrivals) == (law, arrivals)]
        parts.append(f"<h2>{html.escape(setting(law, arrivals))}</h2>{_table(here)}")
    return "".join(parts)


def _table(comparisons: list[Comparison]) -> str:
    marks = sorted({c.impressions for c in comparisons})
    head = "".join(f"<th>clicks at {m}<th>ours ÷ this" for m in marks)
    rows = []
    for name in dict.fromkeys(c.policy for c in comparisons):
        cells = []
        for c in sorted((c for c in comparisons if c.policy == name), key=lambda c: c.impressions):
            ratio = "" if name == OURS else f"{c.ratio:.3f} ({c.low:.3f} … {c.high:.3f})"
            colour = c.verdict if name not in (OURS, "oracle") else ""
            cells.append(f"<td>{c.clicks:,.0f}<td class='{colour}'>{ratio}")
        rows.append(f"<tr class='{'ours' if name == OURS else ''}'><td>{html.escape(name)}{''.join(cells)}")
    return f"<table><tr><th>policy{head}{''.join(rows)}</table>"


def _figure(results: list[Result]) -> str:
    """Clicks as a share of the oracle's in every setting, as a PNG in base64."""
    from matplotlib.figure import Figure

    ceiling = {(r.law, r.arrivals, r.impressions): float(np.mean(r.clicks)) for r in results if r.policy == "oracle"}
    if not ceiling:  # without the oracle, the best stands in
        for r in results:
            key = (r.law, r.arrivals, r.impressions)
            ceiling[key] = max(ceiling.get(key, 0.0), float(np.mean(r.clicks)))
    laws = list(dict.fromkeys(r.law for r in results))
    names = [name for name in dict.fromkeys(r.policy for r in results) if name != "oracle"]
    kinds = sorted({r.arrivals for r in results})
    figure = Figure(figsize=(4 * len(laws) + 3, 3.5 * len(kinds)), layout="constrained")
    axes = figure.subplots(len(kinds), len(laws), sharex=True, squeeze=False)
    for row, arrivals in enumerate(kinds):
        for column, law in enumerate(laws):
            axis = axes[row][column]
            for number, name in enumerate(names):
                here = sorted(
                    (r for r in results if (r.law, r.arrivals, r.policy) == (law, arrivals, name)),
                    key=lambda r: r.impressions,
                )
                share = [100 * np.mean(r.clicks) / ceiling[law, arrivals, r.impressions] for r in here]
                ours = name == OURS
                axis.plot(
                    [r.impressions for r in here],
                    share,
                    marker="o",
                    label=name,
                    color=f"C{number}",
                    linewidth=2.5 if ours else 1.2,
                    zorder=3 if ours else 2,
                )
            axis.set(title=setting(law, arrivals), xscale="log", ylim=(0, 100))
            axis.grid(alpha=0.3)
    axes[-1][0].set(xlabel="impressions per content", ylabel="% of the oracle's clicks")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper", fontsize=9)
    png = io.BytesIO()
    figure.savefig(png, dpi=110)
    return base64.b64encode(png.getvalue()).decode()
