"""Rankings by a model beside a NumPy scan, and what a model earns on people and items with features; in one run.

Run as ``python benchmarks/models.py [--small] [--results FILE]``. The floor of a ranking is the reading of the
features, four bytes each: 10⁶ × 32 × 4 B = 128 MB, which a NumPy product of the same matrix with one vector reads too.
Times are processor time, best of many.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import numpy as np

from _results import Results
from _timing import fastest
from hellinger import Pool, models
from hellinger.lab.contextual import Contender, play_pages
from hellinger.lab.datasets import load_problem
from hellinger.models import Regression
from hellinger.models._kernels import BLOCK, FIRST

COLUMNS = 31
MODEL = "cold-start(model=logistic)"
RIDGES = "model=linear(shared=false, per_item=true, scale=1, learn=false)"
ENTRIES = (
    ("**`cold-start`, logistic model**", MODEL),
    ("`cold-start`, no context", "cold-start"),
    ("`hellinger-ucb`, logistic model", "hellinger-ucb(model=logistic)"),
    ("`laplace-thompson`, logistic model", "laplace-thompson(model=logistic)"),
    ("`greedy`, logistic model", "greedy(model=logistic)"),
    ("`greedy`, new items believed to be of the median rate", "greedy(model=logistic(mean=0.018))"),
    ("`linucb(alpha=0.1)`, one ridge an item", f"linucb(alpha=0.1, {RIDGES})"),
    ("`linucb(alpha=1)`, one ridge an item", f"linucb(alpha=1.0, {RIDGES})"),
)


def large(size: int) -> tuple[Pool[int], Any]:
    """A pool of so many items with 32 shared features, the constant among them, and a level each, after traffic."""
    rng = np.random.default_rng(size)
    pool = Pool[int]("cold-start", model="logistic", seed=1)
    n = rng.integers(0, 200, size) * (rng.random(size) < 0.5)
    pool.add(np.arange(size), n, rng.binomial(n, 0.03))
    posterior = pool._modelled.regression
    posterior.things.learn([{f"f{j}": value for j in range(COLUMNS)} for value in (-1.0, 1.0, -1.0, 1.0)])
    posterior._raw = {key: np.zeros(posterior._levels.pulls.size) for key in posterior.things.scalings}
    posterior._scaled = dict.fromkeys(posterior.things.scalings, (0.0, 1.0))
    people = [{"group": "ab"[j % 2]} for j in range(2)]
    for person in people * 5:  # so many that words get their columns
        posterior.learn_context(person)
    x = rng.normal(size=(size, COLUMNS)).astype(np.float32)
    places = np.arange(size)
    posterior._levels.blocks[places // BLOCK, FIRST : FIRST + COLUMNS, places % BLOCK] = x
    posterior._levels.most[1] = np.abs(x).max()
    posterior._refresh(0, size)
    truth = 0.2 * rng.normal(size=(2, COLUMNS))
    for event in range(3000):
        item, who = int(rng.integers(size)), event % 2
        click = rng.random() < 1.0 / (1.0 + np.exp(3.5 - x[item] @ truth[who]))
        posterior.observe(item, posterior.context(people[who]), 1.0, float(click))
    pool.rounds = 3000
    return pool, x


def product(x: Any) -> Any:
    """What NumPy needs for the linear part alone: one product, and the 20 best of it."""
    return np.argpartition(x @ np.ones(COLUMNS, np.float32), -20)[-20:]


def reading(size: int) -> float:
    """Seconds in which NumPy reads as much memory as the features of so many items take, once."""
    memory = np.ones((size, COLUMNS + 1), np.float32)
    ones = np.ones(COLUMNS + 1, np.float32)
    return fastest(lambda: memory @ ones, seconds=0.5)


def speed(sizes: list[int], results: Results) -> None:
    for size, name in zip(sizes, ("ten_thousand", "million"), strict=False):
        pool, x = large(size)
        ranking = functools.partial(pool.rank, 20, context={"group": "a"})
        scanning = functools.partial(product, x)
        rank, scan, read = np.inf, np.inf, np.inf
        for _ in range(4):  # in turns, so that a noisy moment is not one's own
            rank, scan = min(rank, fastest(ranking, seconds=0.5)), min(scan, fastest(scanning, seconds=0.5))
            read = min(read, reading(size))
        full = pool.rank(20, context={"group": "a"}, among=np.arange(size)) if size <= 10_000 else None
        assert full is None or full == pool.rank(20, context={"group": "a"})
        print(
            f"{size:9,} items: rank(20) {1e3 * rank:7.2f} ms, product and partition by NumPy {1e3 * scan:7.2f} ms, "
            f"features read once {1e3 * read:7.2f} ms"
        )
        results.value(f"rank_{name}", 1e3 * rank, "ms", 2)
        results.value(f"scan_{name}", 1e3 * scan, "ms", 2)
        if name == "million":
            results.value("floor_bytes", 4 * size * (COLUMNS + 1) / 1e6, "MB")
            results.value("floor", 1e3 * read, "ms", 2)
            results.value("floor_ratio", rank / read, "times", 1)
    posterior = Regression(models.get("logistic", learn=False))
    posterior.add(100, [{f"f{j}": float((i * j) % 11) for j in range(7)} for i in range(100)])
    for j in range(14):
        posterior.learn_context({f"p{i}": float((i * j) % 5) for i in range(7)})
    z = posterior.context({f"p{i}": float(i % 5) for i in range(7)})
    update = fastest(lambda: posterior.observe(5, z, 1.0, 0.0))
    print(f"an update at {posterior._weights.mean.size} weights: {1e6 * update:.1f} µs (target 50)")
    results.value("update", 1e6 * update, "µs", 1)


def quality(problem: str, marks: tuple[int, ...], seeds: int, results: Results) -> None:
    """Expected clicks after so many pages."""
    made = load_problem(problem)
    rows = []
    for label, spec in ENTRIES:
        clicks = [
            play_pages(made, Contender.read(spec).player(made, seed), marks, seed=seed).expected
            for seed in range(seeds)
        ]
        rows.append([label, *(f"{value:,.0f}" for value in np.mean(clicks, axis=0))])
        print(f"{label:45s}", *rows[-1][1:], flush=True)
    results.table("clicks", ["clicks after", *(f"{mark:,} pages" for mark in marks)], rows)
    results.value("seeds", seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few seconds, for trying out")
    Results.option(parser)
    given = parser.parse_args()
    results = Results(given.results)
    speed([10_000] if given.small else [10_000, 1_000_000], results)
    if given.small:
        quality("unequal(items=200, people=200)", (100,), 1, results)
    else:
        quality("unequal", (500, 1000, 2000, 4000, 8000), 2, results)
    results.write()


if __name__ == "__main__":
    main()
