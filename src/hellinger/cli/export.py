"""``hellinger export``: the log as rows, for evaluation offline."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from hellinger.cli._app import app, progress_console
from hellinger.cli._interrupt import discarding, keeping
from hellinger.cli.log import DEFAULT, Database, opened
from hellinger.cli.simulate import tracked
from hellinger.errors import InputError, needs_extra, require

if TYPE_CHECKING:
    from hellinger.evaluate.retrace import Retrace
    from hellinger.serve.export import Format
    from hellinger.store import Store

__all__ = ["export"]


@app.command()
def export(
    database: Database = DEFAULT,
    form: Annotated[str, typer.Option("--format", help="jsonl: one JSON object a line; parquet: one file.")] = "jsonl",
    since: Annotated[str | None, typer.Option(help="Only rankings from this time on: 2026-01-31T12:00:00Z.")] = None,
    until: Annotated[str | None, typer.Option(help="Only rankings before this time.")] = None,
    contexts: Annotated[bool, typer.Option(help="Whether rows have the context of their ranking.")] = True,
    retrace: Annotated[
        bool,
        typer.Option(
            "--retrace",
            help="Go through the whole log again for the chance of each place by every variant.",
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(envvar="HELLINGER_CONFIG", help="With --retrace: the service's TOML file of settings."),
    ] = None,
    output: Annotated[str, typer.Option(help="File to write; - for standard output.")] = "-",
) -> None:
    """Write what was shown and what came of it: a row for each item of each ranking.

    A row has the ranking (ranking_id, at, variant, policy, user, segment, context), the item with its position, score
    and propensity, and whether it was seen, its reward and the kinds of feedback that came in time.

    It works beside a running service, at a low priority, and with little memory however long the log is. GET
    /v1/export gives the same rows. A file appears under its name only when it is whole.

    With --retrace rows have what no ranking has time for: the chances of policies that draw, as Thompson sampling,
    and the chance over all variants that shared the traffic. The log is folded as the service did, by its settings
    (--config, or the environment), and what comes out is compared with what was logged.

    hellinger export --format parquet --since 2026-01-01 --output january.parquet

    hellinger export | jq -c 'select(.reward > 0) | [.item, .position]'
    """
    require(form in ("jsonl", "parquet"), "format is jsonl or parquet", format=form)
    with needs_extra("serve"):
        from hellinger.serve.export import write
    first, last = _time("since", since), _time("until", until)
    chosen: Format = "parquet" if form == "parquet" else "jsonl"
    os.nice(10)  # rankings come first
    note = "no file was written" if output != "-" else "what was printed ends in the middle"
    with (
        keeping(f"{note}; the log was only read"),
        opened(database) as store,
        tracked("events read", compiles=False) as progress,
        _target(output, form) as out,
    ):
        again = _retraced(store, config) if retrace else None
        write(store, chosen, first, last, out, contexts=contexts, retrace=again, progress=progress)
    if again is not None:
        progress_console.print(again.says, highlight=False)


def _retraced(store: Store, config: Path | None) -> Retrace:
    """A desk of the fold of the log before its first event, by the service's settings."""
    from hellinger.engine.service import make_desk
    from hellinger.engine.settings import Settings
    from hellinger.evaluate.retrace import Retrace
    from hellinger.ledger import recovery

    settings = Settings.load(config)
    ledger = recovery.recover(store, base=True, cache=settings.request_cache)
    return Retrace(make_desk(settings, ledger, store.secret()), store.thread)


def _time(name: str, text: str | None) -> int | None:
    """A time in milliseconds since 1970, in any form that the service takes."""
    if text is None:
        return None
    from datetime import datetime

    from pydantic import TypeAdapter, ValidationError

    from hellinger.serve.models import milliseconds

    try:
        return milliseconds(TypeAdapter(datetime).validate_python(text))
    except ValidationError:
        raise InputError(f"`{name}` must be a time as in 2026-01-31T12:00:00Z, but got {text!r}") from None


@contextmanager
def _target(output: str, form: str) -> Iterator[IO[bytes]]:
    if output == "-":
        terminal = form == "parquet" and sys.stdout.isatty()
        require(not terminal, "parquet goes to a file or a pipe, not to a terminal: name one with --output", output="-")
        try:
            yield sys.stdout.buffer
        except BrokenPipeError:  # as `head` leaves it: the reader has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        return
    path = Path(output)
    unfinished = path.with_name(f"{path.name}.unfinished")
    with discarding(unfinished):
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
