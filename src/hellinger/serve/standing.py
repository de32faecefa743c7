"""How the variants of a running service stand, as the routes, the page and the terminal tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from hellinger.engine.service import Service
from hellinger.experiment import Pages, Phase, Readout, Totals
from hellinger.experiment.readout import readout_steps
from hellinger.ledger import Ledger, Series
from hellinger.serve.models import iso

__all__ = ["phases", "series", "standing"]


STICKY = (
    "Users keep their variant, but their rankings are taken for independent: "
    "the intervals are too narrow where users differ."
)
"""What has to be said of a sticky split."""


async def standing(service: Service, control: str | None = None) -> dict[str, Any]:
    """The readout of the experiment, with what it is about: all of one moment, computed in slices."""
    desk, settings, allocation = service.desk, service.settings, service.allocation
    kept = desk.ledger.series
    specs = dict(desk.variants)  # they may be others before all is computed
    places, played = _played(desk.ledger)
    if not played:
        places, played = [0], [Phase(allocation.weights, tuple(Totals(name, 0, 0, 0.0) for name in specs))]
    sticky = any(phase["split"] == "sticky" for phase in desk.ledger.phases)
    steps = kept.steps["hour"]
    former = [
        {"variant": name, "requests": cell[0], "impressions": cell[1], "reward": cell[2]}
        for name, cell in kept.totals.items()
        if name not in specs
    ]
    about = {
        "title": settings.title,
        "split": allocation.split,
        "learning": settings.learning,
        "counting": settings.counting,
        "items": len(desk.ledger.catalogue),
        "since": iso(min(steps) * 3_600_000) if steps else None,
        "events": desk.ledger.seq,
        "former": former,
    }
    chosen = control or allocation.control or None
    result = (await _sliced(readout_steps(played, control=chosen, sticky=sticky))).as_json()
    if sticky and result["verdict"] in ("order", "leader", "open"):
        result["sentence"] += " " + STICKY
    check = result["sample_ratio"]
    if check is not None and check["phase"] is not None:
        check["phase"] = places[check["phase"]]
    result["variants"] = [
        row | {"policy": specs[row["variant"]]} for row in result["variants"] if row["variant"] in specs
    ]
    return result | about


def phases(ledger: Ledger) -> list[dict[str, Any]]:
    """The phases of the experiment, with what was ranked in each."""
    found = []
    for phase in ledger.phases:
        seq = phase["seq"]
        requests = {variant: share.requests for (at, variant), share in ledger.series.shares.items() if at == seq}
        allocation = {name: phase[name] for name in ("variants", "weights", "split", "control", "by")}
        found.append({"seq": seq, "since": iso(phase["at"]), **allocation, "requests": requests})
    return found


def _played(ledger: Ledger) -> tuple[list[int], list[Phase]]:
    """What each phase of the log has counted, and its place; first what belongs to none, whose weights are unknown."""
    places, found = [], []
    outside = [variant for phase, variant in ledger.series.shares if phase == 0]
    if outside:
        counts = tuple(_totals(ledger, 0, name)._replace(assigned=0) for name in outside)
        places.append(0)
        found.append(Phase(dict.fromkeys(outside, 1.0), counts))
    for phase in ledger.phases:
        places.append(phase["seq"])
        found.append(Phase(phase["weights"], tuple(_totals(ledger, phase["seq"], name) for name in phase["variants"])))
    return places, found


def _totals(ledger: Ledger, phase: int, variant: str) -> Totals:
    share = ledger.series.shares.get((phase, variant))
    if share is None:
        return Totals(variant, 0, 0, 0.0)
    pages = Pages(share.count, share.squares, share.largest, share.most)
    return Totals(variant, share.requests, int(share.impressions), share.reward, pages)


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
