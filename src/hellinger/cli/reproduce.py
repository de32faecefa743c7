"""``hellinger reproduce``: the paper's figures and claims."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import whole
from hellinger.cli._stages import stages
from hellinger.errors import needs_extra

__all__ = ["reproduce"]

_STYLES = {"agrees": "green", "partly": "yellow", "differs": "red", "not tested": "dim"}


@app.command("reproduce")
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for report, numbers and figures.")] = Path("reproduction"),
    runs: Annotated[int, typer.Option(help="Runs of each policy.", parser=whole(most=10**6))] = 200,
    seed: Annotated[int, typer.Option(help="What the runs are drawn from.", parser=whole())] = 0,
    sites: Annotated[
        int | None,
        typer.Option(
            help="Simulated sites for the two months of traffic: 4, or 10 with --full.", parser=whole(most=10**4)
        ),
    ] = None,
    items: Annotated[int, typer.Option(help="Items on each site.", parser=whole(most=10**7))] = 10_000,
    full: Annotated[bool, typer.Option("--full", help="Scan traffic to 3,000 impressions per item.")] = False,
    json: JsonFlag = False,
) -> None:
    """Run the paper's simulations again: its figures, and its claims one by one."""
    with needs_extra("lab"):
        from hellinger.lab.reproduce import reproduce as run

    with keeping("nothing was written: it writes all at the end, and fewer --runs get there sooner"), stages() as say:
        found = run(out, runs=runs, seed=seed, sites=sites, items=items, full=full, say=say)
    if json:
        emit(found.record)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0))
    table.add_column("the paper's claim", ratio=5)
    table.add_column("authors", ratio=2)
    table.add_column("here", ratio=5)
    table.add_column("", no_wrap=True)
    for claim in found.claims:
        style = _STYLES[claim.verdict]
        table.add_row(escape(claim.claim), escape(claim.authors), escape(claim.ours), f"[{style}]{claim.verdict}[/]")
    console.print(table)
    counts = Counter(claim.verdict for claim in found.claims)
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), highlight=False)
    console.print(f"report: {found.folder / 'report.html'}", highlight=False, soft_wrap=True)
