"""``report.html``: one file, images inside, of the reproduction and of the cold-start experiment alike."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

from hellinger.families import get
from hellinger.lab.claims import Claim, Verdict

__all__ = ["Plate", "render_page", "render_plates", "render_report"]

_MARKS: dict[Verdict, str] = {"agrees": "✓", "partly": "~", "differs": "✗", "not tested": "–"}


class Plate(NamedTuple):
    """A figure as SVG, with its name, its caption, and the heading it stands under."""

    group: str
    name: str
    caption: str
    svg: bytes
    wide: bool = False


def render_page(title: str, body: str) -> str:
    """The text of one HTML file that refers to no other; the body is HTML already."""
    return _template("report.html").substitute(title=escape(title), body=body)


def _template(name: str) -> Template:
    return Template(files("hellinger.lab").joinpath(name).read_text(encoding="utf-8"))


def render_report(record: dict[str, Any], claims: Sequence[Claim], plates: Sequence[Plate]) -> str:
    """The report of the reproduction, for readers who have not seen the paper."""
    counts = Counter(claim.verdict for claim in claims)
    tally = "".join(
        f'<li class="{_class(verdict)}"><b>{counts[verdict]}</b> {verdict}</li>'
        for verdict in _MARKS
        if counts[verdict]
    )
    rounds = sum(len(setting["policies"]) for setting in record["settings"]) * record["runs"] * record["horizon"]
    # the supremum of the ball for one click in one impression at t = 10⁶, where the paper's root gives 0.001
    first_click = float(get("bernoulli").hellinger_upper(1.0, 0.25 * 13.815510557964274))
    body = _template("reproduction.html").substitute(
        runs=f"{record['runs']:,}",
        count=record["runs"],
        seed=record["seed"],
        horizon=f"{record['horizon']:,}",
        init=record["init"],
        c=record["c"],
        cores=record["cores"],
        rounds=f"{rounds / 1e6:,.1f} million",
        seconds=f"{sum(setting['play_s'] for setting in record['settings']):.1f}",
        traffic=_traffic_options(record),
        versions=", ".join(f"{name} {number}" for name, number in record["versions"].items()),
        tally=tally,
        claims="\n".join(_row(claim) for claim in claims),
        figures=render_plates(plates),
        first_click=f"{first_click:g}",
        thresholds=" and ".join(f"{setting['consistency_threshold']:.3f}" for setting in record["settings"]),
    )
    return render_page("Hellinger-UCB: the paper's simulations, run again", body)


def render_plates(plates: Sequence[Plate]) -> str:
    """Figures under the headings of their groups."""
    return "\n".join(_group(name, plates) for name in dict.fromkeys(plate.group for plate in plates))


def _traffic_options(record: dict[str, Any]) -> str:
    """Options of the command that are not its defaults."""
    words = [" --full"] if record["full"] else []
    if record["sites"] != (10 if record["full"] else 4):
        words.append(f" --sites {record['sites']}")
    if record["items"] != 10_000:
        words.append(f" --items {record['items']}")
    return "".join(words)


def _class(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _text(words: str) -> str:
    """Escape, and set what stands between back-ticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))


def _row(claim: Claim) -> str:
    note = f'<p class="note">{_text(claim.note)}</p>' if claim.note else ""
    return (
        f'<tr id="{claim.key}"><td>{_text(claim.claim)} <span class="where">§ {escape(claim.where)}</span>{note}</td>'
        f'<td data-label="The authors">{_text(claim.authors)}</td><td data-label="Here">{_text(claim.ours)}</td>'
        f'<td><span class="verdict {_class(claim.verdict)}">{_MARKS[claim.verdict]} {claim.verdict}</span></td></tr>'
    )


def _group(name: str, plates: Sequence[Plate]) -> str:
    inside = "\n".join(_figure(plate) for plate in plates if plate.group == name)
    return f'<h3>{escape(name)}</h3>\n<div class="plates">\n{inside}\n</div>'


def _figure(plate: Plate) -> str:
    data = base64.b64encode(plate.svg).decode()
    wide = ' class="wide"' if plate.wide else ""
    return (
        f'<figure id="{plate.name}"{wide}><img src="data:image/svg+xml;base64,{data}" alt="{escape(plate.caption)}">'
        f"<figcaption>{escape(plate.caption)}</figcaption></figure>"
    )
