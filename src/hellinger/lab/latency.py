"""How long it takes to rank warm arms, once each by policies and by a plain NumPy bisection."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.policies import policy

__all__ = ["BASELINE", "Latency", "measure_latency", "numpy_kl_index", "warm_counts"]

Floats = npt.NDArray[np.float64]

BASELINE = "kl-ucb in NumPy"
_HALVINGS = 40
_TOP = 20


class Latency(NamedTuple):
    """Milliseconds to score so many arms and pick the best twenty, over repeated calls."""

    method: str
    arms: int
    median_ms: float
    q05_ms: float
    q95_ms: float
    calls: int


def warm_counts(arms: int, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Clicks and impressions of a pool in use: click rates Beta(1.6, 100), 1 to 500 impressions each."""
    rng = np.random.default_rng([seed, arms])
    pulls = rng.integers(1, 501, arms).astype(np.float64)
    return rng.binomial(pulls.astype(np.int64), rng.beta(1.6, 100.0, arms)).astype(np.float64), pulls


def numpy_kl_index(sums: Floats, pulls: Floats, t: float) -> Floats:
    """KL-UCB's Bernoulli index as one writes it in NumPy: forty halvings of [mean, 1] for all arms at once."""
    p = sums / pulls
    level = math.log(t) / pulls
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(p > 0, p * np.log(p), 0.0) + np.where(p < 1, (1 - p) * np.log1p(-p), 0.0)
        low, high = p.copy(), np.ones_like(p)
        for _ in range(_HALVINGS):
            q = 0.5 * (low + high)
            inside = entropy - p * np.log(q) - (1 - p) * np.log1p(-q) <= level
            low = np.where(inside, q, low)
            high = np.where(inside, high, q)
    return low


def measure_latency(
    specs: Sequence[str], *, sizes: Sequence[int], seed: int = 0, seconds: float = 0.08, least: int = 5
) -> list[Latency]:
    """Time each policy, and the NumPy bisection, on warm counts of each size.

    A call scores every arm through :meth:`Policy.index`, checks of its arguments included, and picks the
    best twenty. The first call, which may compile, is not counted.
    """
    scorers: dict[str, Callable[[Floats, Floats, float], Floats]] = {spec: policy(spec).index for spec in specs}
    scorers[BASELINE] = numpy_kl_index
    found = []
    for method, score in scorers.items():
        for arms in sizes:
            sums, pulls = warm_counts(arms, seed=seed)
            taken = _times(score, sums, pulls, seconds, least)
            q05, median, q95 = np.quantile(taken, [0.05, 0.5, 0.95])
            found.append(Latency(method, arms, float(median), float(q05), float(q95), len(taken)))
    return found


def _times(
    score: Callable[[Floats, Floats, float], Floats], sums: Floats, pulls: Floats, seconds: float, least: int
) -> list[float]:
    t = float(pulls.sum() + 1.0)
    taken: list[float] = []
    _best(score(sums, pulls, t))
    while sum(taken) < 1e3 * seconds or len(taken) < least:
        started = time.perf_counter()
        _best(score(sums, pulls, t))
        taken.append(1e3 * (time.perf_counter() - started))
    return taken


def _best(index: Floats) -> npt.NDArray[np.int64]:
    top = min(_TOP, index.size)
    some = np.argpartition(index, -top)[-top:]
    best: npt.NDArray[np.int64] = some[np.argsort(index[some])[::-1]]
    return best
