"""Two months of a site: how far the algorithms draw apart in several settings, without tastes.

``python benchmarks/months.py --results FILE``: some ten minutes.
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
    scene = scene._replace(users=scene.users._replace(eta=setting.eta, arrivals=setting.arrivals, taste=1.0))
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
    shown = [play(DEMO, seed, [*PAPER, OURS]) for seed in seeds]
    rows = []
    for setting in SETTINGS:
        found = [play(setting, seed, list(PAPER)) for seed in seeds]
        rows.append(row(setting, found, setting.law, len(PAPER)))
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    rows.append(row(DEMO, shown, "bimodal, with cold-start beside them", len(PAPER) + 1))
    columns = ["click rates", "η", "arrivals a day", "pages a day", "per item", "Hellinger-UCB ÷ KL-UCB", "÷ UCB1"]
    results.table("apart", columns, rows)
    results.value("seeds", options.seeds)
    results.write()


if __name__ == "__main__":
    main()
