"""What it brings that the service knows when items expire: ``python benchmarks/dates.py [--seeds 12] --results FILE``.

A site of 4,000 items on pages of 10, of which a twentieth leave every day, and as many come, is played against the
desk, a page a second, in batches of ten pages, until all have been replaced once. The desk is told when items expire,
all or every second one, and uses it or not (``lifetimes``). It has to learn how much traffic there is. Clicks depend
on the seeds alone; where items have ten impressions there are three times as many, for there they matter most. A
quarter of an hour.
"""

from __future__ import annotations

import argparse
from itertools import islice

import numpy as np

from _results import Results
from hellinger.engine.desk import Desk
from hellinger.ledger import Ledger
from hellinger.traffic.months import DeskPlayer
from hellinger.world.laws import LAWS
from hellinger.world.site import Clicks, Site, turns

ITEMS, SLOTS, BATCH, DAYS = 4_000, 10, 10, 20
IMPRESSIONS = {10: 3, 30: 1, 100: 1}
"""Per item; and how many times as many seeds."""
START = 1_700_000_000_000
TOLD = {"not used": 0, "of all": 1, "of every second item": 2}
"""Of which items the desk knows when they expire: every so many, 0 for none."""


def clicks(law: str, impressions: int, seed: int, every: int) -> float:
    """What the site earns; the desk knows the date of every so many items."""
    site = Site(ITEMS, SLOTS, BATCH, arrivals=ITEMS // DAYS, day=ITEMS // DAYS * impressions)
    pages_a_day = site.day // SLOTS

    def ends(number: int) -> int | None:
        dated = every < 2 or number % every == 0
        return START + (number // site.arrivals + 1) * pages_a_day * 1000 if dated else None

    desk = Desk(Ledger(), {"ours": "cold-start"}, seed=seed, positions="none", lifetimes=every > 0)
    player = DeskPlayer(desk, ITEMS, start=START, ends=ends)
    rates = LAWS[law](np.random.default_rng([seed, 1]), 2 * ITEMS + site.arrivals)
    played = turns(site, player, Clicks(rates, seed))
    return float(sum(turn.rewards.sum() for turn in islice(played, DAYS * pages_a_day // BATCH)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    Results.option(parser)
    options = parser.parse_args()
    results, rows, found = Results(options.results), [], []
    results.value("seeds", options.seeds)
    results.value("more", IMPRESSIONS[10] * options.seeds)
    for law in LAWS:
        for impressions, times in IMPRESSIONS.items():
            seeds = range(times * options.seeds)
            earned = {
                told: np.array([clicks(law, impressions, seed, every) for seed in seeds])
                for told, every in TOLD.items()
            }
            without = earned["not used"]
            row = [law, str(impressions), f"{without.mean():,.0f}"]
            for told in list(TOLD)[1:]:
                ratio = earned[told] / without
                error = ratio.std(ddof=1) / np.sqrt(ratio.size) if ratio.size > 1 else np.nan
                row.append(f"{ratio.mean():.3f} ± {error:.3f}")
                if told == "of all":
                    found.append(float(ratio.mean()))
            rows.append(row)
            print("| " + " | ".join(row) + " |", flush=True)
    results.table("clicks", ["click rates", "impressions per item", "clicks without dates", *list(TOLD)[1:]], rows)
    results.value("least", min(found), digits=3)
    results.value("largest", max(found), digits=3)
    results.write()


if __name__ == "__main__":
    main()
