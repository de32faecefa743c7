"""Means that change, and memory that does not grow: the tables and pictures of docs/lab.md.

``python benchmarks/changing.py [--runs 100] --results FILE``. Everything depends on the seed alone but the times.

*Variation*: two arms whose means go up and down as opposite sines, the example of Besbes, Gur & Zeevi 2014, in 20,000
rounds, by how much they vary in all. *Changes*: ten arms whose means are all drawn anew at some rounds. *Others*: ten
arms that drift, and five headlines in a file, by the hour of a week. *Space*: regret of a policy that remembers ten
numbers, against the number of arms.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np

from _results import Results
from _timing import console
from hellinger.lab import changing, simulate
from hellinger.policies.constant_space import WORDS

ROUNDS = 20_000
FORGETFUL = ("", "window=1000", "discount=0.998", "detect=0.05")


def by_variation(variation: float, arms: int) -> int:
    """A window for means that vary by so much in all: Rexp3's batch without its logarithm."""
    return math.ceil(math.cbrt(arms * (ROUNDS / variation) ** 2))


def by_changes(changes: float) -> int:
    """A window for means that jump at so many rounds, as Garivier & Moulines 2011 choose it."""
    return math.ceil(2 * math.sqrt(ROUNDS * math.log(ROUNDS) / max(changes, 1)))


def policies(variation: float, changes: float, window: int) -> dict[str, str]:
    """Specs by what they are called: how much means vary is known to those that ask for it."""
    named = {name: name for name in ("ucb1", "kl-ucb", "hellinger-ucb")}
    for name in ("ucb1", "kl-ucb", "hellinger-ucb"):
        named |= {f"{name}({given})": f"{name}({given})" for given in FORGETFUL[1:]}
        named |= {f"{name}(window=τ)": f"{name}(window={window})"}
    named |= {
        "exp3": "exp3",
        "exp3s": f"exp3s(changes={changes:g})",
        "rexp3": f"rexp3(variation={variation:g})",
    }
    return named | {"thompson": "thompson"}


def regrets(means: str, named: dict[str, str], runs: int, seed: int = 1) -> dict[str, tuple[float, float]]:
    """Mean regret and its standard error, by name."""
    result = simulate(list(named.values()), means=means, horizon=ROUNDS, runs=runs, seed=seed)
    rows = result.summary()
    return {name: (row["mean_regret"], row["sem"]) for name, row in zip(named, rows, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    results.value("runs", options.runs)
    results.value("rounds", ROUNDS)

    show_variation(results, options.runs)
    show_changes(results, options.runs)
    show_others(results, options.runs)
    show_space(results)
    results.write()


def show_variation(results: Results, runs: int) -> None:
    """Two arms, opposite sines."""
    budgets = (1, 3, 10, 30, 100)
    found = {}
    for budget in budgets:
        spec = f"seasonal(arms=2, cycles={budget / 2:g})"
        real = changing(spec, horizon=ROUNDS).variation
        found[budget] = regrets(spec, policies(real, budget, by_variation(real, 2)), runs)
        console.print(f"variation {budget} ({real:.2f}):", {k: round(v[0]) for k, v in found[budget].items()})
    names = list(found[1])
    rows = [[f"`{name}`", *(f"{found[b][name][0]:,.0f} ± {found[b][name][1]:.0f}" for b in budgets)] for name in names]
    results.table("variation", ["policy", *(f"V = {b}" for b in budgets)], rows)
    forms = [f"hellinger-ucb({given})" for given in (*FORGETFUL[1:], "window=τ")]
    drawn = ["hellinger-ucb", *forms, "exp3s", "rexp3"]
    results.picture(
        "variation",
        "draw_growth",
        lines={name: [[b, found[b][name][0]] for b in budgets] for name in drawn},
        of="regret",
        against="variation of the means",
        power=1 / 3,
        through="rexp3",
        title="Two arms, opposite sines, 20,000 rounds",
    )


def show_changes(results: Results, runs: int) -> None:
    """Ten arms that jump."""
    changes = (0, 1, 4, 16)
    pieces = {}
    for number in changes:
        spec = f"piecewise(arms=10, changes={number})"
        real = max(changing(spec, horizon=ROUNDS, seed=1).variation, 0.1)
        pieces[number] = regrets(spec, policies(real, number, by_changes(number)), runs)
        console.print(f"{number} changes:", {k: round(v[0]) for k, v in pieces[number].items()})
    rows = [[f"`{n}`", *(f"{pieces[c][n][0]:,.0f} ± {pieces[c][n][1]:.0f}" for c in changes)] for n in pieces[0]]
    results.table("changes", ["policy", *("1 change" if c == 1 else f"{c} changes" for c in changes)], rows)


def write_week(path: Path) -> None:
    """Click rates of five headlines for the 168 hours of a week: each has its hour of the day, and all grow old."""
    rng = np.random.default_rng(7)
    best, rate, life = rng.uniform(0, 24, 5), rng.uniform(0.05, 0.2, 5), rng.uniform(24, 200, 5)
    lines = ["round," + ",".join(f"headline{i}" for i in range(1, 6))]
    for hour in range(168):
        means = rate * (1 + 0.8 * np.cos(2 * np.pi * (hour - best) / 24)) * np.exp(-hour / life)
        lines.append(f"{hour * ROUNDS // 168 + 1}," + ",".join(f"{mean:.5f}" for mean in means))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def show_others(results: Results, runs: int) -> None:
    """Arms that drift, and a file."""
    with tempfile.TemporaryDirectory() as folder:
        week = Path(folder) / "week.csv"
        write_week(week)
        problems = {
            "`drift(arms=10, variation=3)`": "drift(arms=10, variation=3)",
            "`drift(arms=10, variation=30)`": "drift(arms=10, variation=30)",
            "`week.csv`": str(week),
        }
        found = {}
        for name, text in problems.items():
            real = changing(text, horizon=ROUNDS, seed=1)
            window = by_variation(real.variation, real.table.shape[1])
            found[name] = regrets(text, policies(real.variation, real.variation, window), runs)
            console.print(name, f"({real.variation:.2f}):", {k: round(v[0]) for k, v in found[name].items()})
    policy_names = list(next(iter(found.values())))
    rows = [[f"`{n}`", *(f"{each[n][0]:,.0f} ± {each[n][1]:.0f}" for each in found.values())] for n in policy_names]
    results.table("others", ["policy", *found], rows)


def kept(name: str, arms: int) -> int:
    """How many numbers a policy remembers."""
    return {"constant-space": WORDS, "uniform": 0}.get(name, 2 * arms)


def show_space(results: Results) -> None:
    """Regret and memory against the number of arms."""
    arms = (4, 16, 64, 256, 1024)
    names = ("constant-space", "kl-ucb", "ucb1", "uniform")
    space = {}
    for number in arms:
        means = np.linspace(0.2, 0.8, number)
        started = time.process_time()
        result = simulate(list(names), means=means, horizon=100_000, runs=20, seed=1)
        space[number] = result.final.mean(axis=1)
        console.print(f"{number} arms:", space[number].round(), f"{time.process_time() - started:.0f} s")
    columns = ["arms", *(f"`{name}`: {what}" for name in names for what in ("regret", "numbers kept"))]
    rows = [
        [f"{k:,}", *(f"{cell:,.0f}" for i, name in enumerate(names) for cell in (space[k][i], kept(name, k)))]
        for k in arms
    ]
    results.table("space", columns, rows)
    results.picture(
        "space",
        "draw_growth",
        lines={name: [[k, space[k][i]] for k in arms] for i, name in enumerate(names)},
        of="regret",
        against="arms",
        beside={name: [[k, kept(name, k)] for k in arms] for name in names if name != "uniform"},
        beside_of="numbers kept",
        title="Ten numbers of memory, two for each arm, or none (uniform): 100,000 rounds",
    )


if __name__ == "__main__":
    main()
