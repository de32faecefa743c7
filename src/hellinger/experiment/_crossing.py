"""Where rising functions cross a level, many at once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Steps", "crossing", "crossing_steps", "finish", "one_step"]

Floats = npt.NDArray[np.float64]
T = TypeVar("T")
Steps = Generator[None, None, T]
"""A computation that stops after each step, so that others may have a turn; its result is what it returns."""

_NEWTON = 30
_STEPS = 120


def finish(steps: Steps[T]) -> T:
    """Do all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def crossing(
    function: Callable[[Floats], tuple[Floats, Floats]],
    low: Floats,
    high: Floats,
    *,
    start: Floats,
    tolerance: Floats,
    level: float = 0.0,
) -> Floats:
    """:func:`crossing_steps` of a function that is computed in one step, all at once."""
    return finish(crossing_steps(one_step(function), low, high, start=start, tolerance=tolerance, level=level))


def one_step(function: Callable[[Floats], T]) -> Callable[[Floats], Steps[T]]:
    """The function as a computation of one step."""

    def computed(x: Floats) -> Steps[T]:
        yield
        return function(x)

    return computed


def crossing_steps(
    function: Callable[[Floats], Steps[tuple[Floats, Floats]]],
    low: Floats,
    high: Floats,
    *,
    start: Floats,
    tolerance: Floats,
    level: float = 0.0,
) -> Steps[Floats]:
    """The x in [low, high] at which rising functions reach a level, or the end they are nearest to it.

    ``function`` gives values and slopes. Newton's steps, kept within what is known to hold the crossing: an end that
    has not been looked at is tried, otherwise the interval is halved. The last step is within the tolerance; what is
    left after it is of the order of its square.
    """
    low, high = low.copy(), high.copy()
    x = np.clip(start, low, high)
    settled = low_seen = high_seen = np.zeros(x.shape, dtype=bool)
    for number in range(_STEPS):
        before = x
        value, slope = yield from function(x)
        over = value > level
        high_seen = high_seen | over
        low_seen = low_seen | ~over
        high = np.where(over, x, high)
        low = np.where(over, low, x)
        half = 0.5 * (low + high)
        if number < _NEWTON:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                following = x - (value - level) / slope
            following = np.where(following >= high, np.where(high_seen, half, high), following)
            following = np.where(following <= low, np.where(low_seen, half, low), following)
            following = np.where(np.isfinite(following), following, half)
        else:
            following = np.where(high_seen, np.where(low_seen, half, low), high)
        # what is settled stays: rounding could throw it out of its interval, and that would be halved anew
        x = np.where(settled, x, np.where(low == high, low, following))
        settled = settled | (np.abs(x - before) <= tolerance)
        if settled.all():
            break
    return x
