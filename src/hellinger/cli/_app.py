"""What all commands share: the application, ``--json``, and one line for each error."""

from __future__ import annotations

import inspect
import json
import multiprocessing
import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from hellinger.cli._interrupt import prompt_interrupts
from hellinger.errors import HellingerError, HellingerWarning

__all__ = ["JsonFlag", "app", "console", "emit", "flow_help", "progress_console", "run"]

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


def flow_help(commands: typer.Typer = app) -> None:
    """Let paragraphs of help fill the terminal's width, where Typer breaks lines as the source does.

    Paragraphs with indented lines, and lists of one sentence a line, stay as they are.
    """
    for command in commands.registered_commands:
        if command.callback is not None and command.help is None:
            paragraphs = inspect.cleandoc(command.callback.__doc__ or "").split("\n\n")
            command.help = "\n\n".join(map(_flowed, paragraphs))
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            flow_help(group.typer_instance)


def _flowed(paragraph: str) -> str:
    lines = paragraph.splitlines()
    keep = any(line[:1].isspace() or line.startswith("---") for line in lines) or all(
        line.endswith(".") for line in lines
    )
    return paragraph if keep else " ".join(lines)


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


def _show_compiling() -> None:
    """Say once that something is compiled, at the first kernel that the cache on disk does not have."""
    event = import_module("numba.core.event")  # no import statement: this room compiles nothing itself

    class Notice(event.Listener):  # type: ignore[misc, name-defined]
        def on_start(self, _event: Any) -> None:
            event.unregister("numba:compile", self)
            if multiprocessing.current_process().name.rpartition("-")[2] not in ("MainProcess", "1"):
                return  # the first of several says it for all
            progress_console.print(
                "compiling for this machine, once: up to a minute", style="dim", highlight=False, soft_wrap=True
            )

        def on_end(self, _event: Any) -> None: ...

    event.register("numba:compile", Notice())


def _message(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"no such file: {error.filename}"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return " ".join(str(error).split())


def run() -> None:
    """Run the application; a mistake of the user is reported in one line, with exit status 2."""
    warnings.simplefilter("always", HellingerWarning)
    warnings.showwarning = _show_warning
    _show_compiling()
    try:
        with prompt_interrupts():
            app()
    except MemoryError:
        line = "this takes more memory than the machine has: ask for less at once"
    except (HellingerError, ValueError, OSError) as error:
        line = _message(error)
    else:
        return
    progress_console.print(f"[red]error:[/] {escape(line)}", highlight=False, soft_wrap=True)
    sys.exit(2)
