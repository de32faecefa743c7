"""The cold-start experiment: which policy gets the most clicks out of a new pool with little traffic.

A site whose items have click rates from a law, pages of 20 slots, counts refreshed in batches. A batch's pages show the
best items by the counts at its beginning, each once. Every policy meets the same items, and whether an item's n-th
impression is clicked does not depend on the policy: differences are paired.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._jit import jit
from hellinger.errors import UnknownNameError, require
from hellinger.families import _dispatch as families
from hellinger.lab._ratio import paired_ratio
from hellinger.policies import Prior, next_fit, policy
from hellinger.policies.prior import fit_beta
from hellinger.theory import limit, limit_by_day
from hellinger.world import runs
from hellinger.world.laws import BETA, LAWS, check_law
from hellinger.world.players import CountsPlayer, LifetimesPlayer, Oracle, PoolPlayer
from hellinger.world.site import Clicks, Player, Site, clicks

__all__ = [
    "ColdStartPlan",
    "ColdStartResult",
    "Comparison",
    "LearnedThompson",
    "RunClicks",
    "compare",
    "limit_of",
    "run",
]

Floats = npt.NDArray[np.float64]

OURS = "cold-start"
LIFETIMES = "cold-start, lifetimes known"
ORACLE = "oracle"
LIMIT = "limit"
LEARNED = "thompson, learned prior"

POLICIES = {
    ORACLE: "",
    LIMIT: "",
    "ucb1": "ucb1",
    "kl-ucb": "kl-ucb",
    "hellinger-ucb": "hellinger-ucb",
    "kl-ucb++": "kl-ucb++(anytime=true)",
    "hellinger-ucb++": "hellinger-ucb++(anytime=true)",
    "hellinger-moss": "ucb(ball=hellinger, level=moss, scale=0.27, anytime=true)",
    "thompson": "thompson",
    LEARNED: "thompson",
    OURS: OURS,
    LIFETIMES: OURS,
}
"""Each policy's spec. Two have none: the oracle, which knows every rate, and the limit, which nobody plays: what no
policy can exceed on average that sees only impressions and clicks, even if it knows the law (see ``theory.limit``)."""

_KNOWN_AFTER = 3_000
"""Impressions of one item after which the limit takes its rate as known: it rises by less than a percent."""
_MANY_TURNS, _DAY_STATES = 6_000, 100_000_000
"""Turns up to which days are told apart; and how many states of an item at a turn there may be then."""
_BINS = 128


class ColdStartPlan(NamedTuple):
    """What to run."""

    items: int = 10_000
    slots: int = 20
    pages: int = 10
    """Pages between two refreshes of the counts."""
    impressions: tuple[int, ...] = (10, 30, 100, 300)
    """Impressions per item, on average."""
    seeds: int = 20
    laws: tuple[str, ...] = tuple(LAWS)
    policies: tuple[str, ...] = tuple(POLICIES)
    arrivals: int = 500
    """New items a day in the settings with arrivals; 0 leaves those settings out."""

    def check(self) -> ColdStartPlan:
        """Return this, or raise where it makes no sense."""
        batch = self.slots * self.pages
        require(1 <= self.slots and 1 <= self.pages, "1 <= slots and 1 <= pages", slots=self.slots, pages=self.pages)
        require(batch <= self.items, "slots * pages <= items", batch=batch, items=self.items)
        require(0 <= self.arrivals <= self.items, "0 <= arrivals <= items", arrivals=self.arrivals)
        require(bool(self.impressions) and min(self.impressions) >= 1, "1 <= impressions", impressions=self.impressions)
        require(self.seeds >= 2, "2 <= seeds, for an interval", seeds=self.seeds)
        for law in self.laws:
            check_law(law)
        for name in self.policies:
            if name not in POLICIES:
                raise UnknownNameError("policy of the experiment", name, list(POLICIES))
        return self


class ColdStartResult(NamedTuple):
    """Clicks of each seed."""

    law: str
    arrivals: bool
    policy: str
    impressions: int
    clicks: tuple[float, ...]


class RunClicks(NamedTuple):
    """Clicks of one run at each of its marks."""

    clicks: Floats


@dataclass(frozen=True)
class _Run(runs.SingleRun):
    """One policy on one site; with arrivals, at one number of impressions per item."""

    site: Site
    law: str
    policy: str
    impressions: tuple[int, ...]
    seed: int
    drawn: int
    """Rates drawn; those of the items to come are the last."""

    def empty(self) -> RunClicks:
        return RunClicks(np.zeros(len(self.impressions)))

    def play(self) -> RunClicks:
        site, spec = self.site, POLICIES[self.policy]
        rng = np.random.default_rng([list(LAWS).index(self.law), self.seed])
        marks = [site.items * impressions for impressions in self.impressions]
        rates = LAWS[self.law](rng, self.drawn)
        player: Player
        if self.policy == ORACLE:
            player = Oracle(rates, site.items)
        elif self.policy == LEARNED:
            player = LearnedThompson(policy(spec), site.items, rng=np.random.default_rng(self.seed))
        elif self.policy == LIFETIMES:
            player = LifetimesPlayer(policy(spec), site, seed=self.seed)
        elif policy(spec).random:
            player = CountsPlayer(policy(spec), site.items, rng=np.random.default_rng(self.seed))
        else:
            player = PoolPlayer(policy(spec), site.items, seed=self.seed)
        return RunClicks(np.array(clicks(site, player, Clicks(rates, self.seed), marks)))


@dataclass(frozen=True)
class _Limit(runs.SingleRun):
    """The limit of one site at one number of impressions per item: no run, but as much work as one."""

    site: Site
    law: str
    impressions: int

    def empty(self) -> RunClicks:
        return RunClicks(np.zeros(1))

    def play(self) -> RunClicks:
        return RunClicks(np.array([limit_of(self.law, self.site, self.impressions)]))


class LearnedThompson(CountsPlayer):
    """Thompson sampling with a Beta prior that is fitted to the counts, when a pool would fit its own."""

    _prior = Prior()
    _fitted = 0

    def _score(self, t: float) -> None:
        if self._prior.plays + self.rounds - self._fitted >= next_fit(self._prior.plays):
            a, b = fit_beta(self.sums, self.pulls, np.ones(self.sums.size))
            self._prior, self._fitted = Prior(a, a + b, plays=float(self.pulls.sum())), self.rounds
        _thompson(self._rule.family, self.sums, self.pulls, *self._prior[:2], self._rng, self._index)


@jit
def _thompson(family: Any, sums: Floats, pulls: Floats, a: float, m: float, rng: Any, out: Floats) -> None:
    """Draw each item's rate from its posterior under a learned prior."""
    for i in range(out.size):
        out[i] = families.posterior_draw(family, rng, sums[i] + a - 1.0, pulls[i] + m - 2.0)


def tasks(plan: ColdStartPlan) -> Iterator[_Run | _Limit]:
    """Every single run, the slow ones first.

    With arrivals a day has ``arrivals × impressions`` impressions, and the experiment lasts until all items have been
    replaced once, so that items get that many impressions on average while they are there.
    """
    if LIMIT in plan.policies:
        for law in plan.laws:
            for site, marks in _settings(plan):
                yield from (_Limit(site, law, impressions) for impressions in marks)
    played = [name for name in plan.policies if name != LIMIT]
    for name in sorted(played, key=lambda name: "thompson" not in name):
        for law in plan.laws:
            for seed in range(plan.seeds):
                for site, marks in _settings(plan):
                    drawn = (2 if site.arrivals else 1) * plan.items + plan.arrivals
                    yield _Run(site, law, name, marks, seed, drawn)


def _settings(plan: ColdStartPlan) -> Iterator[tuple[Site, tuple[int, ...]]]:
    """Every site that is played, and at how many impressions per item its clicks are counted."""
    stays, marks = Site(plan.items, plan.slots * plan.pages), tuple(sorted(plan.impressions))
    yield stays, marks
    for impressions in marks if plan.arrivals else ():
        yield stays._replace(arrivals=plan.arrivals, day=plan.arrivals * impressions), (impressions,)


def limit_of(law: str, site: Site, impressions: int) -> float:
    """Clicks that no policy can exceed on average at so many impressions per item.

    An item is shown once in a turn at most, so the turns of its life are the most impressions that it can have. Where
    items come and go the impressions of a day are given on that day; with very many turns that takes too long to
    compute and hardly matters, and all days are one.
    """
    turns = -(-site.items * impressions // site.slots)
    total, law_of = turns * site.slots, _law(law)
    if not site.arrivals:
        return limit(items=site.items, impressions=total, most=turns, known_after=_KNOWN_AFTER, **law_of)
    ends = [0]  # turns before which each day begins, and the last ends
    while ends[-1] < turns:
        ends.append(min(max(-(-len(ends) * site.day // site.slots), ends[-1] + 1), turns))
    days, most = len(ends) - 1, np.diff(ends)
    numbers = np.arange(site.items + (days - 1) * site.arrivals)  # of the items, in the order in which they go
    first = np.maximum((numbers - site.items) // site.arrivals + 1, 0)
    last = np.minimum(numbers // site.arrivals, days - 1)
    lives, items = np.unique(np.column_stack([first, last]), axis=0, return_counts=True)
    longest = np.diff(np.array(ends)[lives + np.array([0, 1])], axis=1).ravel()
    lengths, which = np.unique(longest, return_inverse=True)
    alike = np.bincount(which, items)
    merged = limit(items=alike, impressions=total, most=lengths, known_after=_KNOWN_AFTER, **law_of)
    if turns > _MANY_TURNS:
        return merged
    deep = math.isqrt(_DAY_STATES * 16 // turns)
    known = {"known_after": deep, "known_rewards": max(deep // 16, 1)}
    first, last = lives.T
    days_apart = {"items": items, "first": first, "last": last, "impressions": most * site.slots, "most": most}
    return min(merged, limit_by_day(**days_apart, **known, **law_of))


def _law(law: str) -> dict[str, Any]:
    """A law as :func:`hellinger.theory.limit` takes it: a million draws in bins of equal width in √rate."""
    if law == "beta":
        return dict(zip("ab", BETA, strict=True))
    drawn = LAWS[law](np.random.default_rng(0), 1_000_000)
    bins = np.minimum(np.sqrt(drawn / drawn.max()) * _BINS, _BINS - 1).astype(np.int64)
    weights, sums = np.bincount(bins), np.bincount(bins, weights=drawn)
    return {"rates": sums[weights > 0] / weights[weights > 0], "weights": weights[weights > 0]}


def run(
    plan: ColdStartPlan,
    *,
    engine: str | runs.Engine = "local",
    workers: int | None = None,
    progress: runs.Progress | None = None,
    resume: Path | None = None,
) -> list[ColdStartResult]:
    """Run a plan; ``progress`` is called with how many of how many runs are done.

    ``engine``, ``workers`` and ``resume`` are those of :func:`hellinger.lab.simulate`; local workers are processes, for
    these runs keep the interpreter's lock.
    """
    everything = list(tasks(plan.check()))
    where = runs.get_engine(engine, workers=workers, processes=True)
    outcomes = dict(runs.run(everything, where, resume=resume, progress=progress))
    clicks: dict[tuple[str, bool, str, int], list[float]] = {}
    for task in everything:
        if isinstance(task, _Limit):
            value = float(outcomes[task].clicks[0])
            clicks[task.law, task.site.arrivals > 0, LIMIT, task.impressions] = [value] * plan.seeds
            continue
        for impressions, value in zip(task.impressions, outcomes[task].clicks.tolist(), strict=True):
            clicks.setdefault((task.law, task.site.arrivals > 0, task.policy, impressions), []).append(value)
    order = {name: place for place, name in enumerate(plan.policies)}
    by_policy = sorted(clicks.items(), key=lambda item: order[item[0][2]])  # stable: settings stay as they are
    return [ColdStartResult(*key, tuple(each)) for key, each in by_policy]


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
    of_limit: float | None = None
    """The policy's clicks as a share of the limit, where that was asked for."""

    @property
    def verdict(self) -> str:
        """Whether ours is ahead, behind, or neither beyond noise."""
        return "ahead" if self.low > 1 else "behind" if self.high < 1 else "within noise"


def compare(results: list[ColdStartResult]) -> list[Comparison]:
    """Ours against every policy in every setting, by the ratio of the means."""
    ours = {(r.law, r.arrivals, r.impressions): r for r in results if r.policy == OURS}
    most = {(r.law, r.arrivals, r.impressions): r.clicks[0] for r in results if r.policy == LIMIT}
    out = []
    for result in results:
        mine = ours.get((result.law, result.arrivals, result.impressions))
        if mine is None:
            continue
        mean, own = float(np.mean(result.clicks)), float(np.mean(mine.clicks))
        require(mean > 0, "every policy gets clicks (else give more impressions)", policy=result.policy, clicks=mean)
        ratio, low, high = paired_ratio(mine.clicks, result.clicks)
        where = result.law, result.arrivals, result.impressions
        share = mean / most[where] if where in most else None
        out.append(Comparison(*where, result.policy, mean, own, ratio, low, high, share))
    return out
