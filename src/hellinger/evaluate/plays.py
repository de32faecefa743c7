"""Learning policies on the rewards of a log file: those of unlike positions made alike, then queues or replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hellinger._spec import parse_spec
from hellinger.errors import InputError, require
from hellinger.evaluate.learning import METHODS, Replayed, play_log
from hellinger.evaluate.survey import Survey
from hellinger.policies import policy

__all__ = ["KeptRewards", "check_learning"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def check_learning(specs: Sequence[str], method: str) -> None:
    """Policies that a log file can play, by a method that there is."""
    require(method in METHODS, "method is queue or replay", method=method)
    for spec in specs:
        if "model" in parse_spec(spec)[1]:
            raise InputError(
                f"{spec!r} learns from features, and a log has none of the items that were not shown: in Python, "
                "evaluate.play_contexts plays it on arrays that have the features of every item in every row"
            )
        policy(spec)


class KeptRewards:
    """The rewards of a log, as at one and the same position.

    Parameters
    ----------
    items, positions, rewards, propensity
        Of each row, in the order of the log.
    log
        What the log is like.
    looks
        The chance of a look at each position, where it is known.
    seed
        Where shuffles begin.
    """

    def __init__(
        self,
        items: Ints,
        positions: Ints,
        rewards: Floats,
        propensity: Floats,
        *,
        log: Survey,
        looks: Floats | None,
        seed: int = 0,
    ) -> None:
        self._seed = seed
        self._items, self._rewards, self._propensity = items, rewards / log.most, propensity
        note = "a reward is taken not to depend on the position, nor on time, nor on the rest of the page"
        self.notes = [f"learning policies: {note}"]
        """What was assumed, in words."""
        if looks is not None and log.slots > 1:
            self._level(positions, looks)

    def _level(self, positions: Ints, looks: Floats) -> None:
        """Keep the positions that leave most rewards, each thinned to the looks of the last of them."""
        chance = looks[positions - 1]
        level = max(np.unique(looks[looks > 0.0]), key=lambda each: float(np.count_nonzero(chance >= each) * each))
        rows = chance >= level
        thin = np.random.default_rng([self._seed, 0x6C6B]).random(positions.size) * chance < level
        self._items, self._rewards = self._items[rows], (self._rewards * thin)[rows]
        self._propensity = self._propensity[rows]
        note = "they are taken not to depend on time, nor on the rest of the page"
        self.notes = [f"learning policies: rewards as at a position with looks of {level:.2f} of the first's; {note}"]

    def play(
        self,
        specs: Sequence[str],
        method: str,
        *,
        seeds: int = 5,
        alpha: float = 0.05,
        resume: str | Path | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[Replayed, ...]:
        """What each policy earned on them."""
        items, rewards, chances = self._items, self._rewards, None
        if method == "replay":
            known = np.isfinite(self._propensity)
            require(bool(known.any()), "replay needs rows with a propensity; the queue needs none", rows=items.size)
            items, rewards, chances = items[known], rewards[known], self._propensity[known]
            left = float((chances.min() / chances).sum())
            self.notes.append(
                "replay: a row counts where the policy chooses its item, and is kept with the chance (least "
                f"propensity)/(its own): about {left:,.0f} of {items.size:,} rows"
            )
        found = play_log(
            specs,
            items,
            rewards,
            method=method,
            propensity=chances,
            seeds=seeds,
            seed=self._seed,
            alpha=alpha,
            resume=resume,
            progress=progress,
        )
        return tuple(found)
