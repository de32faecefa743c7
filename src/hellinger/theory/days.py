"""The limit of counts where items come and go: a price for the impressions of every day.

Impressions of one day cannot be given on another, so each day d has a price λ(d) of its own. An item that is there for
some days is in one of the states (s, n), rewards and impressions, at each of the turns at which it can be shown:

    W(t, s, n) = max{W(t+1, s, n), p − λ(d) + p·W(t+1, s+1, n+1) + (1 − p)·W(t+1, s, n+1)},

0 after its last turn. It may wait: a later day may be cheaper. Whatever the prices, no policy expects more than
Σ λ(d)·N(d) and what the items are worth as they come; the least such sum is looked for. It is convex, and its slope in
λ(d) is N(d) less the impressions that the items take on that day.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hellinger._jit import jit
from hellinger.errors import require
from hellinger.theory.laws import Law, laws_of

__all__ = ["limit_by_day"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STEPS, _LAST_STEPS = 60, 12
"""Times that prices are changed at most; any prices give a limit, better ones a lower."""
_ROUGH = 3


def limit_by_day(
    *,
    items: npt.ArrayLike,
    first: npt.ArrayLike,
    last: npt.ArrayLike,
    impressions: npt.ArrayLike,
    most: npt.ArrayLike,
    a: float | None = None,
    b: float | None = None,
    rates: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    known_after: int = 400,
    known_rewards: int = 40,
) -> float:
    """Rewards that no policy which sees only impressions and rewards can exceed on average where items come and go.

    As :func:`~hellinger.theory.limit`, but every day's impressions are given on that day.

    Parameters
    ----------
    items
        How many there are in each group of items that come and go together.
    first, last
        The days on which each group is there, the first and the last of them, counted from 0.
    impressions
        To be given on each day, a number for each.
    most
        Impressions that one item can have on a day: one number, or one for each day.
    a, b, rates, weights
        The law of rates: see :func:`~hellinger.theory.limit`.
    known_after, known_rewards
        Take an item's rate as known after so many impressions or so many rewards. The limit can only rise by that; it
        takes less time.

    Returns
    -------
    The limit: of the expected sum of rewards.

    Examples
    --------
    Two days, and 100 items on each of which half stay for both:

    >>> days = {"items": [50, 50, 50], "first": [0, 0, 1], "last": [0, 1, 1]}
    >>> round(limit_by_day(**days, impressions=[1000, 1000], most=50, a=1.6, b=100), 1)
    40.2
    """
    budget = np.asarray(impressions, np.float64).ravel()
    sound = budget.size > 0 and bool(((budget >= 0) & (budget < math.inf)).all())
    require(sound, "0 <= impressions, finite, on one day at least", impressions=impressions)
    turns = np.broadcast_to(np.asarray(most, np.float64), budget.shape)
    whole = bool(((turns == np.floor(turns)) & (turns >= 0) & (turns < 2**31)).all())
    require(whole, "most is a whole number, 0 <= most < 2^31", most=most)
    count = np.asarray(items, np.float64).ravel()
    comes, goes = (np.broadcast_to(np.asarray(each, np.int64), count.shape) for each in (first, last))
    require(count.size > 0 and bool(((count >= 0) & (count < math.inf)).all()), "0 <= items, finite", items=items)
    there = bool(((comes >= 0) & (comes <= goes) & (goes < budget.size)).all())
    require(there, "0 <= first <= last < days", first=first, last=last, days=budget.size)
    require(known_after >= 1 and known_rewards >= 1, "1 <= known_after, known_rewards", known_after=known_after)
    laws = laws_of(a, b, rates, weights)
    require(len(laws) == 1, "one law for all items", laws=len(laws))
    if not budget.any():
        return 0.0
    groups = count, comes, goes
    # prices are found where rates are soon known, which is fast, and then improved
    rough = _Days(laws[0], budget, turns.astype(np.int64), -(-known_after // _ROUGH), -(-known_rewards // _ROUGH))
    _, prices = rough.least(rough.one_price(*groups), _STEPS, *groups)
    fine = _Days(laws[0], budget, turns.astype(np.int64), int(known_after), int(known_rewards))
    return fine.least(prices, _LAST_STEPS, *groups)[0]


class _Days:
    """The sum to be minimised, and its slope."""

    def __init__(self, law: Law, budget: Floats, turns: Ints, deep: int, wide: int) -> None:
        self.budget, self.turns = budget, turns
        self._law = law
        deep = min(deep, max(1, int(turns.sum())))
        wide = min(wide, deep)
        self._means = law.table(deep, wide)
        rows = [(deep, s) for s in range(wide + 1)] + [(n, wide) for n in range(wide, deep)]
        self._edge = np.array(rows, np.float64)  # states in which the rate is taken as known
        self._deep, self._wide = deep, wide

    def at(self, prices: Floats, count: Floats, comes: Ints, goes: Ints) -> tuple[float, Floats]:
        """Value and slope at these prices."""
        gain, more = (np.empty((prices.size, self._deep + 1, self._wide + 1)) for _ in range(2))
        n, s = self._edge.T.astype(np.int64)
        for day, price in enumerate(prices.tolist()):
            gain[day, n, s], more[day, n, s] = self._law.known(self._edge[:, 1], self._edge[:, 0], price)
        value, slope = float(prices @ self.budget), self.budget.copy()
        for end in np.unique(goes).tolist():
            born = np.bincount(comes[goes == end], count[goes == end], minlength=prices.size).astype(np.float64)
            value += _worth(self._means, gain, more, prices, self.turns[: end + 1], born, slope)
        return value, slope

    def least(self, start: Floats, steps: int, count: Floats, comes: Ints, goes: Ints) -> tuple[float, Floats]:
        """The least value found from these prices in so many steps, and where it was found."""
        from scipy.optimize import minimize

        best, found = math.inf, start
        unit = float(self.budget.sum()) * self._law.mean  # so that all is about 1

        def scaled(x: Floats) -> tuple[float, Floats]:
            nonlocal best, found
            value, slope = self.at(x * self._law.mean, count, comes, goes)
            if value < best:
                best, found = value, x * self._law.mean
            return value / unit, slope * self._law.mean / unit

        limits = [(0.0, 1.0 / self._law.mean)] * start.size
        options = {"maxfun": steps, "ftol": 1e-8}
        minimize(scaled, start / self._law.mean, jac=True, method="L-BFGS-B", bounds=limits, options=options)
        return best, found

    def one_price(self, count: Floats, comes: Ints, goes: Ints) -> Floats:
        """About the best price if it has to be the same on all days, for each day."""
        low, high = 0.0, 1.0
        for _ in range(12):
            middle = math.sqrt(max(low, 0.1 * self._law.mean) * high) if high > 0.1 * self._law.mean else 0.5 * high
            falls = self.at(np.full(self.budget.size, middle), count, comes, goes)[1].sum() < 0.0
            low, high = (middle, high) if falls else (low, middle)
        return np.full(self.budget.size, 0.5 * (low + high))


@jit
def _worth(
    means: Floats, gain: Floats, more: Floats, prices: Floats, turns: Ints, born: Floats, slope: Floats
) -> float:
    """What items are worth that leave after these days, so many coming on each; their plays are taken from the slope.

    Back through the turns for values, and the least rewards with which an item is shown at each turn; then forward
    with how many items are in each state.
    """
    deep, wide = means.shape[0], means.shape[1] - 1
    total = turns.sum()
    least = np.zeros((total, min(deep, total)), np.int16)
    value = np.zeros((deep + 1, wide + 1))
    day, until, out = turns.size - 1, total, 0.0
    for day in range(turns.size - 1, -1, -1):
        price = prices[day]
        for t in range(until - 1, until - turns[day] - 1, -1):
            for n in range(min(t + 1, deep)):
                waits = 0
                for s in range(min(n + 1, wide)):
                    p = means[n, s]
                    shown = p - price + p * value[n + 1, s + 1] + (1.0 - p) * value[n + 1, s]
                    waits += shown <= value[n, s]
                    value[n, s] = max(value[n, s], shown)
                least[t, n] = waits
                if n >= wide:
                    value[n, wide] += gain[day, n, wide]
            if t >= deep:
                for s in range(wide + 1):
                    value[deep, s] += gain[day, deep, s]
        until -= turns[day]
        out += born[day] * value[0, 0]
    here = np.zeros((deep + 1, wide + 1))
    t = 0
    for day in range(turns.size):
        here[0, 0] += born[day]
        plays = 0.0
        for _ in range(turns[day]):
            for s in range(wide + 1):
                plays += here[deep, s] * more[day, deep, s]
            for n in range(min(t, deep - 1), -1, -1):
                if n >= wide:
                    plays += here[n, wide] * more[day, n, wide]
                for s in range(least[t, n], min(n + 1, wide)):
                    mass = here[n, s]
                    if mass > 0.0:
                        p = means[n, s]
                        plays += mass
                        here[n + 1, s + 1] += p * mass
                        here[n + 1, s] += (1.0 - p) * mass
                        here[n, s] = 0.0
            t += 1
        slope[day] -= plays
    return out
