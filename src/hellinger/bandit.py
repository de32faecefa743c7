"""A bandit to drive by hand: choose, play, tell it what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from hellinger import families, policies
from hellinger.errors import InputError, UnknownIdError, require
from hellinger.policies import Prior, fit_prior, next_fit

__all__ = ["Arm", "Bandit", "checked_rewards", "listed_arms", "numbered", "positions_of"]

Arm = int | str
_FORMAT = 2


class Bandit:
    """Arms, what they have returned, and a policy that chooses among them; for one thread at a time.

    Parameters
    ----------
    policy
        A policy, its spec, or what :func:`~hellinger.policy` makes one of: a rule or an index function of your own.
    arms
        How many, named 0, 1, …; or their names (whole numbers or strings).
    family
        What rewards are, where the policy is given by its spec; Bernoulli if not given.
    seed
        Makes every choice reproducible.
    ties
        Among equal indices choose ``"random"``, uniformly, or the ``"first"`` added.
    horizon
        Number of rounds to be played, for policies that need it.

    Examples
    --------
    >>> bandit = Bandit("hellinger-ucb", arms=["a", "b", "c"], seed=0)
    >>> clicks = {"a": 0.1, "b": 0.5, "c": 0.2}
    >>> rng = np.random.default_rng(1)
    >>> for _ in range(500):
    ...     arm = bandit.select()
    ...     bandit.update(arm, rng.random() < clicks[arm])
    >>> bandit.rank(3)[0], int(bandit.pulls.sum())
    ('b', 500)
    """

    def __init__(
        self,
        policy: policies.PolicyLike,
        arms: int | Iterable[Arm] = 10,
        *,
        family: str | families.Family | None = None,
        seed: int | None = None,
        ties: Literal["random", "first"] = "random",
        horizon: float | None = None,
    ) -> None:
        self.policy = policies.policy(policy, family=family).ready(horizon)
        require(ties in ("random", "first"), "ties is 'random' or 'first'", ties=ties)
        self.ties: Literal["random", "first"] = ties
        self.rounds = 0
        """Plays so far, those of removed arms included; the next is round ``rounds + 1``."""
        self.prior: Prior | None = Prior() if self.policy.rule.learns_prior else None
        """What the policy has learned from all arms, where it learns a prior; fitted again by :func:`next_fit`."""
        self._plays_since = 0
        self._rng = np.random.default_rng(seed)
        self._arms: list[Arm] = []
        self._position: dict[Arm, int] = {}
        self._sums = np.empty(0)
        self._pulls = np.empty(0)
        self.add(numbered(arms))

    def __repr__(self) -> str:
        return f"Bandit({self.policy.spec!r}, {len(self):,} arms, {self.rounds:,} rounds)"

    # Arms ---------------------------------------------------------------------------------------------

    def add(self, arms: Arm | Iterable[Arm]) -> None:
        """Add one arm or several, never played; all or none."""
        new = listed_arms(arms)
        taken = self._position.keys() & new
        require(
            not taken and len(set(new)) == len(new),
            "arms differ from each other and from those present",
            arms=new,
        )
        for arm in new:
            self._position[arm] = len(self._arms)
            self._arms.append(arm)
        self._sums = np.concatenate([self._sums, np.zeros(len(new))])
        self._pulls = np.concatenate([self._pulls, np.zeros(len(new))])

    def remove(self, arms: Arm | Iterable[Arm]) -> None:
        """Remove one arm or several, with what they have returned; all or none."""
        gone = set(listed_arms(arms))
        self._positions(gone)
        keep = np.array([arm not in gone for arm in self._arms], dtype=bool)
        self._arms = [arm for arm in self._arms if arm not in gone]
        self._position = {arm: i for i, arm in enumerate(self._arms)}
        self._sums, self._pulls = self._sums[keep], self._pulls[keep]

    @property
    def arms(self) -> list[Arm]:
        """Names, in the order added."""
        return list(self._arms)

    @property
    def sums(self) -> npt.NDArray[np.float64]:
        """Reward sum of each arm."""
        return self._sums.copy()

    @property
    def pulls(self) -> npt.NDArray[np.float64]:
        """Plays of each arm."""
        return self._pulls.copy()

    def __len__(self) -> int:
        return len(self._arms)

    # Choosing and learning ----------------------------------------------------------------------------

    def index(self) -> npt.NDArray[np.float64]:
        """Index of each arm for the next round; drawn anew at each call where the policy draws."""
        out = np.empty(len(self._arms))
        self.policy.fill(self._sums, self._pulls, self.rounds + 1.0, self._rng, out, prior=self.prior)
        return out

    def select(self) -> Arm:
        """Return the arm to play next."""
        require(len(self._arms) > 0, "there is an arm to choose", arms=self._arms)
        index = self.index()
        if self.ties == "first":
            return self._arms[int(np.argmax(index))]
        best = np.flatnonzero(index == index.max())
        return self._arms[int(best[self._rng.integers(best.size)])]

    def rank(self, k: int) -> list[Arm]:
        """Return the k arms with the largest index, best first; all of them if there are fewer."""
        require(isinstance(k, (int, np.integer)) and k >= 1, "k is a whole number and 1 <= k", k=k)
        index = self.index()
        tie = self._rng.random(index.size) if self.ties == "random" else np.arange(index.size)
        return [self._arms[i] for i in np.lexsort((tie, -index))[:k]]

    def update(self, arm: Arm, reward: float) -> None:
        """Record one play and its reward."""
        self.update_many([arm], [reward])

    def update_many(self, arms: Sequence[Arm], rewards: npt.ArrayLike) -> None:
        """Record one play and reward for each entry, in any order; all or none."""
        rewards = checked_rewards(self.policy.family, rewards, len(arms))
        positions = self._positions(arms)
        np.add.at(self._sums, positions, rewards)
        np.add.at(self._pulls, positions, 1.0)
        self.rounds += len(positions)
        self._learn(len(positions))

    def _learn(self, plays: int) -> None:
        """Fit the prior again where it is due, after so many plays more."""
        self._plays_since += plays
        if self.prior is not None and self.prior.plays + self._plays_since >= next_fit(self.prior.plays):
            self.prior = fit_prior(self._sums, self._pulls)
            self._plays_since = 0

    def _positions(self, arms: Iterable[Arm]) -> list[int]:
        return positions_of(self._position, arms)

    # State --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it exactly; :meth:`from_state` goes on from there, draw for draw."""
        return {
            "format": _FORMAT,
            "policy": self.policy.spec,
            "family": self.policy.family.spec,
            "ties": self.ties,
            "rounds": self.rounds,
            "arms": list(self._arms),
            "sums": self._sums.tolist(),
            "pulls": self._pulls.tolist(),
            "prior": None if self.prior is None else self.prior.state(),
            "plays_since": self._plays_since,
            # as text: other languages' JSON readers would round these 128-bit numbers
            "rng": json.dumps(self._rng.bit_generator.state),
        }

    def save(self, path: str | Path) -> None:
        """Write :meth:`state` to a file; then :meth:`load` goes on from there."""
        Path(path).write_text(json.dumps(self.state()), encoding="utf-8")

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        family: families.Family | None = None,
        policy: policies.PolicyLike | None = None,
    ) -> Self:
        """Return the bandit that was saved; ``family`` and ``policy`` are needed where its own have no spec."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"a bandit's file must be what Bandit.save() wrote, but {path}: {error}") from None
        return cls.from_state(state, family=family, policy=policy)

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        *,
        family: families.Family | None = None,
        policy: policies.PolicyLike | None = None,
    ) -> Self:
        """Return the bandit that gave this state; ``family`` and ``policy`` are needed where its own have no spec."""
        try:
            require(state["format"] == _FORMAT, f"format == {_FORMAT}", format=state["format"])
            given = state["policy"] if policy is None else policies.policy(policy, family=family)
            bandit = cls(given, state["arms"], family=family or state["family"], ties=state["ties"])
            same = bandit.policy.spec == state["policy"]
            require(same, "policy is the one of the state", policy=bandit.policy.spec, state=state["policy"])
            sums, pulls = np.array(state["sums"], np.float64), np.array(state["pulls"], np.float64)
            require(sums.shape == pulls.shape == (len(bandit),), "one sum and one count for each arm")
            bandit.rounds = int(state["rounds"])
            require(bandit.rounds >= 0, "0 <= rounds", rounds=bandit.rounds)
            require(bool(np.isfinite(sums).all() and np.isfinite(pulls).all()), "sums and counts are numbers")
            if bandit.prior is not None:
                bandit.prior = Prior.from_state(state["prior"])
            bandit._plays_since = int(state["plays_since"])
            require(bandit._plays_since >= 0, "0 <= plays_since", plays_since=bandit._plays_since)
            bandit._rng.bit_generator.state = json.loads(state["rng"])
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise InputError(f"a bandit's state must be what Bandit.state() gave, but got {error!r}") from None
        bandit.policy.index(sums, pulls, t=1.0, rng=np.random.default_rng(0))  # rejects impossible counts
        bandit._sums, bandit._pulls = sums, pulls
        return bandit


def numbered(arms: int | Iterable[Arm]) -> Iterable[Arm]:
    """The names 0, 1, … where a number of arms is given; else the names given."""
    if isinstance(arms, Iterable):
        return arms
    require(not isinstance(arms, bool) and arms >= 0, "0 <= arms, a whole number or names", arms=arms)
    return range(int(arms))


def listed_arms(arms: Arm | Iterable[Arm]) -> list[Arm]:
    """One arm's name or several, checked."""
    names: list[Any] = [arms] if isinstance(arms, (int, np.integer, str)) else list(arms)
    for name in names:
        if isinstance(name, bool) or not isinstance(name, (int, np.integer, str)):
            raise InputError(f"an arm's name must be a whole number or a string, but got {name!r}")
    return [name if isinstance(name, str) else int(name) for name in names]


def positions_of(known: dict[Arm, int], arms: Iterable[Arm]) -> list[int]:
    """Where these arms are."""
    try:
        return [known[arm] for arm in arms]
    except (KeyError, TypeError) as error:
        raise UnknownIdError(f"`arm` must be one of those present, but got {error.args[0]!r}") from None


def checked_rewards(family: families.Family, rewards: npt.ArrayLike, arms: int) -> npt.NDArray[np.float64]:
    """One reward for each of so many plays, each within what the family can give."""
    found = np.asarray(rewards, np.float64)
    require(found.shape == (arms,), "one reward for each arm", arms=arms, rewards=found.shape)
    low, high = family.mean_bounds
    wrong = ~((found >= low) & (found <= high) & np.isfinite(found))
    if wrong.any():
        raise InputError(f"`{low:g} <= reward <= {high:g}` must hold for {family}, but got {found[wrong][0]!r}")
    return found
