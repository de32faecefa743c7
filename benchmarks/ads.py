"""The ten ads of docs/lab.md: our policies and those of guabao/hellinger_ucb_bandits on their table.

``python benchmarks/ads.py TABLE --results FILE``: some minutes. TABLE is their ``ads_ctr.csv``, which is not part of
this repository; everything else depends on seeds alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from _results import Results
from hellinger.lab import read_table, replay_table

sys.path.append(str(Path(__file__).parent.parent / "tests"))
import demo

OURS = ("thompson", "hellinger-ucb", "kl-ucb", "hellinger-ucb(c=0.5)", "ucb1", "uniform")
THEIRS = {"ucb1": ("UCB1", 5925), "kl": ("KL-UCB", 6331), "hellinger": ("Hellinger", 6443)}
ORDERS, TABLES = 100, 300


def signed(value: float, digits: int = 1) -> str:
    return f"{value:+,.{digits}f}".replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results, "python benchmarks/ads.py ads_ctr.csv")
    table = read_table(options.table)

    result = replay_table(list(OURS), table, slots=3, runs=2000)
    rows = []
    for i, name in enumerate(OURS):
        low, high = np.quantile(result.reward[i], [0.025, 0.975])
        paired = ""
        if name != "hellinger-ucb":
            gap = result.reward[i] - result.reward[OURS.index("hellinger-ucb")]
            half = 1.96 * gap.std(ddof=1) / np.sqrt(gap.size)
            paired = f"{signed(gap.mean())} ({signed(gap.mean() - half)} to {signed(gap.mean() + half)})"
        rows.append([f"`{name}`", f"{result.reward[i].mean():,.0f}", f"{low:,.0f}–{high:,.0f}", paired])
    columns = ["policy", "mean total", "95 % of totals", "against `hellinger-ucb`, paired, 95 % interval"]
    results.table("ours", columns, rows)

    totals = np.array(
        [
            [demo.total(name, table, demo.shuffled(np.random.default_rng(seed))) for seed in range(ORDERS)]
            for name in THEIRS
        ]
    )
    wins = np.bincount(totals.argmax(axis=0), minlength=len(THEIRS))
    rows = [
        [name, f"{published:,}", *(f"{x:,.0f}" for x in (t.mean(), t.std(ddof=1), t.min(), t.max())), f"{won} times"]
        for (name, published), t, won in zip(THEIRS.values(), totals, wins, strict=True)
    ]
    columns = ["their policy", "published", "mean", "standard deviation", "least", "most", "best of the three"]
    results.table("theirs", columns, rows)
    for name in THEIRS:
        results.value(f"default_{name}", demo.total(name, table, demo.default))

    rng = np.random.default_rng(0)
    names = ("hellinger-ucb", "ucb1", "kl-ucb", "thompson")
    drawn = np.array(
        [
            replay_table(list(names), table[rng.integers(0, len(table), len(table))], slots=3, runs=4).reward.mean(
                axis=1
            )
            for _ in range(TABLES)
        ]
    )
    results.value("tables", TABLES)
    for i, short in ((1, "ucb1"), (2, "kl"), (3, "thompson")):
        gap = drawn[:, i] - drawn[:, 0]
        low, high = np.quantile(gap, [0.025, 0.975])
        results.value(f"{short}_gap", signed(float(gap.mean()), 0))
        results.value(f"{short}_range", f"{signed(float(low), 0)} to {signed(float(high), 0)}")
        if short != "ucb1":
            results.value(f"{short}_ahead", 100 * float((gap > 0).mean()), "%")
    results.write()


if __name__ == "__main__":
    main()
