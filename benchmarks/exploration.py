"""What exploration costs: clicks of the service's desk on a simulated site, with and without.

``python benchmarks/exploration.py --results FILE``: some minutes. Differences of few clicks are to be seen, so chance
is kept out: every setting meets the same items, and whether an item's n-th impression is clicked does not depend on the
setting; a page counts what it earns on average, not what luck made of it; and runs are many. What is left is who was
found when.
"""

from __future__ import annotations

import argparse

import numpy as np

from _desk import START, DrivenDesk
from _results import Results
from _timing import show
from hellinger.engine.drafts import Draft, GivenFeedback, Query
from hellinger.engine.exploring import Exploring

ITEMS, PLACES, BATCH = 100, 5, 10
SETTINGS = {
    "none": (0.0, Exploring()),
    "near_ties = 0.05": (0.0, Exploring(0.05)),
    "next_share = 0.1": (0.0, Exploring(0.0, 0.1)),
    "next_share = 1": (0.0, Exploring(0.0, 1.0)),
    "random_share = 0.02": (0.02, Exploring()),
    "random_share = 0.1": (0.1, Exploring()),
}


def clicks(name: str, rankings: int, seed: int) -> float:
    """Clicks that so many rankings earn on average, given what they show."""
    share, how = SETTINGS[name]
    rng = np.random.default_rng([seed, 1])
    rates = rng.beta(2.0, 30.0, ITEMS)
    luck = rng.random((ITEMS, rankings))
    shown, earned = np.zeros(ITEMS, int), 0.0
    site = DrivenDesk("cold-start", ITEMS, random_share=share, exploring=how, positions="none", seed=seed)
    desk = site.desk
    made: list[Draft] = []
    for number in range(rankings):
        at = START + 1000 * number
        made.append(desk.rank(Query(PLACES), at))
        if len(made) < BATCH:
            continue
        site.write(made)
        given = []
        for draft in made:
            items = [int(item) for item in draft.fields["items"]]
            earned += float(rates[items].sum())
            clicked = [item for item in items if luck[item, shown[item]] < rates[item]]
            given += [GivenFeedback(draft.event.key, str(item), "click") for item in clicked]
            shown[items] += 1
        site.write(desk.sort(given, at).drafts)
        made = []
        if number % 200 == BATCH - 1:
            site.write(desk.learn(at))
    return earned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rankings", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=40)
    Results.option(parser)
    options = parser.parse_args()
    runs = [{name: clicks(name, options.rankings, seed) for name in SETTINGS} for seed in range(options.runs)]
    found = {name: np.array([run[name] for run in runs]) for name in SETTINGS}
    table = []
    for name, each in found.items():
        less = found["none"] - each
        spread = 1.96 * less.std(ddof=1) / np.sqrt(options.runs)
        price = 1000 * less.mean() / options.rankings
        shown = f"{price:.0f} ± {1000 * spread / options.rankings:.0f}".replace("-", "−")
        table.append((name, f"{each.mean():,.0f}", shown))
    results = Results(options.results)
    results.value("runs", options.runs)
    results.value("clicks", 1000 * found["none"].mean() / options.rankings)
    rows = [(f"`{name}`", price) for name, _, price in table if name != "none"]
    results.table("prices", ("setting", "fewer clicks in 1,000 rankings"), rows)
    results.write()
    show(
        f"{options.rankings:,} rankings of {PLACES} among {ITEMS} items, {options.runs} runs",
        ("setting", "clicks", "fewer clicks in 1,000 rankings"),
        table,
    )


if __name__ == "__main__":
    main()
