"""Splitting traffic and reading an experiment: each against the least that could do it, as ratios in one run.

The floor of a sticky choice is one keyed hash of the user; of a choice per request, one random number. A readout of
five variants is set against drawing the probability of being best from 100,000 samples, a figure of three digits.
"""

from __future__ import annotations

import os
import random
from hashlib import blake2b

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from _timing import fastest, show, verdict
from hellinger.experiment import Pages, Split, Totals, readout

VARIANTS = ["hellinger-ucb", "kl-ucb", "ucb1"]


def choices() -> None:
    rng = random.Random(0)
    even, uneven = Split(VARIANTS, salt="x"), Split({name: i + 1.0 for i, name in enumerate(VARIANTS)}, salt="x")
    key = b"x" * 32
    number = fastest(rng.random)
    hashed = fastest(lambda: blake2b(b"user-12345", key=key, digest_size=8).digest())
    rows = []
    for label, function, floor, target in (
        ("per request", lambda: even.choose(rng), number, 10.0),
        ("per user", lambda: even.choose_for("user-12345"), hashed, 3.0),
        ("per user, uneven", lambda: uneven.choose_for("user-12345"), hashed, 5.0),
    ):
        seconds = fastest(function)
        rows.append((label, f"{1e6 * seconds:.2f} µs", verdict(seconds / floor, target, at_most=True)))
    show("A choice among three variants", ("", "takes", "of its floor"), rows)


def readouts() -> None:
    rng = np.random.default_rng(0)
    totals = [
        Totals(f"v{i}", 100_000, 2_000_000, 100_000 + 500 * i, Pages(100_000, 205_000.0 + 2_000 * i, 20, 9))
        for i in range(5)
    ]
    wins, losses = np.array([t.reward for t in totals]), np.array([t.impressions - t.reward for t in totals])
    sampled = fastest(lambda: np.bincount(rng.beta(1.0 + wins, 1.0 + losses, (100_000, 5)).argmax(axis=1)))
    seconds = fastest(lambda: readout(totals))
    rows = [("readout", f"{1e3 * seconds:.2f} ms", verdict(sampled / seconds, 5.0))]
    show("All figures of five variants", ("", "takes", "faster than 100,000 samples"), rows)


if __name__ == "__main__":
    choices()
    readouts()
