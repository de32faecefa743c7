"""The report of an evaluation: one HTML page that needs nothing else, and the numbers as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from hellinger.evaluate.estimate import Estimate
from hellinger.evaluate.forecast import EXPLORED, Exploration, in_time
from hellinger.evaluate.study import FixedAnswer, Study
from hellinger.lab.report import Plate, render_page, render_plates

__all__ = ["write_study"]

_METHODS = {
    "queue": "queues, item by item; Mandel and others 2016",
    "replay": "replay with rejection, in the order of the log; Li and others 2011",
}


def write_study(folder: str | Path, study: Study) -> Path:
    """Write ``results.json`` and ``report.html`` into a folder; returns the report's path."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / "results.json").write_text(json.dumps(study.as_json(), indent=1, ensure_ascii=False), encoding="utf-8")
    page = target / "report.html"
    page.write_text(_page(study), encoding="utf-8")
    return page


def _page(study: Study) -> str:
    log = study.survey
    parts = [
        "<h1>What would another policy have earned?</h1>",
        (
            f"<p class='lead'>{escape(Path(study.path).name)}: {log.rankings:,} rankings, {log.rows:,} rows, "
            f"{log.items:,} items, {log.reward:,.6g} of reward, {log.reward / log.rankings:.4g} a ranking"
            f"{f', over {log.days:,.1f} days' if log.days > 0 else ''}.</p>"
        ),
    ]
    if study.notes:
        parts.append("<h2>What this log lacks, and what is assumed instead</h2><ul>")
        parts += [f"<li>{escape(note)}</li>" for note in study.notes]
        parts.append("</ul>")
    if study.fixed:
        parts.append("<h2>Policies that stand still</h2>")
        parts.append(
            "<p>A row's weight is the chance that the policy shows this item here, over the chance that the log did. "
            "Intervals are 95 % at all times at once. The mean weight is 1 where propensities are right and the log "
            "could have shown all that the policy would.</p>"
        )
        parts += [_fixed(answer) for answer in study.fixed]
        if plates := _plates(study):
            parts.append(render_plates(plates))
    if study.checks:
        parts.append("<h2>Whether it can be trusted: each variant from the others' traffic</h2><ul>")
        parts += [f"<li>{escape(check.sentence)}</li>" for check in study.checks]
        parts.append("</ul>")
    if study.learned:
        parts.append("<h2>Policies that learn</h2>")
        parts.append(
            f"<p>They are played on the rewards of the log, and learn from them ({_METHODS[study.learned[0].method]}). "
            "These values are not to be compared with those above.</p>"
        )
        parts.append(_learned(study))
    return render_page("What would another policy have earned?", "".join(parts))


def _fixed(answer: FixedAnswer) -> str:
    best = answer.best
    out = [f"<h3>{escape(answer.policy)}</h3>"]
    if best is None:
        return out[0] + "<p>No row of the log has a propensity: nothing can be said.</p>"
    kind = "agrees" if best.lift_low > 0.0 else "differs" if best.refusal or best.lift_high < 0.0 else "partly"
    out.append(f"<p><span class='verdict {kind}'>{escape(best.verdict)}</span></p>")
    if answer.disagreement:
        out.append(f"<p class='behind'>{escape(answer.disagreement)}.</p>")
    head = ("estimator", "value", "interval", "difference", "effective sample", "unsupported", "mean weight")
    out.append(_table(head, [_row(each) for each in answer.estimates], "numbers dense"))
    if answer.advice:
        out.append(f"<p>To know more: {escape(answer.advice)}.</p>")
    if answer.explorations:
        out.append("<h4>What could be drawn at random to know more, and its price</h4>")
        out.append(_explorations(answer.explorations))
    return "".join(out)


def _explorations(options: Sequence[Exploration]) -> str:
    """Those that tell in time; where a setting tells is said once."""
    lines, said = [], set()
    for each in in_time(options):
        name, where, *cells = each.cells
        lines.append(_line(name, "" if where in said else where, cells))
        said.add(where)
    return _table((EXPLORED[0], *EXPLORED[2:]), lines)


def _table(head: Sequence[str], lines: Sequence[str], kind: str = "numbers") -> str:
    heads = "".join(f"<th>{escape(word)}</th>" for word in head)
    return f"<table class='{kind}'><thead><tr>{heads}</tr></thead>{''.join(lines)}</table>"


def _row(estimate: Estimate) -> str:
    cells = (
        f"{estimate.value:.4g}" if not estimate.refusal else "no answer",
        f"{estimate.low:.3g} … {estimate.high:.3g}",
        f"{estimate.difference_low:+.3g} … {estimate.difference_high:+.3g}",
        f"{estimate.effective_sample:,.0f} of {estimate.units:,}",
        f"{100 * estimate.unsupported:.0f} %",
        f"{estimate.mean_weight:.3f} ({estimate.weight_low:.2f} … {estimate.weight_high:.2f})",
    )
    words = estimate.refusal or f"assumes: {estimate.assumption}"
    return _line(estimate.estimator, words, cells)


def _line(name: str, note: str, cells: Sequence[str]) -> str:
    below = f"<p class='note'>{escape(note)}</p>" if note else ""
    first = f"<td>{escape(name)}{below}</td>"
    return f"<tr>{first}{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _learned(study: Study) -> str:
    head = ("policy", "reward an impression", "low", "high", "seeds from", "to")
    rows = []
    for each in sorted(study.learned, key=lambda each: -each.value):
        numbers = (each.value, each.low, each.high, min(each.values), max(each.values))
        rows.append(_line(each.policy, each.how_far, [f"{number:.4g}" for number in numbers]))
    return _table(head, rows)


def _plates(study: Study) -> list[Plate]:
    from hellinger import figures  # matplotlib, only where it is needed

    bars = [
        figures.EstimateBar(answer.policy, each.estimator, each.value, each.low, each.high, bool(each.refusal))
        for answer in study.fixed
        for each in answer.estimates
        if each.estimator != "dm" or math.isfinite(each.value)
    ]
    if not bars:
        return []
    logged = study.survey.reward / study.survey.rankings
    drawn = figures.draw_estimates(bars, logged=logged)
    caption = "Values and intervals; an arrow goes on, and what the log cannot answer is dotted."
    plates = [Plate("Pictures", "estimates", caption, figures.render(drawn, "svg"))]
    panels = [
        figures.SupportPanel(
            answer.policy,
            [effective for _, _, effective in answer.places],
            [weight for _, weight, _ in answer.places],
            [weight for _, weight, _ in answer.times],
            [same for _, _, same in answer.times],
        )
        for answer in study.fixed
    ]
    caption = (
        "How much of the log speaks of each policy: effective sample and mean weight by position; mean weight and "
        "overlap over time."
    )
    plates.append(Plate("Pictures", "support", caption, figures.render(figures.draw_support(panels), "svg"), wide=True))
    return plates
