"""How much of what counts can earn ``cold-start`` earns: its clicks, the oracle's and the limit in every setting.

``python benchmarks/limit.py [--seeds 3] --results FILE``. Everything depends on the seeds alone.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from _results import Results
from _timing import console
from hellinger.lab.coldstart import LIMIT, ORACLE, OURS, ColdStartPlan, run
from hellinger.lab.coldstart_report import setting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    Results.option(parser)
    options = parser.parse_args()
    plan = ColdStartPlan(seeds=options.seeds, policies=(ORACLE, LIMIT, OURS)).check()
    clicks = {
        (r.law, r.arrivals, r.policy, r.impressions): float(np.mean(r.clicks)) for r in run(plan, workers=options.jobs)
    }
    results = Results(options.results)
    results.value("seeds", options.seeds)
    rows, shares = [], []
    for law in plan.laws:
        for arrivals in (False, True):
            each = [[clicks[law, arrivals, name, n] for n in plan.impressions] for name in plan.policies]
            oracle, most, ours = map(np.array, each)
            shares += (ours / most).tolist()
            cells = [f"{limit:,.0f}; {share:.2f}" for limit, share in zip(most, ours / most, strict=True)]
            rows.append([setting(law, arrivals), *cells, f"{most[2] / oracle[2]:.2f}"])
            console.print(rows[-1])
    columns = ["click rates", *(f"at {n}" for n in plan.impressions), "limit ÷ oracle, at 100"]
    results.table("shares", columns, rows)
    results.value("least", min(shares), digits=2)
    results.value("largest", max(shares), digits=2)
    results.write()


if __name__ == "__main__":
    main()
