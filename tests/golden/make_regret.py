"""Write regret.json: exact expected regret of the deterministic policies on tiny Bernoulli problems.

The expectation runs over every (pulls, sums) state, in doubles, with the 30-digit reference indices of
tests/reference.py; the package's own indices are not used.

Conventions: t is the round about to be played (pulls so far + 1); equal indices (within 1e-12) go to the first
arm. With ``initial`` every arm is first played once, in order; KL-UCB with level log t on means (0.7, 0.4), T = 20,
then has 1.468244. Without it an arm never played has index 1, which an arm that has only won shares.

Run: ``python tests/golden/make_regret.py`` (some minutes).
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import reference
from hellinger import families, policies

TARGET = Path(__file__).with_name("regret.json")
DRAWN = ("thompson", "laplace-thompson", "epsilon-greedy", "uniform", "ids", "exp3", "exp3s", "rexp3")
LEARNED = ("cold-start",)  # a prior found by iteration has no exact arithmetic
ORDERED = ("constant-space", "empirical-imed", "empirical-kl-ucb")  # sums and pulls do not determine what is played

Index = Callable[[tuple[int, ...], tuple[int, ...], int], Sequence[float]]


def exact_regret(means: Sequence[float], rounds: int, index: Index, *, initial: bool) -> float:
    """Expected regret by enumeration over (sums, pulls)."""
    best, arms = max(means), len(means)
    assert rounds <= 20, "there would be too many states"

    @functools.cache
    def ahead(sums: tuple[int, ...], pulls: tuple[int, ...]) -> float:
        if sum(pulls) == rounds:
            return 0.0
        if initial and 0 in pulls:
            arm = pulls.index(0)
        else:
            values = list(index(sums, pulls, sum(pulls) + 1))
            top = max(values)
            arm = next(i for i, value in enumerate(values) if value == top or top - value <= 1e-12 * min(abs(top), 1.0))
        played = tuple(n + (i == arm) for i, n in enumerate(pulls))
        won = tuple(s + (i == arm) for i, s in enumerate(sums))
        return best - means[arm] + means[arm] * ahead(won, played) + (1.0 - means[arm]) * ahead(sums, played)

    return ahead((0,) * arms, (0,) * arms)


PROBLEMS = [((0.7, 0.4), 20, True), ((0.7, 0.4), 20, False), ((0.2, 0.5, 0.6), 8, False)]


def main() -> None:
    """Compute every figure."""
    records = []
    for name, entry in policies.available().items():
        if name in DRAWN + LEARNED + ORDERED:
            continue
        for means, rounds, initial in PROBLEMS:
            arguments = {"horizon": rounds} if "horizon" in entry.parameters else {}

            def index(
                sums: tuple[int, ...],
                pulls: tuple[int, ...],
                t: int,
                name: str = name,
                arguments: dict[str, int] = arguments,
            ) -> list[float]:
                return [float(v) for v in reference.index(name, arguments, families.Bernoulli(), sums, pulls, t)]

            regret = exact_regret(means, rounds, index, initial=initial)
            records.append({"policy": name, "means": means, "rounds": rounds, "initial": initial, "regret": regret})
    TARGET.write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
