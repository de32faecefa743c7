"""Independent runs in several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

__all__ = ["spread"]

Task = TypeVar("Task")
Found = TypeVar("Found")


def spread(
    function: Callable[[Task], Found],
    tasks: Sequence[Task],
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    keep: Callable[[Task, Found], None] | None = None,
) -> list[Found]:
    """What a function finds for each task, in their order.

    ``progress`` is told how many of how many are done, ``keep`` what was found, as soon as it is.
    """
    tell = progress if progress is not None else lambda _done, _total: None
    note = keep if keep is not None else lambda _task, _found: None
    if jobs == 1:
        found = []
        for task in tasks:
            found.append(function(task))
            note(task, found[-1])
            tell(len(found), len(tasks))
        return found
    with ProcessPoolExecutor(jobs) as executor:
        waiting = {executor.submit(function, task): task for task in tasks}
        try:
            for done, future in enumerate(as_completed(waiting), 1):
                note(waiting[future], future.result())
                tell(done, len(tasks))
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)  # else an interrupt waits for all of them
            raise
        return [future.result() for future in waiting]
