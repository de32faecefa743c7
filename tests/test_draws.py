"""Policies that draw: their choices follow the law they are named for."""

from __future__ import annotations

import numpy as np
import pytest

import hellinger
from hellinger import HellingerWarning, policy

SUMS, PULLS = np.array([3.0, 1.0, 8.0]), np.array([10.0, 2.0, 40.0])
ROUNDS = 20_000


def shares(spec: str) -> np.ndarray:
    """How often each arm has the largest index, over many draws."""
    rng = np.random.default_rng(5)
    chosen = policy(spec)
    best = [int(np.argmax(chosen.index(SUMS, PULLS, t=53, rng=rng))) for _ in range(ROUNDS)]
    return np.bincount(best, minlength=3) / ROUNDS


def test_thompson_plays_each_arm_with_the_probability_that_it_is_best() -> None:
    rng = np.random.default_rng(11)
    posterior = rng.beta(1.0 + SUMS, 1.0 + PULLS - SUMS, (400_000, 3))
    expected = np.bincount(posterior.argmax(axis=1), minlength=3) / len(posterior)
    np.testing.assert_allclose(shares("thompson"), expected, atol=0.015)


def test_epsilon_greedy_explores_with_probability_epsilon() -> None:
    explored = 0.4 / 3.0
    np.testing.assert_allclose(shares("epsilon-greedy(epsilon=0.4)"), [explored, 0.6 + explored, explored], atol=0.015)


def test_epsilon_greedy_decays_as_arms_over_time() -> None:
    explored = 5.0 * 3.0 / 53.0 / 3.0
    greedy = 1.0 - 2.0 * explored
    np.testing.assert_allclose(shares("epsilon-greedy(decay=5)"), [explored, greedy, explored], atol=0.015)


def test_uniform_plays_all_alike() -> None:
    np.testing.assert_allclose(shares("uniform"), 1.0 / 3.0, atol=0.015)


@pytest.mark.parametrize("name", ["hellinger-ucb", "hellinger-ucb+", "hellinger-ucb++"])
def test_a_small_c_warns_and_says_why(name: str) -> None:
    with pytest.warns(HellingerWarning, match=r"c=0.2 is outside \(1/4, 1/2\].*Lai–Robbins"):
        policy(name, c=0.2)


def test_a_bandit_of_a_custom_family_comes_back_with_its_family() -> None:
    coin = hellinger.families.ExponentialFamily(lambda t: np.log1p(np.exp(t)), mean_bounds=(0, 1))
    bandit = hellinger.Bandit(policy("kl-ucb", family=coin), arms=3, seed=1, ties="first")
    with pytest.raises(ValueError, match="has no spec"):
        bandit.state()
    plain = hellinger.Bandit("kl-ucb", arms=3, seed=1, ties="first")
    for arm, reward in ((0, 1), (1, 0), (2, 1), (0, 0)):
        plain.update(arm, reward)
    again = hellinger.Bandit.from_state(plain.state(), family=coin)
    assert again.policy.family is coin
    np.testing.assert_allclose(again.index(), plain.index(), rtol=1e-12)
    assert again.select() == plain.select()
