"""A line on standard error that says what is being done, and how much of it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

from hellinger.cli._app import progress_console

__all__ = ["stages"]


@contextmanager
def stages() -> Iterator[Callable[[str, float | None], None]]:
    """Give a function that reports a stage and its share done: one live line with a bar, or a line a stage in a log."""
    last = ""
    if not progress_console.is_terminal:

        def log(what: str, _done: float | None) -> None:
            nonlocal last
            if what != last:
                progress_console.print(f"{what} …", highlight=False, markup=False, soft_wrap=True)
                last = what

        yield log
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=progress_console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def move(what: str, done: float | None) -> None:
            bar.update(task, description=escape(what), total=None if done is None else 1.0, completed=done or 0.0)

        yield move
