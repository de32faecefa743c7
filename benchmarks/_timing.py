"""Timing for benchmarks: the best of several repetitions, and ratios taken within one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

__all__ = ["best_of", "console", "fastest", "show", "verdict"]

console = Console(width=110)


def best_of(call: Callable[[], object], times: int) -> float:
    """Shortest of so many calls, in seconds: for what a call changes, and so cannot be repeated at will."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


def fastest(function: Callable[[], object], *, seconds: float = 0.6) -> float:
    """Seconds of processor time a call takes on its thread: the smallest of many, for noise only ever adds."""
    function()
    started = time.thread_time()
    function()
    once = time.thread_time() - started
    repeat = max(1, int(0.01 / max(once, 1e-9)))
    best = float("inf")
    until = time.perf_counter() + seconds
    while True:
        started = time.thread_time()
        for _ in range(repeat):
            function()
        best = min(best, (time.thread_time() - started) / repeat)
        if time.perf_counter() > until:
            return best


def verdict(ratio: float, target: float, *, at_most: bool = False) -> str:
    """A ratio beside its target, and whether it is met."""
    met = ratio <= target if at_most else ratio >= target
    sign = "≤" if at_most else "≥"
    figure = f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.1f}"
    return f"{figure}× (target {sign} {target:g}×) {'[green]met[/]' if met else '[red]missed[/]'}"


def show(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table."""
    table = Table(
        title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0)
    )
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()
