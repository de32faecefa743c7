"""How much of the variance of click rates lies between groups: what a prior tells an item from its siblings.

Groups form a tree. Around the rate of the whole (mean m, strength T: variance m(1 − m)/(T + 1), nearly m(1 − m)/T) the
rates of the broadest groups have a share of that variance, narrower groups a share around theirs, and items the
rest around their innermost group. In units of m(1 − m) these are variances v = share/T, and information adds up:

* an item with n impressions tells its group as much as n/(1 + n·v) impressions of the group itself would, v being
  the items' own variance; a group with information W tells the one above W/(1 + W·v), v being that level's variance;
* what lies above a group is known with some variance V; the group's prior then is worth 1/(V + v) impressions, and
  its mean is the mean of prior and information, weighted;
* an item's prior has the mean of its group without what the item itself sent (a message never returns to where it came
  from), and the variance of that mean and of the item around it together.

An item of an unknown group thus has mean m and strength T, whatever the shares. They are those under which every item
is most likely given those shown more often, from a lattice, and what is held beforehand: that groups, which somebody
made, tell either nearly all or nothing. A pool that does not use its groups shows few items of each, and never finds
out; one that uses groups which mean nothing soon does. So large shares stay while counts do not speak against them, and
small ones need counts that speak for them. What counts said at earlier fits, of items that have left since, is
remembered as the *trust* in groups, one number.
"""

from __future__ import annotations

import math
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, inline, jit

__all__ = ["MOST_LEVELS", "SAMPLE", "GroupSums", "bits_for", "fit_shares", "likelihood", "mark_of", "sample", "thinned"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_LEVELS = 8
_FAVOUR = 8.0
"""Logarithm of how much more likely it is held beforehand that groups tell everything than that they tell a little."""
_NOTHING = 5.0
"""The same for that they tell nothing: less than for everything, and more than for a share below 5/8."""
_MOST_SHARE = 0.92
_MEMORY = 100.0
"""So many fits are remembered, about: where items come and go all are others after half as many."""
_BATCHES = 3.0
"""What counts said at these fits, on average, is believed as if so many pools of other items had said it."""
_MOST_TRUST = 6.0
"""And no more than that: groups may have come to mean something, or nothing."""
SAMPLE = 16384
"""So many items with impressions suffice for the fit; where there are more, whole groups are drawn by their marks."""


class GroupSums(NamedTuple):
    """The tree of groups, each by its number, and what is known of items that have left.

    Attributes
    ----------
    parent, depth
        Of each group: the group above, −1 for none; and how many it is below the whole, from 1.
    mark
        A number that a group has by its name (:func:`mark_of`).
    items, impressions, rewards
        How many items have left each group, and what they had.
    """

    parent: Ints
    depth: Ints
    mark: Ints
    items: Floats
    impressions: Floats
    rewards: Floats

    def above(self, leaf: Ints) -> tuple[Ints, GroupSums]:
        """The tree of these groups and all above them alone, and where in it each of these is."""
        used = np.unique(leaf)
        while True:
            over = self.parent[used]
            more = np.union1d(used, over[over >= 0])
            if more.size == used.size:
                break
            used = more
        parent = np.where(self.parent[used] >= 0, np.searchsorted(used, self.parent[used]), -1)
        rest: Any = (column[used] for column in self[1:])
        return np.searchsorted(used, leaf), GroupSums(parent, *rest)


def mark_of(path: tuple[str, ...]) -> int:
    """A number that is drawn by a group's name: large pools are fitted to the groups with certain ones."""
    return zlib.crc32("\1".join(path).encode())


@inline
def _log_gamma(x: float) -> float:
    """Logarithm of Γ(x), x > 0, to about 1e-10: Stirling's series, after a shift to 8 at least."""
    shift = 1.0
    while x < 8.0:
        shift *= x
        x += 1.0
    y = 1.0 / (x * x)
    return (x - 0.5) * math.log(x) - x + (1 / 12 - y * (1 / 360 - y / 1260)) / x - math.log(shift)


@helper
def log_chance(s: float, n: float, m: float, p: float) -> float:
    """Beta-binomial log-likelihood of s rewards in n impressions (but for what depends on these alone)."""
    a, b = m * p, (1.0 - m) * p
    won, lost = _log_gamma(a + s) - _log_gamma(a), _log_gamma(b + n - s) - _log_gamma(b)
    return won + lost - _log_gamma(p + n) + _log_gamma(p)


@helper
def _message(weight: float, v: float) -> float:
    """What information about something tells about the one above, around which it has variance v."""
    return weight / (1.0 + weight * v)


@helper
def _prior_of(tree: Any, g: int, mean: float, v: Floats, sent: Floats, good: Floats, path: Ints) -> tuple[float, float]:
    """Mean and worth of a group's prior: what lies above, without what the group itself has sent there."""
    depth = 0
    while g >= 0:  # path: room for this group and those above it
        path[depth] = g
        depth += 1
        g = tree.parent[g]
    above, worth, h = mean, 1.0 / max(v[1], 1e-12), path[depth - 1]
    for d in range(2, depth + 1):
        g = path[depth - d]
        w = _message(sent[g], v[d])
        y = w * good[g] / sent[g] if w > 0.0 else 0.0
        k = worth + sent[h] - w
        above = (worth * above + good[h] - y) / k
        worth, h = 1.0 / max(1.0 / k + v[d], 1e-12), g
    return above, worth


@helper
def _send(tree: Any, g: int, w: float, y: float, v: Floats, sent: Floats, good: Floats) -> None:
    """Let a group know this, and all above it."""
    while True:
        old = _message(sent[g], v[tree.depth[g]])
        old_y = old * good[g] / sent[g] if old > 0.0 else 0.0
        sent[g] += w
        good[g] += y
        h = tree.parent[g]
        if h < 0 or sent[g] <= 0.0:
            break
        w = _message(sent[g], v[tree.depth[g]])
        y = w * good[g] / sent[g] - old_y
        w, g = w - old, h


@jit
def likelihood(s: Floats, n: Floats, leaf: Ints, tree: Any, mean: float, strength: float, shares: Floats) -> float:
    """Log-likelihood of the items, each given those before it and those that left; ``leaf`` is −1 for no group."""
    size, levels = tree.parent.size, 0
    for g in range(size):
        levels = max(levels, tree.depth[g])
    v, rest = np.zeros(levels + 2), np.full(levels + 2, 1.0 / strength)
    for d in range(1, levels + 1):
        v[d] = shares[d - 1] / strength if d <= shares.size else 0.0
        rest[d] = max(rest[d - 1] - v[d], 0.0)
    sent, good = np.zeros(size), np.zeros(size)  # information about each group, and the same times its mean
    for g in range(size):
        if tree.impressions[g] > 0.0:
            w = tree.items[g] * _message(tree.impressions[g] / tree.items[g], rest[tree.depth[g]])
            _send(tree, g, w, w * tree.rewards[g] / tree.impressions[g], v, sent, good)
    total, path = 0.0, np.empty(levels, np.int64)
    for i in range(s.size):
        if n[i] > 0.0:
            m, p = mean, strength
            g = leaf[i]
            if g >= 0:
                own = rest[tree.depth[g]]
                above, worth = _prior_of(tree, g, mean, v, sent, good, path)
                k = worth + sent[g]
                m = (worth * above + good[g]) / k
                p = 1.0 / (1.0 / k + own)
                w = _message(n[i], own)
                _send(tree, g, w, w * s[i] / n[i], v, sent, good)
            total += log_chance(s[i], n[i], min(max(m, 1e-9), 1.0 - 1e-9), p)
    return total


def fit_shares(
    s: Floats, n: Floats, leaf: Ints, tree: GroupSums, mean: float, strength: float, trust: float = 0.0
) -> tuple[tuple[float, ...], float]:
    """Return the shares of the levels, broad to narrow, and the trust of the next fit; ``trust`` is that of the last.

    Shares of sum S are taken where they make the items e^(5 − (8 + trust)·S) times as likely at least, and none
    otherwise. One level after the other, twice, in ever smaller steps; the same counts give the same shares, in
    whatever order.
    """
    levels = int(tree.depth.max(initial=0))
    shares = np.zeros(levels)
    order = np.lexsort((tree.mark[leaf], s, n))[::-1]
    s, n, leaf = s[order], n[order], leaf[order]

    def gain(tried: Floats) -> float:
        return likelihood(s, n, leaf, tree, mean, strength, tried) - none

    def value(level: int, share: float) -> float:
        tried = shares.copy()
        tried[level] = share
        return gain(tried) + (_FAVOUR + trust) * float(tried.sum())

    none, best = likelihood(s, n, leaf, tree, mean, strength, shares), 0.0
    for _ in range(1 if levels == 1 else 2):
        for level in range(levels):
            most = _MOST_SHARE - float(shares.sum() - shares[level])
            known = {float(shares[level]): best}
            center, step = 0.5 * most, 0.25 * most
            known[center] = value(level, center)
            while step > 0.015:
                for share in (max(center - step, 0.0), min(center + step, most)):
                    if share not in known:
                        known[share] = value(level, share)
                center = max(known, key=known.__getitem__)
                step /= 2
            shares[level] = math.floor(100.0 * center + 0.5) / 100.0
            best = value(level, float(shares[level]))
    found = shares.tolist()
    while found and found[-1] <= 0.0:
        found.pop()
    told = max(map(gain, np.eye(levels) * _MOST_SHARE), default=0.0) * _BATCHES / _MOST_SHARE
    trust += (min(max(told, -_MOST_TRUST), _MOST_TRUST) - trust) / _MEMORY
    return (tuple(found) if best >= _NOTHING else ()), trust


def bits_for(items: int) -> int:
    """By how many bits of their marks groups are drawn, where they have so many items."""
    return (items // SAMPLE).bit_length()


def sample(n: Floats, leaf: Ints, tree: GroupSums) -> Ints:
    """Positions of the items with impressions of some groups, of all groups where items are few."""
    shown = np.flatnonzero((leaf >= 0) & (n > 0))
    bits = bits_for(int((leaf >= 0).sum()))
    mark = tree.mark[leaf[shown]]
    while True:
        drawn: Ints = shown[mark % (1 << bits) == 0]
        if drawn.size >= SAMPLE // 2 or bits == 0:  # groups may be few and large, or seldom shown
            return drawn
        bits -= 1


def thinned(s: Floats, n: Floats, leaf: Ints, tree: GroupSums) -> tuple[Floats, Floats, Ints]:
    """These items, or every so many of them where even those of a sample are too many."""
    if s.size <= 4 * SAMPLE:
        return s, n, leaf
    order = np.lexsort((s, n, tree.mark[leaf]))[:: s.size // SAMPLE]
    return s[order], n[order], leaf[order]
