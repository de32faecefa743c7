"""A bandit whose memory does not grow with the arms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger.families import Family
from hellinger.families import _dispatch as families
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["WORDS", "ConstantSpace"]

WORDS = 10
"""Numbers that it remembers, however many arms there are."""

_BEST, _BEST_SUM, _BEST_PULLS, _RIVAL, _SUM, _PULLS, _MOST, _OPEN, _MET, _UNTIL = range(WORDS)
_FIRST = 16.0


class _Parameters(NamedTuple):
    family: Family
    arms: int
    words: Floats


class ConstantSpace(_Parameters, Rule):
    """A best arm so far meets the others one after the other, in passes of growing precision.

    A rival is played in turn with the best arm until the bounds of one are beyond those of the other, and the better
    one stays; or until it has had as many plays as the pass allows, and is left undecided. After a pass that left
    some undecided the next one allows four times the plays. After one that decided all, the best arm is played until
    log t has doubled. A rival's plays are forgotten when the next one comes: ten numbers are all that is kept.
    """

    __slots__ = ()
    remembers = True
    sparing = True
    at_once = True

    def begin(self, arms: int) -> Rule:
        """The first arm is the best so far."""
        words = np.zeros(WORDS)
        words[_RIVAL], words[_MOST] = min(1, arms - 1), _FIRST
        return self._replace(arms=arms, words=words)

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        words = self.words
        for i in range(out.size):
            out[i] = 0.0
        if out.size:
            best = t <= words[_UNTIL] or words[_BEST_PULLS] <= words[_PULLS]
            out[int(words[_BEST] if best else words[_RIVAL])] = 1.0

    def _observe(self, arm: int, reward: float, t: float) -> None:
        words = self.words
        if arm == words[_BEST]:
            words[_BEST_SUM] += reward
            words[_BEST_PULLS] += 1.0
        elif arm == words[_RIVAL]:
            words[_SUM] += reward
            words[_PULLS] += 1.0
        if t <= words[_UNTIL] or words[_BEST_PULLS] == 0.0 or words[_PULLS] == 0.0:
            return
        level = math.log(t)
        m, x = words[_BEST_SUM] / words[_BEST_PULLS], level / words[_BEST_PULLS]
        other, y = words[_SUM] / words[_PULLS], level / words[_PULLS]
        worse = families.kl_upper(self.family, other, y) <= families.kl_lower(self.family, m, x)
        better = families.kl_upper(self.family, m, x) <= families.kl_lower(self.family, other, y)
        if not worse and not better:
            if words[_PULLS] < words[_MOST]:
                return
            words[_OPEN] += 1.0
            better = other > m
        if better:
            words[_BEST], words[_BEST_SUM], words[_BEST_PULLS] = words[_RIVAL], words[_SUM], words[_PULLS]
        words[_SUM] = words[_PULLS] = 0.0
        words[_RIVAL] = (words[_RIVAL] + 1.0) % self.arms
        if words[_RIVAL] == words[_BEST]:
            words[_RIVAL] = (words[_RIVAL] + 1.0) % self.arms
        words[_MET] += 1.0
        if words[_MET] >= self.arms - 1.0:
            if words[_OPEN] > 0.0:
                words[_MOST] *= 4.0
            else:
                words[_UNTIL] = t * t
            words[_MET] = words[_OPEN] = 0.0


@named("constant-space")
def constant_space(family: Family) -> Rule:
    """Ten numbers of memory for any number of arms.

    Formula: best and rival in turn until {q : KL(m ‖ q) ≤ log t/n} of one lies below the other's; then the next rival.
    Reference: after Liau, Song, Price & Yang 2018 (regret Σ log(Δᵢ/Δ)/Δᵢ·log T in O(1) words).
    """
    return ConstantSpace(family, 0, np.empty(0))
