"""What groups bring, and what they cost: ``python benchmarks/groups.py [--seeds 32] [--data FOLDER] [--results FILE]``.

Clicks: a site of 1,000 headlines on pages of 4 slots, with the true click rates of the Upworthy Research Archive
(``upworthy/early.parquet`` of the folder ``--data``). Each week 130 new ones take the places of the oldest; feedback is
read every few pages (``--pages``). Groups are the stories of the headlines; or the same, dealt at random. The prior and
what groups tell are learned online. Ratios are to ``cold-start`` without groups on the same site.

Design: the headlines and their order are those of the archive in every run. A seed sets what chance decides: whether
an item's n-th impression is clicked (the same for all who play that seed, whoever shows it and when), how ties are
broken, and how random groups are dealt. A run's clicks are mostly those of the few best headlines, found early or
late, so they differ by 6 % from seed to seed at 10 impressions an item, by 4 % at 30 and by 2 % at 100; ratios of two
who play the same seed differ more, by 9, 7 and 4 %, for common clicks do not make them find the same headlines. Only
many seeds help: 32 give intervals of about ±0.035, ±0.025 and ±0.016. The intervals are for other clicks on this site,
not for another archive.

Times: a million items in a hundred thousand groups of ten, members far apart in memory; best of several, beside the
same pool without groups. The floor of setting a prior is to read every item and its group once: 80 bytes an item.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from _results import Results
from _timing import best_of
from hellinger import Pool
from hellinger.lab._ratio import paired_ratio
from hellinger.policies import policy
from hellinger.world.players import Oracle, PoolPlayer
from hellinger.world.site import Clicks, Player, Site, clicks

ITEMS, WEEKLY, PAGES = 1000, 130, 5
IMPRESSIONS = (10, 30, 100)
DATA = Path("data")


def earned(
    rates: Any, groups: list[str] | None, impressions: int, seed: int, pages: int = PAGES, *, oracle: bool = False
) -> float:
    """Clicks of one run, until all items have come."""
    day = WEEKLY * impressions
    site = Site(ITEMS, slots=4, batch=pages, arrivals=WEEKLY, day=day)
    player: Player
    if oracle:
        player = Oracle(rates, ITEMS)
    else:
        player = PoolPlayer(policy("cold-start"), ITEMS, seed=seed, groups=groups)
    end = (len(rates) - ITEMS) // WEEKLY * day
    return clicks(site, player, Clicks(rates, seed), [end], seed=seed)[0]


def dealt(groups: list[str], seed: int) -> list[str]:
    """The same groups in another order: they are as many and as large, and mean nothing."""
    return [groups[j] for j in np.random.default_rng([seed, 0x64656C]).permutation(len(groups))]


def play(results: Results, data: Path, seeds: range, impressions: tuple[int, ...], pages: int, workers: int) -> None:
    """Clicks with stories, with random groups, and without."""
    frame = pl.read_parquet(data / "upworthy" / "early.parquet")
    rates = (frame["clicks"] / frame["impressions"]).to_numpy()
    stories = [f"story-{story}" for story in frame["story"].to_list()]
    rows = []
    pool = ProcessPoolExecutor(workers)

    def all_seeds(each: int, groups: list[list[str]] | None) -> list[float]:
        dealt_out = repeat(None, len(seeds)) if groups is None else groups
        return list(pool.map(earned, repeat(rates), dealt_out, repeat(each), seeds, repeat(pages)))

    for each in impressions:
        plain = all_seeds(each, None)
        row = [str(each), f"{np.mean(plain):,.0f}"]
        for name, groups in (("stories", [stories] * len(seeds)), ("random", [dealt(stories, j) for j in seeds])):
            found = all_seeds(each, groups)
            ratio, low, high = paired_ratio(found, plain)
            print(
                f"{each} impressions an item, {name}: {np.mean(found):,.0f}, {ratio:.3f} ({low:.3f} … {high:.3f})",
                flush=True,
            )
            row += [f"{np.mean(found):,.0f}", f"{ratio:.3f} ({low:.3f} … {high:.3f})"]
            results.value(f"{name}_{each}", ratio, digits=2)
        best = earned(rates, None, each, 0, pages, oracle=True)
        rows.append([*row, f"{best:,.0f}"])
    pool.shutdown()
    columns = ["impressions per item", "no groups", "stories", "ratio", "random groups", "ratio", "oracle"]
    results.table("clicks", columns, rows)
    results.value("seeds", len(seeds))


def measure(results: Results, items: int, size: int) -> None:
    """Times of a large pool with and without groups."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(items // size), size))
    rates = np.minimum(rng.beta(2, 100, items // size)[group] * rng.gamma(20, 1 / 20, items), 1)
    n = np.floor(rng.gamma(0.3, 100, items))
    s = rng.binomial(n.astype(int), rates).astype(float)
    some = rng.integers(items, size=2000).tolist()
    for name, groups in (("plain", None), ("grouped", [f"group-{g}" for g in group.tolist()])):
        pool = Pool("cold-start", learn="given", seed=1)
        pool.add(np.arange(items), n, s, group=groups)
        pool.learn()
        prior = pool.prior
        assert prior is not None
        other = prior._replace(a=prior.a * 1.003, strength=prior.strength * 1.002)

        def change(pool: Pool = pool, priors: tuple[Any, Any] = (prior, other)) -> None:
            pool.prior = priors[pool.prior == priors[0]]

        def longest(pool: Pool = pool, priors: tuple[Any, Any] = (prior, other)) -> float:
            """Seconds of the longest slice, where a prior is set slowly as the service does it."""
            pool.set_prior(priors[pool.prior == priors[0]], slowly=True)
            slices = [0.0]
            while pool.unsettled:
                begun = time.perf_counter()
                pool.settle(4_000)
                slices.append(time.perf_counter() - begun)
            return max(slices)

        def rank(pool: Pool = pool) -> None:
            for _ in range(200):
                pool.rank(20)

        def record(pool: Pool = pool) -> None:
            for item in some:
                pool.record(item, impressions=1)

        change()
        times = {
            "rank": (best_of(rank, 7) / 200 * 1e6, "µs", 1),
            "record": (best_of(record, 5) / len(some) * 1e6, "µs", 1),
            "fit": (best_of(pool.fit, 5) * 1e3, "ms", 1),
            "set": (best_of(change, 6) * 1e3, "ms", 2 if groups is None else 0),
            "slice": (min(longest() for _ in range(4)) * 1e3, "ms", 1),
        }
        for what, (value, unit, digits) in times.items():
            print(f"{name}: {what} {value:.{digits}f} {unit}")
            results.value(f"{what}_{name}", value, unit, digits)
        results.value(f"bytes_{name}", pool.memory() / items)
        print(f"{name}: {pool.memory() / items:.0f} bytes an item; {pool.explain()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--first-seed", type=int, default=0, help="tune on 100, and report on 0")
    parser.add_argument("--impressions", type=int, nargs="*", default=IMPRESSIONS)
    parser.add_argument("--pages", type=int, default=PAGES, help="pages between two readings of feedback")
    parser.add_argument("--workers", type=int, default=2, help="processes; results do not depend on them")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--items", type=int, default=1_000_000)
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    if options.impressions:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        play(results, options.data, seeds, tuple(options.impressions), options.pages, options.workers)
    if options.items:
        measure(results, options.items, 10)
    results.write()


if __name__ == "__main__":
    main()
