"""Policies against each other where people and items have features: the same people, items and clicks for each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger import families, models
from hellinger._spec import expand_spec, format_spec, parse_spec, split_specs
from hellinger.errors import require, require_memory
from hellinger.lab._block import Setting
from hellinger.lab.datasets import load_problem
from hellinger.lab.filtering import FILTERS, ModelChooser, make_filter, require_filter
from hellinger.lab.result import Result
from hellinger.policies import PolicyLike, policy
from hellinger.world.contextual import ContextualProblem, PagePlayer, PersonOracle, PersonPool
from hellinger.world.runs import Engine, Progress, get_engine, run, run_key
from hellinger.world.site import Clicks, Player, turns

__all__ = ["Contender", "ContextRun", "PagesOutcome", "play_pages", "run_seed", "simulate_problem"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ORACLE, CHOOSER = "oracle", "choose-model"


class Contender(NamedTuple):
    """A policy under the name that it was given by, and what it knows of people and items.

    That is a model, or items' groups and features. Instead of a policy there may be a filter
    (:mod:`hellinger.lab.filtering`), by its spec; or other contenders, among whom the policy chooses.
    """

    spec: str
    policy: str
    model: str = ""
    groups: bool = False
    features: bool = False
    filtering: str = ""
    among: tuple[Contender, ...] = ()

    @classmethod
    def read(cls, spec: str) -> Contender:
        """Take what is the pool's out of a policy's spec.

        >>> Contender.read("cold-start(model=logistic)")[:4]
        ('cold-start(model=logistic)', 'cold-start', 'logistic', False)
        >>> Contender.read("cold-start(features=true)").features
        True
        >>> [each.spec for each in Contender.read("choose-model(models=(pairwise, cold-start))").among]
        ['pairwise', 'cold-start']
        """
        name, arguments = parse_spec(spec)
        if name in FILTERS:
            require_filter(spec)
            return cls(spec, "", filtering=spec)
        if name == CHOOSER:
            return cls._read_chooser(spec, arguments)
        model = arguments.pop("model", "")
        require(isinstance(model, str), "model is the spec of a model", model=model)
        groups = _flag(arguments, "groups")
        features = _flag(arguments, "features")
        require(not (model and features), "a model has the features already: model=… or features=true", spec=spec)
        made = policy(format_spec(name, arguments))
        needed = "features=true goes with a policy that learns a prior"
        require(made.rule.learns_prior or not features, needed, policy=made.spec)
        return cls(spec, made.spec, models.get(str(model)).spec if model else "", groups, features)

    @classmethod
    def _read_chooser(cls, spec: str, arguments: dict[str, object]) -> Contender:
        unknown = sorted(arguments.keys() - {"models", "policy"})
        require(not unknown, f"{CHOOSER} takes models, policy", argument=unknown)
        listed = str(arguments.get("models", ""))
        rule = f"{CHOOSER} has its models in parentheses, models=(name, name(key=value), …)"
        require(listed.startswith("(") and listed.endswith(")"), rule, models=listed)
        among = tuple(cls.read(each) for each in split_specs(listed[1:-1]))
        require(len(among) > 0, rule, models=listed)
        return cls(spec, policy(str(arguments.get("policy", "hellinger-ucb"))).spec, among=among)

    @property
    def own(self) -> bool:
        """Whether all that is in it is the library's."""
        return (not self.policy or policy(self.policy).own) and all(each.own for each in self.among)

    def player(self, problem: ContextualProblem, seed: int) -> PagePlayer:
        """Somebody who fills pages by it; the oracle has no policy."""
        if self.filtering:
            return make_filter(self.filtering, problem, seed)
        if not self.policy:
            return PersonOracle(problem)
        if self.among:
            players = [each.player(problem, seed) for each in self.among]
            return ModelChooser(problem, policy(self.policy), players, seed=seed)
        known = {"groups": self.groups, "features": self.features}
        return PersonPool(problem, policy(self.policy), model=self.model or None, **known, seed=seed)


def _flag(arguments: dict[str, object], name: str) -> bool:
    """Take what is true or false out of a spec's arguments; false where it is not said."""
    value = arguments.pop(name, False)
    require(isinstance(value, bool), f"{name} is true or false", **{name: value})
    return bool(value)


class PagesOutcome(NamedTuple):
    """What came of a run: expected and actual rewards by checkpoint, impressions by checkpoint and item."""

    expected: Floats
    reward: Floats
    pulls: Ints


@dataclass(frozen=True)
class ContextRun:
    """A run of one contender on a problem."""

    contender: Contender
    problem: ContextualProblem | str
    data: str | None
    digest: str
    setting: Setting
    checkpoints: tuple[int, ...]
    items: int
    number: int

    @property
    def key(self) -> str:
        """A name for the outcome."""
        return run_key((self.contender, self.digest, self.setting, self.checkpoints, self.number))

    @property
    def lasting(self) -> bool:
        """Whether the outcome may be kept: policies here are the library's own."""
        return self.contender.own

    @property
    def steps(self) -> int:
        """Pages."""
        return self.setting.horizon

    def empty(self) -> PagesOutcome:
        """An outcome of zeros."""
        marks = len(self.checkpoints)
        return PagesOutcome(np.zeros(marks), np.zeros(marks), np.zeros((marks, self.items), np.int64))

    def play(self) -> PagesOutcome:
        """Play the pages."""
        where = self.problem
        problem = load_problem(where, self.data) if isinstance(where, str) else where
        setting = self.setting
        problem = problem._replace(
            site=problem.site._replace(slots=setting.slots, batch=setting.batch, delay=setting.delay)
        )
        seed = run_seed(setting.seed, self.number)
        player = self.contender.player(problem, seed)
        return play_pages(problem, player, self.checkpoints, seed=seed)


def run_seed(seed: int, number: int) -> int:
    """What people and clicks of a run are drawn from."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint32)[0])


def play_pages(problem: ContextualProblem, player: Player, checkpoints: Sequence[int], *, seed: int) -> PagesOutcome:
    """Let a player fill pages of a problem until the last checkpoint; what is drawn depends on the seed alone."""
    expected, reward, shown, page = 0.0, 0.0, np.zeros(len(problem.features), np.int64), 0
    site, when, marks = problem.site, 0, len(checkpoints)
    out = PagesOutcome(np.zeros(marks), np.zeros(marks), np.zeros((marks, shown.size), np.int64))
    source = _Noted(problem.rates, seed)
    for turn in turns(site, player, source, seed=seed):
        for items, person, rewards in zip(source.items, turn.segments.tolist(), turn.rewards, strict=True):
            page += 1
            rates = problem.rates[person, items]
            require(
                not np.isnan(rates).any(), "a person is shown items with a known reward", items=items, person=person
            )
            expected += float(rates.sum())
            reward += float(rewards.sum())
            shown[items] += 1
            if page == checkpoints[when]:
                out.expected[when], out.reward[when], out.pulls[when] = expected, reward, shown
                when += 1
                if when == marks:
                    return out
    raise AssertionError("a site is played without end")


class _Noted(Clicks):
    """Clicks at each person's rate, and which items were on the pages."""

    def draw(self, items: Ints, given: Ints, places: Ints, segments: Ints, shown: int) -> Floats:
        self.items = items[places]
        return super().draw(items, given, places, segments, shown)


def simulate_problem(
    policies: PolicyLike | Sequence[PolicyLike],
    problem: str | ContextualProblem,
    *,
    horizon: int,
    runs: int,
    seed: int,
    slots: int | None,
    batch: int,
    delay: int,
    checkpoints: npt.NDArray[np.int64],
    data: str | Path | None = None,
    engine: str | Engine = "local",
    workers: int | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Play every policy on a contextual problem; see :func:`hellinger.simulate`."""
    data = None if data is None else str(data)
    made = load_problem(problem, data) if isinstance(problem, str) else problem.check()
    slots = made.site.slots if slots is None else slots
    made._replace(site=made.site._replace(slots=slots)).check()
    require(horizon <= made.pages, "horizon <= pages until no new items are left", horizon=horizon, pages=made.pages)
    listed = policies if isinstance(policies, Sequence) and not isinstance(policies, (str, tuple)) else [policies]
    contenders = []
    for each in listed:
        require(isinstance(each, str), "policies of a contextual problem are given by their specs", policy=each)
        contenders += [Contender.read(one) for one in expand_spec(str(each))]
    names = [each.spec for each in contenders]
    require(len(names) > 0, "there is at least one policy", policies=names)
    require(len(set(names)) == len(names), "policies differ", policies=names)
    setting = Setting(horizon, 0, seed, "random", slots, batch, delay)
    marks, items = tuple(checkpoints.tolist()), len(made.features)
    cells = (len(contenders) + 1) * (runs + items) * len(marks)
    require_memory(8 * cells, f"the result of {runs:,} runs on {items:,} items at {len(marks)} checkpoints")
    digest, where = made.digest, problem if isinstance(problem, str) else made
    tasks = [
        ContextRun(each, where, data, digest, setting, marks, items, number)
        for number in range(runs)
        for each in (Contender(ORACLE, ""), *contenders)
    ]
    place = {ORACLE: len(contenders)} | {name: i for i, name in enumerate(names)}
    expected = np.empty((len(contenders) + 1, runs, len(marks)))
    reward = np.empty((len(contenders) + 1, runs))
    pulls = np.zeros((len(contenders) + 1, len(marks), items), np.int64)
    started = time.perf_counter()
    played = run(tasks, get_engine(engine, workers=workers, processes=True), resume=resume, progress=progress)
    for task, outcome in played:
        at = place[task.contender.spec]
        expected[at, task.number], reward[at, task.number] = outcome.expected, outcome.reward[-1]
        pulls[at] += outcome.pulls
    return Result(
        policies=names,
        family=families.Bernoulli().spec,
        means=np.nanmean(made.rates, axis=0),
        setting=setting,
        runs=runs,
        checkpoints=checkpoints,
        regret=expected[-1] - expected[:-1],
        pulls=pulls[:-1] / runs,
        reward=reward[:-1],
        wall_s=time.perf_counter() - started,
        problem=made.name,
    )
