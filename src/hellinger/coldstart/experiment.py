"""The cold-start experiment: which policy gets the most clicks out of a new pool with little traffic.

A pool of contents with click rates from a law, pages of 20 slots, counts refreshed in batches. A batch's pages show
the best contents by the counts at its beginning, each once. Every policy meets the same contents, and a content's
first, second, … impression is clicked or not whichever policy gives it, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hellinger import _jit
from hellinger.coldstart._kept import Kept
from hellinger.coldstart._ratio import paired_ratio
from hellinger.coldstart._spread import spread
from hellinger.coldstart._world import Site, live
from hellinger.errors import UnknownNameError, require
from hellinger.policies import policy
from hellinger.pool._store import Floats

__all__ = ["Comparison", "Plan", "Result", "compare", "run"]

OURS = "cold-start"

LAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "beta": lambda rng, size: rng.beta(1.6, 100.0, size),
    "heavy-tailed": lambda rng, size: np.minimum(0.5, 0.004 * (1.0 + rng.pareto(1.5, size))),
    "bimodal": lambda rng, size: np.where(rng.random(size) < 0.9, rng.beta(2, 200, size), rng.beta(20, 180, size)),
}
"""Click rates: Beta(1.6, 100); Pareto's with tail index 1.5 from 0.4 % to 50 %; one in ten near 10 %, else 1 %."""

POLICIES: dict[str, tuple[str | None, bool]] = {
    "oracle": (None, False),
    "ucb1": ("ucb1", False),
    "kl-ucb": ("kl-ucb", False),
    "hellinger-ucb": ("hellinger-ucb", False),
    "kl-ucb++": ("kl-ucb++(anytime=true)", False),
    "hellinger-ucb++": ("hellinger-ucb++(anytime=true)", False),
    "hellinger-moss": ("ucb(ball=hellinger, level=moss, scale=0.27, anytime=true)", False),
    "thompson": ("thompson", False),
    "thompson, learned prior": ("thompson", True),
    OURS: (OURS, True),
}
"""Each policy's spec, None for the oracle that knows every rate; and whether it learns a prior."""


class Plan(NamedTuple):
    """What to run."""

    contents: int = 10_000
    slots: int = 20
    pages: int = 10
    """Pages between two refreshes of the counts."""
    impressions: tuple[int, ...] = (10, 30, 100, 300)
    """Impressions per content, on average."""
    seeds: int = 20
    laws: tuple[str, ...] = tuple(LAWS)
    policies: tuple[str, ...] = tuple(POLICIES)
    arrivals: int = 500
    """New contents a day in the settings with arrivals; 0 leaves those settings out."""

    def check(self) -> Plan:
        """Return this, or raise where it makes no sense."""
        batch = self.slots * self.pages
        require(1 <= self.slots and 1 <= self.pages, "1 <= slots and 1 <= pages", slots=self.slots, pages=self.pages)
        require(batch <= self.contents, "slots * pages <= contents", batch=batch, contents=self.contents)
        require(0 <= self.arrivals <= self.contents, "0 <= arrivals <= contents", arrivals=self.arrivals)
        require(bool(self.impressions) and min(self.impressions) >= 1, "1 <= impressions", impressions=self.impressions)
        require(self.seeds >= 2, "2 <= seeds, for an interval", seeds=self.seeds)
        for law in self.laws:
            if law not in LAWS:
                raise UnknownNameError("law", law, list(LAWS))
        for name in self.policies:
            if name not in POLICIES:
                raise UnknownNameError("policy of the experiment", name, list(POLICIES))
        return self


class Result(NamedTuple):
    """Clicks of each seed."""

    law: str
    arrivals: bool
    policy: str
    impressions: int
    clicks: tuple[float, ...]


class _Task(NamedTuple):
    law: str
    arrivals: bool
    policy: str
    impressions: tuple[int, ...]
    seed: int


def tasks(plan: Plan) -> Iterator[_Task]:
    """Every single run, the slow ones first."""
    slow = sorted(plan.policies, key=lambda name: "thompson" not in name)
    for name in slow:
        for law in plan.laws:
            for seed in range(plan.seeds):
                yield _Task(law, False, name, tuple(sorted(plan.impressions)), seed)
                for impressions in sorted(plan.impressions) if plan.arrivals else ():
                    yield _Task(law, True, name, (impressions,), seed)


def perform(plan: Plan, task: _Task) -> list[float]:
    """Clicks at each of the task's impressions per content.

    With arrivals a day has ``arrivals × impressions`` impressions, and the experiment lasts until the pool has been
    renewed once, so that contents get that many impressions on average while they are there.
    """
    name, _ = POLICIES[task.policy]
    rule = None if name is None else policy(name).rule
    lives = 2 if task.arrivals else 1
    world = np.random.default_rng([list(LAWS).index(task.law), task.seed])
    rates = LAWS[task.law](world, lives * plan.contents + plan.arrivals)
    batch = plan.slots * plan.pages
    marks = [plan.contents * impressions for impressions in task.impressions]
    site = Site(plan.contents, batch)
    if task.arrivals:
        site = Site(plan.contents, batch, plan.arrivals, plan.arrivals * task.impressions[0])
    learned = POLICIES[task.policy][1] and rule is not None and not rule.learns_prior
    return live(rule, site, rates, marks, task.seed, learned=learned)


def run(
    plan: Plan,
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    resume: Path | None = None,
) -> list[Result]:
    """Run a plan in so many processes; ``progress`` is told how many of how many runs are done.

    ``resume`` is a file in which finished runs are kept, and not done again.
    """
    everything = list(tasks(plan.check()))
    kept = Kept(resume, [_jit.DIGEST, plan.contents, plan.slots, plan.pages, plan.arrivals])
    known = {task: values for task in everything if (values := kept.get(task)) is not None}
    missing = [task for task in everything if task not in known]

    def tell(done: int, _: int) -> None:
        if progress is not None:
            progress(len(known) + done, len(everything))

    tell(0, 0)
    fresh = spread(partial(perform, plan), missing, jobs=jobs, progress=tell, keep=kept.add)
    known |= zip(missing, fresh, strict=True)
    clicks: dict[tuple[str, bool, str, int], list[float]] = {}
    for task in everything:
        for impressions, value in zip(task.impressions, known[task], strict=True):
            clicks.setdefault((task.law, task.arrivals, task.policy, impressions), []).append(value)
    order = {name: place for place, name in enumerate(plan.policies)}
    found_in_order = sorted(clicks.items(), key=lambda item: order[item[0][2]])  # stable: settings stay as they are
    return [Result(*key, tuple(each)) for key, each in found_in_order]


class Comparison(NamedTuple):
    """Our clicks over another policy's, with a paired 95 % interval."""

    law: str
    arrivals: bool
    impressions: int
    policy: str
    clicks: float
    ours: float
    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether ours is ahead, behind, or neither beyond noise."""
        return "ahead" if self.low > 1 else "behind" if self.high < 1 else "within noise"


def compare(results: list[Result]) -> list[Comparison]:
    """Ours against every policy in every setting, by the ratio of the means."""
    ours = {(r.law, r.arrivals, r.impressions): r for r in results if r.policy == OURS}
    out = []
    for result in results:
        mine = ours.get((result.law, result.arrivals, result.impressions))
        if mine is None:
            continue
        mean, own = float(np.mean(result.clicks)), float(np.mean(mine.clicks))
        require(mean > 0, "every policy gets clicks (else give more impressions)", policy=result.policy, clicks=mean)
        ratio, low, high = paired_ratio(mine.clicks, result.clicks)
        out.append(
            Comparison(result.law, result.arrivals, result.impressions, result.policy, mean, own, ratio, low, high)
        )
    return out
