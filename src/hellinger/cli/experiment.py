"""``hellinger experiment``: how the variants of a running service stand, in the terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hellinger.cli._app import JsonFlag, app, console, emit

__all__ = ["experiment", "experiment_table"]


@app.command()
def experiment(
    url: Annotated[
        str, typer.Argument(envvar="HELLINGER_URL", help="Address of the service.")
    ] = "http://127.0.0.1:8000",
    key: Annotated[str | None, typer.Option(envvar="HELLINGER_KEY", help="A key that may read.")] = None,
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
