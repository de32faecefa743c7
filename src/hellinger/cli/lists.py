"""``hellinger policies`` and ``hellinger families``: what there is."""

from __future__ import annotations

import math
import re

from rich.markup import escape
from rich.table import Table

from hellinger import families, policies
from hellinger._spec import parse_spec
from hellinger.cli._app import JsonFlag, app, console, emit

__all__ = ["list_families", "list_policies"]


@app.command("policies")
def list_policies(json: JsonFlag = False) -> None:
    """List the policies, each with its formula, its arguments and where it comes from."""
    entries = policies.available().values()
    if json:
        emit(
            {
                "policies": [
                    {
                        "policy": entry.name,
                        "summary": entry.summary,
                        "formula": entry.formula,
                        "reference": entry.reference,
                        "parameters": entry.parameters,
                    }
                    for entry in entries
                ]
            }
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold", show_lines=False, padding=(0, 2, 1, 0))
    table.add_column("policy", style="cyan", no_wrap=True)
    table.add_column("what it is")
    table.add_column("arguments")
    for entry in entries:
        given = ", ".join(f"{key}={value}" for key, value in entry.parameters.items() if value is not None)
        open_ = [key for key, value in entry.parameters.items() if value is None]
        text = f"{escape(entry.summary)}\n[green]{escape(entry.formula)}[/]\n[dim]{escape(entry.reference)}[/]"
        table.add_row(entry.name, text, escape(", ".join(filter(None, [given, *open_]))))
    console.print(table)
    console.print("Arguments go in the spec: [cyan]kl-ucb(c=3)[/], [cyan]ucb(ball=kl, level=plus)[/].")


@app.command("families")
def list_families(json: JsonFlag = False) -> None:
    """List the families of rewards, each with its means, its parameters and a reference."""
    found = families.available()
    if json:
        emit(
            {
                "families": [
                    {
                        "family": name,
                        "summary": _summary(family),
                        "reference": family.reference,
                        "parameters": _parameters(family),
                        "mean_bounds": [end if math.isfinite(end) else None for end in family().mean_bounds],
                        "posterior": family.posterior,
                    }
                    for name, family in found.items()
                ]
            }
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0))
    table.add_column("family", style="cyan", no_wrap=True)
    table.add_column("what it is")
    table.add_column("means", no_wrap=True)
    table.add_column("parameters")
    for name, family in found.items():
        low, high = family().mean_bounds
        text = f"{escape(_summary(family))}\n[dim]{escape(family.reference)}[/]"
        parameters = ", ".join(f"{key}={value:g}" for key, value in _parameters(family).items())
        table.add_row(name, text, f"{low:g} … {high:g}", parameters)
    console.print(table)
    console.print("Parameters go in the spec: [cyan]gamma(shape=2)[/].")


def _summary(family: type[families.Family]) -> str:
    """First line of its docstring, without the markup of references."""
    return re.sub(r":class:`(\w+)`", r"\1", (family.__doc__ or "").strip().split("\n")[0])


def _parameters(family: type[families.Family]) -> dict[str, float]:
    """Parameters with their defaults; none where a family fixes those it inherits."""
    return {key: float(str(value)) for key, value in parse_spec(family().spec)[1].items()}
