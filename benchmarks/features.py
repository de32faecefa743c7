"""What features bring and cost: ``python benchmarks/features.py [--seeds 4] [--data FOLDER] [--results FILE]``.

Made-up sites: 4,000 items on pages of 20 slots. An item has a genre, a length and a headline of six words. Rates are
spread as in a cold-start pool (Beta(1.6, 100) without features); of the variance of their logarithms, features explain
a part. Beside clicks stands the limit of counts for a policy that knows the law, without features and with them
(``hellinger.theory.limit``). Useless features explain nothing, and are to cost nothing.

Recorded sites: the headlines of the Upworthy Research Archive, as in ``benchmarks/groups.py``, whose features are their
words; with stories as groups too. The coats of the Coat Shopping data, whose rates are the shares of good ratings.

Times: a million items with a genre and a length each, beside the same pool without features; best of several.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from _results import Results
from _timing import best_of
from hellinger import Pool
from hellinger.lab._ratio import paired_ratio
from hellinger.lab.datasets import load_problem
from hellinger.policies import policy
from hellinger.theory import limit
from hellinger.world.players import PoolPlayer
from hellinger.world.site import Clicks, Site, clicks

ITEMS, SLOTS = 4000, 20
IMPRESSIONS = (10, 30, 100)
DATA = Path("data")
_SPREAD = np.log(1.0 + 1.0 / 1.6)
"""Variance of the logarithms of rates: those of a gamma law of shape 1.6."""


class MadeUp(NamedTuple):
    """Items with features, what these tell of each, and true rates."""

    features: list[dict[str, Any]]
    factors: Any
    rates: Any
    a: float


def made_up(explained: float, seed: int, items: int = ITEMS) -> MadeUp:
    """Items of whose variance features explain this part."""
    rng = np.random.default_rng([seed, 0x666561])
    genre, length = rng.integers(8, size=items), rng.normal(5.0, 2.0, items)
    words = rng.integers(200, size=(items, 6))
    parts = np.column_stack([rng.normal(size=8)[genre], length - 5.0, rng.normal(size=200)[words].sum(axis=1)])
    parts = (parts - parts.mean(axis=0)) / parts.std(axis=0)
    told = parts.sum(axis=1) / np.sqrt(3.0) * np.sqrt(explained * _SPREAD)
    factors = np.exp(told) / np.exp(told).mean()
    a = 1.0 / (np.exp((1.0 - explained) * _SPREAD) - 1.0)
    rates = rng.beta(a, np.maximum(a / (0.0157 * factors) - a, 1.0))
    features = [
        {"genre": [f"genre-{g}"], "length": round(float(x), 2), "headline": " ".join(f"w{w}" for w in row)}
        for g, x, row in zip(genre, length, words.tolist(), strict=True)
    ]
    return MadeUp(features, factors, rates, float(a))


def earned(site: Site, rates: Any, ends: Sequence[int], seed: int, **known: Any) -> list[float]:
    """Clicks of one run, at each end."""
    player = PoolPlayer(policy("cold-start"), site.items, seed=seed, **known)
    return clicks(site, player, Clicks(rates, seed), list(ends), seed=seed)


def limits(made: MadeUp, end: int) -> tuple[float, float]:
    """The limit of counts without features and with them, for a policy that knows the laws."""
    order = np.sort(made.rates)[::8]
    plain = limit(rates=order, items=ITEMS, impressions=end, most=end // SLOTS, known_after=300)
    steps, items = np.unique(np.rint(4.0 * np.log2(made.factors)), return_counts=True)
    b = made.a / (0.0157 * 2.0 ** (steps / 4.0)) - made.a
    return plain, limit(a=made.a, b=b, items=items, impressions=end, most=end // SLOTS, known_after=300)


def play_made_up(results: Results, seeds: int) -> None:
    """Clicks on made-up sites with and without features."""
    site, rows = Site(ITEMS, slots=SLOTS), []
    ends = [each * ITEMS for each in IMPRESSIONS]
    for explained in (0.0, 0.25, 0.5):
        worlds = [made_up(explained, seed) for seed in range(seeds)]
        plain = np.array([earned(site, made.rates, ends, seed) for seed, made in enumerate(worlds)])
        told = np.array(
            [earned(site, made.rates, ends, seed, features=made.features) for seed, made in enumerate(worlds)]
        )
        for j, each in enumerate(IMPRESSIONS):
            ratio, low, high = paired_ratio(told[:, j].tolist(), plain[:, j].tolist())
            most, most_told = np.mean([limits(made, ends[j]) for made in worlds], axis=0)
            row = [f"{explained:.0%}", str(each), f"{plain[:, j].mean():,.0f}", f"{told[:, j].mean():,.0f}"]
            row += [f"{ratio:.2f} ({low:.2f} … {high:.2f})", f"{most:,.0f}", f"{most_told:,.0f}"]
            print(*row, flush=True)
            rows.append(row)
    columns = ["explained", "impressions per item", "no features", "features", "ratio", "limit", "limit with features"]
    results.table("made_up", columns, rows)


def play_recorded(results: Results, data: Path, seeds: int) -> None:
    """Clicks on recorded sites with and without features, and with groups."""
    frame = pl.read_parquet(data / "upworthy" / "early.parquet")
    rates = (frame["clicks"] / frame["impressions"]).to_numpy()
    words = [{"headline": text} for text in frame["headline"].to_list()]
    dealt = [words[j] for j in np.random.default_rng(0).permutation(len(words))]
    stories = [f"story-{story}" for story in frame["story"].to_list()]
    known: dict[str, dict[str, Any]] = {
        "none": {},
        "words": {"features": words},
        "words of another headline": {"features": dealt},
        "stories": {"groups": stories},
        "stories and words": {"groups": stories, "features": words},
    }
    rows = []
    for each in IMPRESSIONS:
        day = 130 * each
        site = Site(1000, slots=4, batch=5, arrivals=130, day=day)
        end = (len(rates) - 1000) // 130 * day
        found = {name: [earned(site, rates, [end], seed, **k)[0] for seed in range(seeds)] for name, k in known.items()}
        rows += _rows(f"Upworthy, {each}", found)
    problem = load_problem("coat", data)
    good = np.nanmean(np.where(np.isnan(problem.rates), np.nan, problem.rates), axis=0)
    coats = [dict(each) for each in problem.features]
    site = Site(good.size, slots=4)
    for each in IMPRESSIONS:
        last = [each * good.size]
        found = {
            name: [earned(site, good, last, seed, **k)[0] for seed in range(4 * seeds)]
            for name, k in (("none", {}), ("features", {"features": coats}))
        }
        rows += _rows(f"Coat, {each}", found)
    results.value("seeds", seeds)
    results.table("recorded", ["site, impressions per item", "known", "clicks", "ratio"], rows)


def _rows(what: str, found: dict[str, list[float]]) -> list[list[str]]:
    rows = []
    for name, values in found.items():
        ratio, low, high = paired_ratio(values, found["none"])
        shown = "" if name == "none" else f"{ratio:.2f} ({low:.2f} … {high:.2f})"
        rows.append([what, name, f"{np.mean(values):,.0f}", shown])
        print(*rows[-1], flush=True)
    return rows


def measure(results: Results, items: int) -> None:
    """Times of a large pool with and without features."""
    rng = np.random.default_rng(0)
    genre, length = rng.integers(50, size=items), rng.normal(size=items).round(3)
    rates = np.minimum(rng.gamma(2.0, 0.01, items) * np.exp(0.5 * rng.normal(size=50)[genre] + 0.3 * length), 1)
    n = np.floor(rng.gamma(0.3, 100, items))
    s = rng.binomial(n.astype(int), rates).astype(float)
    some = rng.integers(items, size=2000).tolist()
    described = [{"genre": f"genre-{g}", "length": x} for g, x in zip(genre.tolist(), length.tolist(), strict=True)]
    for name, features in (("plain", None), ("features", described)):
        pool = Pool("cold-start", learn="given", seed=1)
        pool.add(np.arange(items), n, s, features=features)
        pool.learn()
        prior = pool.prior
        assert prior is not None
        other = prior._replace(a=prior.a * 1.003, strength=prior.strength * 1.002)

        def change(pool: Pool = pool, priors: tuple[Any, Any] = (prior, other)) -> None:
            pool.prior = priors[pool.prior == priors[0]]

        def rank(pool: Pool = pool) -> None:
            for _ in range(200):
                pool.rank(20)

        def record(pool: Pool = pool) -> None:
            for item in some:
                pool.record(item, impressions=1)

        def add(pool: Pool = pool, features: Any = features) -> None:
            for j in range(500):
                pool.add(items + j, features=None if features is None else features[j])
            pool.remove(range(items, items + 500))

        change()
        times = {
            "rank": (best_of(rank, 7) / 200 * 1e6, "µs", 1),
            "record": (best_of(record, 5) / len(some) * 1e6, "µs", 1),
            "add": (best_of(add, 5) / 500 * 1e6, "µs", 1),
            "fit": (best_of(pool.fit, 3) * 1e3, "ms", 0),
            "set": (best_of(change, 4) * 1e3, "ms", 2 if features is None else 0),
        }
        for what, (value, unit, digits) in times.items():
            print(f"{name}: {what} {value:.{digits}f} {unit}", flush=True)
            results.value(f"{what}_{name}", value, unit, digits)
        results.value(f"bytes_{name}", pool.memory() / items)
        print(f"{name}: {pool.memory() / items:.0f} bytes an item; {pool.explain()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--parts", nargs="*", default=["made-up", "recorded", "times"])
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    if "made-up" in options.parts:
        play_made_up(results, options.seeds)
    if "recorded" in options.parts:
        play_recorded(results, options.data, options.seeds)
    if "times" in options.parts:
        measure(results, options.items)
    results.write()


if __name__ == "__main__":
    main()
