"""The pool against a full scan, at three sizes, in one run; processor time, Python call included.

Run as ``python benchmarks/pool.py [--small] [--results FILE]``. Ratios are within the run; targets are printed beside
them. The floor is the compiled ranking and the cost of calling it; what rank(20) takes beyond is the making of twenty
Python objects.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from _results import Results
from _timing import fastest
from hellinger import Pool
from hellinger._jit import entry
from hellinger.pool import _layout, _merge, _scan
from hellinger.pool._core import EVERYTHING, NOWHERE


def best(*functions: Callable[[], object]) -> list[float]:
    """Microseconds of processor time a call of each; in turns, so that a noisy moment is not one function's own."""
    rounds = [[1e6 * fastest(function, seconds=0.1) for function in functions] for _ in range(5)]
    return [min(times) for times in zip(*rounds, strict=True)]


def kernel(pool: Pool) -> tuple[Callable[[], object], Callable[[], object]]:
    """The compiled ranking of 20, and the same call with nothing to rank."""

    def query(state: _layout.ItemArrays) -> Callable[[], object]:
        arguments = (pool.policy.rule, state, pool._members.table, pool._t, EVERYTHING, NOWHERE, 1, False)
        outputs = (np.empty(20, np.int64), np.empty((21, 4), np.int64))
        code = entry(_merge.merge, *arguments, *outputs)
        return lambda: code(*arguments, *outputs)

    return query(pool._store.state), query(_layout.empty(1, 1.0))


def full_scan(pool: Pool) -> list[tuple[int, float]]:
    """The best 20 by the compiled index of every item: one pass for the index, one for the best."""
    slots = np.arange(len(pool))
    chosen, rows = np.empty(20, np.int64), np.empty((21, 4), np.int64)
    _scan.select(pool._store.state, 1.0, slots, pool._values(slots), EVERYTHING, 1, False, chosen, rows)
    return list(zip(chosen.tolist(), rows[:20, 1].view(float).tolist(), strict=True))


def line(what: str, value: float, unit: str, target: str, met: bool) -> None:
    print(f"  {what:46s} {value:12.2f} {unit:4s}  target {target:10s} {'met' if met else 'MISSED'}")


class Figures(NamedTuple):
    """Of one policy at one size: microseconds, but for the full scan's ratio, seconds of loading and bytes an item."""

    rank: float
    kernel: float
    scan: float
    serve: float
    record: float
    many: float
    loading: float
    memory: float


def measure(spec: str, sizes: list[int]) -> list[Figures]:
    print(f"\n{spec}")
    ranks: list[float] = []
    found: list[Figures] = []
    for size in sizes:
        rng = np.random.default_rng(size)
        n = rng.integers(0, 501, size).astype(float)
        s = rng.binomial(n.astype(np.int64), 0.05).astype(float)
        ids = np.arange(size)
        pool = Pool(spec)
        pool.add([-1], [1], [0])  # compiled code is read from disk before the clock starts
        started = time.thread_time()
        pool.add(ids, n, s)
        loading = time.thread_time() - started
        ranked, called = kernel(pool)
        rank, floor, call, scan = best(
            functools.partial(pool.rank, 20), ranked, called, functools.partial(full_scan, pool)
        )
        ranks.append(rank)
        print(f" {size:,} items: {pool.explain()[:70]}…")
        line("rank(20), Python included", rank, "µs", "≤ 30", rank <= 30)
        line("  of which in the kernel", floor - call, "µs", "≤ 5", floor - call <= 5)
        print(f"  {'  floor: a call and the kernel':46s} {floor:12.2f} µs    rank is {rank / floor:.1f} × the floor")
        wanted = 10 if size <= 10_000 else 10_000 if size >= 10_000_000 else 1000
        line("full scan ÷ rank(20)", scan / rank, "×", f"≥ {wanted:,}", scan / rank >= wanted)
        turn = itertools.cycle(ids[rng.integers(0, size, 4000)].tolist())
        (record,) = best(lambda pool=pool, turn=turn: pool.record(next(turn), impressions=1))  # type: ignore[misc]
        line("record, ids at random", record, "µs", "≤ 5", record <= 5)
        events = ids[rng.integers(0, size, 100_000)]
        (many,) = best(functools.partial(pool.record_many, events, 1))
        many /= 100_000
        (serve,) = best(functools.partial(pool.serve, 20))
        line("serve(20), impressions counted", serve, "µs", "≤ 35", serve <= 35)
        line("record_many of 100,000 events, each", many, "µs", "≤ 0.5", many <= 0.5)
        line("memory of an item, its id apart", pool.memory() / size, "B", "≤ 100", pool.memory() <= 100 * size)
        if size >= 10_000_000:
            line("loading", loading, "s", "< 10", loading < 10)
        else:
            print(f"  {'loading':46s} {loading:12.2f} s")
        found.append(Figures(rank, floor - call, scan / rank, serve, record, many, loading, pool.memory() / size))
    spread = max(ranks) / min(ranks)
    line("slowest ÷ fastest rank(20) over the sizes", spread, "×", "≤ 2", spread <= 2)
    return found


def publish(path: Path | None, sizes: list[int], found: dict[str, list[Figures]]) -> None:
    """Write the table and the values that documents use."""
    results = Results(path)
    named = {"hellinger-ucb": "Hellinger-UCB", "kl-ucb": "KL-UCB", "ucb1": "UCB1", "cold-start": "cold-start"}
    rows = [
        [
            f"`rank(20)`, {name} (of which compiled)",
            *(f"{each.rank:.1f} µs ({each.kernel:.1f})" for each in found[spec]),
        ]
        for spec, name in named.items()
    ]
    rows += [
        [f"full compiled scan ÷ `rank(20)`, {name}", *(f"{each.scan:,.0f}" for each in found[spec])]
        for spec, name in named.items()
    ]
    ours = found["cold-start"]
    rows += [
        ["`serve(20)`, cold-start", *(f"{each.serve:.1f} µs" for each in ours)],
        ["`record`, cold-start", *(f"{each.record:.1f} µs" for each in ours)],
        ["`record_many`, each of 100,000 events, cold-start", *(f"{each.many:.2f} µs" for each in ours)],
        ["loading from arrays, cold-start", *(f"{each.loading:.2f} s" for each in ours)],
        ["bytes an item, its id apart, after these events", *(f"{each.memory:.0f}" for each in ours)],
    ]
    results.table("ranks", ["", *(f"{size:,} items" for size in sizes)], rows)
    results.value("rank_first", found["hellinger-ucb"][0].rank, "µs", 1)
    results.value("rank_last", found["hellinger-ucb"][-1].rank, "µs", 1)
    results.value("objects", ours[0].rank - ours[0].kernel, "µs", 0)
    results.value("bytes_least", min(each.memory for each in ours))
    results.value("bytes_most", max(each.memory for each in ours))
    results.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--small", action="store_true", help="leave out ten million items")
    Results.option(parser)
    options = parser.parse_args()
    sizes = [10_000, 1_000_000] + ([] if options.small else [10_000_000])
    found = {spec: measure(spec, sizes) for spec in ("hellinger-ucb", "kl-ucb", "ucb1", "cold-start")}
    publish(options.results, sizes, found)


if __name__ == "__main__":
    main()
