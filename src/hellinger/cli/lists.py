"""``hellinger policies`` and ``hellinger families``: what there is."""

from __future__ import annotations

import math
import re

from rich.markup import escape
from rich.table import Table

from hellinger import families, policies
from hellinger._spec import parse_spec
from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.policies.forgetting import forgets_by

__all__ = ["list_families", "list_policies"]


@app.command("policies")
def list_policies(json: JsonFlag = False) -> None:
    """List the policies, each with its formula, its arguments and where it comes from; and the filters.

    It says which arguments by which a policy forgets each takes, and which policies are not for pools and the service.
    """
    entries = policies.available().values()
    rules = {entry.name: _rule(entry) for entry in entries}
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
                        "forgets_by": _forgets_by(rules[entry.name]),
                        "pool": _pooled(rules[entry.name]),
                    }
                    for entry in entries
                ],
                "filters": [
                    {"filter": name, "summary": summary, "parameters": parameters}
                    for name, (summary, parameters) in _filters().items()
                ],
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
        if _pooled(rules[entry.name]) is False:
            text += "\n[yellow]not for pools[/]"
        words = ", ".join(filter(None, [given, *open_, *_forgets_by(rules[entry.name])]))
        table.add_row(entry.name, text, escape(words))
    console.print(table)
    console.print("Arguments go in the spec: [cyan]kl-ucb(c=3)[/], [cyan]ucb(ball=kl, level=plus)[/].")
    console.print(
        "One of [cyan]window=500[/] (the last plays count), [cyan]discount=0.99[/] (older plays count less) and "
        "[cyan]detect=0.05[/] (an arm is forgotten when its rewards have changed) lets a policy forget, where it is "
        "listed. With it a policy is not for pools: a pool has its own window and half_life."
    )
    console.print(
        "What is [yellow]not for pools[/] is not for the service either: it is played by Bandit and by "
        "[cyan]hellinger simulate[/]. All others rank both, those with an open horizon once it is given.\n"
    )
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0))
    table.add_column("filter", style="cyan", no_wrap=True)
    table.add_column("what it is")
    table.add_column("arguments")
    for name, (summary, parameters) in _filters().items():
        table.add_row(name, escape(summary), escape(", ".join(f"{key}={value}" for key, value in parameters.items())))
    console.print(table)
    console.print("Filters play problems with people and items: [cyan]hellinger simulate --problem coat[/].")


def _rule(entry: policies.Entry) -> policies.Rule | None:
    """The policy's rule for clicks, by its defaults; None where it needs an argument or other rewards."""
    try:
        return policies.policy(entry.name).rule
    except ValueError:
        return None


def _forgets_by(rule: policies.Rule | None) -> list[str]:
    return [] if rule is None else forgets_by(rule)


def _pooled(rule: policies.Rule | None) -> bool | None:
    return None if rule is None else rule.pooled


def _filters() -> dict[str, tuple[str, dict[str, object]]]:
    """Summary and arguments of what plays contextual problems beside policies, by name."""
    from hellinger.lab.contextual import CHOOSER
    from hellinger.lab.filtering import FILTERS, ModelChooser, filter_parameters

    found: dict[str, tuple[str, dict[str, object]]] = {
        name: (_first_line(kind), {key: one.default for key, one in filter_parameters(kind).items()})
        for name, kind in sorted(FILTERS.items())
    }
    return {CHOOSER: (_first_line(ModelChooser), {"models": "(…, …)", "policy": "hellinger-ucb"}), **found}


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


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
