"""What the counts of all items tell about each: a Beta prior, its fit, and when to fit it again.

A fit is a function of the counts alone: it starts from the same place each time, and sums over the counts in
ascending order, so that the same items give the same bits whoever asks and in whatever order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit
from hellinger._numerics import bhattacharyya_trials
from hellinger.errors import InputError, require
from hellinger.policies.effects import (
    Described,
    Effects,
    Named,
    Rows,
    calibrated,
    exposures,
    fit_effects,
    row_marks,
    some_of,
)
from hellinger.policies.shares import MOST_LEVELS, GroupSums, fit_shares, mark_of, sample, thinned

__all__ = ["NOTHING", "Learned", "Path", "Prior", "fit_beta", "fit_prior", "learn", "next_fit", "tag_path"]

Path: TypeAlias = tuple[str, ...]
"""A group by the names of those above it and its own, broad to narrow; empty for none."""

Floats = npt.NDArray[np.float64]

_SCALE = 0.27

# A weak hyperprior keeps the fit in place while there is little to learn from: log(a + b) has mean log 50 and
# variance 1, which some dozens of items outweigh.
_LOG_STRENGTH = math.log(50.0)
_LOW, _HIGH = -7.0, 14.0
"""Bounds of log a and log b, for counts that would have them infinite: all failures, all successes, all alike."""


class Learned(NamedTuple):
    """A prior without groups, as compiled code has it; see :class:`Prior`."""

    a: float
    strength: float
    focus: float
    plays: float


NOTHING = Learned(1.0, 51.0, 1.0, 0.0)
"""Learned from nothing: Beta(1, 50), the start of every fit."""


class Prior(NamedTuple):
    """What was learned from the counts of all items; ``Prior()`` from none.

    Attributes
    ----------
    a, strength
        Pseudo-counts of items of which nothing else is known: a, and a + b.
    focus
        ∛(K/M): the cube root of how many times fewer items are in rotation than there are.
    plays
        Impressions of the items it was fitted to.
    shares
        Of the variance of click rates, how much lies between the broadest groups, between those within them, and so on;
        the rest is that of items within a group. Empty where groups tell nothing. See :mod:`hellinger.policies.shares`.
    effects
        What features tell of an item, whose impressions then are exposures; a and strength are of what they leave open.
        None where they tell nothing. See :mod:`hellinger.policies.effects`.
    trust
        What fits so far have said for groups that tell nearly all: the next one begins with it. Items that have left
        are in it.

    Examples
    --------
    >>> prior = fit_prior([1, 2, 0, 3], [50, 60, 40, 50])
    >>> round(prior.a / prior.strength, 3), prior.plays, next_fit(prior.plays)
    (0.032, 200.0, 300.0)
    >>> Prior.from_state(prior.state()) == prior
    True
    >>> fit_prior([90, 80, 10, 20], [1000] * 4, groups=[0, 0, 1, 1], paths=[("left",), ("right",)]).shares
    (0.89,)
    """

    a: float = NOTHING.a
    strength: float = NOTHING.strength
    focus: float = NOTHING.focus
    plays: float = NOTHING.plays
    shares: tuple[float, ...] = ()
    effects: Effects | None = None
    trust: float = 0.0

    def check(self) -> Self:
        """Return this, or raise where it cannot be a prior."""
        require(0 < self.a < self.strength < math.inf, "0 < a < strength", a=self.a, strength=self.strength)
        require(0 < self.focus < math.inf, "0 < focus", focus=self.focus)
        require(0 <= self.plays < math.inf, "0 <= plays", plays=self.plays)
        possible = len(self.shares) <= MOST_LEVELS and all(share >= 0 for share in self.shares) and sum(self.shares) < 1
        require(possible, f"at most {MOST_LEVELS} shares, none negative, below 1 together", shares=self.shares)
        require(math.isfinite(self.trust), "trust is a number", trust=self.trust)
        return self

    def state(self) -> dict[str, Any]:
        """The prior as JSON can hold it exactly; :meth:`from_state` makes it again."""
        state = self._asdict() | {"shares": list(self.shares)}
        effects = state.pop("effects")
        if not self.trust:
            del state["trust"]
        return state if effects is None else state | {"effects": effects.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the prior that gave this state; one of an older version has no shares, and its tag sets are left."""
        try:
            a, strength, focus, plays = (float(state[name]) for name in ("a", "strength", "focus", "plays"))
            shares = tuple(map(float, state.get("shares", ())))
            effects = None if state.get("effects") is None else Effects.from_state(state["effects"])
            trust = float(state.get("trust", 0.0))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"a prior's state must be what Prior.state() gave, but got {error!r}") from None
        return cls(a, strength, focus, plays, shares, effects, trust).check()


def tag_path(tags: Iterable[str]) -> Path:
    """The group of items that have none, but tags: those with the same tags; no group without tags."""
    listed = sorted(set(tags))
    return ("\0" + "\0".join(listed),) if listed else ()


@jit
def next_fit(plays: float) -> float:
    """Impressions at which to fit a prior again that was fitted at so many: 2 % more, but at least 100 more.

    Below 100 it is twice as many: Beta(1, 50) may be far off, and a short run has no time to wait.
    """
    return plays + max(1.0, min(plays, 100.0), math.floor(plays / 50.0))


# The fit ----------------------------------------------------------------------------------------------


@helper
def _digamma_pair(x: float) -> tuple[float, float]:
    """ψ(x) and ψ′(x) for x > 0: recurrence up to 10, then the asymptotic series, to about 2e-14."""
    first, second = 0.0, 0.0
    while x < 10.0:
        first -= 1.0 / x
        second += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    first += math.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    second += 1.0 / x + 0.5 * y + y / x * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * 5 / 66))))
    return first, second


@helper
def _counted(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Positive values that occur, ascending, and how many items have each."""
    top, whole = 0.0, True
    for i in range(values.size):
        top = max(top, values[i])
        whole = whole and 0.0 <= values[i] == math.floor(values[i])
    if whole and top < 16.0 * values.size:
        total = np.zeros(int(top) + 1)
        for i in range(values.size):
            total[int(values[i])] += weight[i]
        total[0] = 0.0
        found = np.flatnonzero(total)
        return found.astype(np.float64), total[found]
    out, total, size = np.empty(values.size), np.zeros(values.size), 0
    for i in np.argsort(values):
        if values[i] > 0.0:
            if size == 0 or out[size - 1] != values[i]:
                out[size] = values[i]
                size += 1
            total[size - 1] += weight[i]
    return out[:size], total[:size]


@helper
def _slopes(base: float, values: Floats, weight: Floats) -> tuple[float, float]:
    """First and second derivative of Σ weight·log(Γ(base + value)/Γ(base)) by base."""
    first, second = 0.0, 0.0
    x, y = _digamma_pair(base)
    for i in range(values.size):
        p, q = _digamma_pair(base + values[i])
        first += weight[i] * (p - x)
        second += weight[i] * (q - y)
    return first, second


@helper
def _outward(x: float, slope: float) -> bool:
    return (x <= _LOW and slope < 0.0) or (x >= _HIGH and slope > 0.0)


@jit
def fit_beta(s: Floats, n: Floats, weight: Floats) -> tuple[float, float]:
    """Most likely Beta(a, b) of which so many items of each (s, n) are draws, by Newton's method from Beta(1, 50).

    The likelihood is beta-binomial, Π Γ(a+s)Γ(b+n−s)Γ(a+b) / (Γ(a)Γ(b)Γ(a+b+n)); how a policy came to give
    each item its n does not enter it, so that adaptive sampling does no harm. Its logarithm is a sum over s, one
    over n − s and one over n, so that only the values that occur in each matter, not their pairs. Steps are taken in
    log a and log b, with curvature damped until it is negative definite, and are at most a factor e; at a bound that
    the likelihood rises beyond, the other parameter moves alone.
    """
    won, won_weight = _counted(s, weight)
    lost, lost_weight = _counted(np.maximum(n - s, 0.0), weight)
    shown, shown_weight = _counted(n, weight)
    u, v = 0.0, _LOG_STRENGTH
    for _ in range(100):
        a, b = math.exp(u), math.exp(v)
        m = a + b
        ga, haa = _slopes(a, won, won_weight)
        gb, hbb = _slopes(b, lost, lost_weight)
        gm, hmm = _slopes(m, shown, shown_weight)
        # both share the slope by a + b: less the denominator's, and the hyperprior −½(log(a + b) − log 50)²
        pull = (_LOG_STRENGTH - math.log(m)) / m
        shared, bend = pull - gm, -1.0 / (m * m) - pull / m - hmm
        gu, gv = a * (ga + shared), b * (gb + shared)
        huu, hvv, huv = a * a * (haa + bend) + gu, b * b * (hbb + bend) + gv, a * b * bend
        if _outward(u, gu):
            gu, huu, huv = 0.0, -1.0, 0.0
        if _outward(v, gv):
            gv, hvv, huv = 0.0, -1.0, 0.0
        damp = 0.0
        while True:
            p, q = huu - damp, hvv - damp
            determinant = p * q - huv * huv
            if p < 0.0 and q < 0.0 and determinant > 1e-12 * p * q:
                break
            damp = max(2.0 * damp, 1e-3 * (abs(huu) + abs(hvv) + abs(huv)) + 1e-12)
        du = -(q * gu - huv * gv) / determinant
        dv = -(p * gv - huv * gu) / determinant
        longest = max(1.0, abs(du), abs(dv))
        before_u, before_v = u, v
        u = min(max(u + du / longest, _LOW), _HIGH)
        v = min(max(v + dv / longest, _LOW), _HIGH)
        if max(abs(u - before_u), abs(v - before_v)) < 1e-7:
            break
    return math.exp(u), math.exp(v)


@helper
def _ranked(values: Floats, weight: Floats, rank: float) -> float:
    """The value of this rank, the largest having rank 1, each counting as often as its weight: by quickselect."""
    values, weight, size = values.copy(), weight.copy(), values.size
    while True:
        pivot = values[size // 2]
        above, level = 0.0, 0.0
        for i in range(size):
            above += weight[i] * (values[i] > pivot)
            level += weight[i] * (values[i] == pivot)
        if above < rank <= above + level:
            return float(pivot)
        sign = 1.0 if rank <= above else -1.0
        rank -= 0.0 if rank <= above else above + level
        kept = 0
        for i in range(size):  # those on the side of the rank, without a branch to mispredict
            value = values[i]
            values[kept], weight[kept] = value, weight[i]
            kept += sign * value > sign * pivot
        size = kept


@jit
def learn(s: Floats, n: Floats, weight: Floats) -> Learned:
    """Beta(a, b) fitted to so many items of each (s, n), no stronger than the best allow, and how focused plays are.

    M = (Σn)²/Σn² items are in rotation: as many would have this Σn² if they shared all plays alike. A Beta law is
    too light-tailed for some pools, and would make items like the best ones found look impossible. Of K draws, some
    M/5 are as far out as the M/5-th best, so that (a + b)·B(prior mean, that item's mean) is at most 0.27·log(5K/M).
    """
    shown, shown_weight = _counted(n, weight)
    items, plays = weight.sum(), (shown_weight * shown).sum()
    if plays == 0.0:
        return NOTHING
    a, b = fit_beta(s, n, weight)
    strength = a + b
    rotating = plays * plays / (shown_weight * shown * shown).sum()
    rank = max(1.0, np.rint(rotating / 5.0))
    if 2.0 * rank <= items:
        best = _ranked((s + a) / (n + strength), weight, rank)
        far = bhattacharyya_trials(a / strength, best, 1.0)
        most = _SCALE * math.log(items / rank)
        if strength * far > most:
            a, strength = a * most / (strength * far), most / far
    return Learned(a, strength, (items / rotating) ** (1.0 / 3.0), plays)


@jit
def _first_bad(s: Floats, n: Floats) -> int:
    """Position of the first counts that cannot be, or −1; discounted ones are rounded apart, and get some room."""
    for i in range(s.size):
        if not (0.0 <= s[i] <= n[i] * (1.0 + 1e-9) < math.inf):
            return i
    return -1


def fit_prior(
    rewards: npt.ArrayLike,
    impressions: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    paths: Sequence[Path] = ((),),
    departed: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None,
    items: npt.ArrayLike | None = None,
    features: Described | None = None,
    trust: float = 0.0,
) -> Prior:
    """Return the prior that these counts give, whatever their order: what ``Pool.fit`` gives for the same items.

    Parameters
    ----------
    rewards, impressions
        Of each item.
    groups
        Each item's group, as its place in ``paths``; none has a group if not given.
    paths
        The groups, all different: names from broad to narrow, ``()`` for no group. An item without a group but with
        tags has that of :func:`tag_path`.
    departed
        What items since removed had in each of ``paths``: how many there were, their impressions, their rewards.
    items
        How many items have these counts, a whole number, where there are no groups; one if not given.
    features
        What the items are, as columns: see :func:`hellinger.models.hashed`.
    trust
        That of the prior in force: see :class:`Prior`.
    """
    s, n = np.ascontiguousarray(rewards, np.float64), np.ascontiguousarray(impressions, np.float64)
    require(
        s.ndim == 1 and s.shape == n.shape,
        "rewards and impressions have one length",
        rewards=s.shape,
        impressions=n.shape,
    )
    bad = _first_bad(s, n)
    if bad >= 0:
        raise InputError(
            f"`0 <= rewards <= impressions` must hold, but got rewards={float(s[bad])!r} "
            f"for impressions={float(n[bad])!r}"
        )
    weight = np.ones(s.size) if items is None else np.ascontiguousarray(items, np.float64)
    require(weight.shape == s.shape, "one number of items for each reward", items=weight.shape, rewards=s.shape)
    prior = Prior(*learn(s, n, weight))
    if groups is None and features is None:
        return prior
    require(items is None, "with groups or features, each item by itself", items=items)
    numbers = np.zeros(s.size, np.int64) if groups is None else np.asarray(groups)
    paths = ((),) if groups is None else paths
    in_range = numbers.shape == s.shape and bool(((numbers >= 0) & (numbers < len(paths))).all())
    require(in_range, "each item has the number of a group", groups=numbers.shape, paths=len(paths))
    places, tree = group_tree(paths, departed)
    leaf = places[numbers]
    if features is not None:
        prior = _with_effects(prior, s, n, features, leaf, tree)
    drawn = sample(n, leaf, tree)
    exposed = n[drawn]
    if features is not None and prior.effects is not None:
        exposed = exposures(exposed, s[drawn], features.rows(drawn).steps(prior.effects))
    return with_shares(prior, s[drawn], exposed, leaf[drawn], tree, trust)


def _with_effects(
    prior: Prior, s: Floats, n: Floats, features: Described, leaf: npt.NDArray[np.int64], tree: GroupSums
) -> Prior:
    drawn = np.flatnonzero(n > 0)
    own = features.marks
    if own is None:
        rows = features.rows(drawn)
        own = row_marks(rows.start, rows.key, rows.value, s[drawn], n[drawn])
    else:
        own = own[drawn]
    drawn = drawn[some_of(own)]
    leaf = leaf[drawn]
    marks = np.zeros(drawn.size, np.uint64)
    marks[leaf >= 0] = tree.mark[leaf[leaf >= 0]]
    return with_effects(
        prior,
        s[drawn],
        n[drawn],
        features.rows(drawn),
        features.named,
        items=s.size / max(drawn.size, 1),
        marks=marks,
        left=features.left,
    )


def with_effects(
    prior: Prior,
    s: Floats,
    n: Floats,
    rows: Rows,
    named: Callable[[int], Named],
    *,
    items: float,
    marks: npt.NDArray[np.uint64],
    left: tuple[Floats, Floats, Rows, npt.NDArray[np.uint64]] | None = None,
) -> Prior:
    """The same prior, with what features tell about these items, all of which have impressions.

    Parameters
    ----------
    prior, s, n, rows, named
        See :func:`~hellinger.policies.effects.fit_effects`.
    items
        How many items there are for each of these, those never shown included.
    marks
        The group of each item by a number, 0 for none.
    left
        Rewards, impressions, columns and marks of items that have left: they tell what features are worth, too.
    """
    if not rows.key.size:
        return prior
    size = s.size
    a, b = fit_beta(s, n, np.ones(size))
    every_s, every_n, every_rows, every_mark = s, n, rows, marks
    if left is not None and left[0].size:
        every_s, every_n = np.concatenate([s, left[0]]), np.concatenate([n, left[1]])
        every_rows, every_mark = rows.joined(left[2]), np.concatenate([marks, left[3]])
    found = fit_effects(every_s, every_n, every_rows, named, a, every_mark)
    if found is None:
        return prior
    effects, unseen = found
    # by predictions that an item had no part in: those that are fitted to it leave too little open
    exposed = np.maximum(n * unseen[:size], s)
    law = learn(np.append(s, 0.0), np.append(exposed, 0.0), np.append(np.ones(size), max(items - 1.0, 0.0) * size))
    a, b = fit_beta(s, exposed, np.ones(size))
    table = calibrated(every_s, every_n, a / (a + b) * unseen, every_rows.steps(effects), a)
    effects = effects._replace(calibration=table)
    return prior._replace(a=law.a, strength=law.strength, effects=effects)


def with_shares(
    prior: Prior, s: Floats, n: Floats, leaf: npt.NDArray[np.int64], tree: GroupSums, trust: float
) -> Prior:
    """The same prior, with what groups tell about these items, all of which have impressions."""
    if not leaf.size:
        return prior._replace(trust=trust)
    s, n, leaf = thinned(s, n, leaf, tree)
    leaf, tree = tree.above(leaf)
    a, b = fit_beta(s, n, np.ones(s.size))
    shares, trust = fit_shares(s, n, leaf, tree, a / (a + b), a + b, trust)
    return prior._replace(shares=shares, trust=trust)


def group_tree(
    paths: Sequence[Path], departed: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None
) -> tuple[npt.NDArray[np.int64], GroupSums]:
    """The groups of these paths and all above them as a tree; and which of its groups each path is, −1 for no group."""
    number: dict[Path, int] = {}
    for path in paths:
        for depth in range(1, len(path) + 1):
            number.setdefault(path[:depth], len(number))
    sums = np.zeros((3, len(number)))
    places = np.array([number.get(path, -1) for path in paths], np.int64)
    if departed is not None:
        grouped = places >= 0
        sums[:, places[grouped]] = np.array([np.broadcast_to(part, places.shape) for part in departed])[:, grouped]
    parent = np.array([number.get(path[:-1], -1) for path in number], np.int64)
    depths = np.array([len(path) for path in number], np.int64)
    return places, GroupSums(parent, depths, np.array([mark_of(path) for path in number], np.int64), *sums)
