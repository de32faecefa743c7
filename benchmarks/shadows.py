"""What a shadow costs: to rank once more what was ranked, beside the ranking itself, in process.

``python benchmarks/shadows.py --results FILE``: some minutes, most of them to make a million items. Both rank by
``cold-start``. A shadow looks up what rankings have shown since it was last asked, so it is asked for every ranking,
and for one of ten. How much of the loop's time a service gives to shadows is bounded, whatever they take
(``hellinger.engine.shadow_queue``).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from _desk import START, DrivenDesk
from _results import Results
from _timing import show
from hellinger.engine.allocation import Allocation
from hellinger.engine.drafts import Query
from hellinger.engine.shadow_queue import SHARE

PLACES, POLICY = 20, "cold-start"


def measured(items: int, every: int, rankings: int) -> tuple[float, float, float]:
    """Microseconds of a ranking and of its shadow, and bytes of the shadow's event."""
    site = DrivenDesk(POLICY, items, positions="none", seed=1)
    shadowed = Allocation({"a": POLICY}, {"a": 1.0}, shadows={"dark": POLICY}, window=3_600_000).check()
    site.write([shadowed.draft(START, after=0, by="benchmark")])
    site.desk.finish()
    site.shown_before(30.0)
    site.desk.warm()
    query, at = Query(PLACES), START
    ranked, asked, size = [], [], []
    for number in range(rankings):
        at += 1
        begun = time.thread_time()
        made = site.desk.rank(query, at)
        ranked.append(time.thread_time() - begun)
        site.write([made])
        if number % every:
            continue
        begun = time.thread_time()
        told = site.desk.shadow(query, made, at)
        asked.append(time.thread_time() - begun)
        assert told is not None
        size.append(len(told.event.key) + len(told.event.body))
        site.write([told])
    return 1e6 * float(np.median(ranked)), 1e6 * float(np.median(asked)), float(np.mean(size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rankings", type=int, default=3000)
    Results.option(parser)
    options = parser.parse_args()
    results, rows = Results(options.results), []
    ratios = []
    for items in (10_000, 1_000_000):
        for every in (1, 10):
            ranking, shadow, size = measured(items, every, options.rankings)
            ratios.append(shadow / ranking)
            which = "every ranking" if every == 1 else f"one of {every}"
            rows.append(
                (f"{items:,}", which, f"{ranking:.0f} µs", f"{shadow:.0f} µs", f"{ratios[-1]:.1f}", f"{size:.0f}")
            )
    columns = ("items", "shadow ranks", "a ranking", "its shadow", "ratio", "bytes of its event")
    results.table("costs", columns, rows)
    results.value("most", max(ratios), "", 1)
    results.value("bytes", size, "bytes")
    results.value("share", 100 * SHARE, "%")
    results.write()
    show(f"A ranking of {PLACES} and its shadow, both by {POLICY}", columns, rows)


if __name__ == "__main__":
    main()
