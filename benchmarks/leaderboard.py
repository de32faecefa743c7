"""The leaderboard of docs/reproduction.md, and its pictures: ``hellinger leaderboard``.

``python benchmarks/leaderboard.py --results FILE``: six minutes. Everything depends on the seed alone.
"""

from __future__ import annotations

import argparse

from _results import Results
from hellinger import figures
from hellinger.lab.leaderboard import ContestResult, leaderboard

SHOWN = (
    "hellinger-ucb",
    "hellinger-ucb+",
    "hellinger-ucb++",
    "hellinger-imed",
    "cold-start",
    "kl-ucb",
    "kl-ucb+",
    "kl-ucb++",
    "kl-ucb-switch",
    "empirical-kl-ucb",
    "imed",
    "empirical-imed",
    "thompson",
    "laplace-thompson",
    "bayes-ucb",
    "ids",
    "ucb1",
    "agrawal",
    "moss",
    "moss-anytime",
    "ada-ucb",
    "constant-space",
    "exp3",
    "exp3s",
    "rexp3",
    "epsilon-greedy",
    "greedy",
    "uniform",
)
"""All but those of contextual problems and the grid itself."""


def places(standing: ContestResult) -> list[figures.Place]:
    """What the picture of a contest is drawn from, as ``ContestResult.plot`` has it."""
    tails = standing.result.runs >= 100
    return [
        figures.Place(
            row["policy"],
            row["mean_regret"],
            row["mean_regret"] - 1.96 * row["sem"],
            row["mean_regret"] + 1.96 * row["sem"],
            row["q99"] if tails else None,
        )
        for row in standing.named.summary()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Results.option(parser)
    results = Results(parser.parse_args().results)
    standings = {standing.contest.name: standing for standing in leaderboard()}
    found = {
        name: {row["policy"]: row for row in standing.named.summary() if row["policy"] in SHOWN}
        for name, standing in standings.items()
    }
    best = {
        name: min(rows.values(), key=lambda row: float(row["mean_regret"]))["policy"] for name, rows in found.items()
    }

    def cell(contest: str, spec: str) -> str:
        row = found[contest].get(spec)
        if row is None:
            why = standings[contest].left_out[spec]
            return "needs bounds" if "upper bound" in why else "needs clicks" if contest == "poisson" else "left out"
        digits = 0 if contest == "cold-start" else 1
        text = f"{row['mean_regret']:,.{digits}f} ± {row['sem']:,.{digits}f}"
        return f"**{text}**" if best[contest] == spec else text

    rows = [
        [
            f"`{spec}`",
            *(cell(contest, spec) for contest in ("bernoulli", "poisson", "close")),
            f"{found['close'][spec]['q99']:,.0f}",
            cell("cold-start", spec),
        ]
        for spec in SHOWN
    ]
    results.table("policies", ["policy", "Bernoulli", "Poisson", "two close arms", "99 %", "cold start"], rows)
    results.value("cold_start_tail", found["bernoulli"]["cold-start"]["q99"])
    results.value("kl_plus_tail", found["bernoulli"]["kl-ucb+"]["q99"])
    moving = standings["changing"]
    rows = []
    for row in sorted(moving.named.summary(), key=lambda row: float(row["mean_regret"])):
        if row["policy"] in SHOWN or "(" in row["policy"]:
            rows.append([f"`{row['policy']}`", f"{row['mean_regret']:,.0f} ± {row['sem']:,.0f}", f"{row['q99']:,.0f}"])
    results.value("changing_runs", moving.result.runs)
    results.table("changing", ["policy", "regret", "99 %"], rows)
    for name, picture in (
        ("bernoulli", "leaderboard_bernoulli"),
        ("changing", "leaderboard_changing"),
        ("cold-start", "leaderboard_cold_start"),
    ):
        standing = standings[name]
        results.picture(picture, "draw_ranking", places=places(standing), title=standing.contest.title)
    results.write()


if __name__ == "__main__":
    main()
