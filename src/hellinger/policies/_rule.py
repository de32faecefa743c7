"""What every policy is to compiled code: a NamedTuple that fills in the index of each arm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hellinger._jit import Component, jit
from hellinger.families import Family
from hellinger.policies import _dispatch as d

if TYPE_CHECKING:
    from hellinger.policies.prior import Prior

__all__ = ["Rule", "fill", "observe"]

Floats = npt.NDArray[np.float64]


class Rule(Component):
    """A policy's mathematics. Subclasses are NamedTuples whose first field is ``family``.

    Most rules score each arm by its own counts, ``_score(self, s, n, t, arms)``: its reward sum, its n ≥ 0 plays, the
    round about to be played and the number of arms. One that compares arms (``relative = True``) or draws at random
    (``random = True``) writes ``_fill(self, sums, pulls, t, arms, rng, out)`` instead, which puts every arm's index
    into ``out``; ``arms`` may then be less than the length of the arrays. numba compiles both methods.
    """

    __slots__ = ()

    random: ClassVar[bool] = False
    """The index is drawn, so ``rng`` is needed."""
    relative: ClassVar[bool] = False
    """An arm's index depends on the other arms' counts."""

    learns_prior: ClassVar[bool] = False
    """Counts are scored with pseudo-counts added, learned from all arms: the only way in which it is relative."""

    knows_lives: ClassVar[bool] = False
    """The index may depend on how many times more an arm can be played: see :meth:`_when`."""

    remembers: ClassVar[bool] = False
    """What it chooses depends on the order of rewards. :meth:`begin` gives it arrays of its own, which ``_observe(self,
    arm, reward, t)`` changes after each play and ``_fill`` looks at; the counts that it is handed are of all plays."""
    by_levels: ClassVar[bool] = False
    """Of what it remembers, only how often an arm had which reward matters, not the order: fields ``below`` (how far
    below the largest reward), ``counts`` and ``used`` (how many of these), a row for each arm."""
    limited: ClassVar[bool] = False
    """It remembers, and knows cheaply what no arm's index exceeds: ``_limit(self, t, arms, out)`` writes that, and
    ``_exact(self, arm, t, arms)`` has one arm's index, as ``_fill`` would. So a choice looks at few arms' indices."""
    at_once: ClassVar[bool] = False
    """It has to see each reward before it chooses again, and chooses from the first round on."""

    thorough: ClassVar[bool] = True
    """Every arm is played sooner or later, however little hope there is for it."""

    sparing: ClassVar[bool] = False
    """It looks at a few arms for a choice, however many there are."""

    few: ClassVar[bool] = False
    """Its time and memory for a choice grow with the square of the arms: it is for a hundred of them, not for pools."""

    family: Family

    @property
    def pooled(self) -> bool:
        """Whether a pool, and so the service, can rank by it: from counts, and of very many items."""
        return not (self.remembers or self.few)

    @property
    def separable(self) -> bool:
        """Whether ``_score`` gives an arm's index, from its counts (and the pseudo-counts, where learned)."""
        return self.learns_prior or not (self.random or self.relative or self.remembers)

    @property
    def horizon(self) -> float:
        """The horizon: a number, 0 where t stands in its place, NaN where it has yet to be given."""
        return 0.0

    @property
    def rising(self) -> bool:
        """Whether an arm's index depends on its own counts alone and never falls as time passes."""
        return False

    @property
    def monotone(self) -> bool:
        """Whether the index falls with n and rises with s, so that grouped ranking is exact.

        A rule that does not say so is ranked by scoring every item. One that does is checked on some of a pool's
        counts, unless it is made of the library's own parts.
        """
        return False

    def at_horizon(self, horizon: float) -> Rule:
        """The same rule with its horizon set, where it has one."""
        del horizon
        return self

    def begin(self, arms: int) -> Rule:
        """The same rule at the first round, with room for what it remembers of so many arms."""
        del arms
        return self

    def given(self, prior: Prior) -> Rule:
        """The same rule with this prior, where it learns one."""
        raise NotImplementedError

    def _learned(self, sums: Floats, pulls: Floats, plays: float) -> Rule:
        return self

    def _observe(self, arm: int, reward: float, t: float) -> None:
        pass

    def _limit(self, t: float, arms: float, out: Floats) -> None:
        raise NotImplementedError

    def _exact(self, arm: int, t: float, arms: float) -> float:
        raise NotImplementedError

    def _when(self, t: float, left: float) -> float:
        return t

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        raise NotImplementedError

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        for i in range(sums.size):
            out[i] = d.score(self, sums[i], pulls[i], t, arms)


@jit
def fill(rule: Rule, sums: Floats, pulls: Floats, t: float, rng: Any, out: Floats) -> None:
    """Write the index of every arm into ``out``."""
    d.fill(rule, sums, pulls, t, float(sums.size), rng, out)


@jit
def observe(rule: Rule, arm: int, reward: float, t: float) -> None:
    """Let a rule see what came of playing an arm at round t."""
    d.observe(rule, arm, reward, t)
