"""Samples to identify the best arms, by ball and rate, beside the fewest possible: the table of docs/theory.md.

``python benchmarks/identify.py [--runs 300] --results FILE``. Everything depends on the seed alone.
``--published`` plays problems of published experiments at their δ instead, and measures errors with a fixed budget.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from _results import Results
from _timing import console
from hellinger import theory
from hellinger.identification import rates
from hellinger.identification.finder import make_race
from hellinger.lab import PAPER_BERNOULLI, identify
from hellinger.lab.identification import IdentifyBlock, places
from hellinger.lab.problem import Problem

DELTA = 0.05
FIVE, FOUR = (0.3, 0.21, 0.2, 0.19, 0.18), (0.5, 0.45, 0.43, 0.4)
PROBLEMS = {"five": (FIVE, 1), "ten": (PAPER_BERNOULLI, 4)}
LESS_SURE = 0.1
"""The δ of Garivier & Kaufmann 2016, section 6."""
BUDGETS = (250, 500, 1000, 2000, 4000, 8000)


class HeuristicRate(rates.Rate):
    """log((1 + log N)/δ), N the samples so far: that of Garivier & Kaufmann's published code; without a proof."""

    __slots__ = ()
    name = "heuristic"
    formula = "log((1 + log N)/δ)"
    reference = "Garivier & Kaufmann 2016, section 6"

    @staticmethod
    def constant_for(arms: int, delta: float) -> float:
        """log(1/δ)."""
        return math.log(1.0 / delta)

    def _threshold(self, s: float, n: float, t: float) -> float:
        return self.scale * (self.constant + math.log(1.0 + math.log(2.0 * t + 2.0)))

    def _timed(self) -> bool:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--published", action="store_true", help="only published problems, and budgets")
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    results.value("runs", options.runs)
    if options.published:
        show_less_sure(results, options.runs)
        show_budgets(results, 10 * options.runs)
        results.write()
        return
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


def heuristic(means: tuple[float, ...], ball: str, runs: int) -> tuple[float, float, int]:
    """Mean samples by the heuristic rate, their standard error, and wrong answers."""
    problem, arms = Problem.make(np.array(means)), len(means)
    race = make_race(problem.family, arms=arms, best=1, delta=LESS_SURE, ball=ball, rate="kl-lucb")
    rate = HeuristicRate(race.rate.scale, HeuristicRate.constant_for(arms, LESS_SURE))
    block = IdentifyBlock("heuristic", race._replace(rate=rate), problem, 1, 0.0, 10**7, 1, 0, runs)
    played = block.play()
    assert not played.unfinished.any()
    return played.samples.mean(), played.samples.std(ddof=1) / math.sqrt(runs), int(played.wrong.sum())


def show_less_sure(results: Results, runs: int) -> None:
    """The two problems of Garivier & Kaufmann at their δ, with their rate and with those that are proved."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, means in (("four", FOUR), ("five", FIVE)):
        lower = theory.least_samples(means, best=1, delta=LESS_SURE)
        results.value(f"less_sure_{name}", lower)
        found = identify(means, delta=LESS_SURE, rates=["beta", "kl-lucb", "lucb1"], runs=runs, seed=1)
        lines = [(one.rate, one.ball, one.samples, one.error, one.wrong) for one in found]
        lines += [("heuristic", ball, *heuristic(means, ball, runs)) for ball in ("kl", "hellinger", "gaussian")]
        for rate, ball, samples, error, wrong in lines:
            console.print(name, rate, ball, samples, error, wrong)
            cells = [f"{samples:,.0f} ± {error:,.0f}", f"{wrong / runs:.3f}"]
            rows.setdefault((rate, ball), [ball, f"`{rate}`"]).extend(cells)
    columns = ["ball", "rate", "best of four, samples", "wrong", "best of five, samples", "wrong"]
    results.table("less_sure", columns, list(rows.values()))


def show_budgets(results: Results, runs: int) -> None:
    """How often successive accepts and rejects is wrong, by its budget."""
    problems = {"best of five": (FIVE, 1), "best of four": (FOUR, 1), "best four of ten": (PAPER_BERNOULLI, 4)}
    wrong = {
        name: [identify(means, best=best, budget=budget, runs=runs, seed=1)[0].wrong / runs for budget in BUDGETS]
        for name, (means, best) in problems.items()
    }
    rows = [[name, *(f"{share:.3f}" for share in shares)] for name, shares in wrong.items()]
    results.table("budgets", ["wrong answers with a budget of", *(f"{budget:,}" for budget in BUDGETS)], rows)
    results.picture(
        "budgets",
        "draw_growth",
        lines={
            name: [[b, share] for b, share in zip(BUDGETS, shares, strict=True) if share > 0]
            for name, shares in wrong.items()
        },
        of="share of wrong answers",
        against="samples",
        title="Successive accepts and rejects",
    )
    results.value("budget_runs", runs)


if __name__ == "__main__":
    main()
