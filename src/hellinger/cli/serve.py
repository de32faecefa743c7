"""``hellinger serve``: the service, with a flag for each of its settings."""

from __future__ import annotations

import inspect
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from hellinger.cli._app import JsonFlag, app, emit
from hellinger.cli._numbers import read_whole
from hellinger.errors import needs_extra

if TYPE_CHECKING:
    from hellinger.engine.settings import Settings

__all__ = ["serve"]


class _ServeCommand(TyperCommand):
    """A command with an option for each field of ``Settings``, made when it is called for and not before."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own options, then one for each setting."""
        *own, about = super().get_params(ctx)
        return [*own, *_options(), about]

    def invoke(self, ctx: Any) -> Any:
        """Put the settings that were given where the function finds them."""
        names = [option.name for option in _options()]
        given = {name: ctx.params.pop(name, None) for name in names}
        ctx.obj = {name: _plain(name, value) for name, value in given.items() if value is not None}
        return super().invoke(ctx)


def _plain(name: str, value: Any) -> Any:
    """A whole number written as 1e6 in plain digits, where the setting is one."""
    from hellinger.engine.settings import Settings

    number = read_whole(value) if Settings.model_fields[name].annotation is int else None
    return value if number is None else str(number)


@cache
def _options() -> list[Any]:
    """Let typer make options as it does from a function, from one whose parameters are the settings."""
    with needs_extra("serve"):
        from hellinger.engine.settings import Settings, group_of

    def settings() -> None: ...

    parameters = []
    for name, field in Settings.model_fields.items():
        is_flag = field.annotation is bool
        flag = name.replace("_", "-")
        option = typer.Option(
            f"--{flag}/--no-{flag}" if is_flag else f"--{flag}",
            help=f"{field.description} [dim]{_default(Settings, name)}[/]",
            rich_help_panel=group_of(field),
            metavar=None if is_flag else _metavar(str(field.annotation)),
            show_default=False,
        )
        kind: Any = Annotated[bool | None, option] if is_flag else Annotated[str | None, option]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    settings.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    helper = typer.Typer(add_completion=False)
    helper.command(add_help_option=False)(settings)
    return list(typer.main.get_command(helper).params)


def _default(settings: type[Settings], name: str) -> str:
    default = settings.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, dict):
        default = ", ".join(default)
    return f"(default: {default})" if default not in (None, "") else ""


def _metavar(annotation: str) -> str:
    for word, shown in (
        ("Literal", "WORD"),
        ("dict", "TABLE"),
        ("Path", "FILE"),
        ("float", "NUMBER"),
        ("int", "NUMBER"),
    ):
        if word in annotation:
            return shown
    return "TEXT"


@app.command("serve", cls=_ServeCommand)
def serve(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(envvar="HELLINGER_CONFIG", help="TOML file of settings.")] = None,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print every setting, its value and where it is from, and stop.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Serve rankings over HTTP, and learn from what becomes of them.

    Settings come from a TOML file, then from the environment (HELLINGER_PORT for --port), then from flags; the
    later wins. What --show-config prints is such a file.
    """
    with needs_extra("serve"):
        from hellinger.engine.settings import Settings
        from hellinger.serve.keys import Keys, check_binding
        from hellinger.serve.run import run
        from hellinger.serve.workers import supervise
    settings = Settings.load(config, flags=context.obj)
    if show_config:
        if json:
            emit({"settings": [shown._asdict() for shown in settings.show()]})
        else:
            sys.stdout.write(settings.as_toml())
        return
    keys = Keys.load(settings)
    check_binding(settings, keys)
    if settings.workers > 1:
        supervise(settings, keys)
        return
    run(settings, lambda: import_module("hellinger.serve.app").create_app(settings, keys))
