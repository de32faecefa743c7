"""Rules that forget, for rewards that change in time: by a sliding window, by discounting, or after a change.

They are arguments of every policy, ``ucb1(window=500)``, ``kl-ucb(discount=0.99)``, ``hellinger-ucb(detect=0.05)``, and
not policies of their own: what is forgotten are counts, and the rule scores those that are left.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper
from hellinger.errors import InputError, require
from hellinger.families import Family
from hellinger.families import _dispatch as families
from hellinger.policies import _dispatch as d
from hellinger.policies._rule import Floats, Rule

__all__ = ["FORGETTING", "Forgetting", "Restarting", "forgets_by", "forgetting"]

FORGETTING: dict[str, object] = {"window": None, "discount": None, "detect": None}
"""Arguments that every policy takes beside its own."""

_MOST = 10_000_000
_POINTS = 64
"""Places between two plays of an arm where a change is looked for."""
_EVERY = 5
"""Plays of an arm between two looks."""
_FORCED = 0.1


def forgets_by(rule: Rule) -> list[str]:
    """Those of the arguments that go with this rule."""
    if rule.learns_prior or rule.remembers:
        return []
    return [key for key in FORGETTING if key != "detect" or rule.separable]


def forgetting(rule: Rule, name: str, *, window: Any = None, discount: Any = None, detect: Any = None) -> Rule:
    """The rule, forgetting as these arguments say; itself where none is given."""
    asked = {"window": window, "discount": discount, "detect": detect}
    given = [key for key, value in asked.items() if value is not None]
    if not given:
        return rule
    require(len(given) == 1, "one of window, discount and detect", given=given)
    if not forgets_by(rule):
        raise InputError(
            f"`{given[0]}` must go with a policy that scores counts, but {name} "
            + ("learns a prior: give its Pool a window or a half_life" if rule.learns_prior else "has its own memory")
        )
    nothing = np.empty((0, 2))
    if detect is not None:
        require(0 < detect < 1, "0 < detect < 1", detect=detect)
        require("detect" in forgets_by(rule), "detect goes with a policy that scores each arm by itself", policy=name)
        return Restarting(rule.family, rule, float(detect), nothing, nothing, np.empty(0))
    if window is not None:
        require(1 <= window <= _MOST and window % 1 == 0, f"1 <= window <= {_MOST}, a whole number", window=window)
    else:
        require(0 < discount < 1, "0 < discount < 1", discount=discount)
    fade, last = 1.0 if discount is None else float(discount), 0 if window is None else int(window)
    return Forgetting(rule.family, rule, last, fade, nothing, nothing, np.empty(0, np.int64))


class _Memory(NamedTuple):
    family: Family
    rule: Rule
    window: int
    discount: float
    counts: Floats
    last: Floats
    seen: npt.NDArray[np.int64]


class _Around(Rule):
    """A rule around another that scores counts."""

    __slots__ = ()
    remembers = True
    rule: Rule

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Where the rule is."""
        return self.rule.random

    @property
    def relative(self) -> bool:  # type: ignore[override]
        """Where the rule is."""
        return self.rule.relative

    @property
    def horizon(self) -> float:
        """That of the rule."""
        return self.rule.horizon

    def at_horizon(self, horizon: float) -> Rule:
        """Set the rule's horizon."""
        around: Rule = self._replace(rule=self.rule.at_horizon(horizon))  # type: ignore[attr-defined]
        return around


class Forgetting(_Memory, _Around):
    """Scores what is left of the counts; the round is that after as many plays as are left.

    With a window the last so many plays count, with a discount a play counts less by this factor after each further
    one. Both are those of Garivier & Moulines 2011 (SW-UCB and D-UCB) for any index.
    """

    __slots__ = ()

    def begin(self, arms: int) -> Rule:
        """Nothing seen."""
        return self._replace(counts=np.zeros((2, arms)), last=np.zeros((self.window, 2)), seen=np.zeros(1, np.int64))

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        d.fill(self.rule, self.counts[0], self.counts[1], 1.0 + self.counts[1].sum(), arms, rng, out)

    def _observe(self, arm: int, reward: float, t: float) -> None:
        counts = self.counts
        if self.window == 0:
            for i in range(counts.shape[1]):
                counts[0, i] = self.discount * counts[0, i] + (reward if i == arm else 0.0)
                counts[1, i] = self.discount * counts[1, i] + (1.0 if i == arm else 0.0)
                counts[0, i] = _within(self.family, counts[0, i], counts[1, i])
            return
        place = self.seen[0] % self.window
        if self.seen[0] >= self.window:
            old = int(self.last[place, 0])
            counts[0, old] -= self.last[place, 1]
            counts[1, old] -= 1.0
            counts[0, old] = _within(self.family, counts[0, old], counts[1, old])
        self.last[place, 0], self.last[place, 1] = float(arm), reward
        self.seen[0] += 1
        counts[0, arm] += reward
        counts[1, arm] += 1.0
        counts[0, arm] = _within(self.family, counts[0, arm], counts[1, arm])
        if place == self.window - 1:  # so that errors of rounding do not add up
            counts[0, :] = 0.0
            for j in range(self.window):
                counts[0, int(self.last[j, 0])] += self.last[j, 1]


class _Watch(NamedTuple):
    family: Family
    rule: Rule
    detect: float
    counts: Floats
    points: Floats
    forced: Floats


class Restarting(_Watch, _Around):
    """Forgets an arm when its rewards have changed, and plays every arm now and then to see it.

    After GLR-klUCB with local restarts (Besson, Kaufmann, Maillard & Seznec 2022): an arm with n plays since its last
    restart has changed if s·KL(first s, all n) + (n − s)·KL(the rest, all n) ≥ log(4·n^(3/2)/detect) for some s < n. It
    is looked for every 5 plays of the arm, at 64 places s at most; the arm's round is counted from its restart. By
    round t, 0.1·√(K·t·log t) plays have gone round all arms in turn: as many as theirs at a horizon t.
    """

    __slots__ = ()

    def begin(self, arms: int) -> Rule:
        """Nothing seen."""
        return self._replace(counts=np.zeros((4, arms)), points=np.zeros((arms, _POINTS)), forced=np.zeros(2))

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        turn = _turn(self.forced, t, out.size)
        for i in range(out.size):
            s, n, start = self.counts[0, i], self.counts[1, i], self.counts[2, i]
            if turn >= 0:
                out[i] = 1.0 if i == turn else 0.0
            else:
                out[i] = d.score(self.rule, s, n, max(t - start, 1.0), arms)

    def _observe(self, arm: int, reward: float, t: float) -> None:
        counts, points = self.counts, self.points
        if _turn(self.forced, t, counts.shape[1]) == arm:
            self.forced[0] += 1.0
            self.forced[1] = (arm + 1.0) % counts.shape[1]
        counts[0, arm] += reward
        counts[1, arm] += 1.0
        s, n = counts[0, arm], counts[1, arm]
        spacing = max(counts[3, arm], 1.0)
        place = int(n // spacing) - 1
        if n % spacing == 0.0:
            points[arm, place] = s
            if place == _POINTS - 1:
                for j in range(_POINTS // 2):
                    points[arm, j] = points[arm, 2 * j + 1]
                counts[3, arm] = 2.0 * spacing
        if n % _EVERY == 0.0 and n > 1.0 and _changed(self.family, points[arm], s, n, counts[3, arm], self.detect):
            counts[0, arm] = counts[1, arm] = counts[3, arm] = 0.0
            counts[2, arm] = t


@helper
def _within(family: Any, s: float, n: float) -> float:
    """The sum of n rewards, 0 of none, moved back where errors of rounding made its mean one that none can have.

    Sums that fade, and sums that rewards are taken from, are rounded: 0.1 + 0.2 − 0.1 − 0.2 is less than 0.
    """
    if not n > 0.0:
        return 0.0
    low, high = families.infimum(family), families.supremum(family)
    if s / n > high:
        s = n * high
        return s - 2.3e-16 * abs(s) if s / n > high else s
    if s / n < low:
        s = n * low
        return s + 2.3e-16 * abs(s) if s / n < low else s
    return s


@helper
def _turn(forced: Floats, t: float, arms: int) -> int:
    """Whose turn it is to be played whatever the indices say, or −1."""
    return int(forced[1]) if forced[0] < _FORCED * math.sqrt(arms * t * math.log(t)) - 1.0 else -1


@helper
def _changed(family: Any, points: Floats, s: float, n: float, spacing: float, error: float) -> bool:
    """Whether an arm's rewards have changed at one of its points."""
    bar, whole = math.log(4.0 * n * math.sqrt(n) / error), s / n
    spacing = max(spacing, 1.0)
    for j in range(min(int((n - 1.0) // spacing), _POINTS)):
        first = (j + 1.0) * spacing
        rest = n - first
        apart = first * families.kl(family, points[j] / first, whole)
        apart += rest * families.kl(family, _within(family, s - points[j], rest) / rest, whole)
        if apart >= bar:
            return True
    return False
