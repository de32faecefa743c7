"""Recorded rewards: policies on a table that holds what every arm would have returned in every round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger._jit import jit
from hellinger.errors import InputError, needs_extra, require
from hellinger.lab._block import Setting
from hellinger.lab._simulate import check_policies, log_spaced, whole
from hellinger.lab.result import Result
from hellinger.policies import PolicyLike
from hellinger.policies import _dispatch as rules
from hellinger.policies._rule import Rule
from hellinger.world.players import largest

__all__ = ["read_table", "replay_table"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def read_table(path: str | Path) -> Floats:
    """Read a CSV of rewards, a row for each round and a column for each arm; a first row of names is skipped."""
    with needs_extra("lab"):
        import polars as pl
    if not Path(path).exists():
        raise InputError(f"no such file: {path}")
    try:
        frame = pl.read_csv(path, has_header=False, infer_schema_length=0)
        if not any(map(_is_number, frame.row(0))):
            frame = frame.slice(1)
        table = frame.cast(pl.Float64).to_numpy()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"rewards must be a CSV of numbers, but {str(path)!r} is not: {str(error).splitlines()[0]}"
        ) from None
    require(np.isfinite(table).all(), "every cell is a number", rewards=str(path))
    return np.ascontiguousarray(table)


def _is_number(cell: str | None) -> bool:
    try:
        float(cell or "")
    except ValueError:
        return False
    return True


@jit
def _play(
    rule: Rule, table: Floats, order: Ints, rng: Any, slots: int, checkpoints: Ints, rewards: Floats, played: Ints
) -> float:
    """Play ``slots`` arms in every row; rewards are noted as they add up."""
    arms = order.size
    sums, pulls, index = np.zeros(arms), np.zeros(arms), np.empty(arms)
    chosen = np.zeros(slots, np.int64)
    total, when = 0.0, 0
    for row in range(table.shape[0]):
        rules.fill(rule, sums, pulls, float(pulls.sum() + 1.0), float(arms), rng, index)
        largest(index, slots, chosen)
        for j in range(slots):
            arm = chosen[j]
            reward = table[row, order[arm]]
            sums[arm] += reward
            pulls[arm] += 1.0
            rules.observe(rule, arm, reward, float(row * slots + j + 1))
            total += reward
        rule = rules.learned(rule, sums, pulls, float((row + 1) * slots))
        if checkpoints[when] == row + 1:
            rewards[when] = total
            for i in range(arms):
                played[when, order[i]] += np.int64(pulls[i])
            when += 1
    return total


def replay_table(
    policies: PolicyLike | Sequence[PolicyLike],
    rewards: str | Path | npt.ArrayLike,
    *,
    family: str | families.Family = "bernoulli",
    slots: int = 1,
    runs: int = 200,
    seed: int = 0,
    ties: str = "random",
    checkpoints: int = 100,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Play policies on a full-information table; runs differ in how ties are broken and in what policies draw.

    Regret is measured against the ``slots`` columns with the largest sums, shown in every row.

    Examples
    --------
    >>> table = np.random.default_rng(0).random((2000, 3)) < [0.1, 0.3, 0.2]
    >>> result = replay_table(["hellinger-ucb", "uniform"], table, runs=5)
    >>> [row["mean_reward"] > 500 for row in result.summary()]
    [True, False]
    """
    table = read_table(rewards) if isinstance(rewards, (str, Path)) else np.ascontiguousarray(rewards, np.float64)
    require(table.ndim == 2 and table.size > 0, "rewards is a table of rounds and arms", shape=table.shape)
    require(bool(np.isfinite(table).all()), "every reward is a number", shape=table.shape)
    rounds, arms = table.shape
    slots, runs, seed = whole("slots", slots, 1), whole("runs", runs, 1), whole("seed", seed, 0)
    require(slots <= arms, "slots <= arms", slots=slots, arms=arms)
    require(ties in ("random", "first"), "ties is 'random' or 'first'", ties=ties)
    chosen_family = families.get(family)
    chosen_family._check_mean(table, "reward")
    made = check_policies(policies, chosen_family, rounds * slots)
    for one in made:
        require(slots == 1 or not one.rule.at_once, f"{one.name} plays one arm a round", slots=slots)
    marks = log_spaced(rounds, checkpoints)
    best = np.argsort(-table.sum(axis=0), kind="stable")[:slots]
    ceiling = np.cumsum(table[:, best].sum(axis=1))[marks - 1]
    reward = np.zeros((len(made), runs, marks.size))
    pulls = np.zeros((len(made), marks.size, arms), np.int64)
    started = time.perf_counter()
    for i, each in enumerate(made):
        for run in range(runs):
            order = np.arange(arms)
            if ties == "random":
                order = np.random.default_rng([seed, run, 1]).permutation(arms)
            rng = np.random.Generator(np.random.Philox([seed, run])) if each.random else None
            _play(each.rule.begin(arms), table, order, rng, slots, marks, reward[i, run], pulls[i])
            if progress is not None:
                progress(i * runs + run + 1, len(made) * runs)
    return Result(
        policies=[each.spec for each in made],
        family=chosen_family.spec,
        means=table.mean(axis=0),
        setting=Setting(rounds, 0, seed, ties, slots),
        runs=runs,
        checkpoints=marks,
        regret=ceiling - reward,
        pulls=pulls / runs,
        reward=reward[:, :, -1],
        wall_s=time.perf_counter() - started,
    )
