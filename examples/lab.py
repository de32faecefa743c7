"""The laboratory: policies against each other, a table and a figure. Run it with a folder for the figure."""

from __future__ import annotations

import sys
from pathlib import Path

import hellinger


def main(folder: Path | None = None) -> None:
    """The paper's Bernoulli problem, fewer runs."""
    result = hellinger.simulate(
        ["hellinger-ucb", "kl-ucb", "ucb1", "thompson"],
        means=[0.1, 0.05, 0.05, 0.05, 0.02, 0.02, 0.02, 0.01, 0.01, 0.01],
        horizon=5_000,
        runs=50,
        seed=0,
    )
    for row in result.summary():
        print(f"{row['policy']:15} regret {row['mean_regret']:6.1f} ± {row['sem']:.1f}")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        result.plot_regret().savefig(folder / "regret.png", dpi=150)
        print("figure:", folder / "regret.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
