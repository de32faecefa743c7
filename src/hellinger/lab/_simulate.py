"""Policies against each other on one problem: many runs, common random numbers, on every core."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger._spec import expand_spec, parse_spec
from hellinger.errors import require, require_memory, warn
from hellinger.lab._block import Block, Setting
from hellinger.lab.changing import Changing
from hellinger.lab.contextual import CHOOSER, simulate_problem
from hellinger.lab.filtering import FILTERS
from hellinger.lab.problem import Problem, Rewards
from hellinger.lab.result import Result
from hellinger.policies import Ball, Level, Policy, PolicyLike, Rule, policy
from hellinger.world.contextual import ContextualProblem
from hellinger.world.runs import Engine, Progress, get_engine, run

__all__ = ["check_policies", "log_spaced", "simulate", "whole"]

_STEPS_A_BLOCK = 2_000_000


def simulate(
    policies: PolicyLike | Sequence[PolicyLike],
    *,
    means: str | Sequence[float] | npt.NDArray[np.float64] | Changing | None = None,
    problem: str | ContextualProblem | None = None,
    data: str | Path | None = None,
    horizon: int,
    family: str | families.Family = "bernoulli",
    rewards: Rewards | None = None,
    runs: int = 200,
    seed: int = 0,
    init: int = 1,
    slots: int | None = None,
    batch: int = 1,
    delay: int = 0,
    ties: str = "random",
    checkpoints: int = 100,
    engine: str | Engine = "local",
    workers: int | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
    player: str = "auto",
) -> Result:
    """Play every policy on the same problem with the same rewards, and return what came of it.

    The j-th reward of an arm in run r is the same for every policy, so differences between policies are
    paired. Results depend on the seed alone: not on threads, workers, engine, or the order of policies.

    Parameters
    ----------
    policies
        Policies, which may be made for another family than the rewards', or their specs, or rules and functions of
        your own, as :func:`~hellinger.policy` takes them. A sweep, ``hellinger-ucb(c=0.3..0.5/5)``, stands for several.
    means, family
        The problem; ``means`` may also be text, as ``"beta(1.6,100)x10000"``. Means that change in time are a
        :class:`Changing`, or text as ``"piecewise(arms=10, changes=5)"`` (see :func:`changing`); regret is then against
        the best arm of the moment.
    problem, data
        Instead of means, a contextual problem: a spec as ``"synthetic(items=100)"`` or ``"jester"``, with the folder of
        its data, or one of your own. Rounds are pages, each for a person; regret is against an oracle that knows every
        person's rates. ``family``, ``rewards``, ``init``, ``ties`` and ``player`` have no meaning there. Policies are
        specs, which may say what their pool knows: ``"cold-start(model=logistic)"``, ``"cold-start(groups=true)"``,
        ``"cold-start(features=true)"``.
    rewards
        How rewards are drawn, where not by the family: a function ``f(rng)`` for each arm, or one, ``f(rng, arm)``, for
        all, of a ``numpy.random.Generator``. Regret is that of ``means``, which must be theirs. Such a simulation runs
        as Python, about ten microseconds a round.
    horizon, runs
        Rounds in a run, and runs.
    init
        Plays every arm is given first, in order; none by a policy that plays by its own weights from the start.
    slots, batch, delay
        Arms played a round (1, or as many as the problem has slots); rounds between two readings of feedback; rounds
        before feedback can be read.
    ties
        ``"random"``, in an order of the arms drawn anew for each run, or ``"first"``.
    checkpoints
        About how many times, log-spaced, regret and plays are noted.
    engine, workers
        ``"local"`` with so many threads (all cores if not given), or ``"dask://host:port"``.
    resume
        A folder in which finished parts are kept, so that they are not computed again; those of your own policies and
        rewards always are, for they may have changed.
    progress
        Called with the steps done and their total.
    player
        ``"scan"``, ``"leader"``, ``"lazy"`` or ``"pages"`` instead of the fastest; their choices are the same. Or
        ``"pool"``, a :class:`Pool`, which breaks ties by itself, and fits a prior when it ranks: for one arm a round.

    Examples
    --------
    >>> result = simulate(["hellinger-ucb", "ucb1"], means=[0.1, 0.05], horizon=2000, runs=20)
    >>> [round(row["mean_regret"]) for row in result.summary()]
    [10, 32]
    >>> made_up = "synthetic(items=50, people=20, slots=2, memory=6)"
    >>> result = simulate(["cold-start", "uniform"], problem=made_up, horizon=200, runs=2, workers=1)
    >>> result.regret[0, :, -1].mean() < result.regret[1, :, -1].mean()
    np.True_
    """
    seed = whole("seed", seed, 0)
    horizon, runs, init = whole("horizon", horizon, 1), whole("runs", runs, 1), whole("init", init, 0)
    batch, delay = whole("batch", batch, 1), whole("delay", delay, 0)
    slots = None if slots is None else whole("slots", slots, 1)
    require((means is None) != (problem is None), "either means or a problem is given", means=means, problem=problem)
    if problem is not None:
        plain = (family, rewards, init, ties, player) == ("bernoulli", None, 1, "random", "auto")
        require(plain, "family, rewards, init, ties and player stand without a problem", problem=problem)
        return simulate_problem(
            policies,
            problem,
            horizon=horizon,
            runs=runs,
            seed=seed,
            slots=slots,
            batch=batch,
            delay=delay,
            checkpoints=log_spaced(horizon, checkpoints),
            data=data,
            engine=engine,
            workers=workers,
            resume=resume,
            progress=progress,
        )
    require(data is None, "data stands with a problem", data=data)
    slots = 1 if slots is None else slots
    assert means is not None
    bandit = Problem.make(means, family, seed=seed, rewards=rewards, horizon=horizon)
    if bandit.draws is not None:
        warn("rewards are drawn by Python functions: a round takes about ten microseconds instead of less than one")
    chosen = check_policies(policies, bandit.family, horizon * slots)
    arms = bandit.means.size
    for one in chosen:
        together = (slots, batch, delay) == (1, 1, 0) or not one.rule.at_once
        rule = f"{one.name} plays one arm a round and sees its reward before the next"
        require(together, rule, slots=slots, batch=batch, delay=delay)
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
    players = ("auto", "scan", "leader", "lazy", "pages", "pool")
    require(player in players, f"player is one of {', '.join(players)}", player=player)
    setting = Setting(horizon, init, seed, ties, slots, batch, delay, player)
    if player == "pool":
        require(
            (slots, batch, delay) == (1, 1, 0), "a pool plays one arm a round", slots=slots, batch=batch, delay=delay
        )
        require(bandit.draws is None, "a pool's rewards are drawn by the family", family=bandit.family_name)
        for one in chosen:
            counts = one.rule.pooled and not one.rule.by_levels
            require(counts, "a pool's policy scores counts", policy=one.spec)
    marks = log_spaced(horizon, checkpoints)
    cells = len(chosen) * (runs + arms) * marks.size
    require_memory(8 * cells, f"the result of {runs:,} runs on {arms:,} arms at {marks.size} checkpoints")
    size = max(1, min(-(-runs // 2), _STEPS_A_BLOCK // horizon))
    blocks = [
        Block(each, bandit, setting, marks, first, min(size, runs - first))
        for each in chosen
        for first in range(0, runs, size)
    ]
    place = {each.spec: i for i, each in enumerate(chosen)}
    regret = np.empty((len(chosen), runs, marks.size))
    pulls = np.zeros((len(chosen), marks.size, arms), np.int64)
    reward = np.empty((len(chosen), runs))
    where = get_engine(engine, workers=workers)
    started = time.perf_counter()
    for block, outcome in run(blocks, where, resume=resume, progress=progress):
        at, its = place[block.policy.spec], slice(block.first, block.first + block.size)
        regret[at, its], reward[at, its] = outcome.regret, outcome.reward
        pulls[at] += outcome.pulls
    return Result(
        policies=[each.spec for each in chosen],
        family=bandit.family_name,
        means=bandit.means,
        setting=setting,
        runs=runs,
        checkpoints=marks,
        regret=regret,
        pulls=pulls / runs,
        reward=reward,
        wall_s=time.perf_counter() - started,
        changes=[] if bandit.changes is None else bandit.changes.since.tolist()[1:],
    )


def whole(name: str, value: float, least: int) -> int:
    """Check that a number is whole, not below ``least`` and not beyond what 64 bits hold."""
    require(value >= least and value % 1 == 0, f"{least} <= {name}, a whole number", **{name: value})
    require(name == "seed" or value < 2**63, f"{name} < 2**63", **{name: value})
    return int(value)


def check_policies(given: PolicyLike | Sequence[PolicyLike], family: families.Family, horizon: int) -> list[Policy]:
    """Make the policies, their horizon (in plays) set; all must differ.

    A policy or a rule given as such keeps its own family; a sweep is written out.
    """
    several = isinstance(given, Sequence) and not isinstance(given, (str, Rule, Ball, Level))
    listed: Any = given if several else [given]
    each = [one for spec in listed for one in (expand_spec(spec) if isinstance(spec, str) else [spec])]
    require(len(each) > 0, "there is at least one policy", policies=each)
    filters = [one for one in each if isinstance(one, str) and parse_spec(one)[0] in {*FILTERS, CHOOSER}]
    require(not filters, "models of people and items play a contextual problem: give one", policies=filters)
    made = [policy(one) if isinstance(one, (Policy, Rule)) else policy(one, family=family) for one in each]
    made = [one.at_horizon(max(1, horizon)) for one in made]
    specs = [one.spec for one in made]
    require(len(set(specs)) == len(specs), "policies differ", policies=specs)
    return made


def log_spaced(horizon: int, count: int) -> npt.NDArray[np.int64]:
    """About ``count`` rounds from 1 to the horizon, evenly spaced in their logarithm."""
    require(count >= 1, "1 <= checkpoints", checkpoints=count)
    marks: npt.NDArray[np.int64] = np.unique(np.geomspace(1, horizon, count).round().astype(np.int64))
    return marks if marks[-1] == horizon else np.append(marks[:-1], horizon)
