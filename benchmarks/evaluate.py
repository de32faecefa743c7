"""Whether evaluation covers, how it compares with the Open Bandit Pipeline, and what a million rankings take.

``python benchmarks/evaluate.py --results FILE``: some ten minutes. A is played on the simulated site, B evaluated from
A's log, and compared with what B earns when it is played there: 200 logs of each pair, looked at five times each. An
interval misses if it is wrong at any of these times, so that at most one log in twenty may.

The floor of the speed: the weighted rewards have to be added up, one product and one sum a row, in NumPy.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from _results import Results
from _timing import console, fastest, show
from hellinger import evaluate
from hellinger.evaluate import Evaluator
from hellinger.figures import EstimateBar
from hellinger.world.laws import LAWS
from hellinger.world.site import Clicks, Site, turns

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-obp"
LOGS, ITEMS, SLOTS, BATCH = 200, 40, 5, 200
TIMES = (200, 600, 1200, 2400, 4000)
"""Rankings after which an interval is looked at."""
ETA = 0.7
NAMES = ("ips", "clipped_ips", "snips", "dr", "switch_dr", "dr_os", "position_based")


class Pair(NamedTuple):
    """A logger and a policy to be evaluated from its log."""

    name: str
    scores: Callable[[Floats, np.random.Generator], Floats]
    """What the logger orders items by, given their rates: items of equal scores in random order."""
    share: float
    """Share of rankings that it draws at random."""
    target: Callable[[Floats, np.random.Generator], Floats]


def noisy(spread: float) -> Callable[[Floats, np.random.Generator], Floats]:
    return lambda rates, rng: np.log(rates) + rng.normal(0.0, spread, rates.size)


def tied(cells: int) -> Callable[[Floats, np.random.Generator], Floats]:
    """As a pool has it where items have few impressions: a few values only."""
    return lambda rates, _rng: np.floor(cells * np.argsort(np.argsort(rates)) / rates.size)


PAIRS = (
    Pair("all drawn → a good order", lambda rates, _: np.zeros(rates.size), 0.0, noisy(0.3)),
    Pair("half drawn → a good order", noisy(1.5), 0.5, noisy(0.3)),
    Pair("a tenth drawn → a good order", noisy(1.5), 0.1, noisy(0.3)),
    Pair("four large ties → one order of the first", tied(4), 0.0, noisy(0.0)),
    Pair("nothing drawn → another order", noisy(1.5), 0.0, noisy(1.5)),
)


class Logger:
    """Shows items by their scores, ties at random, and a share of all pages at random; knows every chance."""

    def __init__(self, scores: Floats, share: float, rng: np.random.Generator) -> None:
        self._scores, self._share, self._rng = scores, share, rng
        ranks = -np.sort(-scores)
        self._cells = np.unique(-scores, return_inverse=True)[1]
        self.chances = np.zeros((scores.size, SLOTS))
        for place in range(SLOTS):
            cell = scores == ranks[place]
            # a tie that has its places in this ranking fills each of them with any of its items
            self.chances[cell, place] = (1.0 - share) / np.count_nonzero(cell)
        self.chances += share / scores.size

    def choose(self, slots: int, segments: Ints) -> Ints:
        drawn = self._rng.random((segments.size, 1)) < self._share
        noise = self._rng.random((segments.size, self._scores.size))
        return np.argsort(np.where(drawn, 0.0, self._cells) + noise, axis=1)[:, :slots]

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None: ...

    def renew(self, places: Ints, items: Ints) -> None: ...


def played(pair: Pair, seed: int) -> Iterator[tuple[Logger, Floats, Ints, Ints, Floats]]:
    """A's log in batches: the logger, true rates, B's order, pages and clicks."""
    rng = np.random.default_rng([seed, PAIRS.index(pair)])
    rates = LAWS["bimodal"](rng, ITEMS)
    logger = Logger(pair.scores(rates, rng), pair.share, rng)
    order = np.argsort(-pair.target(rates, rng), kind="stable")[:SLOTS]
    shown = 0
    for turn in turns(Site(ITEMS, SLOTS, BATCH), logger, Clicks(rates, seed, eta=ETA), seed=seed):
        yield logger, rates, order, turn.places, turn.rewards
        shown += BATCH
        if shown >= TIMES[-1]:
            return


class Seen(NamedTuple):
    missed: bool
    difference_missed: bool
    refused: bool
    error: float
    width: float


def evaluated(pair: Pair, seed: int) -> dict[str, Seen]:
    looks = np.arange(1.0, SLOTS + 1.0) ** -ETA
    shown, earned = np.zeros(ITEMS), np.zeros(ITEMS)
    evaluators: dict[str, Evaluator] = {}
    missed = dict.fromkeys(NAMES, False)
    apart = dict.fromkeys(NAMES, False)
    count, means = 0, 0.0
    place_of = np.zeros(ITEMS, np.int64)
    for logger, rates, order, pages, rewards in played(pair, seed):
        if not evaluators:
            heaviest = 1.0 / float(logger.chances[logger.chances > 0.0].min())
            largest = dict.fromkeys(NAMES, heaviest) | {"position_based": float(looks[0] / looks[-1])}
            evaluators = {name: Evaluator(name, slots=SLOTS, largest=largest[name], cut=20.0) for name in NAMES}
            place_of[order] = np.arange(1, SLOTS + 1)
            truth = float(rates[order] @ looks)
        overall = earned.sum() / max(float(shown.sum()), 1.0)
        model = (earned + 20.0 * overall) / (shown + 20.0)
        rows = pages.ravel()
        position = np.tile(np.arange(SLOTS), len(pages))
        weight = (rows == order[position]) / logger.chances[rows, position]
        ahead = (model[order] * looks)[position]
        ranking, reward = np.repeat(np.arange(len(pages)), SLOTS), rewards.ravel()
        wanted = np.where(place_of[rows] > 0, looks[place_of[rows] - 1], 0.0)
        for name, evaluator in evaluators.items():
            if name == "position_based":
                mass = wanted * SLOTS / looks.sum()
                evaluator.add(reward, wanted / looks[position], ranking=ranking, mass=mass)
            elif name in ("dr", "switch_dr", "dr_os"):
                predicted = model[rows] * looks[position]
                evaluator.add(reward, weight, ranking=ranking, predicted=predicted, predicted_target=ahead)
            else:
                evaluator.add(reward, weight, ranking=ranking)
        np.add.at(shown, rows, looks[position])
        np.add.at(earned, rows, reward)
        means += float((rates[pages] * looks).sum())
        count += len(pages)
        if count in TIMES:
            for name, evaluator in evaluators.items():
                found = evaluator.estimate()
                missed[name] |= not found.low <= truth <= found.high
                apart[name] |= not found.difference_low <= truth - means / count <= found.difference_high
    out = {}
    for name, evaluator in evaluators.items():
        found = evaluator.estimate()
        out[name] = Seen(
            missed[name], apart[name], bool(found.refusal), found.value / truth - 1.0, found.high - found.low
        )
    return out


def coverage(results: Results, logs: int) -> None:
    rows: list[list[str]] = []
    worst = 0
    for pair in PAIRS:
        runs = [evaluated(pair, seed) for seed in range(logs)]
        for name in NAMES:
            seen = [run[name] for run in runs]
            missed, apart, refused = (sum(getattr(each, field) for each in seen) for field in Seen._fields[:3])
            errors = np.array([each.error for each in seen])
            spread = errors.std() / math.sqrt(logs)
            answered = refused < 0.5 * logs  # the mean error below is over all logs, refused ones included
            if answered:
                worst = max(worst, missed, apart)
            bias = f"{100 * errors.mean():+.1f} ± {196 * spread:.1f} %".replace("-", "−")
            cells = [pair.name, name, str(missed), str(apart), str(refused), bias if answered else "no answer"]
            rows.append(cells)
            print("  ".join(cells), flush=True)
    columns = ["log → policy", "estimator", "missed", "difference missed", "refused", "mean error"]
    results.table("coverage", columns, rows)
    results.value("logs", logs)
    results.value("worst", worst)
    results.value("pairs", len(PAIRS))


def example(results: Results) -> None:
    """The picture of the how-to: one log, several estimators."""
    pair = PAIRS[3]
    looks = np.arange(1.0, SLOTS + 1.0) ** -ETA
    evaluators: dict[str, Evaluator] = {}
    earned = count = 0.0
    for logger, _rates, order, pages, rewards in played(pair, 7):
        if not evaluators:
            heaviest = 1.0 / float(logger.chances[logger.chances > 0.0].min())
            evaluators = {
                name: Evaluator(name, slots=SLOTS, largest=heaviest) for name in ("ips", "clipped_ips", "snips")
            }
            place_of = np.zeros(ITEMS, np.int64)
            place_of[order] = np.arange(1, SLOTS + 1)
            ratio = float(looks[0] / looks[-1])
            evaluators["position_based"] = Evaluator("position_based", slots=SLOTS, largest=ratio)
        rows, position = pages.ravel(), np.tile(np.arange(SLOTS), len(pages))
        weight = (rows == order[position]) / logger.chances[rows, position]
        ranking, reward = np.repeat(np.arange(len(pages)), SLOTS), rewards.ravel()
        wanted = np.where(place_of[rows] > 0, looks[place_of[rows] - 1], 0.0)
        for name, evaluator in evaluators.items():
            if name == "position_based":
                mass = wanted * SLOTS / looks.sum()
                evaluator.add(reward, wanted / looks[position], ranking=ranking, mass=mass)
            else:
                evaluator.add(reward, weight, ranking=ranking)
        earned, count = earned + float(reward.sum()), count + len(pages)
    bars = []
    for name, evaluator in evaluators.items():
        found = evaluator.estimate()
        bars.append(EstimateBar("my-model.csv", name, found.value, found.low, found.high, bool(found.refusal)))
    results.picture("evaluate", "draw_estimates", bars=bars, logged=earned / count)


# Speed -----------------------------------------------------------------------------------------------


def speed(results: Results, rankings: int) -> None:
    rng = np.random.default_rng(0)
    part = 50_000
    rows = part * 20
    reward = (rng.random(rows) < 0.02).astype(float)
    propensity, target = rng.uniform(0.05, 1.0, rows), (rng.random(rows) < 0.5).astype(float)
    ranking = np.repeat(np.arange(part), 20)

    def floor() -> float:
        return float((reward * (target / propensity)).sum())

    def ours(name: str) -> Callable[[], object]:
        def run() -> object:
            evaluator = Evaluator(name, slots=20, largest=20.0)
            evaluator.add(reward, target / propensity, ranking=ranking)
            return evaluator.estimate()

        return run

    least = fastest(floor, seconds=1.0) * rankings / part
    table = [("product and sum in NumPy", f"{least:.2f}", "1")]
    for name in ("ips", "snips"):
        seconds = fastest(ours(name), seconds=2.0) * rankings / part
        table.append((name, f"{seconds:.2f}", f"{seconds / least:.1f}"))
        results.value(f"million_{name}", seconds, "s", 1)
        results.value(f"million_{name}_ratio", seconds / least, "", 1)
    show(f"{rankings:,} rankings of 20, in parts of {part:,}", ("what", "seconds", "× floor"), table)


# The Open Bandit Pipeline ----------------------------------------------------------------------------


def peer(results: Results) -> None:
    """The same log by both: values must be equal; time and memory as ratios."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        wanted = [
            "numpy",
            "pandas",
            "scikit-learn",
            "scipy",
            "matplotlib",
            "seaborn",
            "pyyaml",
            "tqdm",
            "mypy-extensions",
        ]
        for words in (["--no-deps", "obp==0.4.1"], wanted):
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *words], check=True)
    done = subprocess.run([str(python), str(HERE / "obp_peer.py")], capture_output=True, text=True, check=False)
    if done.returncode:
        console.print(f"obp does not run here: {done.stderr.splitlines()[-1] if done.stderr else 'no reason'}")
        results.value("obp", "does not install here")
        return
    theirs: dict[str, Any] = json.loads(done.stdout)
    columns = {name: np.array(column) for name, column in _shared_log().items()}
    model: dict[str, Any] = {"predicted": columns["predicted"], "predicted_target": columns["predicted_target"]}
    given = columns["reward"], columns["propensity"], columns["target"]
    mine = {
        "ips": evaluate.ips(*given),
        "snips": evaluate.snips(*given),
        "dm": evaluate.dm(*given, predicted_target=model["predicted_target"]),
        "dr": evaluate.dr(*given, **model),
        "switch_dr": evaluate.switch_dr(*given, **model, switch=5.0),
        "dr_os": evaluate.dr_os(*given, **model, shrink=50.0),
    }
    apart = max(abs(mine[name].value / theirs["values"][name] - 1.0) for name in mine)
    results.value("obp", f"{apart:.0e}")
    seconds = fastest(lambda: evaluate.ips(*given), seconds=1.0)
    bytes_ours = sum(column.nbytes for column in given)
    results.value("obp_time", theirs["seconds"] / seconds, "", 1)
    results.value("obp_memory", theirs["bytes"] / bytes_ours, "", 0)
    show(
        "obp on the same 20,000 rows of 200 items",
        ("what", "obp", "ours", "ratio"),
        [
            (
                "ips with interval, s",
                f"{theirs['seconds']:.3f}",
                f"{seconds:.3f}",
                f"{theirs['seconds'] / seconds:.1f}",
            ),
            ("bytes of input", f"{theirs['bytes']:,}", f"{bytes_ours:,}", f"{theirs['bytes'] / bytes_ours:.0f}"),
            ("largest relative difference of values", "", "", f"{apart:.0e}"),
        ],
    )


def _shared_log() -> dict[str, list[float]]:
    from obp_peer import log

    found = log()
    return {name: found[name].tolist() for name in ("reward", "propensity", "target", "predicted", "predicted_target")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=LOGS, help="logs of each pair")
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    began = time.monotonic()
    example(results)
    speed(results, 1_000_000)
    peer(results)
    coverage(results, options.logs)
    console.print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    results.write()


if __name__ == "__main__":
    main()
