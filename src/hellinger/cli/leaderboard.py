"""``hellinger leaderboard``: every policy on five problems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import whole
from hellinger.cli._stages import stages
from hellinger.cli.simulate import print_result
from hellinger.errors import needs_extra

__all__ = ["leaderboard"]


@app.command("leaderboard")
def leaderboard(
    out: Annotated[Path, typer.Option(help="Folder for the rankings and their numbers.")] = Path("leaderboard"),
    runs: Annotated[
        int,
        typer.Option(
            help="Runs of each policy; changing means have half, the cold start one in 20 of them.",
            parser=whole(most=10**6),
        ),
    ] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers, anywhere.", parser=whole())] = 0,
    everyone: Annotated[
        bool, typer.Option("--all", help="Let slow rules play the cold start too: many minutes.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Rank every policy on the paper's problems, two close arms, means that change, and 10,000 new arms."""
    with needs_extra("lab"):
        from hellinger.lab import leaderboard as lab

    with keeping("nothing was written: it writes all at the end, and fewer --runs get there sooner"), stages() as say:
        standings = lab.leaderboard(out, runs=runs, seed=seed, everyone=everyone, say=say)
    if json:
        emit({"contests": [standing.record() for standing in standings]})
        return
    for standing in standings:
        console.print(f"\n[bold]{escape(standing.contest.title)}[/]")
        print_result(standing.named)
        for why in dict.fromkeys(standing.left_out.values()):
            names = ", ".join(name for name, reason in standing.left_out.items() if reason == why)
            console.print(f"[dim]Left out: {escape(names)} ({escape(why)}).[/]", highlight=False, soft_wrap=True)
    console.print(f"\nWritten to [cyan]{escape(str(out))}[/].", highlight=False, soft_wrap=True)
