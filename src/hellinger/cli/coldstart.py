"""``hellinger coldstart``: which policy gets the most clicks out of a new pool with little traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import read_whole, whole
from hellinger.cli.simulate import tracked
from hellinger.errors import InputError, needs_extra
from hellinger.lab import coldstart as experiment
from hellinger.lab import coldstart_report as report
from hellinger.world.laws import LAWS

__all__ = ["coldstart"]


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [read_whole(part.strip()) for part in text.split(",")]
    if None in numbers:
        raise InputError(f"`impressions` must be whole numbers with commas between, but got {text!r}")
    return tuple(number for number in numbers if number is not None)


@app.command("coldstart")
def coldstart(
    items: Annotated[int, typer.Option(help="Items in the pool.", parser=whole(most=10**7))] = 10_000,
    impressions: Annotated[str, typer.Option(help="Impressions per item, on average.")] = "10,30,100,300",
    seeds: Annotated[int, typer.Option(help="Repetitions, each with items of its own.", parser=whole(most=10**6))] = 20,
    laws: Annotated[str, typer.Option(help="Laws of the click rates.")] = ",".join(LAWS),
    slots: Annotated[int, typer.Option(help="Slots on a page.", parser=whole())] = 20,
    pages: Annotated[int, typer.Option(help="Pages between two refreshes of the counts.", parser=whole())] = 10,
    arrivals: Annotated[
        int,
        typer.Option(help="New items a day in the settings with arrivals; 0 for none.", parser=whole(most=10**7)),
    ] = 500,
    engine: Annotated[str, typer.Option(help="'local', or 'dask://host:port'.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes of the local engine; all cores if not given.", parser=whole(1, 1024))
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html and results.json. Begun again there, finished runs are kept."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Compare policies on pools of new items: clicks, paired intervals, the oracle, and the limit.

    The oracle knows every click rate. The limit is what no policy can exceed on average that sees impressions and
    clicks alone, even one that knows the law of the rates.
    """
    plan = experiment.ColdStartPlan(
        items=items,
        slots=slots,
        pages=pages,
        impressions=_numbers(impressions),
        seeds=seeds,
        laws=tuple(law.strip() for law in laws.split(",")),
        arrivals=arrivals,
    ).check()
    if out is not None:
        with needs_extra("lab"):  # now, not after the last run
            import matplotlib  # noqa: F401
    where = f"finished runs are in {out}, and the same command goes on from there"
    note = where if out is not None else "nothing was kept: --out FOLDER keeps finished runs, to go on from"
    with keeping(note), tracked("simulating", quiet=json) as progress:
        parts = None if out is None else out / "parts"
        results = experiment.run(plan, engine=engine, workers=workers, progress=progress, resume=parts)
    page = report.write(out, plan, results) if out is not None else None
    if json:
        emit(report.as_json(plan, results))
        return
    comparisons = experiment.compare(results)
    for law, with_arrivals in dict.fromkeys((c.law, c.arrivals) for c in comparisons):
        console.print(_table(law, with_arrivals, comparisons))
    for target in report.targets(results):
        verdict = "[green]met[/]" if target["met"] else "[red]missed[/]"
        console.print(
            f"{target['ratio']:.2f} ({target['low']:.2f} … {target['high']:.2f}) times the clicks of "
            f"{target['policy']}, target {target['target']}: {verdict}",
            highlight=False,
        )
    if page is not None:
        console.print(f"report: {page}", highlight=False)


def _table(law: str, arrivals: bool, comparisons: list[experiment.Comparison]) -> Table:
    here = [c for c in comparisons if (c.law, c.arrivals) == (law, arrivals)]
    table = Table(title=f"\n{report.setting(law, arrivals)}", box=None, header_style="bold", title_justify="left")
    table.add_column("policy", style="cyan", no_wrap=True)
    marks, limited = sorted({c.impressions for c in here}), any(c.of_limit is not None for c in here)
    for mark in marks:
        table.add_column(f"clicks at {mark}", justify="right")
        if limited:
            table.add_column("÷ limit", justify="right")
        table.add_column("ours ÷ this", justify="right")
    for name in dict.fromkeys(c.policy for c in here):
        cells = []
        for c in sorted((c for c in here if c.policy == name), key=lambda c: c.impressions):
            colour = {"ahead": "green", "behind": "red"}.get(c.verdict, "dim")
            colour = "dim" if name in (experiment.OURS, experiment.ORACLE, experiment.LIMIT) else colour
            share = [] if c.of_limit is None else [f"{c.of_limit:.2f}"]
            cells += [f"{c.clicks:,.0f}", *share, f"[{colour}]{c.ratio:.2f} ± {(c.high - c.low) / 2:.2f}[/]"]
        table.add_row(name, *cells)
    return table
