"""``hellinger identify``: how many samples it takes to know the best arms, and how often the answer is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hellinger import theory
from hellinger._spec import split_specs
from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import whole
from hellinger.cli.simulate import tracked
from hellinger.errors import needs_extra
from hellinger.lab import identification as experiment
from hellinger.lab.problem import Problem

__all__ = ["identify"]


@app.command()
def identify(
    means: Annotated[
        str, typer.Option(help="True means: '0.5,0.4', a law 'beta(1.6,100)x20', or a file.")
    ] = "0.3,0.21,0.2,0.19,0.18",
    best: Annotated[int, typer.Option(help="How many arms are wanted.", parser=whole(1))] = 1,
    delta: Annotated[
        float | None,
        typer.Option(help=f"Probability with which the answer may be wrong; {experiment.DELTA} if not given."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="An arm so much below the best is good enough.")] = 0.0,
    balls: Annotated[
        str | None, typer.Option(help="Confidence intervals: kl, hellinger, gaussian; all three if not given.")
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(help="Their widths: beta, mixture, kl-lucb, lucb1. The tightest that holds if not given."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Instead of delta, balls and rates: samples of a run, by accepts and rejects.", parser=whole(1)
        ),
    ] = None,
    family: Annotated[str, typer.Option(help="What rewards are.")] = "bernoulli",
    runs: Annotated[int, typer.Option(help="Repetitions.", parser=whole(1, 10**7))] = 1000,
    seed: Annotated[int, typer.Option(help="Makes everything reproducible.", parser=whole(0))] = 0,
    most: Annotated[int, typer.Option(help="Samples after which a run is given up.", parser=whole(1))] = 10_000_000,
    engine: Annotated[str, typer.Option(help="'local', or 'dask://host:port'.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Threads of the local engine; all cores if not given.", parser=whole(1, 1024))
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the table: a .png, .svg or .pdf file.")] = None,
    json: JsonFlag = False,
) -> None:
    """Identify the best arms many times: samples and wrong answers of each method, and the fewest samples possible."""
    if plot is not None:
        with needs_extra("lab"):  # now, not after the last run
            import matplotlib  # noqa: F401
    with keeping("nothing was kept"), tracked("identifying", quiet=json) as progress:
        results = experiment.identify(
            means,
            best=best,
            delta=delta,
            epsilon=epsilon,
            balls=None if balls is None else split_specs(balls),
            rates=None if rates is None else split_specs(rates),
            budget=budget,
            family=family,
            runs=runs,
            seed=seed,
            most=most,
            engine=engine,
            workers=workers,
            progress=progress,
        )
    lower, sure = None, experiment.DELTA if delta is None else delta
    if budget is None and epsilon == 0.0:
        problem = Problem.make(means, family, seed=seed)
        lower = theory.least_samples(problem.means, best=best, delta=sure, family=problem.family)
    if plot is not None:
        from hellinger import figures

        figures.save(experiment.plot(results, lower=lower), plot)
    if json:
        emit({"lower_bound": lower, "methods": [result._asdict() for result in results]})
        return
    table = Table(box=None, header_style="bold")
    table.add_column("method", style="cyan", no_wrap=True)
    for column in ("samples", "± 95 %", "÷ lower bound", "wrong", "unfinished"):
        table.add_column(column, justify="right")
    for r in results:
        ratio = "" if lower is None else f"{r.samples / lower:.2f}"
        width = "" if r.runs == 1 else f"{1.96 * r.error:,.0f}"
        wrong = f"{r.wrong:,} of {r.runs:,}"
        table.add_row(r.method, f"{r.samples:,.0f}", width, ratio, wrong, f"{r.unfinished:,}" if r.unfinished else "")
    console.print(table)
    if lower is not None:
        console.print(f"no method with confidence {1 - sure:g} needs fewer than {lower:,.0f} samples", highlight=False)
