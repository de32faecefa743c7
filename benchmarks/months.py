"""Two months of the demo: how long they take to play, and how far the algorithms draw apart in several settings.

``python benchmarks/months.py --results FILE``: some ten minutes. Times are of the demo as ``hellinger demo`` plays it,
compiled before.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from _results import Results
from hellinger.ledger import recovery
from hellinger.store import open_store
from hellinger.traffic.demo import OURS, PAPER, Demo, Scene
from hellinger.traffic.months import Played

SEEDS = (0, 1, 2)
DAYS, ITEMS = 60, 10_000


class Setting(NamedTuple):
    """A row of the table: the law of click rates, how fast attention falls, arrivals and pages a day."""

    law: str
    eta: float
    arrivals: float
    visits: float


SETTINGS = (
    Setting("bimodal", 0.5, 0, 500),
    Setting("bimodal", 0.5, 0, 1250),
    Setting("bimodal", 0.5, 50, 1250),
    Setting("bimodal", 0.5, 0, 2500),
    Setting("bimodal", 0.3, 10, 1250),
    Setting("beta", 0.5, 0, 2500),
    Setting("heavy-tailed", 0.5, 0, 400),
    Setting("heavy-tailed", 0.5, 0, 2000),
)
DEMO = Setting("bimodal", 0.3, 10, 1250)


class Months(NamedTuple):
    """What was played, in how many seconds, and the reward of each variant."""

    played: Played
    seconds: float
    reward: dict[str, float]


def play(setting: Setting, seed: int, variants: list[str] | None) -> Months:
    scene = Scene(law=setting.law, days=DAYS, visits=setting.visits, seed=seed, items=ITEMS)
    scene = scene._replace(users=scene.users._replace(eta=setting.eta, arrivals=setting.arrivals))
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(Path(folder), scene, variants=variants)
        began = time.perf_counter()
        played = demo.fast_forward()
        seconds = time.perf_counter() - began
        with closing(open_store(demo.settings.database)) as store:
            totals = recovery.recover(store).series.totals
            reward = {name: float(cell[2]) for name, cell in totals.items()}
    return Months(played, seconds, reward)


def between(ratios: list[float], digits: int = 2) -> str:
    """Least and most, or one where they read the same."""
    least, most = (f"{each:.{digits}f}" for each in (min(ratios), max(ratios)))
    return least if least == most else f"{least} – {most}"


def row(setting: Setting, found: list[Months], name: str, variants: int) -> list[str]:
    ratios = [[each.reward[PAPER[0]] / each.reward[rival] for each in found] for rival in PAPER[1:]]
    per_item = found[0].played.impressions / ITEMS / variants
    numbers = f"{setting.eta:g}", f"{setting.arrivals:g}", f"{setting.visits:,.0f}", f"{per_item:.0f}"
    return [name, *numbers, *map(between, ratios)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    Results.option(parser)
    options = parser.parse_args()
    results, seeds = Results(options.results), range(options.seeds)
    play(DEMO._replace(visits=20), 0, None)  # compiled code is read from disk before the clock starts
    shown = [play(DEMO, seed, None) for seed in seeds]
    rows = []
    for setting in SETTINGS:
        found = [play(setting, seed, list(PAPER)) for seed in seeds]
        rows.append(row(setting, found, setting.law, len(PAPER)))
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    rows.append(row(DEMO, shown, "**bimodal, four variants (the demo)**", len(PAPER) + 1))
    columns = ["click rates", "η", "arrivals a day", "pages a day", "per item", "Hellinger-UCB ÷ KL-UCB", "÷ UCB1"]
    results.table("apart", columns, rows)
    ours = [each.reward[OURS] / each.reward[PAPER[0]] for each in shown]
    results.value("cold_start", f"{between(ours, 1)} times")
    results.value("seeds", options.seeds)
    results.value("seconds", min(each.seconds for each in shown), "s")
    results.value("pages", shown[0].played.requests)
    results.value("impressions", shown[0].played.impressions)
    results.write()


if __name__ == "__main__":
    main()
