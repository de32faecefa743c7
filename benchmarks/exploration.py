"""What exploration costs: clicks of the service's desk on a simulated site, with and without.

``python benchmarks/exploration.py --results FILE``: a minute. Whether an item's n-th impression is clicked
does not depend on the setting, so that differences are those of what was shown.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from _results import Results
from _timing import show
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import GivenFeedback, Query, item_draft
from hellinger.engine.exploring import Exploring
from hellinger.ledger import Ledger

ITEMS, PLACES, START = 100, 5, 1_700_000_000_000
SETTINGS = {
    "none": (0.0, Exploring()),
    "near_ties = 0.05": (0.0, Exploring(0.05)),
    "next_share = 0.1": (0.0, Exploring(0.0, 0.1)),
    "next_share = 1": (0.0, Exploring(0.0, 1.0)),
    "random_share = 0.02": (0.02, Exploring()),
    "random_share = 0.1": (0.1, Exploring()),
}


def clicks(name: str, rankings: int, seed: int) -> int:
    """Clicks of so many rankings."""
    share, how = SETTINGS[name]
    rng = np.random.default_rng([seed, 1])
    rates = rng.beta(2.0, 30.0, ITEMS)
    luck = rng.random((ITEMS, rankings))
    shown, earned, seq = np.zeros(ITEMS, int), 0, 0
    desk = Desk(Ledger(), {"a": "cold-start"}, random_share=share, exploring=how, positions="none", seed=seed)

    def write(drafts: list[Any]) -> None:
        nonlocal seq
        placed = []
        for draft in drafts:
            seq += 1
            placed.append((seq, draft))
        desk.commit_own(placed)

    write([item_draft({"id": str(j), "tags": [], "expires_at": None, "metadata": None}, START) for j in range(ITEMS)])
    for number in range(rankings):
        at = START + 1000 * number
        draft = desk.rank(Query(PLACES), at)
        write([draft])
        given = []
        for item in map(int, draft.fields["items"]):
            if luck[item, shown[item]] < rates[item]:
                given.append(GivenFeedback(draft.event.key, str(item), "click"))
            shown[item] += 1
        earned += len(given)
        write(list(desk.sort(given, at).drafts))
        if number % 200 == 0:
            write(desk.learn(at))
    return earned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rankings", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=8)
    Results.option(parser)
    options = parser.parse_args()
    found = {name: np.array([clicks(name, options.rankings, j) for j in range(options.runs)]) for name in SETTINGS}
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
