"""What segments of users bring: ``python benchmarks/segments.py [--seeds 12] [--results FILE]``.

A site of 300 items on pages of 4 slots, read every 5 pages, whose users are of 5 segments. An item's log-odds in a
segment are its own, normally distributed around the item's with the deviation in the table, and in the last
rows shifted for all items of a segment alike, which tells nothing of what to show. Clicks up to each number of
impressions per item, as ratios to ``cold-start`` without segments on the same site, with 95 % intervals over seeds:
by the *threshold*, a segment's own counts alone once it has ten impressions per item; and by *shrinkage*.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from _results import Results
from hellinger.lab._ratio import paired_ratio
from hellinger.policies import policy
from hellinger.world.players import PoolPlayer, SegmentedPlayer
from hellinger.world.site import Clicks, Player, Site, clicks

ITEMS, SEGMENTS, SLOTS, PAGES = 300, 5, 4, 5
IMPRESSIONS = (10, 30, 100, 300)
WORLDS = ((0.0, 0.0), (0.2, 0.0), (0.5, 0.0), (1.0, 0.0), (0.0, 0.5), (0.5, 0.5))
"""Standard deviations of log-odds: of an item between segments, and of a segment's shift."""

Ints = npt.NDArray[np.int64]


class Threshold:
    """A pool of all traffic, and one for each segment, which ranks alone once it has ten impressions per item."""

    def __init__(self, seed: int) -> None:
        self._pools = [PoolPlayer(policy("cold-start"), ITEMS, seed=seed) for _ in range(SEGMENTS + 1)]
        self._rounds = np.zeros(SEGMENTS)

    def choose(self, slots: int, segments: Ints) -> Ints:
        """By the pool that decides."""
        out = np.empty((segments.size, slots), np.int64)
        for segment in np.unique(segments).tolist():
            decides = segment + 1 if self._rounds[segment] >= 10 * ITEMS else 0
            out[segments == segment] = self._pools[decides].choose(slots, segments)
        return out

    def record(self, places: Ints, impressions: int, rewards: Any, segments: Ints) -> None:
        """Count in both."""
        self._pools[0].record(places, impressions, rewards, segments)
        for segment in np.unique(segments).tolist():
            mine = segments == segment
            self._pools[segment + 1].record(places[mine], impressions, rewards[mine], segments[mine])
            self._rounds[segment] += impressions * np.count_nonzero(mine)

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        for pool in self._pools:
            pool.renew(places, items)


PLAYERS: dict[str, Callable[[int], Player]] = {
    "none": lambda seed: PoolPlayer(policy("cold-start"), ITEMS, seed=seed),
    "threshold": Threshold,
    "shrinkage": lambda seed: SegmentedPlayer(policy("cold-start"), ITEMS, seed=seed),
}


def rates_of(seed: int, deviation: float, shift: float) -> npt.NDArray[np.float64]:
    """Click rates by segment and item."""
    rng = np.random.default_rng([seed, 0x5365])
    mean = rng.beta(2, 60, ITEMS)
    log_odds = np.log(mean / (1 - mean)) + rng.normal(0, 1, (SEGMENTS, ITEMS)) * deviation
    log_odds += rng.normal(0, 1, (SEGMENTS, 1)) * shift
    rates: npt.NDArray[np.float64] = 1 / (1 + np.exp(-log_odds))
    return rates


def earned(who: str, rates: npt.NDArray[np.float64], impressions: list[int], seed: int) -> list[float]:
    """Clicks up to each number of impressions per item."""
    site = Site(ITEMS, slots=SLOTS, batch=PAGES, segments=SEGMENTS)
    marks = [ITEMS * each for each in impressions]
    return clicks(site, PLAYERS[who](seed), Clicks(rates, seed), marks, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--impressions", type=int, nargs="*", default=IMPRESSIONS)
    Results.option(parser)
    options = parser.parse_args()
    results, rows = Results(options.results), []
    for deviation, shift in WORLDS:
        found: dict[str, Any] = {who: [] for who in PLAYERS}
        for seed in range(options.seeds):
            rates = rates_of(seed, deviation, shift)
            for who, lives in found.items():
                lives.append(earned(who, rates, options.impressions, seed))
        for who in ("threshold", "shrinkage"):
            cells = []
            for j in range(len(options.impressions)):
                mine, none = ([life[j] for life in found[name]] for name in (who, "none"))
                ratio, low, high = paired_ratio(mine, none)
                cells.append(f"{ratio:.3f} ({low:.3f} … {high:.3f})")
            print(deviation, shift, who, *cells, sep="  ", flush=True)
            rows.append([f"{deviation}", f"{shift}", who, *cells])
    results.table("clicks", ["items vary by", "segments by", "rule", *map(str, options.impressions)], rows)
    results.value("seeds", options.seeds)
    results.write()


if __name__ == "__main__":
    main()
