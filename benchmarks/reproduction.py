"""The numbers of docs/reproduction.md: ``hellinger reproduce``, with --full and with more runs, and its pictures.

``python benchmarks/reproduction.py --results FILE``: some ten minutes. Everything but times depends on seeds alone.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from _results import Results
from hellinger import figures, theory
from hellinger.lab import production
from hellinger.lab.claims import BALLS, HELLINGER, KL, UCB1, Claim
from hellinger.lab.reproduce import INIT, Reproduction, reproduce
from hellinger.lab.result import Result
from hellinger.lab.sharing import Rewards

RUNS, MORE = 200, 2000
LEVELS = (10, 30, 100, 220, 260, 300, 600, 1_000, 3_000)
RIVALS = (KL, production.KL_3, UCB1, production.OURS)
SITES = (
    "Beta(1.6, 100), items stay",
    "heavy-tailed (Pareto, index 1.5)",
    "bimodal (one in ten near 10 %)",
    "Beta(1.6, 100), all items new every day, ten days",
)


def claims(full: Reproduction, more: Reproduction) -> list[list[str]]:
    """The table of claims: what was found with few runs and, of simulated regret, with many."""
    again = {claim.key: claim for claim in more.claims if claim.key.startswith(("bernoulli", "poisson"))}

    def row(claim: Claim) -> list[str]:
        verdict = f"**{claim.verdict}**" if claim.verdict == "differs" else claim.verdict
        return [claim.claim, claim.authors, claim.ours, again[claim.key].ours if claim.key in again else "", verdict]

    return [row(claim) for claim in full.claims]


def levels(main: Rewards) -> list[list[str]]:
    """Clicks of Hellinger-UCB over its rivals' at some levels of traffic."""
    places = [main.plan.levels.index(level) for level in LEVELS]
    ratios = {rival: main.ratios(HELLINGER, rival) for rival in RIVALS}
    rows = []
    for place in places:
        cells = [ratios[rival][place] for rival in RIVALS]
        rows.append([f"{cells[0].level:,}", *(f"{r.ratio:.2f} ± {(r.high - r.low) / 2:.2f}" for r in cells)])
    return rows


def sites(found: list[Rewards]) -> list[list[str]]:
    """Where each claim is reached on each site, and the greatest lead."""
    rows = []
    for name, rewards in zip(SITES, found, strict=True):
        cells = []
        for rival, claim in production.CLAIMED.items():
            ratios = rewards.ratios(HELLINGER, rival)
            best = production._percent(max(ratio.ratio for ratio in ratios))
            where = production._ranges(production.reached(ratios, claim), rewards.plan.levels)
            cells.append(f"{where} (at most {best})")
        rows.append([name, *cells, production._ranges(production._both(rewards), rewards.plan.levels)])
    return rows


def pictures(results: Results, played: Result, found: list[Rewards]) -> None:
    bounds = [
        figures.Line(
            f"{spec}: the paper's “bound”",
            played.checkpoints,
            theory.dashed_bound(played.means, family=played.family, horizon=played.checkpoints, ball=ball, init=INIT),
            of=spec,
        )
        for spec, ball in BALLS
    ]
    slope = theory.lai_robbins(played.means, family=played.family)
    results.picture(
        "regret_bernoulli",
        "draw_regret",
        curves=played.curves(),
        bounds=bounds,
        lower=figures.Line("Lai–Robbins slope", played.checkpoints, slope * np.log(played.checkpoints)),
        focus=[HELLINGER, KL],
        title="Bernoulli rewards: regret",
    )
    main = found[0]
    level = production.nearest(main)
    size = f"{main.plan.items:,} items, {level:,} impressions per item for each algorithm"
    three = [production._reward(main, spec, level) for spec in (HELLINGER, KL, UCB1)]
    results.picture(
        "rewards",
        "draw_rewards",
        panels=[
            ["the paper's three", three],
            ["and cold-start", [*three, production._reward(main, "cold-start", level)]],
        ],
        title=f"Two months of shared traffic: {size}",
    )
    panels = [
        figures.LeadPanel(
            production.setting(each.plan), [production._lead(each, rival) for rival in production._rivals(each)]
        )
        for each in found
    ]
    results.picture("leads", "draw_leads", panels=panels, title="Clicks of Hellinger-UCB over its rivals'")


def values(results: Results, full: Reproduction, more: Reproduction) -> None:
    """Numbers that stand in sentences."""
    played, swapped = more.results["bernoulli"], {row["policy"]: row for row in more.record["notebook"]}
    results.value("kl_mean", float(played.final[played.position(KL)].mean()))
    results.value("lead", -played.difference(HELLINGER, KL).mean, "", 1)
    results.value("notebook_lead", swapped[KL]["mean_regret"] - swapped[HELLINGER]["mean_regret"], "", 1)
    wins = [
        100 * float((each.final[each.position(HELLINGER)] < each.final[each.position(KL)]).mean())
        for one in (full, more)
        for each in one.results.values()
    ]
    results.value("wins_least", min(wins), "%", 1)
    results.value("wins_most", max(wins), "%", 1)
    tails = {row["policy"]: row["q99"] for row in more.results["poisson"].summary()}
    results.value("poisson_tail", tails[HELLINGER])
    results.value("poisson_tail_kl", tails[KL])
    main = full.rewards[0]
    level = production.nearest(main)
    for name, spec in (("hellinger", HELLINGER), ("kl", KL), ("ucb1", UCB1)):
        results.value(f"clicks_{name}", float(main.of(spec, level)[:, -1].mean()))
    results.value("level", level)
    results.value("a_day", main.plan.items * level / main.plan.days)
    (low, high), *_ = production._both(main) or [(0.0, 0.0)]
    results.value("both_from", low)
    results.value("both_to", high)
    (low, high), *_ = production.reached(main.ratios(HELLINGER, production.KL_3), 1.33) or [(0.0, 0.0)]
    results.value("kl3_from", low)
    results.value("kl3_to", high)
    ours = {ratio.level: ratio for ratio in main.ratios(production.OURS, HELLINGER)}
    results.value("cold_30", ours[30].ratio, "times", 1)
    results.value("cold_level", ours[level].ratio, "times", 1)
    results.value("cold_3000", 100 * (ours[3_000].ratio - 1), "%")
    heavy = {ratio.level: ratio for ratio in full.rewards[1].ratios(HELLINGER, production.OURS)}
    results.value("heavy_300", f"{heavy[300].ratio:.2f} ± {(heavy[300].high - heavy[300].low) / 2:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Results.option(parser)
    results = Results(parser.parse_args().results)
    with tempfile.TemporaryDirectory() as folder:
        reproduce(Path(folder) / "compiled", runs=2, sites=2, items=600)
        began = time.perf_counter()
        reproduce(Path(folder) / "quick", runs=RUNS)
        results.value("seconds", time.perf_counter() - began, "s")
        began = time.perf_counter()
        full = reproduce(Path(folder) / "full", runs=RUNS, full=True)
        results.value("full_seconds", time.perf_counter() - began, "s")
        more = reproduce(Path(folder) / "more", runs=MORE, sites=2, items=600)
    columns = ["claim", "the authors", f"here, {RUNS:,} runs", f"here, {MORE:,} runs", "verdict"]
    results.table("claims", columns, claims(full, more))
    columns = ["impressions per item", "KL-UCB", "KL-UCB, $c = 3$", "UCB1", "`cold-start`"]
    results.table("levels", columns, levels(full.rewards[0]))
    columns = ["site", "+33 % over KL-UCB", "+100 % over UCB1", "both"]
    results.table("sites", columns, sites(full.rewards))
    pictures(results, full.results["bernoulli"], full.rewards)
    values(results, full, more)
    results.write()


if __name__ == "__main__":
    main()
