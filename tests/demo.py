"""The rules of the ten-ads demo of guabao/hellinger_ucb_bandits, written anew and slowly, its faults included.

Three ads a round, counts that start a little above zero, and a ranking that is an ascending sort read backwards:
ties go to the last ad if the sort is stable, and to any if it is not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Sort = Callable[[Floats], npt.NDArray[np.intp]]
Index = Callable[[Floats, Floats, float, Floats], Floats]


def stable(values: Floats) -> npt.NDArray[np.intp]:
    """Ascending, equal ones in order."""
    return np.argsort(values, kind="stable")


def default(values: Floats) -> npt.NDArray[np.intp]:
    """Ascending, equal ones as this processor's vector instructions leave them."""
    return np.argsort(values)


def shuffled(rng: np.random.Generator) -> Sort:
    """Ascending, equal ones in an order drawn anew each time."""

    def sort(values: Floats) -> npt.NDArray[np.intp]:
        order = rng.permutation(values.size)
        return order[np.argsort(values[order], kind="stable")]

    return sort


def ucb1(sums: Floats, pulls: Floats, t: float, last: Floats) -> Floats:
    """Mean and √(2 log t/n)."""
    index: Floats = sums / pulls + np.sqrt(2 * np.log(t) / pulls)
    return index


def hellinger(sums: Floats, pulls: Floats, t: float, last: Floats) -> Floats:
    """The larger root q of √(pq) + √((1−p)(1−q)) = 1 − C², or the smaller where that exceeds 1; it should be 1 − C."""
    p = sums / pulls
    overlap = 1 - (1 - np.exp(-0.25 * np.log(t) / pulls)) ** 2
    across = np.sqrt((1 - p) * (1 - overlap**2))
    larger, smaller = (np.sqrt(p) * overlap + across) ** 2, (np.sqrt(p) * overlap - across) ** 2
    index: Floats = np.where(larger <= 1, larger, smaller)
    return index


def kl(sums: Floats, pulls: Floats, t: float, last: Floats) -> Floats:
    """Newton's method from the last round's solution, kept between p + 10⁻⁸ and 1 − 10⁻⁸; once NaN, always NaN."""
    p = sums / pulls
    goal = p * np.log(p) + (1 - p) * np.log(1 - p) - np.log(t) / pulls
    q = last.copy()
    active = np.ones(q.size, dtype=bool)
    while (active & ~np.isnan(q)).any():
        active &= ~np.isnan(q)
        x, m = q[active], p[active]
        step = (m * np.log(x) + (1 - m) * np.log(1 - x) - goal[active]) / (m / x - (1 - m) / (1 - x))
        q[active] = np.maximum(np.minimum(x - step, 1 - 1e-8), m + 1e-8)
        active[active] = ~(np.abs(step) < 1e-6)
    return q


START = {"ucb1": (ucb1, 0.0, 1e-8), "kl": (kl, 1e-8, 2e-8), "hellinger": (hellinger, 1e-3, 1e-3)}
"""The index, and the pseudo-counts: rewards and plays."""


def total(name: str, table: Floats, sort: Sort, *, slots: int = 3) -> int:
    """Sum of the rewards of the ads shown."""
    index, sums_at_first, pulls_at_first = START[name]
    arms = table.shape[1]
    sums, pulls = np.full(arms, sums_at_first), np.full(arms, pulls_at_first)
    last = np.full(arms, 1 - 1e-3)
    gained = 0.0
    with np.errstate(all="ignore"):
        for played, row in enumerate(table):
            if name != "ucb1" and (pulls < 1).any():
                ranking = sort(pulls)
            else:
                last = index(sums, pulls, 1.0 + slots * played, last)
                ranking = sort(last)[::-1]
            shown = ranking[:slots]
            sums[shown] += row[shown]
            pulls[shown] += 1
            gained += row[shown].sum()
    return int(gained)
