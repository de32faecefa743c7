"""Samples to identify the best arms, by ball and rate, beside the fewest possible: the table of docs/theory.md.

``python benchmarks/identify.py [--runs 300] --results FILE``. Everything depends on the seed alone.
"""

from __future__ import annotations

import argparse

from _results import Results
from _timing import console
from hellinger import theory
from hellinger.identification import rates
from hellinger.lab import PAPER_BERNOULLI, identify
from hellinger.lab.identification import places

DELTA = 0.05
PROBLEMS = {"five": ((0.3, 0.21, 0.2, 0.19, 0.18), 1), "ten": (PAPER_BERNOULLI, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    results.value("runs", options.runs)
    rows: dict[str, list[str]] = {}
    for name, (means, best) in PROBLEMS.items():
        lower = theory.least_samples(means, best=best, delta=DELTA)
        found = identify(means, best=best, delta=DELTA, rates=list(rates.available()), runs=options.runs, seed=1)
        results.value(f"bound_{name}", lower)
        for one in found:
            console.print(name, one)
            assert one.unfinished == 0
            cells = [f"{one.samples / lower:.1f}", f"{one.wrong / one.runs:.3f}"]
            rows.setdefault(one.method, [one.ball, f"`{one.rate}`"]).extend(cells)
        if name == "five":
            results.picture(
                "identify",
                "draw_ranking",
                places=places(found),
                title="The best of five arms, δ = 0.05",
                what="samples ± 95 %",
                unit="mean",
                lower=lower,
            )
    columns = ["ball", "rate", "best of five, ÷ bound", "wrong", "best four of ten, ÷ bound", "wrong"]
    results.table("samples", columns, list(rows.values()))
    results.write()


if __name__ == "__main__":
    main()
