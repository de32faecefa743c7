r"""What a *learning* policy would have earned: it is played on the rewards that a log has, and learns from them.

A policy that learns shows what its own past made it show, so that weights of a log say nothing of it. Two ways to play
it on a log, each right where the rewards of an item do not change in time nor with the rest of the page:

**queue** (Mandel, Liu, Brunskill & Popović 2016): the logged rewards of each item are shuffled into a queue; what the
policy shows is taken from its item's queue. No propensities are needed, and every row can be used. It ends when an
item is shown whose queue is empty.

**replay** (Li, Chu, Langford & Wang 2011): the log is read in its order, and a row counts only if the policy chose its
item; with a logger of unequal chances a match is kept with probability (least propensity)/(propensity). It uses fewer
rows, and the rewards of an item in the order in which they came.

A run up to a round fixed in advance is a run as it would have been live: its rewards have the same law. How far a run
gets depends on the log, so that what is compared is what all seeds and all policies reached. Seeds shuffle the same
log: they take out the noise of the shuffling and not that of the log, so the interval is one seed's, averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.experiment import Pages, Totals, rate_bounds
from hellinger.policies import policy
from hellinger.world import runs
from hellinger.world.players import CountsPlayer, PoolPlayer
from hellinger.world.site import Player, Site, turns

__all__ = ["Replayed", "play_log", "summary"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.ArrayLike

METHODS = ("queue", "replay")
MANY = 200
"""Items from which on a policy is played by a pool."""


class Replayed(NamedTuple):
    """What a learning policy earned on a log, for each item it showed."""

    policy: str
    method: str
    value: float
    """Reward of an impression over the first ``rounds`` rounds, averaged over seeds."""
    low: float
    """Both ends of an interval that holds at all times, of one seed, averaged over them."""
    high: float
    rounds: int
    """Rounds that every seed of every policy reached: the value is of these."""
    reached: tuple[int, ...]
    """Rounds that each seed reached before the log had no more."""
    values: tuple[float, ...]
    """Reward of an impression of each seed, over the same rounds."""
    slots: int
    rows: int
    """Rows of the log."""

    @property
    def how_far(self) -> str:
        """How far it got, in words.

        >>> Replayed("ucb1", "queue", 0.1, 0.09, 0.11, 900, (1000, 1200), (0.1, 0.1), 1, 10_000).how_far
        'reached 1,000 to 1,200 rounds, on 12 % of 10,000 rows; compared over 900'
        """
        least, most = min(self.reached), max(self.reached)
        span = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        used = most * self.slots / max(self.rows, 1)
        return f"reached {span} rounds, on {100 * used:.0f} % of {self.rows:,} rows; compared over {self.rounds:,}"


class _EndOfLogError(Exception):
    """The log has no more rewards of an item that was shown."""


class _Queues:
    """Rewards of each item in some order, handed out one after the other."""

    def __init__(self, items: Ints, rewards: Floats, count: int, rng: np.random.Generator) -> None:
        mixed = rng.permutation(items.size)
        order = mixed[np.argsort(items[mixed], kind="stable")]
        self._rewards = rewards[order]
        self._first = np.searchsorted(items[order], np.arange(count + 1))

    def draw(self, items: Ints, given: Ints, places: Ints, segments: Ints, shown: int) -> Floats:
        """The next reward of each item shown."""
        row = places[0]
        at = self._first[items[row]] + given[row]
        if (at >= self._first[items[row] + 1]).any():
            raise _EndOfLogError
        given[row] += 1
        return np.asarray(self._rewards[at])[None]


class _Matches:
    """Rewards of a log in its order: the next row of the item that is shown, those before it being passed over."""

    def __init__(self, items: Ints, rewards: Floats, count: int, kept: npt.NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(kept)
        order = rows[np.argsort(items[rows], kind="stable")]
        first = np.searchsorted(items[order], np.arange(count + 1))
        self._rows = [order[a:b] for a, b in pairwise(first)]
        self._rewards = rewards
        self._next = 0

    def draw(self, items: Ints, given: Ints, places: Ints, segments: Ints, shown: int) -> Floats:
        """The reward of the next row that has the item."""
        rows = self._rows[items[places[0, 0]]]
        at = int(np.searchsorted(rows, self._next))
        if at == rows.size:
            raise _EndOfLogError
        self._next = int(rows[at]) + 1
        return self._rewards[rows[at] : rows[at] + 1][None]


class _Rewards(NamedTuple):
    """Reward of each round of a run; NaN after its end."""

    rewards: Floats


@dataclass(frozen=True)
class _Run:
    """One policy with one seed on a log."""

    spec: str
    method: str
    items: Ints
    rewards: Floats
    count: int
    propensity: Floats | None
    slots: int
    seed: int
    limit: int

    lasting: ClassVar[bool] = True
    steps: ClassVar[int] = 1

    @property
    def key(self) -> str:
        words = self.spec, self.method, self.count, self.slots, self.seed, self.limit, self.propensity is None
        chances = () if self.propensity is None else (self.propensity,)
        return runs.run_key(words, self.items, self.rewards, *chances)

    def empty(self) -> _Rewards:
        return _Rewards(np.zeros(self.limit))

    def play(self) -> _Rewards:
        rng = np.random.default_rng([0x6C6F67, self.seed])
        names = rng.permutation(self.count)  # ties go to the lowest place: another item for every seed
        items = names[self.items]
        out = np.full(self.limit, np.nan)
        site = Site(items=self.count, slots=self.slots)
        source: Any = self._source(items, rng)
        try:
            for number, turn in enumerate(turns(site, self._player(rng), source, seed=self.seed)):
                out[number] = turn.rewards.sum()
                if number + 1 == self.limit:
                    break
        except _EndOfLogError:
            pass
        return _Rewards(out)

    def _source(self, items: Ints, rng: np.random.Generator) -> _Queues | _Matches:
        if self.method == "queue":
            return _Queues(items, self.rewards, self.count, rng)
        kept = np.ones(items.size, bool)
        if self.propensity is not None:
            kept = rng.random(items.size) * self.propensity < self.propensity.min()
        return _Matches(items, self.rewards, self.count, kept)

    def _player(self, rng: np.random.Generator) -> Player:
        chosen = policy(self.spec)
        if chosen.needs_horizon:
            chosen = chosen.at_horizon(self.limit * self.slots)
        if chosen.random or self.count < MANY:
            return CountsPlayer(chosen, self.count, rng=rng)
        return PoolPlayer(chosen, self.count, seed=self.seed)


def play_log(
    policies: Sequence[str],
    items: Rows,
    rewards: Rows,
    *,
    method: str = "queue",
    propensity: Rows | None = None,
    slots: int = 1,
    seeds: int = 5,
    seed: int = 0,
    rounds: int | None = None,
    alpha: float = 0.05,
    resume: str | Path | None = None,
    progress: runs.Progress | None = None,
) -> list[Replayed]:
    """Play learning policies on the rewards of a log.

    Parameters
    ----------
    policies
        Specs.
    items, rewards
        Of each row of the log, in its order.
    method
        ``"queue"`` or ``"replay"``.
    propensity
        Of each row, for ``replay`` where the logger's chances were not all equal.
    slots
        Items that a round shows; 1 for ``replay``.
    seeds, seed
        How many shuffles are played, and where they begin.
    rounds
        The most rounds of a run; as many as the log allows if not given.
    alpha
        One less the level of the interval.
    resume
        Folder in which finished runs are kept.
    progress
        Called with the runs done and their total.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> items = rng.integers(3, size=3000)
    >>> clicks = rng.random(3000) < np.array([0.05, 0.1, 0.4])[items]
    >>> best, equal = play_log(["hellinger-ucb", "uniform"], items, clicks, seeds=3)
    >>> best.value > 0.3 > equal.value, best.rounds == equal.rounds
    (True, True)
    """
    names, codes = np.unique(np.asarray(items), return_inverse=True)
    earned = np.asarray(rewards, dtype=np.float64)
    require(len(policies) > 0, "there is at least one policy", policies=list(policies))
    require(method in METHODS, "method is queue or replay", method=method)
    require(codes.shape == earned.shape and earned.ndim == 1, "a reward for each item", rewards=earned.shape)
    require(earned.size > 0, "the log has rows", rows=earned.size)
    require(bool(((earned >= 0.0) & (earned <= 1.0)).all()), "0 <= reward <= 1", reward=(earned.min(), earned.max()))
    require(1 <= slots <= names.size, "1 <= slots <= items", slots=slots, items=names.size)
    require(method == "queue" or slots == 1, "replay shows one item a round", slots=slots)
    require(seeds >= 1, "1 <= seeds", seeds=seeds)
    require(rounds is None or rounds >= 1, "1 <= rounds", rounds=rounds)
    chances = None if propensity is None else np.asarray(propensity, dtype=np.float64)
    if chances is not None:
        right = chances.shape == earned.shape and bool(((chances > 0.0) & (chances <= 1.0)).all())
        require(right, "0 < propensity <= 1 for each row", propensity=chances.shape)
    limit = min(rounds or earned.size, earned.size // slots)
    common = method, codes.astype(np.int64), earned, names.size, chances if method == "replay" else None, slots
    specs = [policy(spec).spec for spec in policies]
    tasks = [_Run(spec, *common, seed + number, limit) for spec in dict.fromkeys(specs) for number in range(seeds)]
    found: dict[tuple[str, int], Floats] = {}
    for task, outcome in runs.run(tasks, runs.local(), resume=resume, progress=progress):
        found[task.spec, task.seed - seed] = outcome.rewards
    reached = {key: int(np.isfinite(each).sum()) for key, each in found.items()}
    together = min(reached.values())
    return [
        summary(spec, method, [found[spec, k] for k in range(seeds)], together, slots, earned.size, alpha)
        for spec in specs
    ]


def summary(
    spec: str, method: str, seeds: Sequence[Floats], rounds: int, slots: int, rows: int, alpha: float
) -> Replayed:
    """What a policy earned, from the rewards of each seed's rounds."""
    reached = tuple(int(np.isfinite(each).sum()) for each in seeds)
    if rounds == 0:
        return Replayed(spec, method, math.nan, 0.0, 1.0, 0, reached, (math.nan,) * len(seeds), slots, rows)
    totals = list(_totals(seeds, rounds, slots))
    low, high = rate_bounds(totals, alpha=alpha)
    values = tuple(each.reward / each.impressions for each in totals)
    ends = float(low.mean()), float(high.mean())
    return Replayed(spec, method, float(np.mean(values)), *ends, rounds, reached, values, slots, rows)


def _totals(seeds: Sequence[Floats], rounds: int, slots: int) -> Iterator[Totals]:
    for number, each in enumerate(seeds):
        earned = each[:rounds]
        pages = Pages(rounds, float(earned @ earned), slots, float(earned.max()))
        yield Totals(str(number), rounds, rounds * slots, float(earned.sum()), pages)
