"""The simulator's rewards, arm by arm and play by play, for tests that drive other things on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hellinger import families
from hellinger._random import word
from hellinger.lab import _block

Rewards = Callable[[int, int], float]


def rewards_of(
    family: str | families.Family, means: Sequence[float], *, seed: int = 0, run: int = 0
) -> tuple[Rewards, np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    """Give the function (arm, j) → j-th reward of that arm in this run, and the arms' streams."""
    chosen = families.get(family)
    root = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    streams = _block.reward_streams(root, np.uint64(run), np.arange(len(means)))

    def reward(arm: int, j: int) -> float:
        return float(chosen._draw(float(means[arm]), np.uint64(word(streams[arm], np.uint64(j)))))

    return reward, streams
