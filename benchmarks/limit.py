"""How much of what counts can earn ``cold-start`` earns: its clicks, the oracle's and the limit in every setting.

``python benchmarks/limit.py [--seeds 3] --results FILE``. Runs are those of ``coldstart.py``, kept in the same folder.
Everything depends on the seeds alone.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from _results import Results
from _timing import console
from hellinger.lab.coldstart import LIFETIMES, LIMIT, ORACLE, OURS, ColdStartPlan, _law, run
from hellinger.lab.coldstart_report import setting
from hellinger.theory import limit


def merged(plan: ColdStartPlan, law: str, impressions: int) -> float:
    """The limit with arrivals if all days were one."""
    days, turns = plan.items // plan.arrivals, plan.arrivals * impressions // (plan.slots * plan.pages)
    most = [turns * life for life in (*range(1, days + 1), *range(1, days))]
    return limit(items=plan.arrivals, impressions=plan.items * impressions, most=most, known_after=3_000, **_law(law))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("build/coldstart"), help="folder of finished runs")
    Results.option(parser)
    options = parser.parse_args()
    plan = ColdStartPlan(seeds=options.seeds, policies=(ORACLE, LIMIT, OURS, LIFETIMES)).check()
    done = run(plan, workers=options.jobs, resume=options.out)
    clicks = {(r.law, r.arrivals, r.policy, r.impressions): np.array(r.clicks) for r in done}
    results = Results(options.results, f"python benchmarks/limit.py --seeds {options.seeds}")
    results.value("seeds", options.seeds)
    rows, known, lower, shares, ratios, known_shares = [], [], [], [], [], []
    for law in plan.laws:
        for arrivals in (False, True):
            each = [[clicks[law, arrivals, name, n] for n in plan.impressions] for name in plan.policies]
            oracle, most, ours, told = (np.array(part) for part in each)
            share = ours.mean(axis=1) / most[:, 0]
            shares += share.tolist()
            cells = [f"{limit:,.0f}; {part:.2f}" for limit, part in zip(most[:, 0], share, strict=True)]
            rows.append([setting(law, arrivals), *cells, f"{most[2, 0] / oracle[2].mean():.2f}"])
            if arrivals:
                part, ratio = told.mean(axis=1) / most[:, 0], told.mean(axis=1) / ours.mean(axis=1)
                known_shares += part[:3].tolist()
                ratios += ratio.tolist()
                before = share.tolist()
                cells = [f"{a:.3f} → {b:.3f} ({r:.3f})" for a, b, r in zip(before, part, ratio, strict=True)]
                known.append([law, *cells])
                shorter = [1.0 - most[j, 0] / merged(plan, law, n) for j, n in enumerate(plan.impressions[:3])]
                lower.append([law, *(f"{max(part, 0.0):.1%}" for part in shorter)])
            console.print(rows[-1], known[-1] if arrivals else "")
    columns = [f"at {n}" for n in plan.impressions]
    results.table("shares", ["click rates", *columns, "limit ÷ oracle, at 100"], rows)
    results.table("by_day", ["click rates", *columns[:3]], lower)
    results.table("lifetimes", ["click rates", *columns], known)
    results.value("least", min(shares), digits=2)
    results.value("largest", max(shares), digits=2)
    results.value("least_ratio", min(ratios), digits=3)
    results.value("largest_ratio", max(ratios), digits=3)
    results.value("known_met", sum(share >= 0.95 for share in known_shares))
    results.value("known_settings", len(known_shares))
    results.write()


if __name__ == "__main__":
    main()
