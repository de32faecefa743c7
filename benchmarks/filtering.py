"""Collaborative filtering beside bandits: clicks, and what it costs to train and to answer.

``python benchmarks/filtering.py [--data FOLDER] [--runs 5] --results FILE``: about five minutes on one core. Everybody
fills the pages of the same site for the same people. Clicks are expected ones, by the true rates of what was shown.
Times are processor time of one thread.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np
import numpy.typing as npt

from _results import Results
from _timing import console, show
from contextual import spelled, watched
from hellinger.lab._ratio import paired_ratio
from hellinger.lab.contextual import Contender, play_pages, run_seed
from hellinger.lab.datasets import load_problem
from hellinger.world.contextual import ContextualProblem

RUNS = 5
MARKS = (100, 200, 500)
MODEL = "cold-start(model=logistic)"
AMONG = f"models=(latent-factors, pairwise, {MODEL})"
CONTENDERS = (
    MODEL,
    "cold-start",
    "hellinger-ucb",
    "latent-factors",
    "latent-factors(explore=0.1)",
    "pairwise",
    "pairwise(explore=0.1)",
    f"choose-model({AMONG})",
    f"choose-model({AMONG}, policy=thompson)",
    "uniform",
)
PROBLEMS = {"coat": "coat", "synthetic": "synthetic(items=300)"}
SIZES = ((1_000, 10_000), (10_000, 100_000))
"""Items, and impressions to learn from."""
LEARNERS = ("latent-factors", "pairwise", MODEL, "cold-start")


def report_clicks(name: str, problem: ContextualProblem, runs: int, results: Results) -> None:
    """A table of clicks and times on one problem."""
    clicks: dict[str, npt.NDArray[np.float64]] = {}
    pages, training = dict[str, float](), dict[str, float]()
    for spec in ("oracle", *CONTENDERS):
        contender = Contender("oracle", "") if spec == "oracle" else Contender.read(spec)
        clicks[spec] = np.zeros((runs, len(MARKS)))
        fills, learns = list[float](), list[float]()
        for number in range(runs):
            seed = run_seed(0, number)
            player = contender.player(problem, seed)
            took = watched(player)
            clicks[spec][number] = play_pages(problem, player, MARKS, seed=seed).expected
            fills += took["fill"]
            learns.append(sum(took["learn"]))
        pages[spec], training[spec] = float(np.median(fills)) * 1e3, float(np.median(learns)) * 1e3
        console.print(f"[dim]{name}, {spec}: {clicks[spec][:, -1].mean():,.0f}[/]")
    rows: list[tuple[str, ...]] = []
    for spec in sorted(clicks, key=lambda each: -clicks[each][:, -1].mean()):
        cells = [f"{value:,.0f}" for value in clicks[spec].mean(axis=0)]
        if spec == "oracle":
            rows.append((spec, *cells, "", "", ""))
            continue
        ratio = ""
        if spec != MODEL:
            value, low, high = paired_ratio(clicks[spec][:, -1].tolist(), clicks[MODEL][:, -1].tolist())
            ratio = f"{value:.2f} ({low:.2f} … {high:.2f})"
        rows.append((f"`{spec}`", *cells, ratio, spelled(training[spec]), spelled(pages[spec])))
    against = f"this ÷ `{MODEL}`, at {MARKS[-1]}"
    columns = ("", *(f"{mark:,} pages" for mark in MARKS), against, f"to learn {MARKS[-1]} pages", "to fill a page")
    show(f"Clicks, {name}", columns, rows)
    results.table(name, columns, rows)


def times(spec: str, items: int, impressions: int) -> tuple[float, float, float]:
    """Milliseconds to learn random impressions, to take in one page more, and to fill a page.

    A filter learns by one fit to all that it has seen, so that a page more takes a fit too.
    """
    problem = load_problem(f"synthetic(items={items}, people=1000)")
    rng = np.random.default_rng(0)
    slots = problem.site.slots
    people = np.repeat(rng.integers(1000, size=impressions // slots), slots)
    places = rng.integers(items, size=impressions)
    rewards = (rng.random(impressions) < problem.rates[people, places]).astype(np.float64)
    contender = Contender.read(spec)
    player = contender.player(problem, 0)
    at_once = impressions if contender.filtering else slots
    chunks = [slice(first, first + at_once) for first in range(0, impressions, at_once)]
    took = watched(player)
    for chunk in chunks:
        player.learn(places[chunk], rewards[chunk], people[chunk])
    for person in range(60):
        player.choose(slots, np.array([person]))
    more = float(np.median(took["learn"][-1000:])) * 1e3
    return sum(took["learn"]) * 1e3, more, float(np.median(took["fill"][20:])) * 1e3


def report_times(results: Results) -> None:
    """What training and answers cost with more items and impressions."""
    warm = time.monotonic()
    for spec in LEARNERS:  # compiled, imported
        times(spec, 100, 1000)
    console.print(f"[dim]ready after {time.monotonic() - warm:.0f} s[/]")
    rows = []
    for spec in LEARNERS:
        found = [times(spec, *size) for size in SIZES]
        rows.append((f"`{spec}`", *(spelled(value) for each in found for value in each)))
        name = "model" if spec == MODEL else spec.replace("-", "_")
        results.value(f"{name}_learn", spelled(found[-1][0]))
        results.value(f"{name}_more", spelled(found[-1][1]))
        results.value(f"{name}_page", spelled(found[-1][2]))
    columns = [""]
    for items, impressions in SIZES:
        columns += [f"to learn {impressions:,} impressions", "a page more", f"to fill a page of {items:,} items"]
    show("Processor time, one thread", tuple(columns), rows)
    results.table("times", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder with the folder coat")
    parser.add_argument("--runs", type=int, default=RUNS)
    Results.option(parser)
    options = parser.parse_args()
    command = "python benchmarks/filtering.py --data data" + (f" --runs {options.runs}" if options.runs != RUNS else "")
    results = Results(options.results, command)
    results.value("runs", options.runs)
    report_times(results)
    for name, spec in PROBLEMS.items():
        report_clicks(name, load_problem(spec, options.data if name == "coat" else None), options.runs, results)
    results.write()


if __name__ == "__main__":
    main()
