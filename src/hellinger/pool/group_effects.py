"""What a pool has learned of its groups: how each one's rate compares with that of the whole, and how surely.

Everything here only looks, and may do so in another thread while the pool goes on: groups are read a few thousand at a
time with the interpreter's lock held, as whatever changes them holds it too; items are read in the order in which they
lie in memory, no link is followed, and an event meanwhile may be counted or not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hellinger._jit import borrowed, brief, jit
from hellinger.policies import Path
from hellinger.pool._store import Floats, ItemStore
from hellinger.pool._tree import Levels, TreeArrays, posterior

if TYPE_CHECKING:
    from hellinger.pool._membership import Membership

__all__ = ["GroupEffect", "beta_interval", "group_effects", "group_levels"]

_SLICE = 5000
"""Groups that are read at a time: a fraction of a millisecond."""
_SURE = 1.959963984540054
"""Standard deviations to either end of a 95 % interval."""


class GroupEffect(NamedTuple):
    """What was learned of a group, from all items that it has or had, those of groups within it too.

    Attributes
    ----------
    group
        Names from broad to narrow; empty for items that have no group but the same tags.
    tags
        These tags.
    effect, low, high
        How many times the rate of the whole pool its own is, and both ends of a 95 % interval.
    items, impressions
        How many items it has, and the impressions of these and of those that have left.
    """

    group: Path
    tags: tuple[str, ...]
    effect: float
    low: float
    high: float
    items: int
    impressions: float


@brief
def _posteriors(tree: TreeArrays, levels: Levels, first: int, last: int, out: Floats) -> None:
    """Mean of the rate of each of these groups, and how many impressions it is known as well as by."""
    nodes = borrowed(tree.nodes)
    for g in range(first, last):
        out[g, 0], out[g, 1] = posterior(levels, nodes[g])


@jit
def _totals(tree: TreeArrays, items: Any, count: int, out: Floats) -> None:
    """Items and impressions of each group, those of groups below it too."""
    nodes, size, deepest = tree.nodes, out.shape[0], 0
    for i in range(count):
        g = tree.member[i]["node"]
        if 0 <= g < size:
            out[g, 0] += 1.0
            out[g, 1] += max(items[i]["n"], items[i]["s"])
    for g in range(size):
        out[g, 1] += nodes[g]["gone_n"]
        deepest = max(deepest, nodes[g]["depth"])
    for depth in range(deepest, 1, -1):
        for g in range(size):
            parent = nodes[g]["parent"]
            if nodes[g]["depth"] == depth and 0 <= parent < size:
                out[parent, 0] += out[g, 0]
                out[parent, 1] += out[g, 1]


def group_levels(members: Membership) -> list[int]:
    """How many groups there are at each level, broad to narrow, as far as shares are learned."""
    prior, tree = members.prior, members.tree
    if prior is None or not prior.shares:
        return []
    size = min(len(members.paths), tree.nodes.size)
    nodes = tree.nodes[:size]
    used = (nodes["items"] > 0) | (nodes["children"] > 0) | (nodes["gone_n"] > 0)
    depth = nodes["depth"][used]
    return [int((depth == level + 1).sum()) for level in range(len(prior.shares))]


def group_effects(members: Membership, store: ItemStore, most: int) -> list[GroupEffect]:
    """The groups that stand out most: those that are the most times as good, or as bad, as the whole for certain."""
    tree, levels, paths, state = members.tree, members.levels, members.paths, store.state
    size = min(len(paths), tree.nodes.size)
    if levels is None or not size or not levels.v.any():  # features alone tell nothing of groups
        return []
    known, totals = np.zeros((size, 2)), np.zeros((size, 2))
    for first in range(0, size, _SLICE):
        time.sleep(0)  # whoever waits for the lock has a turn
        _posteriors(tree, levels, first, min(first + _SLICE, size), known)
    _totals(tree, state.items, min(len(store), tree.member.size, state.items.size), totals)
    mean, worth = known.T
    shown = np.flatnonzero((totals[:, 1] > 0.0) & (mean > 0.0) & (mean < 1.0) & np.isfinite(worth))
    low, high = beta_interval(mean[shown] * worth[shown], (1.0 - mean[shown]) * worth[shown]) / levels.mean
    far = np.maximum(low, 1.0 / high)  # how many times as much, or as little, for certain
    order = np.argsort(-far, kind="stable")[:most].tolist()
    return [
        GroupEffect(
            *_names(path),
            float(mean[g]) / levels.mean,
            float(low[j]),
            float(high[j]),
            int(totals[g, 0]),
            float(totals[g, 1]) * levels.scale,
        )
        for j, g in zip(order, shown[order].tolist(), strict=True)
        if (path := paths[g]) is not None  # it may have ended meanwhile
    ]


def _names(path: Path) -> tuple[Path, tuple[str, ...]]:
    return (path, ()) if "\0" not in path[0] else ((), tuple(path[0].split("\0")[1:]))


def beta_interval(a: Floats, b: Floats) -> Floats:
    """Both ends of the 95 % interval of Beta(a, b), within some per cent of their distance where 1 <= a and 1 <= b.

    The cube root of a ratio of gamma variables is nearly normal (Wilson and Hilferty 1931, Paulson 1942): its ends are
    the roots of a quadratic equation. A hundred thousand groups take a few milliseconds.

    >>> beta_interval(np.array([20.0]), np.array([180.0])).round(4).ravel().tolist()
    [0.0625, 0.1451]
    """
    x, y = (1.0 / (9.0 * np.maximum(each, 0.12)) for each in (a, b))  # below, the ends are 0 and 1 or nearly so
    middle = (1.0 - x) * (1.0 - y)
    left, right = (1.0 - y) ** 2 - _SURE**2 * y, (1.0 - x) ** 2 - _SURE**2 * x
    root = np.sqrt(np.maximum(middle**2 - left * right, 0.0))
    lower = right / (middle + root)  # as (middle - root)/left, but without cancellation
    with np.errstate(divide="ignore"):  # 0 and 1 are ends too
        upper = np.where(left > 0.0, (middle + root) / np.abs(left), np.inf)
        ends: Floats = 1.0 / (1.0 + b / (a * np.stack([np.maximum(lower, 0.0), upper]) ** 3))
    return ends
