r"""The position-based model: a click needs a look, and the chance of a look depends on the position alone.

A place's click rate is θ(position)·(rate of its item). So what an item earned at one position says what it would have
earned at another, times θ(there)/θ(here), even where the logger never draws anything at random. What the policy would
show and the page did not have stays unknown: that share of all looks is the unsupported mass.

References
----------
M. Richardson, E. Dominowska, R. Ragno (2007), Predicting clicks. WWW. T. Joachims, A. Swaminathan, T. Schnabel (2017),
Unbiased learning-to-rank with biased feedback. WSDM.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.evaluate.estimate import Estimate
from hellinger.evaluate.evaluator import as_column, require_length
from hellinger.evaluate.fixed import run_weighted

__all__ = ["examination", "fit_looks", "position_based"]

Floats = npt.NDArray[np.float64]
Rows = npt.ArrayLike

_ROUNDS = 200
_CLOSE = 1e-9


def examination(reward: Rows, position: Rows, *, group: Rows | None = None) -> Floats:
    """The chance of a look at each position, relative to the first, from rows whose position was drawn at random.

    Such are rankings of the random share, and places that a tie filled in random order: all rows of one ``group`` (a
    tie, an item) have items whose order was drawn. Rates of groups and looks are fitted in turn, which is maximum
    likelihood for small rates. A position without a reward has 0, and one that no row has NaN.

    >>> position = np.tile([1, 2, 3], 1000)
    >>> examination((np.arange(3000) % 30 < 3 * (4 - position)).astype(float), position).round(2)
    array([1.  , 0.67, 0.33])
    """
    rewards, places = np.asarray(reward, dtype=float), np.asarray(position).astype(np.int64)
    require(rewards.shape == places.shape and rewards.ndim == 1, "a position for each reward", rewards=rewards.shape)
    require(rewards.size > 0 and int(places.min()) >= 1, "positions begin with 1", positions=places[:3].tolist())
    groups = np.zeros(rewards.size, np.int64) if group is None else np.unique(np.asarray(group), return_inverse=True)[1]
    slots = int(places.max())
    earned = np.bincount(places - 1, rewards, slots)
    whole = np.bincount(groups, rewards)
    shown = np.bincount(places - 1, minlength=slots)
    looks = np.ones(slots)
    for _ in range(_ROUNDS):
        seen = np.bincount(groups, looks[places - 1])
        rates = np.divide(whole, seen, out=np.zeros_like(seen), where=seen > 0.0)
        expected = np.bincount(places - 1, rates[groups], slots)
        fitted = np.divide(earned, expected, out=np.zeros(slots), where=expected > 0.0)
        fitted /= fitted[0] if fitted[0] > 0.0 else max(float(fitted.max()), _CLOSE)
        done = float(np.abs(fitted - looks).max()) < _CLOSE
        looks = fitted
        if done or group is None:
            break
    return np.where(shown > 0, looks, np.nan)


def fit_looks(drawn_rewards: Floats, drawn_rows: Floats, tied_rewards: Floats, ties: Floats) -> Floats:
    """:func:`examination` from sums: the rankings drawn at random are one group, and every tie is one of its own.

    Parameters
    ----------
    drawn_rewards, drawn_rows
        Rewards and rows of each position in rankings drawn at random.
    tied_rewards
        Rewards of each position in ties.
    ties
        The rewards of all ties that go from one position (row) to another (column). Rates of ties of the same places
        need not be told apart: only their sum counts.
    """
    first, last = np.nonzero(ties)
    whole, slots = ties[first, last], drawn_rewards.size
    earned, looks = drawn_rewards + tied_rewards, np.ones(slots)
    for _ in range(_ROUNDS * 10):  # links between ties far apart take long
        upto = np.concatenate([[0.0], np.cumsum(looks)])
        rates = whole / (upto[last + 1] - upto[first])
        steps = np.bincount(first, rates, slots + 1) - np.bincount(last + 1, rates, slots + 1)
        seen = float(drawn_rows @ looks)
        expected = np.cumsum(steps)[:slots] + drawn_rows * (drawn_rewards.sum() / seen if seen > 0.0 else 0.0)
        fitted = np.divide(earned, expected, out=np.zeros(slots), where=expected > 0.0)
        fitted /= fitted[0] if fitted[0] > 0.0 else max(float(fitted.max()), _CLOSE)
        done = float(np.abs(fitted - looks).max()) < _CLOSE
        looks = fitted
        if done:
            break
    return looks


def position_based(
    reward: Rows,
    position: Rows,
    target_position: Rows,
    *,
    looks: Rows,
    ranking: Rows | None = None,
    most: float = 1.0,
    alpha: float = 0.05,
) -> Estimate:
    """What another order of the same items would have earned, by the position-based model.

    Parameters
    ----------
    reward, position
        Of each row: what was earned, and where it was shown, the first position being 1.
    target_position
        Where the policy would have shown this item; 0 where it would not.
    looks
        The chance of a look at each position, up to a factor: see :func:`examination`.
    ranking, most, alpha
        As for :func:`~hellinger.evaluate.ips`.

    Examples
    --------
    Two items in turn at both places; the policy would always have the better one first.

    >>> reward, position = [1, 0, 0, 1] * 300, [1, 2] * 600
    >>> found = position_based(reward, position, [1, 2, 2, 1] * 300, looks=[1.0, 0.5], ranking=np.repeat(range(600), 2))
    >>> round(found.value, 3), found.unsupported, found.verdict
    (1.5, 0.0, 'safe to switch: at least +42.3 %')
    """
    here, there = np.asarray(position).astype(np.int64), np.asarray(target_position).astype(np.int64)
    chances = np.asarray(looks, dtype=float)
    above = chances.ndim == 1 and bool((chances > 0.0).all())
    require(above, "a chance above 0 for each position", looks=chances.tolist())
    rewards = as_column(reward, "reward")
    require_length(here, "position", rewards)
    require_length(there, "target_position", rewards)
    for places, first in ((here, 1), (there, 0)):
        inside = bool(((places >= first) & (places <= chances.size)).all())
        require(inside, "positions are within those of `looks`", looks=chances.size)
    wanted = np.where(there > 0, chances[there - 1], 0.0)
    weights = wanted / chances[here - 1]
    names = np.arange(here.size) if ranking is None else np.asarray(ranking)
    require(names.shape == here.shape, "a ranking for each row", rankings=names.shape, rows=here.size)
    rows = np.unique(names, return_inverse=True)[1]
    # a unit's mean of these is the share of the policy's looks that fall on what was shown
    mass = wanted * (np.bincount(rows) / np.bincount(rows, chances[here - 1]))[rows]
    largest = float(chances.max() / chances.min())
    columns: dict[str, Rows | None] = {"mass": mass}
    return run_weighted(
        "position_based",
        rewards,
        weights,
        ranking=names,
        columns=columns,
        largest=max(largest, 1.0),
        most=most,
        alpha=alpha,
    )
