"""What all commands share: the application, ``--json``, and one line for each error."""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from hellinger.errors import HellingerWarning

__all__ = ["JsonFlag", "app", "console", "emit", "progress_console", "run"]

console = Console()
progress_console = Console(stderr=True)

app = typer.Typer(
    help="Hellinger-UCB and its rivals: exact confidence bounds, simulation and cold-start ranking.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def emit(value: Any) -> None:
    """Print a value as JSON, and nothing else."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def _show_version(wanted: bool) -> None:
    if wanted:
        number = version("hellinger")
        if "--json" in sys.argv:
            emit({"version": number})
        else:
            console.print(f"hellinger {number}", highlight=False)
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop."),
    ] = False,
    _json: Annotated[bool, typer.Option("--json", help="With --version: as JSON.")] = False,
) -> None:
    """Hellinger-UCB and its rivals: exact confidence bounds, simulation and cold-start ranking."""


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    progress_console.print(f"[yellow]warning:[/] {escape(str(message))}", highlight=False)


def _told() -> tuple[type[Exception], ...]:
    """Errors that say by themselves what is wrong; the store's, once it has been imported."""
    store = sys.modules.get("hellinger.store.errors")
    return (ValueError, OSError) if store is None else (ValueError, OSError, store.StoreError)


def run() -> None:
    """Run the application; what the user got wrong is told in one line, with exit status 2."""
    warnings.simplefilter("always", HellingerWarning)
    warnings.showwarning = _show_warning
    try:
        app()
    except _told() as error:
        line = " ".join(str(error).split())
        progress_console.print(f"[red]error:[/] {escape(line)}", highlight=False, soft_wrap=True)
        sys.exit(2)
