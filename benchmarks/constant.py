"""The constant c in docs/theory.md: mean regret and its tail on two problems. Everything depends on the seed alone.

``python benchmarks/constant.py --results FILE``: a minute.
"""

from __future__ import annotations

import argparse

import numpy as np

from _results import Results
from hellinger import simulate
from hellinger.lab import PAPER_BERNOULLI


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Results.option(parser)
    results = Results(parser.parse_args().results)
    close = simulate(
        ["hellinger-ucb(c=0.27)", "hellinger-ucb(c=0.5)"], means=[0.5, 0.45], horizon=60_000, runs=8000, seed=0
    )
    rows = []
    for c, final in zip(("0.27", "0.5"), close.final, strict=True):
        mean, error = final.mean(), final.std(ddof=1) / np.sqrt(final.size)
        median, tail, far = np.quantile(final, [0.5, 0.99, 0.999])
        rows.append(
            [c, f"{mean:.1f} ± {error:.1f}", *(f"{x:,.0f}" for x in (median, tail, far)), f"{final.max():,.1f}"]
        )
    results.table("close", ["$c$", "mean", "median", "99 %", "99.9 %", "worst"], rows)
    constants = ("0.25", "0.27", "0.35", "0.5")
    specs = [f"ucb(ball=hellinger, level=log, scale={c})" for c in constants]
    paper = simulate(specs, means=PAPER_BERNOULLI, horizon=10_000, runs=1000, init=3, seed=0)
    cells = [f"{row['mean_regret']:.1f} ± {row['sem']:.1f}" for row in paper.summary()]
    results.table("paper", ["$c$", *constants], [["regret", *cells]])
    results.write()


if __name__ == "__main__":
    main()
