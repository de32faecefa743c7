"""A line on standard error that says what is being done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

__all__ = ["stages"]


@contextmanager
def stages() -> Iterator[Callable[[str, float | None], None]]:
    """Give a function to tell of a stage and its share done: one live line, or a line a stage in a log."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("starting …") as status:
            yield lambda what, done: status.update(escape(what) + (" …" if done is None else f" · {done:.0%}"))
        return
    last = ""

    def tell(what: str, _done: float | None) -> None:
        nonlocal last
        if what != last:
            console.print(f"{what} …", highlight=False, markup=False, soft_wrap=True)
            last = what

    yield tell
