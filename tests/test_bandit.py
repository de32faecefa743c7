"""Bandit against a plain model, step by step; its state, its ties, its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hellinger import Bandit, families, policies, policy
from hellinger.testing._suite import refused

NAMES = st.one_of(st.integers(-3, 12), st.sampled_from(["a", "b", "ü", "7"]))


class BanditMachine(RuleBasedStateMachine):
    """A dictionary of [sum, pulls] does what the bandit does."""

    @initialize(
        spec=st.sampled_from(["hellinger-ucb", "kl-ucb", "thompson", "cold-start"]),
        seed=st.integers(0, 9),
        ties=st.booleans(),
    )
    def start(self, spec: str, seed: int, ties: bool) -> None:
        self.bandit = Bandit(spec, arms=3, seed=seed, ties="first" if ties else "random")
        self.model: dict[int | str, list[float]] = {0: [0.0, 0.0], 1: [0.0, 0.0], 2: [0.0, 0.0]}
        self.rounds = 0

    @rule(names=st.lists(NAMES, max_size=3))
    def add(self, names: list[int | str]) -> None:
        if len(set(names)) < len(names) or self.model.keys() & set(names):
            with pytest.raises(ValueError, match="differ"):
                self.bandit.add(names)
        else:
            self.bandit.add(names)
            self.model |= {name: [0.0, 0.0] for name in names}

    @rule(names=st.lists(NAMES, max_size=2))
    def remove(self, names: list[int | str]) -> None:
        if set(names) - self.model.keys():
            with pytest.raises(ValueError, match="one of those present"):
                self.bandit.remove(names)
        else:
            self.bandit.remove(names)
            for name in set(names):
                del self.model[name]

    @rule(data=st.data())
    def update_many(self, data: st.DataObject) -> None:
        names = data.draw(
            st.lists(NAMES if not self.model else st.one_of(st.sampled_from(list(self.model)), NAMES), max_size=4)
        )
        rewards = data.draw(
            st.lists(st.sampled_from([0.0, 1.0, 0.5, 2.0, float("nan")]), min_size=len(names), max_size=len(names))
        )
        if set(names) - self.model.keys() or not all(0 <= reward <= 1 for reward in rewards):
            with pytest.raises(ValueError, match=r"must hold|must be"):
                self.bandit.update_many(names, rewards)
            return
        self.bandit.update_many(names, rewards)
        for name, reward in zip(names, rewards, strict=True):
            self.model[name][0] += reward
            self.model[name][1] += 1
        self.rounds += len(names)

    @precondition(lambda self: self.model)
    @rule()
    def select_and_update(self) -> None:
        arm = self.bandit.select()
        assert arm in self.model
        if not self.bandit.policy.random:
            index = dict(zip(self.bandit.arms, self.bandit.index(), strict=True))
            tied = [name for name, value in index.items() if value == max(index.values())]
            assert arm in (tied[:1] if self.bandit.ties == "first" else tied)
        self.bandit.update(arm, 1)
        self.model[arm][0] += 1
        self.model[arm][1] += 1
        self.rounds += 1

    @rule(k=st.integers(1, 5))
    def rank(self, k: int) -> None:
        ranked = self.bandit.rank(k)
        assert len(ranked) == len(set(ranked)) == min(k, len(self.model))
        if not self.bandit.policy.random and ranked:
            index = dict(zip(self.bandit.arms, self.bandit.index(), strict=True))
            values = [index[arm] for arm in ranked]
            assert values == sorted(index.values(), reverse=True)[:k]

    @rule()
    def through_json(self) -> None:
        again = Bandit.from_state(json.loads(json.dumps(self.bandit.state())))
        assert again.state() == self.bandit.state()
        if self.model:
            assert [again.select() for _ in range(3)] == [self.bandit.select() for _ in range(3)]
        self.bandit = again

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "model"):
            assert self.bandit.arms == list(self.model)
            assert len(self.bandit) == len(self.model)
            assert self.bandit.sums.tolist() == [s for s, _ in self.model.values()]
            assert self.bandit.pulls.tolist() == [n for _, n in self.model.values()]
            assert self.bandit.rounds == self.rounds


TestBandit = BanditMachine.TestCase
TestBandit.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_random_ties_are_uniform() -> None:
    bandit = Bandit("kl-ucb", arms=4, seed=5)
    first = np.bincount([int(bandit.select()) for _ in range(4000)], minlength=4)
    assert (np.abs(first - 1000) < 6 * np.sqrt(4000 * 0.25 * 0.75)).all()
    second = np.bincount([int(bandit.rank(4)[1]) for _ in range(4000)], minlength=4)
    assert (np.abs(second - 1000) < 6 * np.sqrt(4000 * 0.25 * 0.75)).all()


def test_first_ties_go_to_the_arm_added_first() -> None:
    bandit = Bandit("kl-ucb", arms=["z", "a", "m"], ties="first")
    assert bandit.select() == "z"
    assert bandit.rank(3) == ["z", "a", "m"]


@pytest.mark.parametrize("name", policies.available())
def test_a_seed_and_a_state_reproduce_every_choice(name: str) -> None:
    def play(bandit: Bandit, rounds: int) -> list[int | str]:
        chosen = []
        for _ in range(rounds):
            chosen.append(bandit.select())
            bandit.update(chosen[-1], float(int(chosen[-1]) % 2))
        return chosen

    def make() -> Bandit:
        return Bandit(name, arms=5, seed=8, horizon=100)

    first, second = make(), make()
    early = play(first, 20)
    assert play(second, 20) == early
    again = Bandit.from_state(json.loads(json.dumps(first.state())))
    assert play(again, 20) == play(first, 20)


def test_a_family_without_a_spec_is_given_again() -> None:
    family = families.ExponentialFamily(lambda t: np.exp(t), mean_bounds=(0, np.inf))
    bandit = Bandit(policy("hellinger-ucb", family=family), arms=2)
    with pytest.raises(ValueError, match="no spec"):
        bandit.state()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Bandit("kl-ucb", arms=-1), ["0 <= arms", "-1"]),
        (lambda: Bandit("kl-ucb", arms=cast(int, 2.5)), ["whole number or names", "2.5"]),
        (lambda: Bandit("kl-ucb", arms=["a", "a"]), ["differ", "a"]),
        (lambda: Bandit("kl-ucb", arms=[cast(int, 1.5)]), ["whole number or a string", "1.5"]),
        (lambda: Bandit("kl-ucb", arms=0).select(), ["an arm to choose"]),
        (lambda: Bandit("kl-ucb").rank(0), ["1 <= k", "0"]),
        (lambda: Bandit("kl-ucb", ties=cast(Any, "last")), ["'random' or 'first'", "last"]),
        (lambda: Bandit("moss"), ["needs the horizon"]),
        (lambda: Bandit("kl-ucb").update(99, 1.0), ["one of those present", "99"]),
        (lambda: Bandit("kl-ucb").update(0, 1.5), ["0 <= reward <= 1", "1.5"]),
        (lambda: Bandit("kl-ucb").update_many([0, 1], [1.0]), ["one reward for each arm"]),
        (lambda: Bandit.from_state({}), ["format"]),
        (
            lambda: Bandit.from_state(Bandit("kl-ucb", model="linear").state() | {"format": 3}),
            ["format == 4", "format=3"],
        ),
        (lambda: Bandit.from_state(Bandit("kl-ucb").state() | {"format": 1}), ["format == 4", "format=1"]),
        (lambda: Bandit.from_state(Bandit("cold-start").state() | {"prior": None}), ["what Prior.state() gave"]),
        (lambda: Bandit.from_state(Bandit("cold-start").state() | {"prior": {"a": 2}}), ["what Prior.state() gave"]),
        (lambda: Bandit.from_state(Bandit("kl-ucb").state() | {"pulls": [-1.0] * 10}), ["0 <= pulls", "-1.0"]),
        (lambda: Bandit.from_state(Bandit("kl-ucb").state() | {"sums": [0.0]}), ["one sum and one count"]),
        (lambda: Bandit.from_state(Bandit("kl-ucb").state(), model="logistic"), ["state that has one", "logistic"]),
        (lambda: Bandit("kl-ucb", 1, model="logistic", features=cast(Any, [{"a": 1}])), ["dict from arms", "'a': 1"]),
    ],
)
def test_errors(call: Callable[[], Any], words: list[str]) -> None:
    refused(call, *words)


def test_an_older_state_without_a_model_is_read() -> None:
    bandit = Bandit("kl-ucb", arms=["a", "b"], seed=1)
    bandit.update("a", 1.0)
    assert Bandit.from_state(bandit.state() | {"format": 3}).state() == bandit.state()
