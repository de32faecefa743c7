"""The clicks of docs/pool.md: ``hellinger coldstart``, with its tables.

``python benchmarks/coldstart.py [--seeds 20] --results FILE``: more than an hour of processor time with 20 seeds. Runs
are kept in ``--out``; begun again there, it goes on where it ended. Everything depends on the seeds alone.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from _results import Results
from hellinger.lab.coldstart import LIFETIMES, LIMIT, ORACLE, OURS, ColdStartPlan, Comparison, compare, run
from hellinger.lab.coldstart_report import setting

NAMES = {
    "ucb1": "UCB1",
    "kl-ucb": "KL-UCB",
    "hellinger-ucb": "Hellinger-UCB, c = 0.27",
    "thompson": "Thompson, uniform prior",
    "thompson, learned prior": "Thompson, learned prior",
    "kl-ucb++": "KL-UCB⁺⁺, anytime",
    "hellinger-ucb++": "Hellinger-UCB⁺⁺, anytime",
    "hellinger-moss": "Hellinger ball, 0.27·log⁺(t/(Kn))",
    OURS: "**cold-start**",
    LIFETIMES: "cold-start, lifetimes known",
    LIMIT: "the limit of counts",
    ORACLE: "the oracle, which knows every rate",
}
Key = tuple[str, bool, str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("build/coldstart"), help="folder of finished runs")
    Results.option(parser)
    options = parser.parse_args()
    plan = ColdStartPlan(seeds=options.seeds).check()
    found: dict[Key, Comparison] = {
        (c.law, c.arrivals, c.policy, c.impressions): c
        for c in compare(run(plan, workers=options.jobs, resume=options.out))
    }
    results = Results(options.results, f"python benchmarks/coldstart.py --seeds {options.seeds}")
    results.value("seeds", options.seeds)

    def clicks(name: str) -> list[str]:
        cells = [found["beta", False, name, n] for n in plan.impressions]
        shown = [f"**{c.clicks:,.0f}**" if name == OURS else f"{c.clicks:,.0f}" for c in cells]
        ratios = ["" if name == OURS else f"{c.ratio:.2f} ({c.low:.2f} … {c.high:.2f})" for c in cells[-2:]]
        shares = [f"{c.of_limit:.2f}" for c in cells[-2:]]
        return [NAMES[name], *shown, *shares, *ratios]

    columns = ["policy", *map(str, plan.impressions)]
    columns += ["÷ limit, at 100", "at 300", "cold-start ÷ this, at 100", "at 300"]
    results.table("clicks", columns, [clicks(name) for name in NAMES if name != LIFETIMES])  # nobody leaves there
    settings = [(law, arrivals) for law in plan.laws for arrivals in (False, True)]

    def ratios(name: str) -> list[str]:
        cells = [" / ".join(f"{found[law, new, name, n].ratio:.2f}" for n in plan.impressions) for law, new in settings]
        return [NAMES[name].removesuffix(", c = 0.27").removesuffix(", which knows every rate"), *cells]

    columns = ["cold-start ÷", *("with arrivals" if new else law for law, new in settings)]
    results.table("ratios", columns, [ratios(name) for name in NAMES if name != OURS])
    rivals = [c for c in found.values() if c.policy not in (OURS, LIFETIMES, ORACLE, LIMIT)]
    results.value("comparisons", len(rivals))
    results.value("ahead", sum(c.low > 1 for c in rivals))
    level = [c for c in rivals if c.low <= 1 <= c.high]
    named = dict.fromkeys(f"{NAMES[c.policy]} at {c.impressions} ({setting(c.law, c.arrivals)})" for c in level)
    results.value("level", "; ".join(named) or "none")
    results.value("behind", sum(c.high < 1 for c in rivals))
    for short, name in (("hellinger", "hellinger-ucb"), ("kl", "kl-ucb"), ("thompson", "thompson, learned prior")):
        results.value(short, found["beta", False, name, 100].ratio, "times", 2)
    results.write()


if __name__ == "__main__":
    main()
