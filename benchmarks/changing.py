"""Means that change, and memory that does not grow: the tables and pictures of docs/lab.md.

``python benchmarks/changing.py [--runs 100] --results FILE``. Everything depends on the seed alone but the times.

*Variation*: two arms whose means go up and down as opposite sines, the example of Besbes, Gur & Zeevi 2014, in 20,000
rounds, by how much they vary in all. *Changes*: ten arms whose means are all drawn anew at some rounds. *Space*: regret
of a policy that remembers ten numbers, against the number of arms.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from _results import Results
from _timing import console
from hellinger.lab import changing, simulate

ROUNDS = 20_000
FORGETFUL = ("", "window=1000", "discount=0.998", "detect=0.05")


def policies(variation: float, changes: float) -> dict[str, str]:
    """Specs by what they are called: how much means vary is known to those that ask for it."""
    named = {name: name for name in ("ucb1", "kl-ucb", "hellinger-ucb")}
    for name in ("ucb1", "kl-ucb", "hellinger-ucb"):
        named |= {f"{name}({given})": f"{name}({given})" for given in FORGETFUL[1:]}
    named |= {
        "exp3": "exp3",
        "exp3s": f"exp3s(changes={max(changes, 1):g})",
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

    budgets = (1, 3, 10, 30, 100)
    found = {}
    for budget in budgets:
        spec = f"seasonal(arms=2, cycles={budget / 2:g})"
        real = changing(spec, horizon=ROUNDS).variation
        found[budget] = regrets(spec, policies(real, budget), options.runs)
        console.print(f"variation {budget} ({real:.2f}):", {k: round(v[0]) for k, v in found[budget].items()})
    names = list(found[1])
    rows = [[f"`{name}`", *(f"{found[b][name][0]:,.0f} ± {found[b][name][1]:.0f}" for b in budgets)] for name in names]
    results.table("variation", ["policy", *(f"V = {b}" for b in budgets)], rows)
    drawn = ["hellinger-ucb", *(f"hellinger-ucb({given})" for given in FORGETFUL[1:]), "exp3s", "rexp3"]
    results.picture(
        "variation",
        "draw_growth",
        lines={name: [[b, found[b][name][0]] for b in budgets] for name in drawn},
        of="regret",
        against="variation of the means",
        power=1 / 3,
        title="Two arms, opposite sines, 20,000 rounds",
    )

    changes = (0, 1, 4, 16)
    pieces = {}
    for number in changes:
        spec = f"piecewise(arms=10, changes={number})"
        real = max(changing(spec, horizon=ROUNDS, seed=1).variation, 0.1)
        pieces[number] = regrets(spec, policies(real, number), options.runs)
        console.print(f"{number} changes:", {k: round(v[0]) for k, v in pieces[number].items()})
    rows = [[f"`{n}`", *(f"{pieces[c][n][0]:,.0f} ± {pieces[c][n][1]:.0f}" for c in changes)] for n in names]
    results.table("changes", ["policy", *(f"{c} changes" for c in changes)], rows)

    arms = (4, 16, 64, 256, 1024)
    space = {}
    for number in arms:
        means = np.linspace(0.2, 0.8, number)
        started = time.process_time()
        result = simulate(["constant-space", "kl-ucb", "ucb1"], means=means, horizon=100_000, runs=20, seed=1)
        space[number] = result.final.mean(axis=1)
        console.print(f"{number} arms:", space[number].round(), f"{time.process_time() - started:.0f} s")
    columns = ["arms", "`constant-space`: regret", "numbers kept", "`kl-ucb`: regret", "`ucb1`: regret", "numbers kept"]
    rows = [
        [f"{k:,}", f"{space[k][0]:,.0f}", "10", f"{space[k][1]:,.0f}", f"{space[k][2]:,.0f}", f"{2 * k:,}"]
        for k in arms
    ]
    results.table("space", columns, rows)
    results.picture(
        "space",
        "draw_growth",
        lines={name: [[k, space[k][i]] for k in arms] for i, name in enumerate(("constant-space", "kl-ucb", "ucb1"))},
        of="regret",
        against="arms",
        title="Ten numbers of memory, or two for each arm: 100,000 rounds",
    )
    results.write()


if __name__ == "__main__":
    main()
