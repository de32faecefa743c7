"""``hellinger self-check``: each variant estimated from the others' traffic, and compared with what it earned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import whole
from hellinger.cli.log import DEFAULT, Database, opened
from hellinger.cli.simulate import tracked
from hellinger.errors import needs_extra

__all__ = ["self_check"]


@app.command("self-check")
def self_check(
    database: Database = DEFAULT,
    rankings: Annotated[int, typer.Option(help="How many, the newest of the log.", parser=whole(1))] = 20_000,
    config: Annotated[
        Path | None, typer.Option(envvar="HELLINGER_CONFIG", help="The service's TOML file of settings.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Estimate each variant from the others' traffic, and compare that with what it earned itself.

    The newest rankings of the log are gone through again, as by export --retrace. Where the two do not agree, nothing
    that is estimated from this log can be trusted. It works beside a running service, at a low priority; the service
    answers with the same at GET /v1/experiments/{name}/self-check.

    hellinger self-check --config hellinger.toml
    """
    with needs_extra("serve"):
        from hellinger.engine.settings import Settings
        from hellinger.serve.selfcheck import check_log
    os.nice(10)  # rankings come first
    with (
        keeping("the log was only read"),
        opened(database) as store,
        tracked("events read", quiet=json, compiles=False) as progress,
    ):
        found = check_log(store, Settings.load(config), rankings, progress=progress)
    if json:
        emit(found)
        return
    for row in found["variants"]:
        colour = "red" if row["agrees"] is False else "green"
        console.print(f"[{colour}]self-check:[/] {escape(row['sentence'])}", highlight=False)
    console.print(f"[dim]{escape(found['chances'])}[/]", highlight=False)
