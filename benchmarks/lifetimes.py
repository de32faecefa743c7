"""What it would bring to know how long items live: ``python benchmarks/lifetimes.py [--seeds 4] --results FILE``.

The settings of ``hellinger coldstart`` with arrivals. *Lifetimes known*: ``cold-start`` whose level is no more than
0.27·log(1 + r/(5n′)), n′ the item's impressions and those of the prior, where it can be shown r times more: an item
that is about to leave is not worth exploring. *Exact index*: for the law Beta(1.6, 100), known, the price at which
an impression more is worth its while, by dynamic programming over rewards, impressions and what is left: what a
policy of this kind can reach. All as shares of the limit (``theory.limit``). Everything depends on the seeds alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from _results import Results
from _timing import console
from hellinger._jit import jit
from hellinger.lab.coldstart import OURS, limit_of
from hellinger.policies import Prior, _rule, fit_prior, levels, next_fit, policy
from hellinger.policies import _dispatch as d
from hellinger.world.laws import BETA, LAWS
from hellinger.world.players import CountsPlayer, PoolPlayer
from hellinger.world.site import Clicks, Player, Site, clicks

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ITEMS, SLOTS, ARRIVALS = 10_000, 200, 500
REACH = 0.2


class Lifetimes(CountsPlayer):
    """``cold-start`` that knows when each item leaves, and how many pages there are until then."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(policy("cold-start"), site.items)
        self._site = site
        self._turns = site.items / site.arrivals * site.day / site.slots
        days = np.arange(site.items) // site.arrivals + 1
        self._leaves = days * site.day / site.slots
        self._ties = np.random.default_rng([seed, 0x7469])
        self._prior, self._since = Prior(), 0

    def left(self) -> Floats:
        """How many times more each item can be shown."""
        return np.maximum(self._leaves - self.rounds / self._site.slots, 0.0)

    def _score(self, t: float) -> None:
        if self._prior.plays + self.rounds - self._since >= next_fit(self._prior.plays):
            self._prior, self._since = fit_prior(self.sums, self.pulls), self.rounds
        rule: Any = self._rule.given(self._prior)
        _rule.fill(rule, self.sums, self.pulls, t, None, self._index)
        rule = rule._replace(level=levels.get("remaining", scale=0.27))
        _lower(rule, self.sums, self.pulls, REACH * self.left(), self._index)
        self._shuffle()

    def _shuffle(self) -> None:
        """Break ties at random: places are in the order of ages."""
        self._index *= 1.0 + 1e-12 * self._ties.random(self._index.size)

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        super().renew(places, items)
        self._leaves[places] = self.rounds / self._site.slots + self._turns


@jit
def _lower(rule: Any, sums: Floats, pulls: Floats, left: Floats, out: Floats) -> None:
    """Lower each item's index to what it is where it can be shown so many times more."""
    for i in range(out.size):
        index = d.score(rule, sums[i] + rule.prior.a, pulls[i] + rule.prior.strength, left[i], float(out.size))
        out[i] = min(out[i], index)


class ExactIndex(Lifetimes):
    """The largest of some prices at which an item is worth an impression more, its law known to be Beta."""

    def __init__(self, site: Site, seed: int, table: Any) -> None:
        super().__init__(site, seed)
        self._table = table

    def _score(self, t: float) -> None:
        _priced(self._table, self.sums, self.pulls, self.left(), self._index)
        self._shuffle()


@jit
def _priced(table: Any, sums: Floats, pulls: Floats, left: Floats, out: Floats) -> None:
    prices, most_left, most_pulls = table.shape
    for i in range(out.size):
        r, n = min(int(left[i]), most_left - 1), min(int(pulls[i]), most_pulls - 1)
        low, high = 0, prices
        while low < high:
            middle = (low + high) // 2
            if table[middle, r, n] <= sums[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = 1.0 + low + sums[i] / (pulls[i] + 1e9)


@jit
def _least_sums(a: float, strength: float, prices: Floats, left: int, pulls: int, most: int) -> Any:
    """The least rewards after n impressions with which one more pays, by price, what is left, and n."""
    out = np.full((prices.size, left + 1, pulls + 1), 32000, np.int16)
    for j in range(prices.size):
        value, new = np.zeros((pulls + 2, most + 2)), np.zeros((pulls + 2, most + 2))
        for r in range(1, left + 1):
            for n in range(pulls + 1):
                for s in range(min(n, most) + 1):
                    p = (a + s) / (strength + n)
                    worth = max(p - prices[j], 0.0) * r  # beyond the table the rate is as good as known
                    if n < pulls and s < most:
                        worth = p - prices[j] + p * value[n + 1, s + 1] + (1.0 - p) * value[n + 1, s]
                    if worth > 0.0 and out[j, r, n] > s:
                        out[j, r, n] = s
                    new[n, s] = max(worth, 0.0)
            value, new = new, value
    return out


def share(law: str, impressions: int, seeds: int, make: Callable[[Site, int], Player]) -> Floats:
    """Clicks of each seed as a share of the limit."""
    site = Site(ITEMS, SLOTS, arrivals=ARRIVALS, day=ARRIVALS * impressions)
    found = []
    for seed in range(seeds):
        rates = LAWS[law](np.random.default_rng([list(LAWS).index(law), seed]), 2 * ITEMS + ARRIVALS)
        found.append(clicks(site, make(site, seed), Clicks(rates, seed), [ITEMS * impressions])[0])
    return np.array(found) / limit_of(law, site, impressions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--impressions", type=int, nargs="*", default=(10, 30))
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    results.value("seeds", options.seeds)
    rows = []
    for law in LAWS:
        for each in options.impressions:
            ours = share(law, each, options.seeds, lambda site, seed: PoolPlayer(policy(OURS), site.items, seed=seed))
            known = share(law, each, options.seeds, Lifetimes)
            ratio = known / ours
            exact = "–"
            if law == "beta" and each <= 10:
                prices = np.geomspace(0.012, 0.12, 60)
                table = _least_sums(BETA[0], sum(BETA), prices, 50 * each, 40 * each, 4 * each)
                found = share(law, each, options.seeds, partial(ExactIndex, table=table))
                exact = f"{found.mean():.3f}"
            error = ratio.std(ddof=1) / np.sqrt(ratio.size)
            rows.append(
                [
                    law,
                    str(each),
                    f"{ours.mean():.3f}",
                    f"{known.mean():.3f}",
                    f"{ratio.mean():.3f} ± {error:.3f}",
                    exact,
                ]
            )
            console.print(rows[-1])
    columns = [
        "click rates",
        "impressions per item",
        "`cold-start`",
        "lifetimes known",
        "ratio",
        "exact index, law known",
    ]
    results.table("shares", columns, rows)
    results.write()


if __name__ == "__main__":
    main()
