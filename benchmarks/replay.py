"""Policies that learn, replayed on a log of uniformly random choices, with features and without.

``python benchmarks/replay.py --data FOLDER --results FILE``: some minutes. ``FOLDER/uniform-log/log.txt`` has a row for
each choice among ten items: the item's number, whether it was rewarded, and ten features of each of the ten items. A
row counts for a policy where it chose what was logged; all are compared over the rounds that all reached.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from _results import Results
from _timing import show
from hellinger import evaluate

ITEMS = 10
POLICIES = ("cold-start(model=logistic)", "linucb(alpha=0.5, model=linear)", "cold-start", "hellinger-ucb", "uniform")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with uniform-log/log.txt")
    parser.add_argument("--seeds", type=int, default=5)
    Results.option(parser)
    options = parser.parse_args()
    table = np.loadtxt(options.data / "uniform-log" / "log.txt")
    items, rewards = table[:, 0].astype(int), table[:, 1]
    features = table[:, 2:].reshape(len(table), ITEMS, -1)
    found = evaluate.play_contexts(POLICIES, items, rewards, features, seeds=options.seeds)
    rows = []
    for spec, each in zip(POLICIES, found, strict=True):
        seeds = f"{min(each.values):.3f} … {max(each.values):.3f}"
        rows.append((f"`{spec}`", f"{each.value:.3f}", f"{each.low:.3f} … {each.high:.3f}", seeds))
    columns = ("policy", "reward a round", "95 % interval of one seed", "seeds")
    results = Results(options.results)
    results.table("policies", columns, rows)
    results.value("rows", len(table))
    results.value("seeds", options.seeds)
    results.value("rounds", found[0].rounds)
    results.value("rewarded", 100 * rewards.mean(), "%", 1)
    results.write()
    show(f"The first {found[0].rounds:,} rounds of {len(table):,} rows, {options.seeds} seeds", columns, rows)


if __name__ == "__main__":
    main()
