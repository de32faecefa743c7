"""What logging for evaluation costs a ranking: the same rankings with and without what only evaluation needs.

``python benchmarks/ranking_log.py --results FILE``: a minute. A ranking is made in process, its event's text included,
as the service makes it before it writes: k, number eligible, size of the last tie, which neighbours are tied, filters
and propensities are left out in every other batch, and so is what has to be computed for them; but for the excluded
items of the last tie, which are counted in the same pass that ranks. Both desks have the same items and show the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np

from _desk import START, DrivenDesk
from _results import Results
from _timing import show, verdict
from hellinger.engine import desk as desks
from hellinger.engine.drafts import Query
from hellinger.pool import Pool

ITEMS, PLACES, BATCH = 10_000, 20, 100
TARGET = 1.10
CASES = {
    "items never shown": (0.0, 0),
    "items never shown, 20 excluded": (0.0, 20),
    "warm": (30.0, 0),
    "warm, 20 excluded": (30.0, 20),
}
"""Mean impressions of an item before, and how many each ranking excludes."""


@contextmanager
def unable_to_tell() -> Iterator[None]:
    """Rankings that log nothing for evaluation, and compute nothing for it."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(desks, "_for_evaluation", lambda *_: None))
        stack.enter_context(patch.object(desks, "ties_of", lambda *_: 0))
        stack.enter_context(patch.object(Pool, "tied", property(lambda _: 0)))
        yield


def batch(site: DrivenDesk, queries: list[Query]) -> tuple[float, int, list[list[str]]]:
    """Processor time of a ranking, bytes of its event, and what was shown."""
    rank = site.desk.rank
    begun = time.thread_time()
    made = [rank(query, START) for query in queries]
    taken = time.thread_time() - begun
    site.write(made)
    site.desk.finish()
    return taken / len(queries), sum(len(draft.event.body) for draft in made), [draft.fields["items"] for draft in made]


def measured(mean: float, excluded: int, batches: int) -> tuple[float, float, float, int]:
    """Microseconds with and without, their ratio, and bytes that an event has more."""
    sites = [DrivenDesk("cold-start", ITEMS, positions="none", seed=1) for _ in range(2)]
    for site in sites:
        if mean:
            site.shown_before(mean)
    rng = np.random.default_rng(2)
    times, bytes_more = np.zeros((batches, 2)), 0
    for number in range(batches):
        drawn = rng.integers(0, ITEMS, (BATCH, excluded)) if excluded else [()] * BATCH
        queries = [Query(PLACES, exclude=tuple(map(str, each))) for each in drawn]
        for which in (0, 1) if number % 2 else (1, 0):
            if which:
                with unable_to_tell():
                    times[number, 1], least, shown = batch(sites[1], queries)
                bytes_more -= least
            else:
                times[number, 0], most, told = batch(sites[0], queries)
                bytes_more += most
        assert told == shown
    times = times[batches // 10 :]
    ratio = float(np.median(times[:, 0] / times[:, 1]))
    told_time, bare = np.median(times, axis=0)
    return 1e6 * told_time, 1e6 * bare, ratio, round(bytes_more / (batches * BATCH))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=200)
    Results.option(parser)
    options = parser.parse_args()
    results, rows, printed = Results(options.results), [], []
    worst = 0.0
    for name, (mean, excluded) in CASES.items():
        told, bare, ratio, more = measured(mean, excluded, options.batches)
        worst = max(worst, ratio)
        cells = (name, f"{told:.1f} µs", f"{bare:.1f} µs", f"{100 * (ratio - 1):+.0f} %".replace("-", "−"), str(more))
        rows.append(cells)
        printed.append((*cells[:3], verdict(ratio, TARGET, at_most=True), cells[4]))
    columns = ("pool", "with", "without", "more time", "bytes more")
    results.table("costs", columns, rows)
    results.value("worst", 100 * (worst - 1), "%", 0)
    results.value("places", PLACES)
    results.value("items", ITEMS)
    results.write()
    show(f"A ranking of {PLACES} among {ITEMS:,} items, and its event", columns, printed)


if __name__ == "__main__":
    main()
