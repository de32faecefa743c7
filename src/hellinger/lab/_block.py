"""A block: some consecutive runs of one policy, the unit that engines hand out and that is kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger import _jit
from hellinger._random import stream, word
from hellinger.errors import InputError
from hellinger.families import Family
from hellinger.families import _dispatch as families
from hellinger.lab import _play
from hellinger.lab.problem import Problem
from hellinger.policies import Policy
from hellinger.world.players import CountsPlayer, PoolPlayer
from hellinger.world.runs import run_key
from hellinger.world.site import Site, turns

__all__ = ["Block", "BlockOutcome", "Setting", "play_drawn", "reward_streams"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LAZY_FROM = 64
"""From so many arms on the lazy player is faster than the others (benchmarks/lab.py)."""


class Setting(NamedTuple):
    """How every run of an experiment goes."""

    horizon: int
    init: int = 1
    seed: int = 0
    ties: str = "random"
    slots: int = 1
    batch: int = 1
    delay: int = 0
    player: str = "auto"


class BlockOutcome(NamedTuple):
    """What came of a block: regret by run and checkpoint, plays by checkpoint and arm, reward by run."""

    regret: Floats
    pulls: Ints
    reward: Floats


class Block(NamedTuple):
    """Runs ``first`` to ``first + size − 1`` of a policy on a problem."""

    policy: Policy
    problem: Problem
    setting: Setting
    checkpoints: Ints
    first: int
    size: int

    @property
    def key(self) -> str:
        """A name for this block's outcome: equal where all that determines it is."""
        words = (self.policy.spec, self.policy.family.spec, self.setting, self.first, self.size)
        course = self.problem.course
        changes = (course.since, course.table) if self.problem.changes is not None else ()
        return run_key(words, self.problem.means, self.checkpoints, *changes)

    @property
    def lasting(self) -> bool:
        """Whether the outcome may be kept: what is not the library's own may be another at the next call."""
        return self.policy.own and _jit.is_own(self.problem.family) and self.problem.draws is None

    @property
    def steps(self) -> int:
        """Rounds of all its runs."""
        return self.size * self.setting.horizon

    def empty(self) -> BlockOutcome:
        """An outcome of zeros."""
        marks, arms = self.checkpoints.size, self.problem.means.size
        return BlockOutcome(np.zeros((self.size, marks)), np.zeros((marks, arms), np.int64), np.zeros(self.size))

    def play(self) -> BlockOutcome:
        """Play the runs. Run r is the same whichever block it is in, and wherever it is played."""
        rule, family = self.policy.rule, self.problem.family
        setting, means, checkpoints = self.setting, self.problem.means, self.checkpoints
        arms, course = means.size, self.problem.course
        init = 0 if rule.at_once else setting.init
        outcome = self.empty()
        own = int.from_bytes(
            hashlib.sha256(f"{self.policy.spec} {self.problem.family_name}".encode()).digest()[:8], "little"
        )
        root = np.random.SeedSequence(setting.seed).generate_state(1, np.uint64)[0]
        paged = (setting.slots, setting.batch, setting.delay) != (1, 1, 0)
        player = setting.player
        if paged:
            player = "pages"
        elif rule.limited and player == "auto":
            player = "limited"
        elif not rule.rising and player not in ("pages", "pool"):
            player = "scan"
        elif player == "auto":
            player = "leader" if arms < _LAZY_FROM else "lazy"
        width = arms if rule.relative or rule.random or rule.remembers else -(-arms // 4) * 4
        for i in range(self.size):
            run = self.first + i
            order = np.arange(arms)
            if setting.ties == "random":
                order = np.random.default_rng([setting.seed, run, 1]).permutation(arms)
            streams = reward_streams(np.uint64(root), np.uint64(run), order)
            rng = None
            if rule.random:
                rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([setting.seed, run, 2, own])))
            table, regret = np.ascontiguousarray(course.table[:, order]), outcome.regret[i]
            rule = rule.begin(arms)
            if self.problem.draws is not None:
                draws = self.problem.draws
                own_draws = [
                    partial(draws[arm], np.random.default_rng([setting.seed, run, 3, arm])) for arm in order.tolist()
                ]
                outcome.reward[i] = play_drawn(
                    self.policy, own_draws, table[0], order, setting, rng, checkpoints, regret, outcome.pulls
                )
                continue
            common = (rule, family, table, course.since, order, streams, init)
            if player == "pool":
                total = _play_pool(self.policy, run, *common[1:], setting.seed, checkpoints, regret, outcome.pulls)
            elif player == "pages":
                pages = (rng, rule.random, setting.slots, setting.batch, setting.delay)
                total = _play.pages(*common, *pages, checkpoints, regret, outcome.pulls)
            elif player == "lazy":
                total = _play.lazy(*common, checkpoints, regret, outcome.pulls)
            elif player == "limited":
                total = _play.limited(*common, checkpoints, regret, outcome.pulls)
            elif player == "leader":
                total = _play.leader(*common, width, checkpoints, regret, outcome.pulls)
            else:
                total = _play.scan(*common, rng, width, checkpoints, regret, outcome.pulls)
            outcome.reward[i] = total
        return outcome


def play_drawn(
    policy: Policy,
    draws: Sequence[Callable[[], float]],
    means: Floats,
    order: Ints,
    setting: Setting,
    rng: Any,
    checkpoints: Ints,
    regrets: Floats,
    played: Ints,
) -> float:
    """Play a run whose rewards Python functions draw, and return their sum; ``draws`` give each arm's next reward."""
    site = Site(means.size, setting.slots, min(setting.batch, setting.horizon), setting.delay)
    player = CountsPlayer(policy, means.size, rng=rng, init=setting.init)
    shown = np.zeros(means.size, np.int64)
    best = float(np.sort(means)[-setting.slots :].sum())
    regret, total, step, when = 0.0, 0.0, 0, 0
    for turn in turns(site, player, _Drawn(policy, draws, order)):
        for page, rewards in zip(turn.places, turn.rewards, strict=True):
            step += 1
            shown[page] += 1
            for reward in rewards.tolist():
                total += reward
            regret += best - float(means[page].sum())
            if step == checkpoints[when]:
                regrets[when] = regret
                played[when, order] += shown
                when += 1
                if when == checkpoints.size:
                    return total
    raise AssertionError("a site is played without end")


def _play_pool(
    policy: Policy,
    run: int,
    family: Family,
    course: Floats,
    since: Ints,
    order: Ints,
    streams: npt.NDArray[np.uint64],
    init: int,
    seed: int,
    checkpoints: Ints,
    regrets: Floats,
    played: Ints,
) -> float:
    """Play a run as a pool ranks, one arm a round: some microseconds a round, however many arms there are."""
    arms = order.size
    mixed = int(np.random.SeedSequence([seed, run, 4]).generate_state(1, np.uint64)[0])
    player, none, pulls = PoolPlayer(policy, arms, seed=mixed), np.zeros(1, np.int64), np.zeros(arms, np.int64)
    row, when, regret, total, best = 0, 0, 0.0, 0.0, float(course[0].max())
    for step in range(1, int(checkpoints[-1]) + 1):
        if row + 1 < since.size and step == since[row + 1]:
            row, best = row + 1, float(course[row + 1].max())
        page = np.array([(step - 1) // init]) if step <= init * arms else player.choose(1, none)[0]
        arm = int(page[0])
        reward = _reward(family, course[row, arm], streams[arm], pulls[arm])
        player.record(page, 1, np.array([reward]), none)
        pulls[arm] += 1
        total += reward
        regret += best - float(course[row, arm])
        if step == checkpoints[when]:
            regrets[when] = regret
            played[when, order] += pulls
            when += 1
    return total


class _Drawn(NamedTuple):
    """Rewards that Python functions draw, one for each arm."""

    policy: Policy
    draws: Sequence[Callable[[], float]]
    order: Ints

    def draw(self, items: Ints, given: Ints, places: Ints, segments: Ints, shown: int) -> Floats:
        low, high = self.policy.family.mean_bounds
        out = np.array([float(self.draws[arm]()) for arm in places.ravel().tolist()])
        bad = np.flatnonzero(~((low <= out) & (out <= high) & np.isfinite(out)))
        if bad.size:
            arm, reward = self.order[places.ravel()[bad[0]]], float(out[bad[0]])
            rule = f"{low:g} <= reward <= {high:g}"
            raise InputError(f"`{rule}` must hold for {self.policy.family}, but arm {arm} gave {reward!r}")
        return out.reshape(places.shape)


@_jit.jit
def _reward(family: Family, mean: float, own: np.uint64, j: int) -> float:
    return families.draw(family, mean, word(own, np.uint64(j)))


@_jit.jit
def reward_streams(root: np.uint64, run: np.uint64, order: Ints) -> npt.NDArray[np.uint64]:
    """A stream of rewards for every arm of this run, the same for every policy."""
    out = np.empty(order.size, np.uint64)
    own = stream(root, run)
    for i in range(order.size):
        out[i] = stream(own, np.uint64(order[i]))
    return out
