"""``hellinger evaluate``: what another policy would have earned, from a log."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hellinger._spec import split_specs
from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import whole
from hellinger.cli._service import reached
from hellinger.cli.simulate import tracked
from hellinger.errors import InputError, needs_extra, require

if TYPE_CHECKING:
    from hellinger.evaluate.study import FixedAnswer, Study

__all__ = ["evaluate"]


@app.command()
def evaluate(
    log: Annotated[
        Path | None,
        typer.Argument(help="The log: an export (.parquet, .jsonl) or an Open Bandit file (.csv).", show_default=False),
    ] = None,
    policies: Annotated[
        str,
        typer.Option(help="Learning policies, separated by commas: 'cold-start, hellinger-ucb(c=0.3)'; or uniform."),
    ] = "",
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="CSV of a fixed policy: item,score (best first) or item,position,chance. May be repeated."),
    ] = None,
    service: Annotated[
        str | None, typer.Option(help="Address of a running service, whose log is fetched instead of a file.")
    ] = None,
    variants: Annotated[
        bool,
        typer.Option(
            "--variants",
            help="Each variant on all traffic, and checked against its own. Of a file made by export --retrace always.",
        ),
    ] = False,
    key: Annotated[str | None, typer.Option(envvar="HELLINGER_KEY", help="API key for the service.")] = None,
    seeds: Annotated[
        int, typer.Option(help="Shuffles that learning policies are played on.", parser=whole(1, 1000))
    ] = 5,
    method: Annotated[
        str, typer.Option(help="How learning policies are played: queue, or replay, which needs propensities.")
    ] = "queue",
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.", parser=whole(0))] = 0,
    clip: Annotated[float, typer.Option(help="Where weights are clipped, or left to the model.")] = 10.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html and results.json. Begun again there, finished plays are kept."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Say what other policies would have earned on a log, and how far that can be trusted.

    A policy that stands still (a table of scores or chances) is estimated by weighting what was logged: several
    estimators side by side, each with its assumption, an interval that holds at all times, the mean weight (1 is
    expected) and the effective sample. Where the log cannot answer, the reason is given instead, and what share of
    random places would help at what price.

    A policy that learns is played on the rewards that the log has of each item, until one has no more (--method
    queue), or on the log in its order, where a row counts if it is the policy's own choice (--method replay).

    hellinger export --format parquet --output log.parquet

    hellinger evaluate log.parquet --policies 'cold-start, hellinger-ucb(c=0.3)' --out report

    hellinger evaluate log.parquet --scores my-model.csv

    hellinger evaluate --service http://127.0.0.1:8000 --scores my-model.csv --json

    hellinger evaluate --service http://127.0.0.1:8000 --variants
    """
    require((log is None) != (service is None), "a log or --service, and not both", log=log, service=service)
    chosen, tables = split_specs(policies), list(scores or ())
    given = bool(chosen or tables or variants)
    require(given, "--policies, --scores or --variants says what to evaluate", policies=policies, scores=tables)
    with needs_extra("lab"):  # now, not after the last play
        import polars  # noqa: F401

        if out is not None:
            import matplotlib  # noqa: F401
        from hellinger.evaluate.report import write_study
        from hellinger.evaluate.study import evaluate_log
    where = f"finished plays are in {out}, and the same command goes on from there"
    note = where if out is not None else "nothing was kept: --out FOLDER keeps finished plays, to go on from"
    with (
        keeping(note),
        _file(log, service, key, retrace=variants) as path,
        tracked("evaluating", quiet=json) as progress,
    ):
        found = evaluate_log(
            path,
            policies=chosen,
            scores=tables,
            seeds=seeds,
            seed=seed,
            method=method,
            cut=clip,
            resume=None if out is None else out / "parts",
            progress=progress,
        )
    page = write_study(out, found) if out is not None else None
    if json:
        emit(found.as_json())
        return
    _show(found)
    if page is not None:
        console.print(f"report: {page}", highlight=False)


@contextmanager
def _file(log: Path | None, service: str | None, key: str | None, *, retrace: bool) -> Iterator[Path]:
    if log is not None:
        yield log
        return
    assert service is not None
    with tempfile.TemporaryDirectory() as folder, reached(service, key) as client:
        path = client.export_file(Path(folder, "service.parquet"), retrace=retrace)
        if path.stat().st_size == 0:
            raise InputError(f"the service at {service} has no rankings")
        yield path


def _show(study: Study) -> None:
    log = study.survey
    console.print(
        f"{log.rankings:,} rankings of {log.items:,} items, {log.reward / log.rankings:.4g} of reward each "
        f"({log.kind})",
        highlight=False,
    )
    for note in study.notes:
        console.print(f"[yellow]note:[/] {escape(note)}", highlight=False)
    for answer in study.fixed:
        _show_fixed(answer)
    for check in study.checks:
        console.print(
            f"[{'red' if check.agrees is False else 'green'}]self-check:[/] {escape(check.sentence)}", highlight=False
        )
    if not study.learned:
        return
    table = Table(title="\nPolicies that learn, played on the log", box=None, header_style="bold", title_justify="left")
    table.add_column("policy", style="cyan", no_wrap=True)
    for name in ("reward an impression", "interval"):
        table.add_column(name, justify="right")
    table.add_column("how far")
    for each in sorted(study.learned, key=lambda each: -each.value):
        table.add_row(each.policy, f"{each.value:.4g}", f"{each.low:.4g} … {each.high:.4g}", each.how_far)
    console.print(table)


def _show_fixed(answer: FixedAnswer) -> None:
    table = Table(title=f"\n{escape(answer.policy)}", box=None, header_style="bold", title_justify="left")
    table.add_column("estimator", style="cyan", no_wrap=True)
    for name in ("value", "interval", "effective sample", "unsupported", "mean weight"):
        table.add_column(name, justify="right")
    for each in answer.estimates:
        table.add_row(
            each.estimator,
            "–" if each.refusal else f"{each.value:.4g}",
            f"{each.low:.4g} … {each.high:.4g}",
            f"{each.effective_sample:,.0f}",
            f"{100 * each.unsupported:.0f} %",
            f"{each.mean_weight:.3f}{'' if each.weights_agree else ' (!)'}",
        )
    console.print(table)
    for each in answer.estimates:
        if each.assumption != "none":
            console.print(f"[dim]{each.estimator} assumes: {escape(each.assumption)}[/]", highlight=False)
    best = answer.best
    console.print("no row has a propensity: nothing can be said" if best is None else best.verdict, highlight=False)
    if answer.disagreement:
        console.print(f"[red]{escape(answer.disagreement)}[/]", highlight=False)
    if answer.advice:
        console.print(f"[dim]to know more: {escape(answer.advice)}[/]", highlight=False)
    if answer.explorations:
        _show_explorations(answer)


def _show_explorations(answer: FixedAnswer) -> None:
    from hellinger.evaluate.forecast import EXPLORED, suggested

    table = Table(box=None, header_style="dim", style="dim")
    for name in EXPLORED:
        table.add_column(name, justify="left" if name in EXPLORED[:2] else "right")
    for each in suggested(answer.explorations):
        table.add_row(*each.cells)
    console.print(table)
