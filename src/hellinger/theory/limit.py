"""The limit of counts: the most rewards that any policy can expect which sees impressions and rewards alone.

Charge a price λ for every impression. An item by itself is then a problem of optimal stopping,

    V(s, n) = max{0, p − λ + p·V(s+1, n+1) + (1 − p)·V(s, n+1)},

where p is the posterior mean of its rate after s rewards in n impressions, and V = 0 after the most impressions that
one item can have. By Lagrangian duality N impressions on K items earn at most min over λ ≥ 0 of λ·N + K·V(0, 0), even
for a policy that knows the law of the rates (Whittle 1988; Bertsimas & Mersereau 2007).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hellinger._jit import jit
from hellinger.errors import require
from hellinger.theory.laws import Law, laws_of

__all__ = ["limit"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_EXACT = 1e-9
"""Relative distance between the least value found and what it can be at least."""


@jit
def _stop(means: Floats, a: float, strength: float, price: float, value: Floats, plays: Floats) -> None:
    """Go back from the values and expected plays after n impressions to those after none, by the recursion above.

    Without a table of posterior means they are those of a Beta law.
    """
    depth = value.size - 1
    row = np.empty(depth + 1)
    for n in range(depth - 1, -1, -1):
        if means.size > 0:
            first = n * (n + 1) // 2
            row[: n + 1] = means[first : first + n + 1]
        else:
            for s in range(n + 1):
                row[s] = (a + s) / (strength + n)
        for s in range(n + 1):
            p = row[s]
            here = p - price + p * value[s + 1] + (1.0 - p) * value[s]
            more = 1.0 + p * plays[s + 1] + (1.0 - p) * plays[s]
            value[s] = max(here, 0.0)
            plays[s] = more if here > 0.0 else 0.0


def _least(slope_of: Callable[[float], tuple[float, float]], left: tuple[float, float], right: float) -> float:
    """The minimum over [0, 1] of a convex function that gives value and slope, by where its tangents meet.

    ``left`` is value and slope at 0, where it falls; ``right`` the value at 1, where it rises with this slope. Every
    value of the function is an upper bound of what we look for, and the tangents' meeting point a lower one.
    """
    low, high = (0.0, *left), (1.0, right, right)
    best = min(left[0], right)
    for step in range(200):
        (x, f, slope), (y, g, rise) = low, high
        meets = (g - f + slope * x - rise * y) / (slope - rise)
        if best - (f + slope * (meets - x)) <= _EXACT * best:
            break
        price = meets if step % 3 else 0.5 * (x + y)  # one tangent may hardly move
        f, slope = slope_of(price)
        best = min(best, f)
        if slope == 0.0:
            break
        low, high = ((price, f, slope), high) if slope < 0.0 else (low, (price, f, slope))
    return best


def limit(
    *,
    items: npt.ArrayLike,
    impressions: float,
    most: npt.ArrayLike,
    a: npt.ArrayLike | None = None,
    b: npt.ArrayLike | None = None,
    rates: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    known_after: int | None = None,
) -> float:
    """Rewards that no policy which sees only impressions and rewards can exceed on average.

    Not even one that knows the law from which every item's rate is drawn: Beta(a, b), or one of ``rates``. Items that
    come and go are groups with different ``most``; the bound then lets impressions move between days as if all days
    were one, so it is a little higher than what can be reached.

    Parameters
    ----------
    items
        How many, or how many in each group.
    impressions
        To be given in all.
    most
        Impressions that one item can have at most: one number, or one for each group.
    a, b
        Of the Beta law of rates: one number each, or one for each group, where groups are known to differ.
    rates, weights
        Instead of a Beta law: the rates that occur, and how often; equally often if not given.
    known_after
        Take an item's rate as known after so many impressions. The limit can only rise by that; it takes less time.

    Returns
    -------
    The limit: of the expected sum of rewards.

    Examples
    --------
    >>> round(limit(a=1.6, b=100, items=10_000, impressions=100_000, most=500))
    3008
    >>> round(limit(rates=[0.01, 0.05], items=[100, 50], impressions=10_000, most=[500, 100]))
    466
    >>> round(limit(a=2.3, b=[96, 192], items=[5_000, 5_000], impressions=100_000, most=500))
    4050
    """
    count, longest = np.asarray(items, np.float64).ravel(), np.asarray(most, np.float64).ravel()
    fits = count.size == longest.size or 1 in (count.size, longest.size)
    require(fits, "items and most are one number, or one for each group", items=count.shape, most=longest.shape)
    laws: list[Law] = laws_of(a, b, rates, weights)
    fits = len(laws) == 1 or max(count.size, longest.size) in (1, len(laws))
    require(fits, "a and b are one number each, or one for each group", laws=len(laws), items=count.shape)
    count, longest, _ = np.broadcast_arrays(count, longest, np.zeros(len(laws)))
    laws = laws * (count.size // len(laws))
    sound = count.size > 0 and bool(((count >= 0) & (count < math.inf)).all())
    require(sound, "0 <= items, finite", items=items)
    whole = bool((longest == np.floor(longest)).all() and (longest >= 1).all() and (longest < 2**31).all())
    require(whole, "most is a whole number, 1 <= most < 2^31", most=most)
    require(0 <= impressions < math.inf, "0 <= impressions", impressions=impressions)
    require(known_after is None or known_after >= 0, "0 <= known_after", known_after=known_after)
    deepest = int(longest.max()) if known_after is None else min(int(longest.max()), int(known_after))
    means = laws[0].means(deepest)

    def at(price: float) -> tuple[float, float]:
        total, slope = price * impressions, impressions
        for number, longest_one, law in zip(count.tolist(), longest.astype(np.int64).tolist(), laws, strict=True):
            depth = min(longest_one, deepest)
            value, plays = np.zeros(depth + 1), np.zeros(depth + 1)
            if depth < longest_one:
                gain, share = law.known(np.arange(depth + 1.0), np.full(depth + 1, float(depth)), price)
                value, plays = (longest_one - depth) * gain, (longest_one - depth) * share
            _stop(means, law.a, law.strength, price, value, plays)
            total += number * value[0]
            slope -= number * plays[0]
        return total, slope

    everything = float(count @ longest)
    earned = float(sum((count * longest * [law.mean for law in laws]).tolist()))
    if everything <= impressions:  # all can be shown as often as may be
        return earned
    return float(_least(at, (earned, impressions - everything), float(impressions)))
