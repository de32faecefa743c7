"""``hellinger keys``: make, list and revoke the keys of the service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hellinger.cli._app import JsonFlag, app, console, emit, progress_console
from hellinger.errors import needs_extra

__all__ = ["list_keys", "new", "revoke"]

keys = typer.Typer(help="Make, list and revoke API keys of the service.", no_args_is_help=True)
app.add_typer(keys, name="keys")

_File = Annotated[
    Path,
    typer.Option("--keys-file", envvar="HELLINGER_KEYS_FILE", help="File of keys, the one `hellinger serve` is given."),
]
_DEFAULT = Path("hellinger-keys.toml")


@keys.command()
def new(
    name: Annotated[str, typer.Option(help="Who will use it; shown in logs.")],
    role: Annotated[str, typer.Option(help="What it may do: read, write, or admin.")] = "read",
    keys_file: _File = _DEFAULT,
    json: JsonFlag = False,
) -> None:
    """Make a key and show it, this once: the file keeps only its hash."""
    with needs_extra("serve"):
        from hellinger.serve.keys import new_key
    token, key = new_key(keys_file, name=name, role=role)
    if json:
        emit({"key": token, "name": key.name, "role": key.role, "hash": key.hash, "file": str(keys_file)})
        return
    console.print(token, highlight=False, markup=False, soft_wrap=True)
    progress_console.print(
        f"[dim]Shown this once. Its role is {escape(role)}; its hash is in {escape(str(keys_file))}. Send it as "
        "Authorization: Bearer KEY.[/]",
        highlight=False,
        soft_wrap=True,
    )


@keys.command("list")
def list_keys(
    keys_file: _File = _DEFAULT,
    variable: Annotated[
        bool, typer.Option("--variable", help="Print what HELLINGER_KEYS must hold to do without the file.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """List the keys of a file: name, role and when each was made."""
    with needs_extra("serve"):
        from hellinger.serve.keys import read_keys
    found = read_keys(keys_file)
    if variable:
        text = ",".join(f"{key.name}:{key.role}:{key.hash}" for key in found)
        if json:
            emit({"HELLINGER_KEYS": text})
        else:
            console.print(f"HELLINGER_KEYS={text}", highlight=False, markup=False, soft_wrap=True)
        return
    if json:
        emit({"keys": [{"name": key.name, "role": key.role, "created": key.created} for key in found]})
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("name", "role", "made"):
        table.add_column(column, style="cyan" if column == "name" else None)
    for key in found:
        table.add_row(escape(key.name), key.role, escape(key.created))
    console.print(table if found else f"{escape(str(keys_file))} holds no keys.", highlight=False)


@keys.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The key's name.")],
    keys_file: _File = _DEFAULT,
    json: JsonFlag = False,
) -> None:
    """Revoke a key: a running service refuses it within a second."""
    with needs_extra("serve"):
        from hellinger.serve.keys import revoke_key
    key = revoke_key(keys_file, name)
    if json:
        emit({"revoked": key.name, "role": key.role})
        return
    console.print(f"Revoked [cyan]{escape(key.name)}[/] ({key.role}).", highlight=False)
