"""What one event costs a model, beside the reading and writing of its covariance.

Run as ``python benchmarks/updates.py [--results FILE]``. Spreads are learned, as by default. The floor of an update is
the covariance, eight bytes an entry: read for what an event says of each weight, then read and written. At 561 weights,
those of 16 columns of people and 32 of items, that is 3 × 561² × 8 B = 7.6 MB. Processor time, the mean of many events.
"""

from __future__ import annotations

import argparse
import functools
import time
from typing import Any

import numpy as np

from _results import Results
from _timing import fastest
from hellinger import models
from hellinger.models import Regression


def updates(results: Results) -> None:
    """An event, spreads learned as by default: the mean of many, beside the reading and writing of the covariance."""
    for people, things, events, name in ((7, 7, 5000, "small"), (16, 32, 2000, "large")):
        rng = np.random.default_rng(people)
        posterior = Regression(models.get("logistic"))
        posterior.add(1000, [{f"f{j}": float(rng.normal()) for j in range(things)} for _ in range(1000)])
        contexts = [{f"p{j}": float(rng.normal()) for j in range(people)} for _ in range(50)]
        for context in contexts:
            posterior.learn_context(context)
        zs = [posterior.context(context) for context in contexts]
        slots, clicks = rng.integers(1000, size=events).tolist(), (rng.random(events) < 0.05).astype(float).tolist()
        for event in range(100):  # warm
            posterior.observe(slots[event], zs[event % 50], 1.0, clicks[event])
        started = time.thread_time()
        for event in range(events):
            posterior.observe(slots[event], zs[event % 50], 1.0, clicks[event])
        took = (time.thread_time() - started) / events
        cov, x = posterior._weights.cov.copy(), np.ones(posterior._weights.mean.size)
        floor = fastest(functools.partial(moved, cov, x))
        print(f"an update at {x.size} weights: {1e6 * took:.1f} µs (target 50 at 64)", end=", ")
        print(f"NumPy's passes over the covariance {1e6 * floor:.1f} µs")
        results.value(name, 1e6 * took, "µs", 1)
    results.value("large_weights", x.size)
    results.value("large_floor", 1e6 * floor, "µs", 1)
    results.value("large_bytes", 3 * cov.nbytes / 1e6, "MB", 1)


def moved(cov: Any, x: Any) -> None:
    """Read a covariance, then read it again and write it: no update can do with less."""
    cov @ x
    cov += 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Results.option(parser)
    results = Results(parser.parse_args().results)
    updates(results)
    results.write()


if __name__ == "__main__":
    main()
