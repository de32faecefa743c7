"""What single rewards tell, in docs/howto.md: ratings and dwell time, by policies that know their law, or sums alone.

``python benchmarks/bounded.py [--runs 40] [--results FILE]``: two minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from _results import Results
from hellinger import Pool, simulate

HORIZON = 3000
STARS = np.arange(5) / 4.0
RATINGS = np.array(
    [
        [0.02, 0.05, 0.33, 0.45, 0.15],
        [0.02, 0.08, 0.40, 0.40, 0.10],
        [0.02, 0.10, 0.45, 0.36, 0.07],
        [0.03, 0.12, 0.48, 0.32, 0.05],
        [0.03, 0.15, 0.50, 0.28, 0.04],
        [0.04, 0.18, 0.50, 0.25, 0.03],
        [0.05, 0.20, 0.50, 0.22, 0.03],
        [0.05, 0.25, 0.50, 0.18, 0.02],
    ]
)
"""How often each item gets one to five stars."""
DWELL = (0.16, 0.14, 0.13, 0.12, 0.11, 0.10, 0.09, 0.08)
"""Mean shares of three minutes that items are read for; of laws Beta(12·mean, 12·(1 − mean)), to a hundredth."""
POLICIES = ("ucb1", "kl-ucb", "imed", "empirical-kl-ucb", "empirical-imed")

Draw = Callable[[np.random.Generator, int], float]


def rating(rng: np.random.Generator, item: int) -> float:
    """One to five stars as 0 to 1."""
    return float(STARS[np.searchsorted(np.cumsum(RATINGS[item])[:-1], rng.random(), side="right")])


def dwell(rng: np.random.Generator, item: int) -> float:
    """A share of three minutes."""
    return round(float(rng.beta(12 * DWELL[item], 12 * (1 - DWELL[item]))), 2)


def in_pool(policy: str, draw: Draw, means: np.ndarray, runs: int) -> np.ndarray:
    """Regret of each run with a pool, whose levels are 16."""
    regrets = []
    for run in range(runs):
        rng, pool = np.random.default_rng([7, run]), Pool[int](policy, seed=run)
        pool.add(range(means.size))
        lost = 0.0
        for _ in range(HORIZON):
            item = pool.rank(1)[0].id
            pool.record(item, impressions=1, rewards=draw(rng, item))
            lost += means.max() - means[item]
        regrets.append(lost)
    return np.array(regrets)


def shown(regrets: np.ndarray) -> str:
    """Mean and its standard error."""
    return f"{regrets.mean():.1f} ± {regrets.std(ddof=1) / np.sqrt(regrets.size):.1f}"


def main() -> None:
    """Play both problems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    Results.option(parser)
    given = parser.parse_args()
    results = Results(given.results)
    columns: dict[str, list[str]] = {name: [] for name in POLICIES}
    pools: dict[str, list[str]] = {"empirical-kl-ucb": [], "empirical-imed": []}
    problems: tuple[tuple[Draw, np.ndarray], ...] = ((rating, RATINGS @ STARS), (dwell, _dwell_means()))
    for draw, means in problems:
        played = simulate(list(POLICIES), means=means.tolist(), rewards=draw, horizon=HORIZON, runs=given.runs, seed=0)
        for name, final in zip(POLICIES, played.final, strict=True):
            columns[name].append(shown(final))
        for name, cells in pools.items():
            cells.append(shown(in_pool(name, draw, means, given.runs)))
    rows = [[f"`{name}`", *cells] for name, cells in columns.items()]
    rows += [[f"`{name}`, in a pool", *cells] for name, cells in pools.items()]
    results.table("regret", ["policy", "ratings", "dwell time"], rows)
    results.value("runs", given.runs)
    results.value("horizon", HORIZON)
    for row in rows:
        print(*row, sep="\t")
    results.write()


def _dwell_means() -> np.ndarray:
    """Means of what :func:`dwell` gives: rounding moves them by a little."""
    rng = np.random.default_rng(0)
    return np.array([np.round(rng.beta(12 * m, 12 * (1 - m), 1_000_000), 2).mean() for m in DWELL])


if __name__ == "__main__":
    main()
