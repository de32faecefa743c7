"""Algorithms that share a site's traffic for two months, each learning from its own share alone.

Every page goes to one of the algorithms, drawn uniformly, and shows the items that this one ranks highest by its own
counts. The counts are refreshed every so many pages; until then an algorithm's pages are all alike. An item is clicked
at its own rate wherever on the page it stands, and whether its n-th impression is clicked does not depend on the
algorithm.

An algorithm that learns from its own traffic alone does not notice the others: what it gains is a function of the
pages it has had. Sharing decides only how many those are at the end of each day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._spec import expand_spec
from hellinger.errors import require
from hellinger.lab._ratio import paired_ratio
from hellinger.lab.coldstart import RunClicks
from hellinger.policies import policy
from hellinger.world import runs
from hellinger.world.laws import LAWS, check_law
from hellinger.world.players import PoolPlayer
from hellinger.world.site import Clicks, Site, clicks

__all__ = ["Ratio", "Rewards", "Traffic", "share"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_HOURS = 24


class Traffic(NamedTuple):
    """What to run: one law of click rates, and traffic levels.

    Attributes
    ----------
    policies
        Specs of the algorithms that share the traffic.
    levels
        Traffic: impressions that an algorithm has for each item while it is there, on average.
    law
        Of the click rates.
    days
        How long it lasts.
    stay
        Days that an item stays. At less than ``days``, the oldest make way for new ones every hour.
    sites
        Repetitions, each with items of its own.
    seed
        What they are drawn from.
    items, slots, pages
        Items in the pool at any time, slots on a page, and an algorithm's pages between two refreshes of its counts.
    """

    policies: tuple[str, ...]
    levels: tuple[int, ...]
    law: str = "beta"
    days: int = 60
    stay: int = 60
    sites: int = 3
    seed: int = 0
    items: int = 10_000
    slots: int = 20
    pages: int = 10

    @property
    def renewed(self) -> bool:
        """Whether items come and go."""
        return self.stay < self.days

    @property
    def arrivals(self) -> int:
        """New items every hour."""
        return self.items // (_HOURS * self.stay) if self.renewed else 0

    def check(self) -> Traffic:
        """Return this, or raise where it makes no sense."""
        require(bool(self.policies), "there is at least one policy", policies=self.policies)
        require(bool(self.levels) and min(self.levels) >= 1, "1 <= levels", levels=self.levels)
        require(1 <= self.stay <= self.days, "1 <= stay <= days", stay=self.stay, days=self.days)
        require(self.sites >= 2, "2 <= sites, for an interval", sites=self.sites)
        require(self.seed >= 0, "0 <= seed", seed=self.seed)
        require(1 <= self.slots and 1 <= self.pages, "1 <= slots and 1 <= pages", slots=self.slots, pages=self.pages)
        require(self.slots <= self.items, "slots <= items", slots=self.slots, items=self.items)
        check_law(self.law)
        if self.renewed:
            require(self.arrivals >= 1, "one item comes every hour", items=self.items, stay=self.stay)
            hour = self._hour(min(self.levels))
            require(self.slots * self.pages <= hour, "counts are refreshed every hour", impressions_an_hour=hour)
        return self

    def _hour(self, level: int) -> int:
        return self.items * level // (self.stay * _HOURS)


class Ratio(NamedTuple):
    """One policy's clicks over another's at a traffic level, with a paired 95 % interval."""

    level: int
    ratio: float
    low: float
    high: float


class Rewards(NamedTuple):
    """Clicks of each site, policy, level and day, from the beginning to the day's end."""

    plan: Traffic
    clicks: Floats

    def of(self, spec: str, level: int) -> Floats:
        """Clicks of one policy at one level: a row for each site, a column for each day."""
        clicks: Floats = self.clicks[:, self.plan.policies.index(spec), self.plan.levels.index(level)]
        return clicks

    def ratios(self, mine: str, theirs: str) -> list[Ratio]:
        """One policy's clicks over another's at the last day, level by level."""
        return [
            Ratio(level, *paired_ratio(self.of(mine, level)[:, -1].tolist(), self.of(theirs, level)[:, -1].tolist()))
            for level in self.plan.levels
        ]


@dataclass(frozen=True)
class _Run(runs.SingleRun):
    """One policy on one site."""

    plan: Traffic
    spec: str
    levels: tuple[int, ...]
    """All of them where the pool stays, for more traffic is then the same run going on; else one."""
    site: int

    def empty(self) -> RunClicks:
        return RunClicks(np.zeros((len(self.levels), self.plan.days)))

    def play(self) -> RunClicks:
        """Clicks at the end of each day, a row for each level."""
        plan = self.plan
        roots = np.random.SeedSequence([plan.seed, self.site, list(LAWS).index(plan.law)]).spawn(3)
        own = _own(plan, self.levels, np.random.default_rng(roots[0]))
        site, come = Site(plan.items, plan.slots, plan.pages), plan.items
        if plan.renewed:
            hour = plan._hour(self.levels[0])
            site = site._replace(arrivals=plan.arrivals, day=hour)
            come += plan.arrivals * (int(own.max()) // hour + 2)
        rates = LAWS[plan.law](np.random.default_rng(roots[1]), come)
        seed = int(roots[2].generate_state(1)[0])
        marks = own[plan.policies.index(self.spec)].ravel()
        order = np.argsort(marks, kind="stable")
        out = np.empty(marks.size)
        player = PoolPlayer(policy(self.spec), plan.items, seed=seed)
        out[order] = clicks(site, player, Clicks(rates, seed), marks[order].tolist())
        return RunClicks(out.reshape(len(self.levels), plan.days))


def share(
    plans: Sequence[Traffic],
    *,
    engine: str | runs.Engine = "local",
    workers: int | None = None,
    progress: runs.Progress | None = None,
    resume: str | Path | None = None,
) -> list[Rewards]:
    """Run some plans, sweeps written out; the options are those of :func:`hellinger.lab.coldstart.run`."""
    plans = [_written_out(plan.check()) for plan in plans]
    tasks = [task for plan in plans for task in _tasks(plan)]
    tasks.sort(key=_work, reverse=True)  # long ones last would leave processes idle
    where = runs.get_engine(engine, workers=workers, processes=True)
    outcomes = dict(runs.run(tasks, where, resume=resume, progress=progress))
    out = []
    for plan in plans:
        clicks = np.empty((plan.sites, len(plan.policies), len(plan.levels), plan.days))
        for task in _tasks(plan):
            places = [plan.levels.index(level) for level in task.levels]
            clicks[task.site, plan.policies.index(task.spec), places] = outcomes[task].clicks
        out.append(Rewards(plan, clicks))
    return out


def _written_out(plan: Traffic) -> Traffic:
    """The plan with each sweep, as ``hellinger-ucb(c=0.3..0.5/5)``, as the policies that it stands for."""
    return plan._replace(policies=tuple(one for spec in plan.policies for one in expand_spec(spec)))


def _tasks(plan: Traffic) -> list[_Run]:
    apart = [(level,) for level in plan.levels] if plan.renewed else [plan.levels]
    return [_Run(plan, spec, levels, site) for site in range(plan.sites) for spec in plan.policies for levels in apart]


def _work(task: _Run) -> float:
    return task.plan.items * max(task.levels) * task.plan.days / task.plan.stay


def _own(plan: Traffic, levels: Sequence[int], split: np.random.Generator) -> Ints:
    """Impressions that each policy has had by the end of each level's days: one draw for every page of the site."""
    ends = np.array([
        [round(len(plan.policies) * plan.items * level * day / (plan.stay * plan.slots)) for day in
         range(1, plan.days + 1)] for level in levels
    ])  # fmt: skip
    order = np.argsort(ends, axis=None, kind="stable")
    pages = np.diff(ends.ravel()[order], prepend=0)
    own = np.empty((order.size, len(plan.policies)), np.int64)
    own[order] = np.cumsum(split.multinomial(pages, np.full(len(plan.policies), 1 / len(plan.policies))), axis=0)
    return plan.slots * own.T.reshape(len(plan.policies), len(levels), plan.days)
