"""How the variants of a running service stand, as the routes, the page and the terminal tell it."""

from __future__ import annotations

from typing import Any

from hellinger.engine.service import Service
from hellinger.experiment import Pages, Totals, readout
from hellinger.ledger import Series
from hellinger.serve.models import iso

__all__ = ["series", "standing"]


def standing(service: Service, control: str | None = None) -> dict[str, Any]:
    """The readout of the experiment, with what it is about."""
    desk, settings = service.desk, service.settings
    held = desk.ledger.series
    totals = []
    for name in desk.variants:
        requests, impressions, reward = held.totals.get(name, (0, 0, 0))
        pages = held.pages.get(name)
        together = None if pages is None else Pages(pages.count, pages.squares, pages.largest, pages.most)
        totals.append(Totals(name, int(requests), int(impressions), reward, together))
    chosen = control or settings.control
    read = readout(totals, weights=desk.split.probabilities, control=chosen, sticky=desk.sticky)
    told = read.as_json()
    for row in told["variants"]:
        row["policy"] = desk.variants[row["variant"]]
    steps = held.steps["hour"]
    retired = {name: cell for name, cell in held.totals.items() if name not in desk.variants}
    return told | {
        "title": settings.title,
        "split": settings.split,
        "learning": settings.learning,
        "counting": settings.counting,
        "items": len(desk.ledger.catalogue),
        "since": iso(min(steps) * 3_600_000) if steps else None,
        "events": desk.ledger.seq,
        "former": [{"variant": n, "requests": c[0], "impressions": c[1], "reward": c[2]} for n, c in retired.items()],
    }


def series(
    held: Series, names: list[str], resolution: str, length: int, first: int | None, last: int | None
) -> dict[str, Any]:
    """Totals by step, and the reward gathered up to the end of each."""
    steps = held.steps[resolution]
    wanted = sorted(
        step
        for step in steps
        if (first is None or (step + 1) * length > first) and (last is None or step * length <= last)
    )
    columns: dict[str, dict[str, list[float]]] = {}
    for name in names:
        after = sum(cells[name][2] for step, cells in steps.items() if name in cells and wanted and step >= wanted[0])
        gathered = held.totals.get(name, (0, 0, 0))[2] - after
        column: dict[str, list[float]] = {"requests": [], "impressions": [], "reward": [], "cumulative": []}
        for step in wanted:
            cell = steps[step].get(name, (0, 0, 0))
            gathered += cell[2]
            for what, value in zip(("requests", "impressions", "reward"), cell, strict=True):
                column[what].append(value)
            column["cumulative"].append(gathered)
        columns[name] = column
    return {"resolution": resolution, "steps": [iso(step * length) for step in wanted], "variants": columns}
