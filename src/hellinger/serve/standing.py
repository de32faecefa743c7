"""How the variants of a running service stand, as the routes, the page and the terminal tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from hellinger.engine.service import Service
from hellinger.experiment import Pages, Readout, Totals
from hellinger.experiment.readout import readout_steps
from hellinger.ledger import Ledger, Series, Share
from hellinger.serve.models import iso

__all__ = ["phases", "series", "standing", "totals_of"]


async def standing(service: Service, control: str | None = None) -> dict[str, Any]:
    """The readout of the experiment, with what it is about: all of one moment, computed in slices."""
    desk, settings, plan = service.desk, service.settings, service.plan
    kept = desk.ledger.series
    totals, specs = [], dict(desk.variants)  # they may be others before all is computed
    for name in specs:
        shares = [share for (_, variant), share in kept.shares.items() if variant == name]
        totals.append(totals_of(name, shares))
    steps = kept.steps["hour"]
    former = [
        {"variant": name, "requests": cell[0], "impressions": cell[1], "reward": cell[2]}
        for name, cell in kept.totals.items()
        if name not in specs
    ]
    about = {
        "title": settings.title,
        "split": plan.split,
        "learning": settings.learning,
        "counting": settings.counting,
        "items": len(desk.ledger.catalogue),
        "since": iso(min(steps) * 3_600_000) if steps else None,
        "events": desk.ledger.seq,
        "former": former,
    }
    chosen = control or plan.control or None
    read = await _sliced(readout_steps(totals, weights=desk.split.probabilities, control=chosen, sticky=desk.sticky))
    result = read.as_json()
    for row in result["variants"]:
        row["policy"] = specs[row["variant"]]
    return result | about


def phases(ledger: Ledger) -> list[dict[str, Any]]:
    """The phases of the experiment, with what was ranked in each."""
    found = []
    for phase in ledger.phases:
        seq = phase["seq"]
        requests = {variant: share.requests for (at, variant), share in ledger.series.shares.items() if at == seq}
        plan = {name: phase[name] for name in ("variants", "weights", "split", "control", "by")}
        found.append({"seq": seq, "since": iso(phase["at"]), **plan, "requests": requests})
    return found


def totals_of(variant: str, shares: Sequence[Share]) -> Totals:
    """What a variant had in some phases."""
    if not shares:
        return Totals(variant, 0, 0, 0.0, None)
    return Totals(
        variant,
        sum(share.requests for share in shares),
        int(sum(share.impressions for share in shares)),
        sum(share.reward for share in shares),
        Pages(
            sum(share.count for share in shares),
            sum(share.squares for share in shares),
            max(share.largest for share in shares),
            max(share.most for share in shares),
        ),
    )


async def _sliced(steps: Generator[None, None, Readout]) -> Readout:
    """Let rankings have a turn after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Readout = end.value
            return result
        await asyncio.sleep(0)


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
