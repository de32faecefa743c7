"""``hellinger experiment``: how the variants of a running service stand, and how traffic is shared between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hellinger.cli._app import JsonFlag, app, console, emit

if TYPE_CHECKING:
    from hellinger.client import Phase

__all__ = ["add", "experiment_table", "list_phases", "promote", "ramp", "show", "stop"]

experiment = typer.Typer(help="Look at the experiment of a running service, and change it.", no_args_is_help=True)
app.add_typer(experiment, name="experiment")

_Url = Annotated[str, typer.Option(envvar="HELLINGER_URL", help="Address of the service.")]
_HERE = "http://127.0.0.1:8000"
_Reader = Annotated[str | None, typer.Option(envvar="HELLINGER_KEY", help="A key that may read.")]
_Admin = Annotated[str | None, typer.Option(envvar="HELLINGER_KEY", help="A key with the role admin.")]


@experiment.command()
def show(
    url: Annotated[str, typer.Argument(envvar="HELLINGER_URL", help="Address of the service.")] = _HERE,
    key: _Reader = None,
    control: Annotated[str | None, typer.Option(help="Variant the others are compared with.")] = None,
    watch: Annotated[float, typer.Option(help="Ask again every so many seconds, until Ctrl-C.", min=0)] = 0.0,
    json: JsonFlag = False,
) -> None:
    """Print how the algorithms that share the traffic stand: what the service's page says, in words and figures.

    Intervals hold at every moment together, with 95 % confidence: look as often as you like.
    """
    from hellinger.client import Client

    with Client(url, key=key) as client:
        told = client.experiment(control=control).told
        if json:
            emit(told)
            return
        console.print(experiment_table(told))
        if watch:
            with Live(console=console, transient=False) as live:
                try:
                    while True:
                        live.update(experiment_table(client.experiment(control=control).told))
                        time.sleep(watch)
                except KeyboardInterrupt:
                    return


@experiment.command("list")
def list_phases(url: _Url = _HERE, key: _Reader = None, json: JsonFlag = False) -> None:
    """List the phases: times in which weights and variants stayed the same. The last is in force."""
    from hellinger.client import Client

    with Client(url, key=key) as client:
        _tell(client.phases(), json)


@experiment.command()
def ramp(
    weights: Annotated[str, typer.Argument(help="As in 'cold-start=9, ucb1=1'; variants left out stop.")],
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Give every variant its weight from now on, on all copies of the service; what was learned stays."""
    from hellinger.client import Client

    with Client(url, key=key) as client:
        _tell(client.change_experiment(weights=_weights(weights)), json)


@experiment.command()
def add(
    variant: Annotated[str, typer.Argument(help="Name of the new variant, or of one that gets another policy.")],
    policy: Annotated[
        str, typer.Argument(help="Its policy, as in 'hellinger-ucb(c=0.3)'; its name if not given.")
    ] = "",
    weight: Annotated[float, typer.Option(help="Its weight, beside those of the others.", min=0)] = 1.0,
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Add a variant to the traffic."""
    asked = {variant: policy or variant}
    _change(url, key, json, lambda phase: phase.weights | {variant: weight}, variants=asked)


@experiment.command()
def stop(
    variant: Annotated[str, typer.Argument(help="The variant that is to have no more traffic.")],
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Stop a variant: the others share its traffic by their weights."""

    def others(phase: Phase) -> dict[str, float]:
        _require_known(variant, phase)
        return {name: weight for name, weight in phase.weights.items() if name != variant}

    _change(url, key, json, others)


@experiment.command()
def promote(
    variant: Annotated[str, typer.Argument(help="The variant that is to have all traffic.")],
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Give a variant all traffic: the experiment is decided."""

    def alone(phase: Phase) -> dict[str, float]:
        _require_known(variant, phase)
        return {variant: 1.0}

    _change(url, key, json, alone)


def _change(
    url: str,
    key: str | None,
    json: bool,
    weights: Callable[[Phase], dict[str, float]],
    variants: dict[str, str] | None = None,
) -> None:
    """Change the phase in force, and none that somebody else begins meanwhile."""
    from hellinger.client import Client

    with Client(url, key=key) as client:
        phase = client.phases()[-1]
        _tell(client.change_experiment(variants=variants, weights=weights(phase), after=phase.seq), json)


def _weights(text: str) -> dict[str, float]:
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    try:
        return {name.strip(): float(weight) for name, _, weight in pairs}
    except ValueError:
        raise typer.BadParameter(f"weights are written as in 'cold-start=9, ucb1=1', but got {text!r}") from None


def _require_known(variant: str, phase: Phase) -> None:
    if variant not in phase.variants:
        raise typer.BadParameter(f"the variant must be one of {', '.join(phase.variants)}, but got {variant!r}")


def _tell(phases: Sequence[Phase], json: bool) -> None:
    if json:
        emit({"phases": [asdict(phase) for phase in phases]})
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("since", "by", "variants and their shares", "rankings"):
        table.add_column(name, justify="right" if name == "rankings" else "left", no_wrap=name == "since")
    for phase in phases:
        whole = sum(phase.weights.values())
        shares = ", ".join(f"{name} {phase.weights[name] / whole:.1%}" for name in phase.variants)
        table.add_row(phase.since, phase.by, f"{shares} ({phase.split})", f"{sum(phase.requests.values()):,}")
    console.print(table)


def experiment_table(told: Mapping[str, Any]) -> Group:
    """The leaderboard as the terminal shows it."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("variant", style="cyan", no_wrap=True)
    wide, several = console.width >= 100, len(told["variants"]) > 1
    names = [*(["requests"] if wide else []), "impressions", "reward", "rate", "95 % interval"]
    for name in names + ([f"over {told['control']}", "best"] if several else []):
        table.add_column(name, justify="right")
    for row in told["variants"]:
        table.add_row(
            row["variant"],
            *([f"{row['requests']:,}"] if wide else []),
            f"{row['impressions']:,}",
            f"{row['reward']:,.10g}",
            "–" if row["rate"] is None else f"{row['rate']:.3%}",
            f"{row['low']:.3%} … {row['high']:.3%}",
            *([_lift(row), f"{row['probability_best']:.1%}"] if several else []),
        )
    lines: list[Any] = [Text(told["sentence"], style="bold"), Text(), table]
    check = told["sample_ratio"]
    if check is not None and check["alarm"]:
        lines += [
            Text(),
            Text(f"The split is off: {check['worst']} has {check['share']:.1%} of requests.", style="red"),
        ]
    return Group(*lines)


def _lift(row: dict[str, Any]) -> str:
    if row["lift"] is None:
        return "–"
    low = "" if row["lift_low"] is None else f"{row['lift_low']:+.0%}"
    high = "∞" if row["lift_high"] is None else f"{row['lift_high']:+.0%}"
    return f"{row['lift']:+.1%} ({low} … {high})"
