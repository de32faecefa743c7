"""When an experiment on the demo's site is decided: the price of statistics that hold.

    python benchmarks/power.py [sites] [days] [--results FILE]

Plays the demo's months (``hellinger demo``: the paper's three algorithms and cold-start on 10,000 items) on sites with
several seeds, and asks some hundred times which day it is when a leader is first certain:

- *at once*: a ranking counts from the moment it is served, and rankings are taken for independent of each other;
- *settled*: a ranking counts once its reward is final, a day later; for a sticky split the unit is the user.

Prints the table of docs/experiment.md.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from _results import Results
from hellinger.engine.allocation import SETTINGS, Allocation
from hellinger.engine.service import make_desk
from hellinger.experiment import Phase, readout
from hellinger.ledger import MAIN, Ledger
from hellinger.serve.standing import played
from hellinger.traffic.demo import Demo, Scene
from hellinger.traffic.months import Log, play
from hellinger.world.users import DAY

CERTAIN = ("leader", "order")
FAR = 1 << 60


def decided(site: int, days: float, split: str) -> dict[str, tuple[float, int, str]]:
    """Of each way of reading: the day, the rankings and the leader when a leader is first certain."""
    found: dict[str, tuple[float, int, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(Path(folder), Scene(days=days, seed=site))
        settings = demo.settings.model_copy(update={"split": split})
        ledger = Ledger()
        desk = make_desk(settings, ledger, b"salt")
        log = Log(0)
        plan = Allocation.given(settings).draft(demo.world.start, after=0, by=SETTINGS)
        desk.commit_own([log.place(plan)])

        def look(at: int) -> None:
            whole, settled = played(ledger, MAIN, FAR)[1], played(ledger, MAIN, at)[1]
            plain = [
                Phase(each.weights, tuple(t._replace(clusters=None, users=None) for t in each.totals)) for each in whole
            ]
            for way, phases in (("at once", plain), ("settled", settled)):
                if way in found:
                    continue
                read = readout(phases, sticky=split == "sticky")
                if read.verdict.kind in CERTAIN:
                    rankings = sum(t.drawn for each in phases for t in each.totals)
                    found[way] = (at - demo.world.start) / DAY, rankings, read.variants[0].variant

        play(demo.world, desk, demo.world.start + round(days * DAY), log=log, progress=look)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sites", type=int, nargs="?", default=5)
    parser.add_argument("days", type=float, nargs="?", default=60.0)
    Results.option(parser)
    options = parser.parse_args()
    sites, days = options.sites, options.days
    rows = []
    for split in ("random", "sticky"):
        runs = [decided(site, days, split) for site in range(sites)]
        for way in ("at once", "settled"):
            of = [run[way] for run in runs if way in run]
            row = [split, way, f"{len(of)} of {sites}", f"not in {days:g} days", "", ""]
            if of:
                day, rankings = statistics.median(each[0] for each in of), statistics.median(each[1] for each in of)
                row[3:] = f"{day:.1f}", f"{rankings:,.0f}", ", ".join(sorted({each[2] for each in of}))
            print("| " + " | ".join(row) + " |", flush=True)
            rows.append(row)
    results = Results(options.results)
    columns = ["split", "read", "decided", "day (median)", "rankings (median)", "leaders"]
    results.table("decided", columns, rows)
    results.write()


if __name__ == "__main__":
    main()
