"""The demo as ``hellinger demo`` plays it: how long two months take, compiled before, and what each algorithm earns.

``python benchmarks/showcase.py --results FILE``: a minute or two.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import closing
from pathlib import Path

from _results import Results
from hellinger.ledger import recovery
from hellinger.store import open_store
from hellinger.traffic.demo import OURS, PAPER, PERSONAL, Demo, Scene
from hellinger.traffic.months import Played


def play(scene: Scene) -> tuple[Played, float, dict[str, float]]:
    """What was played, in how many seconds of this process, and the reward an impression of each variant."""
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(Path(folder), scene)
        began = time.process_time()
        played = demo.fast_forward()
        seconds = time.process_time() - began
        with closing(open_store(demo.settings.database)) as store:
            totals = recovery.recover(store).series.totals
    return played, seconds, {name: cell[2] / cell[1] for name, cell in totals.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    play(Scene(days=2))  # compiled code is read from disk before the clock starts
    found = [play(Scene(seed=seed)) for seed in range(options.seeds)]
    rows = []
    for name in (*PAPER, OURS, PERSONAL[0]):
        rates = [rate[name] for _, _, rate in found]
        times = [rate[name] / rate[PAPER[-1]] for _, _, rate in found]
        ends = (f"{100 * min(rates):.2f} – {100 * max(rates):.2f} %", f"{min(times):.2f} – {max(times):.2f}")
        rows.append([f"`{name}`", *ends])
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    results.table("rates", ["algorithm", "reward an impression", "÷ UCB1"], rows)
    results.value("seeds", options.seeds)
    results.value("seconds", min(seconds for _, seconds, _ in found), "s")
    results.value("pages", found[0][0].requests)
    results.value("impressions", found[0][0].impressions)
    results.write()


if __name__ == "__main__":
    main()
