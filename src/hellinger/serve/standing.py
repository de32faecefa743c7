"""How the experiments of a running service stand, as the routes, the page and the terminal tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from hellinger.engine.allocation import Allocation
from hellinger.engine.service import Service
from hellinger.events import now
from hellinger.experiment import Clusters, Pages, Phase, Readout, Totals, display_name
from hellinger.experiment.readout import readout_steps
from hellinger.ledger import MAIN, Ledger, Share, Shares, TimeSeries
from hellinger.serve import sentences
from hellinger.serve.models import iso
from hellinger.serve.shadows import shadows

__all__ = ["experiments", "phases", "played", "series", "standing", "variants"]


async def standing(service: Service, name: str = MAIN, control: str | None = None) -> dict[str, Any]:
    """The readout of an experiment, with what it is about: all of one moment, computed in slices.

    Requests, impressions and reward are all there are. Rates and whatever is computed from them are of rankings whose
    reward is final, the ``settled`` ones.
    """
    desk, settings = service.desk, service.settings
    allocation = service.experiments.allocation(name)
    at, ledger = now(), desk.ledger
    specs = dict(allocation.variants)
    places, counted = played(ledger, name, at)
    guarded = played(ledger, name, at, GUARDED)[1] if allocation.guardrail else []
    if not counted:
        places, counted = [0], [Phase(allocation.weights, tuple(Totals(variant, 0, 0, 0.0) for variant in specs))]
    whole = _whole(ledger, name)
    begun = _phases(ledger, name)
    sticky = any(phase["split"] == "sticky" for phase in begun)
    about = {
        "name": name,
        "state": "ended" if allocation.ended else "running",
        "title": settings.title,
        "split": allocation.split,
        "learning": allocation.learning,
        "counting": settings.counting,
        "placement": allocation.placement or None,
        "traffic": allocation.share,
        "attribution_hours": None if allocation.window is None else allocation.window / 3_600_000,
        "items": len(ledger.catalogue),
        "since": _since(ledger, name),
        "until": iso(begun[-1]["at"]) if allocation.ended else None,
        "events": ledger.seq,
        "phase": begun[-1]["seq"] if begun else 0,
        "former": [
            {"variant": variant, "requests": all_.requests, "impressions": all_.impressions, "reward": all_.reward}
            for variant, all_ in whole.items()
            if variant not in specs
        ],
    }
    chosen = control or allocation.control or list(specs)[-1]
    read = await _sliced(readout_steps(counted, control=chosen, sticky=sticky))
    result = read.as_json()
    settled = sum(row["requests"] for row in result["variants"])
    result["open_requests"] = sum(all_.requests for all_ in whole.values()) - settled
    unknown = sticky and any(each.impressions and each.clusters is None for phase in counted for each in phase.totals)
    on = specs if len(specs) > 1 else {row["variant"] for row in result["variants"]}
    sentences.complete(result, ledger.series, on, window=allocation.window or 0, unknown_users=unknown)
    result["guardrail"] = await _guardrail(guarded, allocation, chosen, sticky=sticky)
    if result["guardrail"] is not None:
        result["sentence"] += "".join(f" {text}" for text in result["guardrail"].pop("alarms"))
    result["next"] = sentences.next_step(result, specs)
    result["shadows"] = shadows(ledger, name, allocation, at)
    check = result["sample_ratio"]
    if check is not None and check["phase"] is not None:
        check["phase"] = places[check["phase"]]
    result["variants"] = [
        _row(row, whole.get(row["variant"]) or Share(), specs[row["variant"]])
        for row in result["variants"]
        if row["variant"] in specs
    ]
    return result | about


def _row(row: dict[str, Any], whole: Share, policy: str) -> dict[str, Any]:
    """A variant's line: all that was counted, and the settled part of it that its rate is of."""
    counts = {f"settled_{what}": row[what] for what in ("requests", "impressions", "reward")}
    every = {"requests": whole.requests, "impressions": int(whole.impressions), "reward": whole.reward}
    return row | every | counts | {"policy": policy}


async def _guardrail(
    played: list[Phase], allocation: Allocation, control: str, *, sticky: bool
) -> dict[str, Any] | None:
    """How often feedback of the guardrail's kind came, and where it is more frequent than under the control."""
    if not allocation.guardrail:
        return None
    others = max(1, len(allocation.variants) - 1)
    rows: list[dict[str, Any]] = []
    if played:
        # an alarm for any of the others is as rare as one interval's miss
        read = await _sliced(readout_steps(played, control=control, alpha=0.05 / others, sticky=sticky))
        fields = ("variant", "rate", "low", "high", "lift", "lift_low", "lift_high")
        rows = [
            {name: getattr(row, name) for name in fields}
            | {"count": row.reward, "alarm": row.lift_low is not None and row.lift_low > 0.0}
            for row in read.variants
            if row.variant in allocation.variants
        ]
    alarms = [
        f"Guardrail: {allocation.guardrail} is more frequent under {display_name(row['variant'])} than under "
        f"{display_name(control)}, by at least {100 * row['lift_low']:.2g} %."
        for row in rows
        if row["alarm"]
    ]
    return {"kind": allocation.guardrail, "variants": rows, "alarm": bool(alarms), "alarms": alarms}


def experiments(service: Service) -> list[dict[str, Any]]:
    """All experiments, the main one first, ended ones too."""
    found, ledger = [], service.desk.ledger
    for name in service.experiments.names:
        allocation = service.experiments.allocation(name)
        begun = _phases(ledger, name)
        found.append(
            {
                "name": name,
                "state": "ended" if allocation.ended else "running",
                "since": _since(ledger, name) or (iso(begun[0]["at"]) if begun else None),
                "until": iso(begun[-1]["at"]) if allocation.ended else None,
                "placement": allocation.placement or None,
                "traffic": allocation.share,
                "variants": allocation.variants,
                "weights": allocation.weights,
                "split": allocation.split,
                "control": allocation.control,
                "learning": allocation.learning,
                "guardrail": allocation.guardrail or None,
                "shadows": allocation.shadows,
                "phase": begun[-1]["seq"] if begun else 0,
                "phases": len(begun),
                "requests": sum(share.requests for share in _whole(ledger, name).values()),
            }
        )
    return found


def variants(service: Service, name: str = MAIN) -> list[str]:
    """Variants of an experiment, those that have stopped last; the main one has all that were never in another."""
    ledger = service.desk.ledger
    found = dict.fromkeys(service.experiments.allocation(name).variants)
    found |= dict.fromkeys(variant for phase in _phases(ledger, name) for variant in phase["variants"])
    if name == MAIN:
        elsewhere = {variant for phase in ledger.phases if phase["name"] != MAIN for variant in phase["variants"]}
        found |= dict.fromkeys(variant for variant in ledger.series.totals if variant not in elsewhere)
    return list(found)


def phases(ledger: Ledger, name: str = MAIN) -> list[dict[str, Any]]:
    """The phases of an experiment, with what was ranked in each."""
    found = []
    for phase in _phases(ledger, name):
        seq = phase["seq"]
        requests = {variant: shares.requests for (at, variant), shares in ledger.series.shares.items() if at == seq}
        allocation = Allocation.of(phase)
        names = ("variants", "weights", "split", "control", "guardrail", "ended", "shadows")
        fields = {field: getattr(allocation, field) for field in names}
        about = {"by": phase["by"], "why": phase.get("why", ""), "traffic": allocation.share}
        found.append({"seq": seq, "since": iso(phase["at"]), **about, **fields, "requests": requests})
    return found


def _phases(ledger: Ledger, name: str) -> list[dict[str, Any]]:
    return [phase for phase in ledger.phases if phase["name"] == name]


def _places(ledger: Ledger, name: str) -> list[tuple[int, dict[str, float]]]:
    """The experiment's phases that have traffic: place and weights; first what belongs to none, which is the main's."""
    found = [(phase["seq"], phase["weights"]) for phase in _phases(ledger, name) if not phase.get("ended")]
    outside = [variant for phase, variant in ledger.series.shares if phase == 0]
    return [(0, dict.fromkeys(outside, 1.0)), *found] if outside and name == MAIN else found


def _whole(ledger: Ledger, name: str) -> dict[str, Share]:
    """All that each variant of an experiment has counted."""
    total: dict[str, Share] = {}
    for place, weights in _places(ledger, name):
        for variant in weights:
            shares = ledger.series.shares.get((place, variant))
            if shares is not None:
                total.setdefault(variant, Share()).add(shares.whole())
    return total


def _since(ledger: Ledger, name: str) -> str | None:
    if name != MAIN:
        return iso(_phases(ledger, name)[0]["at"])
    steps = ledger.series.steps["hour"]
    return iso(min(steps) * 3_600_000) if steps else None


class _Metric(NamedTuple):
    """What is compared: the sum, its pages, and its row in the buckets of users."""

    total: Callable[[Share], float]
    pages: Callable[[Share], Pages]
    row: int


REWARD = _Metric(lambda x: x.reward, lambda x: Pages(x.units, x.squares, x.largest, x.most), 1)
GUARDED = _Metric(lambda x: x.guarded, lambda x: Pages(x.units, x.guarded_squares, x.largest, x.guarded_most), 2)


def played(ledger: Ledger, name: str, at: int, metric: _Metric = REWARD) -> tuple[list[int], list[Phase]]:
    """What each phase of an experiment has counted that is final, and its place; none has no known weights."""
    places, found = [], []
    for place, weights in _places(ledger, name):
        totals = []
        for variant in weights:
            shares = ledger.series.shares.get((place, variant), Shares(None))
            share, drawn = shares.settled(at), shares.requests if place else 0
            clusters, users = None, None
            if share.buckets is not None:
                clusters = Clusters(share.buckets[0], share.buckets[metric.row])
                users = ledger.series.users[name].counts.get((place, variant), 0)
            counts = share.requests, int(share.impressions), metric.total(share)
            totals.append(Totals(variant, *counts, metric.pages(share), users, clusters, drawn))
        places.append(place)
        found.append(Phase(weights, tuple(totals)))
    return places, found


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
    series: TimeSeries, names: list[str], resolution: str, length: int, first: int | None, last: int | None
) -> dict[str, Any]:
    """Totals by step, and the reward gathered up to the end of each."""
    steps = series.steps[resolution]
    wanted = sorted(
        step
        for step in steps
        if (first is None or (step + 1) * length > first) and (last is None or step * length <= last)
    )
    columns: dict[str, dict[str, list[float]]] = {}
    for name in names:
        after = sum(cells[name][2] for step, cells in steps.items() if name in cells and wanted and step >= wanted[0])
        gathered = series.totals.get(name, (0, 0, 0))[2] - after
        column: dict[str, list[float]] = {"requests": [], "impressions": [], "reward": [], "cumulative": []}
        for step in wanted:
            cell = steps[step].get(name, (0, 0, 0))
            gathered += cell[2]
            for what, value in zip(("requests", "impressions", "reward"), cell, strict=True):
                column[what].append(value)
            column["cumulative"].append(gathered)
        columns[name] = column
    return {"resolution": resolution, "steps": [iso(step * length) for step in wanted], "variants": columns}
