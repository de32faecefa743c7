"""Policies against each other on one problem: many runs, common random numbers, on every core."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger.errors import require
from hellinger.lab import engines
from hellinger.lab._block import Block, Outcome, Setting
from hellinger.lab.problem import Problem
from hellinger.lab.result import Result
from hellinger.policies import Policy, policy

__all__ = ["check_policies", "log_spaced", "simulate", "whole"]

_STEPS_A_BLOCK = 2_000_000


def simulate(
    policies: str | Policy | Sequence[str | Policy],
    *,
    means: str | Sequence[float] | npt.NDArray[np.float64],
    horizon: int,
    family: str | families.Family = "bernoulli",
    runs: int = 200,
    seed: int = 0,
    init: int = 1,
    slots: int = 1,
    batch: int = 1,
    delay: int = 0,
    ties: str = "random",
    checkpoints: int = 100,
    engine: str | engines.Engine = "local",
    workers: int | None = None,
    resume: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    player: str = "auto",
) -> Result:
    """Play every policy on the same problem with the same rewards, and return what came of it.

    The j-th reward of an arm in run r is the same for every policy, so differences between policies are
    paired. Results depend on the seed alone: not on threads, workers, engine, or the order of policies.

    Parameters
    ----------
    policies
        Policies, which may be made for another family than the rewards', or their specs.
    means, family
        The problem; ``means`` may also be text, as ``"beta(1.6,100)x10000"``.
    horizon, runs
        Rounds in a run, and runs.
    init
        Plays every arm is given first, in order.
    slots, batch, delay
        Arms played a round; rounds between two readings of feedback; rounds before feedback can be read.
    ties
        ``"random"``, in an order of the arms drawn anew for each run, or ``"first"``.
    checkpoints
        About how many times, log-spaced, regret and plays are noted.
    engine, workers
        ``"local"`` with so many threads (all cores if not given), or ``"dask://host:port"``.
    resume
        A folder in which finished parts are kept, so that they are not computed again.
    progress
        Called with the steps done and their total.
    player
        ``"scan"``, ``"leader"``, ``"lazy"`` or ``"pages"`` instead of the fastest; their choices are the same.

    Examples
    --------
    >>> result = simulate(["hellinger-ucb", "ucb1"], means=[0.1, 0.05], horizon=2000, runs=20)
    >>> [round(row["mean_regret"]) for row in result.summary()]
    [10, 32]
    """
    seed = whole("seed", seed, 0)
    horizon, runs, init = whole("horizon", horizon, 1), whole("runs", runs, 1), whole("init", init, 0)
    slots, batch, delay = whole("slots", slots, 1), whole("batch", batch, 1), whole("delay", delay, 0)
    problem = Problem.make(means, family, seed=seed)
    chosen = check_policies(policies, problem.family, horizon * slots)
    arms = problem.means.size
    require(slots <= arms, "slots <= arms", slots=slots, arms=arms)
    require(
        init * -(-arms // slots) <= horizon,
        "the initial plays fit in the horizon",
        init=init,
        arms=arms,
        slots=slots,
        horizon=horizon,
    )
    require(ties in ("random", "first"), "ties is 'random' or 'first'", ties=ties)
    players = ("auto", "scan", "leader", "lazy", "pages")
    require(player in players, f"player is one of {', '.join(players)}", player=player)
    setting = Setting(horizon, init, seed, ties, slots, batch, delay, player)
    marks = log_spaced(horizon, checkpoints)
    size = max(1, min(-(-runs // 2), _STEPS_A_BLOCK // horizon))
    blocks = [
        Block(each, problem, setting, marks, first, min(size, runs - first))
        for each in chosen
        for first in range(0, runs, size)
    ]
    place = {each.spec: i for i, each in enumerate(chosen)}
    regret = np.empty((len(chosen), runs, marks.size))
    pulls = np.zeros((len(chosen), marks.size, arms), np.int64)
    reward = np.empty((len(chosen), runs))
    started = time.perf_counter()
    for block, outcome in _play(blocks, engines.get(engine, workers=workers), resume, progress):
        at, its = place[block.policy.spec], slice(block.first, block.first + block.size)
        regret[at, its], reward[at, its] = outcome.regret, outcome.reward
        pulls[at] += outcome.pulls
    return Result(
        policies=[each.spec for each in chosen],
        family=problem.family.spec,
        means=problem.means,
        setting=setting,
        runs=runs,
        checkpoints=marks,
        regret=regret,
        pulls=pulls / runs,
        reward=reward,
        wall_s=time.perf_counter() - started,
    )


def whole(name: str, value: float, least: int) -> int:
    """Check that a number is whole and not below ``least``."""
    require(value >= least and value % 1 == 0, f"{least} <= {name}, a whole number", **{name: value})
    return int(value)


def check_policies(given: str | Policy | Sequence[str | Policy], family: families.Family, horizon: int) -> list[Policy]:
    """Make the policies, their horizon (in plays) set; all must differ. A policy given as such keeps its own family."""
    each = [given] if isinstance(given, (str, Policy)) else list(given)
    require(len(each) > 0, "there is at least one policy", policies=each)
    made = [one if isinstance(one, Policy) else policy(one, family=family) for one in each]
    made = [one.at_horizon(max(1, horizon)) for one in made]
    specs = [one.spec for one in made]
    require(len(set(specs)) == len(specs), "policies differ", policies=specs)
    return made


def log_spaced(horizon: int, count: int) -> npt.NDArray[np.int64]:
    """About ``count`` rounds from 1 to the horizon, evenly spaced in their logarithm."""
    require(count >= 1, "1 <= checkpoints", checkpoints=count)
    marks: npt.NDArray[np.int64] = np.unique(np.geomspace(1, horizon, count).round().astype(np.int64))
    return marks if marks[-1] == horizon else np.append(marks[:-1], horizon)


def _play(
    blocks: list[Block],
    engine: engines.Engine,
    resume: str | Path | None,
    progress: Callable[[int, int], None] | None,
) -> Iterator[tuple[Block, Outcome]]:
    """Give each block's outcome once, kept ones first; none is held, so that memory is the result's alone."""
    folder = None if resume is None else Path(resume)
    total = sum(block.size for block in blocks) * blocks[0].setting.horizon
    done = 0
    missing = []
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for block in blocks:
        kept = None if folder is None else block.load(folder)
        if kept is None:
            missing.append(block)
            continue
        done += block.size * block.setting.horizon
        yield block, kept
    if progress is not None:
        progress(done, total)
    if not missing:
        return
    for block, outcome in engine(missing):
        if folder is not None:
            block.save(folder, outcome)
        done += block.size * block.setting.horizon
        if progress is not None:
            progress(done, total)
        yield block, outcome
