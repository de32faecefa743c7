"""The cold-start experiment: which policy gets the most clicks out of a new pool with little traffic.

A site whose items have click rates from a law, pages of 20 slots, counts refreshed in batches. A batch's pages show the
best items by the counts at its beginning, each once. Every policy meets the same items, and whether an item's n-th
impression is clicked does not depend on the policy: differences are paired.
"""

from __future__ import annotations

from collections import Counter
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
from hellinger.theory import limit
from hellinger.world import runs
from hellinger.world.laws import BETA, LAWS, check_law
from hellinger.world.players import CountsPlayer, Oracle, PoolPlayer
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
}
"""Each policy's spec. Two have none: the oracle, which knows every rate, and the limit, which nobody plays: what no
policy can exceed on average that sees only impressions and clicks, even if it knows the law (see ``theory.limit``)."""

_KNOWN_AFTER = 3_000
"""Impressions of one item after which the limit takes its rate as known: it rises by less than a percent."""
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
        elif policy(spec).random:
            player = CountsPlayer(policy(spec), site.items, rng=np.random.default_rng(self.seed))
        else:
            player = PoolPlayer(policy(spec), site.items, seed=self.seed)
        return RunClicks(np.array(clicks(site, player, Clicks(rates, self.seed), marks)))


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


def tasks(plan: ColdStartPlan) -> Iterator[_Run]:
    """Every single run, the slow ones first.

    With arrivals a day has ``arrivals × impressions`` impressions, and the experiment lasts until all items have been
    replaced once, so that items get that many impressions on average while they are there.
    """
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

    An item is shown once in a turn at most, so the turns of its life are the most impressions that it can have.
    """
    total = site.items * impressions
    lives = Counter({total: site.items})  # items by the impressions that all have while they are there
    if site.arrivals:
        days = -(-total // site.day)
        lives = Counter({total: site.items % site.arrivals})
        for day in (
            *range(1, site.items // site.arrivals + 1),
            *range(1, days),
        ):  # those there at first, those who come
            lives[min(day * site.day, total)] += site.arrivals
    most = [-(-shown // site.slots) for shown in lives]
    return limit(items=list(lives.values()), impressions=total, most=most, known_after=_KNOWN_AFTER, **_law(law))


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
        for impressions, value in zip(task.impressions, outcomes[task].clicks.tolist(), strict=True):
            clicks.setdefault((task.law, task.site.arrivals > 0, task.policy, impressions), []).append(value)
    if LIMIT in plan.policies:
        for law in plan.laws:
            for site, marks in _settings(plan):
                for impressions in marks:
                    most = [limit_of(law, site, impressions)] * plan.seeds
                    clicks[law, site.arrivals > 0, LIMIT, impressions] = most
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

    @property
    def verdict(self) -> str:
        """Whether ours is ahead, behind, or neither beyond noise."""
        return "ahead" if self.low > 1 else "behind" if self.high < 1 else "within noise"


def compare(results: list[ColdStartResult]) -> list[Comparison]:
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
