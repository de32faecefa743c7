"""Algorithms that share a site's traffic for two months, each learning from its own share alone.

Every page goes to one of the algorithms, drawn uniformly, and shows the contents that this one ranks highest by its
own counts. The counts are refreshed every so many pages; until then an algorithm's pages are all alike. A content is
clicked at its own rate wherever on the page it stands, and its first, second, … impression is clicked or not
whichever algorithm gives it.

An algorithm that learns from its own traffic alone does not notice the others: what it gains is a function of the
pages it has had. Sharing decides only how many those are at the end of each day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.coldstart._ratio import paired_ratio
from hellinger.coldstart._spread import spread
from hellinger.coldstart._world import Site, live
from hellinger.coldstart.experiment import LAWS
from hellinger.errors import UnknownNameError, require
from hellinger.policies import policy
from hellinger.pool._store import Floats

__all__ = ["Ratio", "Rewards", "Traffic", "share"]

Ints = npt.NDArray[np.int64]

_HOURS = 24


class Traffic(NamedTuple):
    """What to run: one law of click rates, and traffic levels.

    Attributes
    ----------
    policies
        Specs of the algorithms that share the traffic.
    levels
        Traffic: impressions that an algorithm has for each content while it is there, on average.
    law
        Of the click rates.
    days
        How long it lasts.
    stay
        Days that a content stays. At less than ``days``, the oldest make way for new ones every hour.
    sites
        Repetitions, each with contents of its own.
    seed
        What they are drawn from.
    contents, slots, pages
        Contents in the pool at any time, slots on a page, and an algorithm's pages between two refreshes of its counts.
    """

    policies: tuple[str, ...]
    levels: tuple[int, ...]
    law: str = "beta"
    days: int = 60
    stay: int = 60
    sites: int = 3
    seed: int = 0
    contents: int = 10_000
    slots: int = 20
    pages: int = 10

    @property
    def renewed(self) -> bool:
        """Whether contents come and go."""
        return self.stay < self.days

    @property
    def arrivals(self) -> int:
        """New contents every hour."""
        return self.contents // (_HOURS * self.stay) if self.renewed else 0

    def check(self) -> Traffic:
        """Return this, or raise where it makes no sense."""
        require(bool(self.policies), "there is at least one policy", policies=self.policies)
        require(bool(self.levels) and min(self.levels) >= 1, "1 <= levels", levels=self.levels)
        require(1 <= self.stay <= self.days, "1 <= stay <= days", stay=self.stay, days=self.days)
        require(self.sites >= 2, "2 <= sites, for an interval", sites=self.sites)
        require(self.seed >= 0, "0 <= seed", seed=self.seed)
        require(1 <= self.slots and 1 <= self.pages, "1 <= slots and 1 <= pages", slots=self.slots, pages=self.pages)
        require(self.slots <= self.contents, "slots <= contents", slots=self.slots, contents=self.contents)
        if self.law not in LAWS:
            raise UnknownNameError("law", self.law, list(LAWS))
        if self.renewed:
            require(self.arrivals >= 1, "one content comes every hour", contents=self.contents, stay=self.stay)
            hour = self._hour(min(self.levels))
            require(self.slots * self.pages <= hour, "counts are refreshed every hour", impressions_an_hour=hour)
        return self

    def _hour(self, level: int) -> int:
        return self.contents * level // (self.stay * _HOURS)


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
        found: Floats = self.clicks[:, self.plan.policies.index(spec), self.plan.levels.index(level)]
        return found

    def ratios(self, mine: str, theirs: str) -> list[Ratio]:
        """One policy's clicks over another's at the last day, level by level."""
        return [
            Ratio(level, *paired_ratio(self.of(mine, level)[:, -1].tolist(), self.of(theirs, level)[:, -1].tolist()))
            for level in self.plan.levels
        ]


class _Task(NamedTuple):
    plan: Traffic
    spec: str
    levels: tuple[int, ...]
    """All of them where the pool stays, for more traffic is then the same run going on; else one."""
    site: int


def share(
    plans: Sequence[Traffic], *, jobs: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[Rewards]:
    """Run some plans in so many processes; ``progress`` is told how many of how many runs are done."""
    tasks = [task for plan in plans for task in _tasks(plan.check())]
    tasks.sort(key=_work, reverse=True)  # long ones last would leave processes idle
    found = dict(zip(tasks, spread(_perform, tasks, jobs=jobs, progress=progress), strict=True))
    out = []
    for plan in plans:
        clicks = np.empty((plan.sites, len(plan.policies), len(plan.levels), plan.days))
        for task in _tasks(plan):
            places = [plan.levels.index(level) for level in task.levels]
            clicks[task.site, plan.policies.index(task.spec), places] = found[task]
        out.append(Rewards(plan, clicks))
    return out


def _tasks(plan: Traffic) -> list[_Task]:
    apart = [(level,) for level in plan.levels] if plan.renewed else [plan.levels]
    return [_Task(plan, spec, levels, site) for site in range(plan.sites) for spec in plan.policies for levels in apart]


def _work(task: _Task) -> float:
    return task.plan.contents * max(task.levels) * task.plan.days / task.plan.stay


def _own(plan: Traffic, levels: Sequence[int], split: np.random.Generator) -> Ints:
    """Impressions that each policy has had by the end of each level's days: one draw for every page of the site."""
    ends = np.array([
        [round(len(plan.policies) * plan.contents * level * day / (plan.stay * plan.slots)) for day in
         range(1, plan.days + 1)] for level in levels
    ])  # fmt: skip
    order = np.argsort(ends, axis=None, kind="stable")
    pages = np.diff(ends.ravel()[order], prepend=0)
    own = np.empty((order.size, len(plan.policies)), np.int64)
    own[order] = np.cumsum(split.multinomial(pages, np.full(len(plan.policies), 1 / len(plan.policies))), axis=0)
    return plan.slots * own.T.reshape(len(plan.policies), len(levels), plan.days)


def _perform(task: _Task) -> Floats:
    """Clicks at the end of each day, a row for each level."""
    plan, batch = task.plan, task.plan.slots * task.plan.pages
    roots = np.random.SeedSequence([plan.seed, task.site, list(LAWS).index(plan.law)]).spawn(3)
    own = _own(plan, task.levels, np.random.default_rng(roots[0]))
    site = Site(plan.contents, batch, repeats=plan.pages)
    come = plan.contents
    if plan.renewed:
        hour = plan._hour(task.levels[0])
        site = site._replace(arrivals=plan.arrivals, day=hour)
        come += plan.arrivals * (int(own.max()) // hour + 2)
    rates = LAWS[plan.law](np.random.default_rng(roots[1]), come)
    marks = own[plan.policies.index(task.spec)].ravel()
    order = np.argsort(marks, kind="stable")
    clicks = np.empty(marks.size)
    clicks[order] = live(policy(task.spec).rule, site, rates, marks[order].tolist(), int(roots[2].generate_state(1)[0]))
    return clicks.reshape(len(task.levels), plan.days)
