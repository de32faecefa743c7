"""A bandit to drive by hand: choose, play, tell it what came of it."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from hellinger import families, models, policies
from hellinger.errors import InputError, UnknownIdError, require
from hellinger.models import Features, Model, ModelLike, Regression
from hellinger.policies import Prior, fit_prior, next_fit

__all__ = ["Arm", "Bandit", "checked_rewards", "listed_arms", "numbered", "positions_of"]

Arm = int | str
_FORMAT = 4
_PLAIN = 3
"""An older format, which is read where there is no model."""


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
    model
        A model of rewards by features of arms and of who is asking, or its spec: ``"logistic"``; see
        :mod:`hellinger.models`.
    features
        What a model knows of the arms, by their names.

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

    With a model, who is asking decides too:

    >>> bandit = Bandit("cold-start", arms=["news", "sport"], model="logistic(per_item=true)", seed=0)
    >>> for step in range(300):
    ...     reader = {"likes": ("news", "sport")[step % 2]}
    ...     arm = bandit.select(context=reader)
    ...     bandit.update(arm, arm == reader["likes"], context=reader)
    >>> bandit.select(context={"likes": "news"}), bandit.select(context={"likes": "sport"})
    ('news', 'sport')
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
        model: ModelLike | None = None,
        features: Mapping[Any, Features] | None = None,
    ) -> None:
        self.policy = policies.policy(policy, family=family).ready(horizon)
        alone = model is None or not self.policy.remembers
        require(alone, "a model goes with a policy that scores counts", policy=self.policy.spec, model=model)
        require(ties in ("random", "first"), "ties is 'random' or 'first'", ties=ties)
        self.ties: Literal["random", "first"] = ties
        self.rounds = 0
        """Plays so far, those of removed arms included; the next is round ``rounds + 1``."""
        self.prior: Prior | None = Prior() if self.policy.rule.learns_prior else None
        """What the policy has learned from all arms, where it learns a prior; fitted again by :func:`next_fit`."""
        self._plays_since = 0
        self._fitted = 0
        """Rounds after which the model's prior was fitted."""
        self._rng = np.random.default_rng(seed)
        self._arms: list[Arm] = []
        self._position: dict[Arm, int] = {}
        self._sums = np.empty(0)
        self._pulls = np.empty(0)
        self._posterior = None if model is None else Regression(models.get(model))
        self._places: dict[Arm, int] = {}
        """Where the posterior has each arm."""
        self.add(numbered(arms), features=features)

    @property
    def model(self) -> Model | None:
        """The model of rewards; None where counts alone decide."""
        return None if self._posterior is None else self._posterior.model

    def __repr__(self) -> str:
        model = "" if self.model is None else f"model={self.model.spec!r}, "
        return f"Bandit({self.policy.spec!r}, {model}{len(self):,} arms, {self.rounds:,} rounds)"

    # Arms ---------------------------------------------------------------------------------------------

    def add(self, arms: Arm | Iterable[Arm], *, features: Mapping[Any, Features] | None = None) -> None:
        """Add one arm or several, never played, with what a model knows of them; all or none."""
        new = listed_arms(arms)
        self._check(features=features)
        mapped = features is None or isinstance(features, Mapping)
        require(mapped, "features are a dict from arms to their features", features=features)
        unknown = set(features or ()) - set(new)
        require(not unknown, "features are of arms that are added", unknown=sorted(map(str, unknown)))
        for known in (features or {}).values():
            models.check_features(known)
        self._check_staying()
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
        self.policy = self.policy.begin(len(self._arms))
        if self._posterior is not None:
            used = set(self._places.values())
            free = (place for place in itertools.count() if place not in used)
            for arm, place in zip(new, free, strict=False):
                self._places[arm] = place
                self._posterior.put(place, (features or {}).get(arm))

    def remove(self, arms: Arm | Iterable[Arm]) -> None:
        """Remove one arm or several, with what they have returned; all or none."""
        gone = set(listed_arms(arms))
        self._positions(gone)
        self._check_staying()
        keep = np.array([arm not in gone for arm in self._arms], dtype=bool)
        self._arms = [arm for arm in self._arms if arm not in gone]
        self._position = {arm: i for i, arm in enumerate(self._arms)}
        self._sums, self._pulls = self._sums[keep], self._pulls[keep]
        self._places = {arm: place for arm, place in self._places.items() if arm not in gone}
        self.policy = self.policy.begin(len(self._arms))

    def _check_staying(self) -> None:
        """Refuse other arms where the policy has begun to remember what these returned."""
        fixed = self.policy.remembers and self.rounds > 0
        require(not fixed, f"the arms of {self.policy.name} stay once one was played", rounds=self.rounds)

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

    def index(self, *, context: Features | None = None) -> npt.NDArray[np.float64]:
        """Index of each arm for the next round; drawn anew at each call where the policy draws."""
        self._check(context=context)
        out = np.empty(len(self._arms))
        if self._posterior is not None:
            places = np.array([self._places[arm] for arm in self._arms], np.int64)
            if self.policy.rule.separable:
                prior = self.prior
                t = (self.rounds if prior is None else float(self._pulls.sum()) * prior.focus) + 1.0
                return self._posterior.index(self.policy, context, t, places)
            sums, pulls = self._posterior.counts(self.policy.family, context, places)
            self.policy.fill(sums, pulls, self.rounds + 1.0, self._rng, out)
            return out
        self.policy.fill(self._sums, self._pulls, self.rounds + 1.0, self._rng, out, prior=self.prior)
        return out

    def select(self, *, context: Features | None = None) -> Arm:
        """Return the arm to play next, for whoever is asking."""
        require(len(self._arms) > 0, "there is an arm to choose", arms=self._arms)
        index = self.index(context=context)
        if self.ties == "first":
            return self._arms[int(np.argmax(index))]
        best = np.flatnonzero(index == index.max())
        return self._arms[int(best[self._rng.integers(best.size)])]

    def rank(self, k: int, *, context: Features | None = None) -> list[Arm]:
        """Return the k arms with the largest index, best first; all of them if there are fewer."""
        require(isinstance(k, (int, np.integer)) and k >= 1, "k is a whole number and 1 <= k", k=k)
        index = self.index(context=context)
        tie = self._rng.random(index.size) if self.ties == "random" else np.arange(index.size)
        return [self._arms[i] for i in np.lexsort((tie, -index))[:k]]

    def update(self, arm: Arm, reward: float, *, context: Features | None = None) -> None:
        """Record one play, for whom, and its reward."""
        self.update_many([arm], [reward], contexts=None if context is None else [context])

    def update_many(
        self, arms: Sequence[Arm], rewards: npt.ArrayLike, *, contexts: Sequence[Features] | None = None
    ) -> None:
        """Record one play and reward for each entry, in any order, with a context for each; all or none."""
        self._check(contexts=contexts)
        if contexts is not None:
            require(len(contexts) == len(arms), "one context for each arm", arms=len(arms), contexts=len(contexts))
            for context in contexts:
                models.check_features(context)
        rewards = checked_rewards(self.policy.family, rewards, len(arms))
        positions = self._positions(arms)
        if self.policy.remembers:
            for j, position in enumerate(positions):
                self.policy.observe(position, float(rewards[j]), self.rounds + j + 1.0)
        np.add.at(self._sums, positions, rewards)
        np.add.at(self._pulls, positions, 1.0)
        if self._posterior is not None:
            for j, arm in enumerate(arms):
                z = self._posterior.learn_context(None if contexts is None else contexts[j])
                self._posterior.observe(self._places[arm], z, 1.0, float(rewards[j]))
        self.rounds += len(positions)
        self._learn(len(positions))

    def _learn(self, plays: int) -> None:
        """Fit the prior again where it is due, after so many plays more."""
        self._plays_since += plays
        if self._posterior is not None and self.rounds >= next_fit(self._fitted):
            self._posterior.learn_prior(self.policy.family)
            self._fitted = self.rounds
        if self.prior is not None and self.prior.plays + self._plays_since >= next_fit(self.prior.plays):
            self.prior = fit_prior(self._sums, self._pulls)
            self._plays_since = 0

    def _check(self, **given: object) -> None:
        for name, value in given.items():
            fits = value is None or self._posterior is not None
            require(fits, f"{name} goes with a bandit that has a model", **{name: value})

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
            "memory": {name: _packed(array) for name, array in self.policy.memory.items()},
            "model": None if self._posterior is None else self._learned(self._posterior),
            # as text: other languages' JSON readers would round these 128-bit numbers
            "rng": json.dumps(self._rng.bit_generator.state),
        }

    def _learned(self, posterior: Regression) -> dict[str, Any]:
        plain, arrays = posterior.state()
        return {
            "plain": plain,
            "arrays": {name: _packed(array) for name, array in arrays.items()},
            "places": [self._places[arm] for arm in self._arms],
            "fitted": self._fitted,
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
        model: ModelLike | None = None,
    ) -> Self:
        """Return the bandit that was saved; ``family``, ``policy``, ``model`` are needed where its own have no spec."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"a bandit's file must be what Bandit.save() wrote, but {path}: {error}") from None
        return cls.from_state(state, family=family, policy=policy, model=model)

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        *,
        family: families.Family | None = None,
        policy: policies.PolicyLike | None = None,
        model: ModelLike | None = None,
    ) -> Self:
        """Return the bandit that gave it; ``family``, ``policy``, ``model`` are needed where its own have no spec."""
        try:
            known = state["format"] == _FORMAT or (state["format"] == _PLAIN and state["model"] is None)
            require(known, f"format == {_FORMAT}", format=state["format"])
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
            for name, array in bandit.policy.memory.items():
                saved = _unpacked(state["memory"][name])
                fits = saved.shape == array.shape and saved.dtype == array.dtype
                require(fits, f"the policy remembers {array.shape} numbers", memory=name, shape=saved.shape)
                array[...] = saved
            learned = state["model"]
            require(model is None or learned is not None, "model goes with a state that has one", model=model)
            if learned is not None:
                made = models.get(learned["plain"]["model"] if model is None else model)
                arrays = {name: _unpacked(packed) for name, packed in learned["arrays"].items()}
                bandit._posterior = Regression.from_state(made, learned["plain"], arrays)
                bandit._places = dict(zip(bandit._arms, map(int, learned["places"]), strict=True))
                bandit._fitted = int(learned["fitted"])
            bandit._plays_since = int(state["plays_since"])
            require(bandit._plays_since >= 0, "0 <= plays_since", plays_since=bandit._plays_since)
            bandit._rng.bit_generator.state = json.loads(state["rng"])
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise InputError(f"a bandit's state must be what Bandit.state() gave, but got {error!r}") from None
        bandit.policy.check_counts(sums, pulls)
        bandit._sums, bandit._pulls = sums, pulls
        return bandit


def numbered(arms: int | Iterable[Arm]) -> Iterable[Arm]:
    """The names 0, 1, … where a number of arms is given; else the names given."""
    if isinstance(arms, Iterable):
        return arms
    whole = isinstance(arms, (int, np.integer)) and not isinstance(arms, bool)
    require(whole and arms >= 0, "0 <= arms, a whole number or names", arms=arms)
    return range(int(arms))


def listed_arms(arms: Arm | Iterable[Arm]) -> list[Arm]:
    """One arm's name or several, checked."""
    names: list[Any] = [arms] if isinstance(arms, (int, np.integer, str)) else list(arms)
    for name in names:
        if isinstance(name, bool) or not isinstance(name, (int, np.integer, str)):
            raise InputError(f"an arm's name must be a whole number or a string, but got {name!r}")
    return [name if isinstance(name, str) else int(name) for name in names]


def _packed(array: npt.NDArray[Any]) -> list[Any]:
    """An array as JSON can hold it exactly."""
    return [array.dtype.str, list(array.shape), base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()]


def _unpacked(packed: Sequence[Any]) -> npt.NDArray[Any]:
    kind, shape, text = packed
    return np.frombuffer(base64.b64decode(text), np.dtype(kind)).reshape(shape).copy()


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
        raise InputError(f"`{low:g} <= reward <= {high:g}` must hold for {family}, but got {float(found[wrong][0])!r}")
    return found
