"""Which arms are the best: ask which to try, tell what came of it, until the answer is sure enough."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger.bandit import Arm, checked_rewards, listed_arms, numbered, positions_of
from hellinger.errors import InputError, require
from hellinger.identification import rates
from hellinger.identification.race import Race, decide, schedule, survey
from hellinger.policies import balls

__all__ = ["Identification", "make_race"]

Floats = npt.NDArray[np.float64]
_FORMAT = 1


def make_race(
    family: families.Family, *, arms: int, best: int, delta: float, ball: str | balls.Ball, rate: str | None
) -> Race:
    """Check and put together what decides a race with fixed confidence."""
    require(0 < delta < 1, "0 < delta < 1", delta=delta)
    chosen = balls.get(ball, variance=_widest_variance(family)) if ball == "gaussian" else balls.get(ball)
    require(chosen.within_kl > 0, "the ball holds a KL ball: kl, hellinger or gaussian", ball=ball)
    scaled = rates.get(rate, family=family, scale=chosen.within_kl, arms=arms, delta=delta)
    return Race(family, chosen, scaled, best)


def _widest_variance(family: families.Family) -> float:
    """A variance σ² with KL(p ‖ q) ≥ (q − p)²/2σ² throughout the family."""
    if isinstance(family, families.Gaussian):
        return family.sigma**2
    low, high = family.mean_bounds
    require(high - low < math.inf, "ball gaussian goes with bounded or Gaussian rewards", family=family)
    return 0.25 * (high - low) ** 2


class _View(NamedTuple):
    """What the counts say: bounds in the order of the arms, and the two arms in doubt."""

    lower: Floats
    upper: Floats
    weakest: int
    strongest: int


class Identification:
    """The best m of K arms with confidence 1 − δ, or as well as a budget allows; for one thread at a time.

    With fixed confidence it is LUCB: each round tries the leader with the smallest lower bound and the other arm with
    the largest upper bound, and it is done when the two no longer overlap (by more than ``epsilon``). With a fixed
    budget it is successive accepts and rejects.

    Parameters
    ----------
    arms
        How many, named 0, 1, …; or their names (whole numbers or strings).
    best
        How many of them are wanted.
    delta
        Probability with which the answer may be wrong; 0.05 if neither it nor a budget is given.
    budget
        Instead of ``delta``: how many rewards there will be at most; one more is refused.
    epsilon
        An arm is good enough if its mean is at most so much below the ``best``-th.
    ball
        The shape of confidence intervals: ``"kl"`` (KL-LUCB; the default), ``"hellinger"`` with half the level, or
        ``"gaussian"`` (LUCB).
    rate
        Their width: ``"beta"`` and ``"mixture"`` hold at any time, for however long; ``"kl-lucb"`` and ``"lucb1"`` are
        as published, for plays as asked. Without one, ``"beta"`` for Bernoulli rewards and ``"mixture"`` for others.
    family
        What rewards are.
    seed
        Makes ties reproducible.

    Examples
    --------
    >>> finder = Identification(["a", "b", "c", "d"], best=2, delta=0.05, seed=1)
    >>> clicks = {"a": 0.1, "b": 0.5, "c": 0.2, "d": 0.6}
    >>> rng = np.random.default_rng(1)
    >>> while not finder.done:
    ...     for arm in finder.ask():
    ...         finder.tell(arm, rng.random() < clicks[arm])
    >>> sorted(finder.best)
    ['b', 'd']
    """

    def __init__(
        self,
        arms: int | Iterable[Arm],
        *,
        best: int = 1,
        delta: float | None = None,
        budget: int | None = None,
        epsilon: float = 0.0,
        ball: str | balls.Ball | None = None,
        rate: str | None = None,
        family: str | families.Family = "bernoulli",
        seed: int | None = None,
    ) -> None:
        self.family = families.get(family)
        self._arms = listed_arms(numbered(arms))
        self._position = {arm: i for i, arm in enumerate(self._arms)}
        count = len(self._arms)
        require(len(self._position) == count, "arms differ from each other", arms=self._arms)
        require(1 <= best < count and best % 1 == 0, "1 <= best < arms, a whole number", best=best, arms=count)
        require(0 <= epsilon < math.inf, "0 <= epsilon", epsilon=epsilon)
        require(seed is None or seed >= 0, "0 <= seed", seed=seed)
        self.wanted, self.epsilon = int(best), float(epsilon)
        self.budget: int | None = None
        """How many arms are wanted, how much below them is good enough, and the rewards there will be at most."""
        self.delta: float | None = None
        self._race: Race | None = None
        if budget is None:
            self.delta = 0.05 if delta is None else float(delta)
            self._race = make_race(
                self.family, arms=count, best=self.wanted, delta=self.delta, ball=ball or "kl", rate=rate
            )
        else:
            alone = delta is None and ball is None and rate is None
            require(alone, "delta, ball and rate go without a budget", delta=delta, ball=ball, rate=rate)
            require(epsilon == 0, "epsilon goes without a budget", epsilon=epsilon)
            require(budget > count and budget % 1 == 0, "arms < budget, a whole number", budget=budget)
            self.budget = int(budget)
            self._phases = schedule(count, int(budget)).tolist()
        # ties go by an order that is drawn once: what is asked is a function of the counts
        self._ties = np.random.default_rng(seed).permutation(count)
        self._sums, self._pulls = np.zeros(count), np.zeros(count)
        self._decided: dict[int, bool] = {}  # by position, in the order of decisions; with a budget alone
        self._view: _View | None = None

    def __repr__(self) -> str:
        how = f"delta={self.delta:g}" if self.budget is None else f"budget={self.budget:,}"
        state = ", done" if self.done else ""
        return f"Identification({self.wanted} of {len(self):,} arms, {how}, {self.samples:,} samples{state})"

    def __len__(self) -> int:
        return len(self._arms)

    @property
    def arms(self) -> list[Arm]:
        """Names, in the order given."""
        return list(self._arms)

    @property
    def sums(self) -> Floats:
        """Reward sum of each arm."""
        return self._sums.copy()

    @property
    def pulls(self) -> Floats:
        """Rewards of each arm."""
        return self._pulls.copy()

    @property
    def samples(self) -> int:
        """Rewards of all arms."""
        return int(self._pulls.sum())

    # Asking and telling -------------------------------------------------------------------------------

    def ask(self) -> list[Arm]:
        """Return the arms to try next, each once; none when it is done. Asked again, it answers the same."""
        if self.budget is not None:
            due = [] if self.done else self._due()
            return [self._arms[i] for i in due[: self.budget - self.samples]]
        unplayed = np.flatnonzero(self._pulls == 0.0)
        if unplayed.size:
            return [self._arms[i] for i in unplayed]
        if self.done:
            return []
        view = self._look()
        return [self._arms[view.weakest], self._arms[view.strongest]]

    def tell(self, arm: Arm, reward: float) -> None:
        """Record a reward of an arm, asked for or not."""
        self.tell_many([arm], [reward])

    def tell_many(self, arms: Sequence[Arm], rewards: npt.ArrayLike) -> None:
        """Record one reward for each entry, in any order; all or none."""
        checked = checked_rewards(self.family, rewards, len(arms))
        positions = positions_of(self._position, arms)
        told, most = self.samples + len(arms), math.inf if self.budget is None else self.budget
        require(told <= most, "at most as many rewards as the budget", budget=self.budget, rewards=told)
        self._view = None
        if self.budget is None:
            np.add.at(self._sums, positions, checked)
            np.add.at(self._pulls, positions, 1.0)
            return
        for position, reward in zip(positions, checked.tolist(), strict=True):  # a phase may end between two
            self._sums[position] += reward
            self._pulls[position] += 1.0
            self._decide()

    @property
    def done(self) -> bool:
        """Whether the best are found: with probability 1 − δ, or because the budget is spent or its last phase over."""
        if self.budget is not None:
            return self.samples >= self.budget or not self._open()
        if not self._pulls.all():
            return False
        view = self._look()
        return bool(view.upper[view.strongest] - view.lower[view.weakest] <= self.epsilon)

    @property
    def best(self) -> list[Arm]:
        """The best arms as far as is known, the largest mean first; the answer once it is done."""
        accepted = [i for i, taken in self._decided.items() if taken]
        others = self._by_mean(self._open())[: self.wanted - len(accepted)]
        return [self._arms[i] for i in self._by_mean(accepted + others)]

    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper confidence bounds of every arm, in their order.

        Under the rates ``beta`` and ``mixture`` all means are within theirs at all times, with probability 1 − δ.
        """
        require(self.budget is None, "bounds come with fixed confidence, not with a budget", budget=self.budget)
        view = self._look()
        return view.lower.copy(), view.upper.copy()

    # Fixed confidence ---------------------------------------------------------------------------------

    def _look(self) -> _View:
        """What the counts say, computed once for the same counts."""
        if self._view is None:
            assert self._race is not None
            order, count = self._ties, len(self)
            sorted_lower, sorted_upper, lower, upper = np.empty((4, count))
            t = 1.0 + max(0.0, 0.5 * (self._pulls.sum() - count))  # a round is two plays, after one of each arm
            found = survey(self._race, self._sums[order], self._pulls[order], t, sorted_lower, sorted_upper)
            lower[order], upper[order] = sorted_lower, sorted_upper
            self._view = _View(lower, upper, *(int(order[place]) for place in found))
        return self._view

    def _by_mean(self, arms: list[int]) -> list[int]:
        positions = np.array(arms, np.intp)
        with np.errstate(invalid="ignore"):
            means = np.where(self._pulls > 0.0, self._sums / self._pulls, -math.inf)
        rank = np.argsort(self._ties)
        return [int(i) for i in positions[np.lexsort((rank[positions], -means[positions]))]]

    # Fixed budget -------------------------------------------------------------------------------------

    def _open(self) -> list[int]:
        """Arms that are neither accepted nor rejected, in the order of ties."""
        return [int(i) for i in self._ties if int(i) not in self._decided]

    def _due(self) -> list[int]:
        """Arms that lack rewards of the current phase, in their order."""
        race = self._open()
        if not race:
            return []
        least = self._phases[len(self._decided)]
        return sorted(i for i in race if self._pulls[i] < least)

    def _decide(self) -> None:
        """Accept or reject an arm at the end of each phase; all that are left once only one answer is possible."""
        while not self._due():
            race = self._open()
            left = self.wanted - sum(self._decided.values())
            if 0 < left < len(race):
                place, accepted = decide(self._sums[race] / self._pulls[race], left)
                self._decided[race[place]] = bool(accepted)
                left -= int(accepted)
                race = self._open()
            if left in (0, len(race)):
                self._decided |= dict.fromkeys(race, left > 0)
                return

    # State --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it exactly; :meth:`from_state` goes on from there."""
        race = self._race
        return {
            "format": _FORMAT,
            "arms": list(self._arms),
            "best": self.wanted,
            "delta": self.delta,
            "budget": self.budget,
            "epsilon": self.epsilon,
            "ball": None if race is None else race.ball.name,
            "rate": None if race is None else race.rate.name,
            "family": self.family.spec,
            "ties": self._ties.tolist(),
            "sums": self._sums.tolist(),
            "pulls": self._pulls.tolist(),
            "decided": [[i, taken] for i, taken in self._decided.items()],
        }

    def save(self, path: str | Path) -> None:
        """Write :meth:`state` to a file; then :meth:`load` goes on from there."""
        Path(path).write_text(json.dumps(self.state()), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path, *, family: families.Family | None = None) -> Self:
        """Return the identification that was saved; ``family`` is needed where its own has no spec."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"the file must be what Identification.save() wrote, but {path}: {error}") from None
        return cls.from_state(state, family=family)

    @classmethod
    def from_state(cls, state: dict[str, Any], *, family: families.Family | None = None) -> Self:
        """Return the identification that gave this state; ``family`` is needed where its own has no spec."""
        try:
            require(state["format"] == _FORMAT, f"format == {_FORMAT}", format=state["format"])
            keys = ("best", "delta", "budget", "epsilon", "rate")
            given = {key: state[key] for key in keys}
            made = cls(state["arms"], ball=state["ball"], family=family or state["family"], **given)
            count = len(made)
            sums, pulls = np.array(state["sums"], np.float64), np.array(state["pulls"], np.float64)
            require(sums.shape == pulls.shape == (count,), "one sum and one count for each arm")
            require(bool((pulls >= 0).all()), "0 <= pulls", pulls=pulls.tolist())
            made.family._check_mean(sums[pulls > 0] / pulls[pulls > 0], "mean")
            made._sums, made._pulls = sums, pulls
            made._ties = np.array(state["ties"], np.intp)
            require(sorted(state["ties"]) == list(range(count)), "ties are an order of the arms", ties=state["ties"])
            made._decided = {int(i): bool(taken) for i, taken in state["decided"]}
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"a state must be what Identification.state() gave, but got {error!r}") from None
        return made
