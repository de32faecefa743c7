"""``hellinger evaluate``: what another policy would have earned, from a log."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from hellinger._spec import split_specs
from hellinger.cli._app import JsonFlag, app, console, emit, progress_console
from hellinger.cli._interrupt import discarding, keeping
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
        typer.Option(help="Folder for report.html and results.json. It keeps finished plays and a fetched log too."),
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
    kept = "finished plays" if service is None else "the log, if it was whole, and finished plays"
    where = f"{kept} are in {out}, and the same command goes on from there"
    note = where if out is not None else f"nothing was kept: --out FOLDER keeps {kept}, to go on from"
    with (
        keeping(note),
        _file(log, service, key, out, retrace=variants, quiet=json) as path,
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
def _file(
    log: Path | None, service: str | None, key: str | None, out: Path | None, *, retrace: bool, quiet: bool
) -> Iterator[Path]:
    """The log to evaluate: a file, or what a service has, which is kept in ``out``."""
    if log is not None:
        yield log
        return
    assert service is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder if out is None else out, "log.parquet")
        note = path.with_suffix(".json")
        what = {"service": service, "retrace": retrace}
        kept = _kept(path, note, what)
        if kept:
            progress_console.print(
                f"going on from {path}, fetched {kept}; remove it to fetch the log anew", highlight=False
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            note.unlink(missing_ok=True)
            _fetch(path, service, key, retrace=retrace, quiet=quiet)
            note.write_text(dumps(what | {"fetched": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"}), encoding="utf-8")
        yield path


def _kept(path: Path, note: Path, what: dict[str, object]) -> str:
    """When this very log was fetched; empty where it was not."""
    try:
        found = loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    same = isinstance(found, dict) and {name: found.get(name) for name in what} == what
    return str(found["fetched"]) if same and path.is_file() else ""


def _fetch(path: Path, service: str, key: str | None, *, retrace: bool, quiet: bool) -> None:
    """Fetch a service's log into a file, which appears when it is whole."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    hidden = quiet or not progress_console.is_terminal
    column = TextColumn("fetching the log: {task.fields[size]:.1f} MB")
    with (
        reached(service, key) as client,
        discarding(unfinished),
        Progress(column, SpinnerColumn(), console=progress_console, transient=True, disable=hidden) as bar,
    ):
        task = bar.add_task("", size=0.0)
        client.export_file(unfinished, retrace=retrace, progress=lambda size: bar.update(task, size=size / 1e6))
        if unfinished.stat().st_size == 0:
            raise InputError(f"the service at {service} has no rankings")
        unfinished.replace(path)


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
