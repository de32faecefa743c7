"""The report of the cold-start experiment: one HTML page that needs nothing else, and the numbers as JSON."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from hellinger.lab.coldstart import LIMIT, ORACLE, OURS, ColdStartPlan, ColdStartResult, Comparison, compare
from hellinger.lab.report import Plate, render_page, render_plates

__all__ = ["TARGETS", "as_json", "setting", "targets", "write"]

TARGETS = {"hellinger-ucb": 1.8, "kl-ucb": 2.2, "thompson, learned prior": 1.15}
"""Least ratios of our clicks at 100 impressions per item, rates from Beta(1.6, 100), no arrivals."""


def setting(law: str, arrivals: bool) -> str:
    """A setting in words."""
    return f"{law}, {'with' if arrivals else 'without'} arrivals"


def targets(results: list[ColdStartResult]) -> list[dict[str, Any]]:
    """The targets that these results bear on, and whether each is met."""
    return [
        {
            "policy": c.policy,
            "target": TARGETS[c.policy],
            "ratio": c.ratio,
            "low": c.low,
            "high": c.high,
            "met": c.ratio >= TARGETS[c.policy],
        }
        for c in compare(results)
        if c.policy in TARGETS and (c.law, c.arrivals, c.impressions) == ("beta", False, 100)
    ]


def as_json(plan: ColdStartPlan, results: list[ColdStartResult]) -> dict[str, Any]:
    """Everything, as JSON can hold it."""
    return {
        "plan": plan._asdict(),
        "targets": targets(results),
        "results": [result._asdict() for result in results],
        "comparisons": [c._asdict() | {"verdict": c.verdict} for c in compare(results) if c.policy != OURS],
    }


def write(folder: Path, plan: ColdStartPlan, results: list[ColdStartResult]) -> Path:
    """Write ``results.json`` and ``report.html`` into a folder; returns the report's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(as_json(plan, results), indent=1), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(_page(plan, results), encoding="utf-8")
    return page


def _page(plan: ColdStartPlan, results: list[ColdStartResult]) -> str:
    comparisons = compare(results)
    parts = [
        "<h1>Cold start: clicks by policy</h1>",
        (
            f"<p>{plan.items:,} items, {plan.slots} slots a page, counts refreshed every {plan.pages} pages, "
            f"{plan.seeds} seeds. Every policy meets the same items, and whether an item's n-th impression is clicked "
            "does not depend on the policy: ratios are paired, with 95 % intervals over the seeds. "
            f"With arrivals, {plan.arrivals} items come and the {plan.arrivals} oldest go every day. The oracle knows "
            "every rate. The limit is what no policy can exceed on average that sees only impressions and clicks, even "
            "if it knows the law of the rates. Lifetimes known: cold-start that is told how many pages each item has "
            "left.</p>"
        ),
        render_plates([_plate(results)]),
    ]
    if judged := targets(results):
        parts.append("<h2>Targets</h2><ul>")
        for t in judged:
            parts.append(
                f"<li class='{'ahead' if t['met'] else 'behind'}'>{escape(t['policy'])}: "
                f"{t['ratio']:.2f} times its clicks ({t['low']:.2f} … {t['high']:.2f}), target {t['target']}: "
                f"{'met' if t['met'] else 'missed'}</li>"
            )
        parts.append("</ul>")
    for law, arrivals in dict.fromkeys((c.law, c.arrivals) for c in comparisons):
        here = [c for c in comparisons if (c.law, c.arrivals) == (law, arrivals)]
        parts.append(f"<h2>{escape(setting(law, arrivals))}</h2>{_table(here)}")
    return render_page("Cold start: clicks by policy", "".join(parts))


def _table(comparisons: list[Comparison]) -> str:
    marks = sorted({c.impressions for c in comparisons})
    limited = any(c.of_limit is not None for c in comparisons)
    share = "<th>÷ limit</th>" if limited else ""
    head = "".join(f"<th>clicks at {m}</th>{share}<th>ours ÷ this</th>" for m in marks)
    rows = []
    for name in dict.fromkeys(c.policy for c in comparisons):
        cells = []
        for c in sorted((c for c in comparisons if c.policy == name), key=lambda c: c.impressions):
            ratio = "" if name == OURS else f"{c.ratio:.3f} ({c.low:.3f} … {c.high:.3f})"
            colour = c.verdict if name not in (OURS, ORACLE, LIMIT) else ""
            share = "" if c.of_limit is None else f"<td>{c.of_limit:.3f}</td>"
            cells.append(f"<td>{c.clicks:,.0f}</td>{share}<td class='{colour}'>{ratio}</td>")
        rows.append(f"<tr class='{'ours' if name == OURS else ''}'><td>{escape(name)}</td>{''.join(cells)}</tr>")
    return f"<table class='numbers'><tr><th>policy</th>{head}</tr>{''.join(rows)}</table>"


def _plate(results: list[ColdStartResult]) -> Plate:
    """Clicks as a share of the oracle's, or without it of the best policy's, in every setting."""
    from hellinger import figures  # matplotlib, only where it is needed

    oracle = [r for r in results if r.policy == ORACLE]
    best: dict[tuple[str, bool, int], float] = {}
    for r in oracle or results:
        where = r.law, r.arrivals, r.impressions
        best[where] = max(best.get(where, 0.0), float(np.mean(r.clicks)))
    panels: dict[tuple[bool, str], dict[str, list[tuple[int, float]]]] = {}
    for r in results:
        if r.policy != ORACLE:
            lines = panels.setdefault((r.arrivals, r.law), {})
            share = float(np.mean(r.clicks)) / best[r.law, r.arrivals, r.impressions]
            lines.setdefault(r.policy, []).append((r.impressions, share))
    drawn = [
        figures.SharePanel(setting(law, arrivals), {name: np.array(sorted(points)) for name, points in lines.items()})
        for (arrivals, law), lines in sorted(panels.items(), key=lambda panel: panel[0][0])
    ]
    whose = "the oracle's" if oracle else "the best policy's"
    figure = figures.draw_shares(drawn, of=whose, first=OURS, ceiling=LIMIT, columns=len({r.law for r in results}))
    caption = (
        f"Clicks as a share of {whose}{', which knows every rate' if oracle else ''}; dashed: the limit of counts."
    )
    return Plate("Clicks", "shares", caption, figures.render(figure, "svg"), wide=True)
