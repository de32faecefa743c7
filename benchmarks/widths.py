"""How wide the intervals of docs/experiment.md are: computed for totals as they come on average, nothing is drawn.

``python benchmarks/widths.py --results FILE``: a second.
"""

from __future__ import annotations

import argparse
import math

from scipy.stats import binom

from _results import Results
from hellinger.experiment import Pages, Totals, lift_bounds, rate_bounds

RATE, SLOTS = 0.05, 20


def between(low: float, high: float, digits: int) -> str:
    return f"{100 * low:.{digits}f} … {100 * high:.{digits}f} %".replace("-", "−")


def row(impressions: int) -> list[str]:
    requests = impressions // SLOTS
    half = 1.96 * math.sqrt(RATE * (1 - RATE) / impressions)
    squares = requests * (SLOTS * RATE * (1 - RATE) + (SLOTS * RATE) ** 2)
    pages = Pages(requests, squares, SLOTS, int(binom.isf(1 / requests, SLOTS, RATE)))  # the most of so many requests
    plain = Totals("a", requests, impressions, RATE * impressions)
    paged = plain._replace(pages=pages)
    cells = [between(RATE - half, RATE + half, 2)]
    for totals in (plain, paged):
        (low,), (high,) = rate_bounds([totals])
        cells.append(between(low, high, 2))
    (low,), (high,) = lift_bounds([paged], [paged])
    return [f"{impressions:,}", *cells, between(low, high, 1 if high < 0.1 else 0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Results.option(parser)
    results = Results(parser.parse_args().results)
    columns = ["impressions", "textbook, one look only", "anytime, by impression", "anytime, by request"]
    rows = [row(impressions) for impressions in (2_000, 20_000, 200_000, 2_000_000)]
    results.table("intervals", [*columns, "lift between equals, by request"], rows)
    results.write()


if __name__ == "__main__":
    main()
