"""A block: some consecutive runs of one policy, the unit that engines hand out and that is kept on disk."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger import _jit
from hellinger._random import stream
from hellinger.lab import _play
from hellinger.lab.problem import Problem
from hellinger.policies import Policy

__all__ = ["Block", "Outcome", "Setting", "play"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LAZY_FROM = 64
"""From so many arms on the lazy player is faster than the others (benchmarks/lab.py)."""


class Setting(NamedTuple):
    """How every run of an experiment goes."""

    horizon: int
    init: int = 1
    seed: int = 0
    ties: str = "random"
    slots: int = 1
    batch: int = 1
    delay: int = 0
    player: str = "auto"


class Outcome(NamedTuple):
    """What came of a block: regret by run and checkpoint, plays by checkpoint and arm, reward by run."""

    regret: Floats
    pulls: Ints
    reward: Floats


class Block(NamedTuple):
    """Runs ``first`` to ``first + size − 1`` of a policy on a problem."""

    policy: Policy
    problem: Problem
    setting: Setting
    checkpoints: Ints
    first: int
    size: int

    @property
    def key(self) -> str:
        """A name for this block's outcome: equal where all that determines it is."""
        digest = hashlib.sha256(_jit.DIGEST.encode())
        words = (self.policy.spec, self.policy.family.spec, self.setting, self.first, self.size)
        digest.update(repr(words).encode())
        digest.update(self.problem.means.tobytes())
        digest.update(self.checkpoints.tobytes())
        return digest.hexdigest()[:32]

    def _empty(self) -> Outcome:
        marks, arms = self.checkpoints.size, self.problem.means.size
        return Outcome(np.zeros((self.size, marks)), np.zeros((marks, arms), np.int64), np.zeros(self.size))

    def path(self, folder: Path) -> Path:
        """Where the outcome is kept."""
        return folder / f"{self.key}.npz"

    def load(self, folder: Path) -> Outcome | None:
        """The outcome kept in ``folder``, if it is there and whole."""
        try:
            with np.load(io.BytesIO(self.path(folder).read_bytes())) as kept:
                outcome = Outcome(kept["regret"], kept["pulls"], kept["reward"])
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
            return None
        expected = self._empty()
        same = all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(outcome, expected, strict=True))
        return outcome if same else None

    def save(self, folder: Path, outcome: Outcome) -> None:
        """Keep the outcome; a half-written file never bears its name."""
        buffer = io.BytesIO()
        np.savez(buffer, **outcome._asdict())
        partial = self.path(folder).with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(buffer.getvalue())
        partial.replace(self.path(folder))


def play(block: Block) -> Outcome:
    """Play a block's runs. Run r is the same whichever block it is in, and wherever it is played."""
    rule, family = block.policy.rule, block.problem.family
    setting, means, checkpoints = block.setting, block.problem.means, block.checkpoints
    arms = means.size
    outcome = block._empty()
    own = int.from_bytes(hashlib.sha256(f"{block.policy.spec} {family.spec}".encode()).digest()[:8], "little")
    root = np.random.SeedSequence(setting.seed).generate_state(1, np.uint64)[0]
    paged = (setting.slots, setting.batch, setting.delay) != (1, 1, 0)
    player = setting.player
    if paged:
        player = "pages"
    elif not rule.rising and player != "pages":
        player = "scan"
    elif player == "auto":
        player = "leader" if arms < _LAZY_FROM else "lazy"
    width = arms if rule.relative or rule.random else -(-arms // 4) * 4
    for i in range(block.size):
        run = block.first + i
        order = np.arange(arms)
        if setting.ties == "random":
            order = np.random.default_rng([setting.seed, run, 1]).permutation(arms)
        streams = _streams(np.uint64(root), np.uint64(run), order)
        rng = None
        if rule.random:
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([setting.seed, run, 2, own])))
        shuffled, regret = means[order], outcome.regret[i]
        common = (rule, family, shuffled, order, streams, setting.init)
        if player == "pages":
            pages = (rng, rule.random, setting.slots, setting.batch, setting.delay)
            total = _play.pages(*common, *pages, checkpoints, regret, outcome.pulls)
        elif player == "lazy":
            total = _play.lazy(*common, checkpoints, regret, outcome.pulls)
        elif player == "leader":
            total = _play.leader(*common, width, checkpoints, regret, outcome.pulls)
        else:
            total = _play.scan(*common, rng, width, checkpoints, regret, outcome.pulls)
        outcome.reward[i] = total
    return outcome


@_jit.jit
def _streams(root: np.uint64, run: np.uint64, order: Ints) -> npt.NDArray[np.uint64]:
    """A stream of rewards for every arm of this run, the same for every policy."""
    out = np.empty(order.size, np.uint64)
    own = stream(root, run)
    for i in range(order.size):
        out[i] = stream(own, np.uint64(order[i]))
    return out
