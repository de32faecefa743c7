"""How often an experiment that is looked at all the time says something wrong, and what being right costs.

    python benchmarks/false_alarms.py [runs] [situation ...] [--results FILE]

``tests/situations.py`` and ``tests/peeking.py`` have the situations. Prints the tables of docs/experiment.md.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from _results import Results

sys.path.append(str(Path(__file__).parent.parent / "tests"))
import peeking
from situations import LIFT, SITUATIONS, play

RUNS, REQUESTS = 1000, 2000
Draw = Callable[[np.random.Generator, int], peeking.Path]
LAWS: dict[str, Draw] = {
    "independent, 5 %": lambda rng, runs: peeking.steady(rng, runs, REQUESTS, 0.05),
    "Thompson sampling, learning as it goes": lambda rng, runs: peeking.learning(rng, runs, REQUESTS),
    "uneven users, design effect 2": lambda rng, runs: peeking.clumped(rng, runs, REQUESTS, 0.05, 1.0),
    "very uneven users, design effect 5": lambda rng, runs: peeking.clumped(rng, runs, REQUESTS, 0.05, 0.25),
}
SPLITS = ({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 3.0, "b": 1.0})
SITUATION_COLUMNS = [
    "situation",
    "read",
    "verdict wrong",
    "lift wrong",
    "rate wrong",
    f"+{100 * LIFT:.0f} % found",
    "after rankings",
]
PEEK_COLUMNS = ["clicks", "rates, by impression", "rates, by request", "lifts, by impression", "lifts, by request"]


def percent(share: float) -> str:
    return f"**{100 * share:.1f} %**" if share > 0.05 else f"{100 * share:.1f} %"


def textbook(one: peeking.Path, other: peeking.Path) -> tuple[float, float]:
    """Share of runs in which the intervals for one look, of a rate and of a lift, ever missed."""
    n = one.requests * peeking.SLOTS
    spread = np.sqrt(one.reward * (1.0 - one.reward / n) + 1e-9)
    rates = (np.abs(one.reward - one.means) > 1.96 * spread).any(axis=1).mean()
    a, b = np.maximum(one.reward, 0.5), np.maximum(other.reward, 0.5)
    off = np.abs(np.log(a / b) - np.log(one.means / other.means))
    lifts = (off > 1.96 * np.sqrt(1.0 / a + 1.0 / b - 2.0 / n)).any(axis=1).mean()
    return float(rates), float(lifts)


def peeks(runs: int) -> list[list[str]]:
    """Rows for experiments without a difference, looked at 1,000 times; rates are of both variants."""
    rows = []
    for name, law in LAWS.items():
        rng = np.random.default_rng(1)
        one, other = law(rng, runs), law(rng, runs)
        row = [name]
        for by_request in (False, True):
            found = [peeking.missed_rates(each, by_request=by_request) for each in (one, other)]
            row += [percent(float(np.mean(found))), percent(peeking.missed_lifts(one, other, by_request=by_request))]
        rows.append([row[0], row[1], row[3], row[2], row[4]])
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
        if name.startswith("independent"):
            rates, lifts = textbook(one, other)
            last = ["textbook interval, independent clicks", percent(rates), "", percent(lifts), ""]
    return [*rows, last]


def situations(names: list[str], runs: int) -> list[list[str]]:
    """Rows for experiments as they happen."""
    rows = []
    for name in names:
        for reading, result in zip(SITUATIONS[name].readings, play(SITUATIONS[name], runs, seed=1), strict=True):
            after = f"{result.rankings:,.0f}" if math.isfinite(result.rankings) else "not by the end"
            wrong = map(percent, result[:3])
            rows.append([SITUATIONS[name].words, reading.words, *wrong, f"{100 * result.decided:.0f} %", after])
            print("| " + " | ".join(rows[-1]) + " |", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=RUNS)
    parser.add_argument("situations", nargs="*", help="all unless given")
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    results.table("situations", SITUATION_COLUMNS, situations(options.situations or list(SITUATIONS), options.runs))
    if not options.situations:
        results.table("peeks", PEEK_COLUMNS, peeks(options.runs))
        rang, repeated = zip(
            *(peeking.split_alarms(np.random.default_rng(3), 4 * options.runs, 100_000, each) for each in SPLITS),
            strict=True,
        )
        results.value("runs", options.runs)
        results.value("splits", 8 * options.runs)
        results.value("split_rang", f"{100 * np.mean(rang):.1f} %")
        results.value("split_repeated", f"{100 * np.mean(repeated):.1f} %")
    results.write()


if __name__ == "__main__":
    main()
