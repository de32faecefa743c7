"""The players, the bandit and exact enumeration agree on every choice."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hellinger import Bandit, families, policies
from hellinger.lab import Result, simulate
from rewards import rewards_of

HERE = Path(__file__).parent
RISING = [name for name in policies.available() if policies.policy(name).at_horizon(100).rule.rising]
COMPILED = ["bayes-ucb", "hellinger-ucb", "kl-ucb", "kl-ucb++"]
"""The rest of the rising ones are played without the compiler."""


def same(a: Result, b: Result) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("regret", "pulls", "reward"))


def test_every_policy_plays_every_family_the_same_by_each_player() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(HERE / "uncompiled.py")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, last = done.stdout.splitlines()
    assert wrong == []
    assert int(last.split()[0]) >= len(families.available()) * len(RISING)


@pytest.mark.parametrize("policy", COMPILED)
@pytest.mark.parametrize("arms", [2, 10, 100, 1000])
def test_quick_players_are_scan_on_coins(policy: str, arms: int) -> None:
    means = np.random.default_rng(arms).beta(1.0, 3.0, arms)
    for init, horizon, ties in ((1, arms + 1000, "random"), (0, arms + 300, "first")):
        scan, *others = (
            simulate(policy, means=means, horizon=horizon, runs=2, seed=arms, init=init, ties=ties, player=player)
            for player in ("scan", "leader", "lazy")
        )
        assert all(same(scan, other) for other in others)


# Arms that never fail keep an index of exactly 1: every choice among them is a tie.
@pytest.mark.parametrize("policy", COMPILED)
@pytest.mark.parametrize("ties", ["random", "first"])
def test_quick_players_are_scan_where_indices_are_saturated(policy: str, ties: str) -> None:
    means = np.repeat([1.0, 0.999, 0.0], [20, 30, 5])
    for init in (0, 1, 3):
        scan, *others = (
            simulate(policy, means=means, horizon=400, runs=3, seed=1, init=init, ties=ties, player=player)
            for player in ("scan", "leader", "lazy")
        )
        assert all(same(scan, other) for other in others)


@pytest.mark.parametrize(
    ("policy", "family", "means", "players"),
    [
        ("kl-ucb", "poisson", np.geomspace(0.01, 3.0, 64), ("scan", "leader", "lazy", "pages")),
        ("hellinger-ucb", "gamma(shape=0.5)", np.linspace(0.5, 2.0, 64), ("scan", "leader", "lazy")),
    ],
)
def test_each_player_makes_the_same_choices_on_other_rewards(
    policy: str, family: str, means: np.ndarray[tuple[int], np.dtype[np.float64]], players: tuple[str, ...]
) -> None:
    for init in (1, 3):
        scan, *others = (
            simulate(policy, means=means, family=family, horizon=1500, runs=2, init=init, player=player)
            for player in players
        )
        assert all(same(scan, other) for other in others)


def test_the_fastest_player_is_chosen_without_a_change() -> None:
    means = np.linspace(0.1, 0.9, 60)
    assert same(
        simulate("hellinger-ucb", means=means, horizon=500, runs=2),
        simulate("hellinger-ucb", means=means, horizon=500, runs=2, player="scan"),
    )


# The bandit driven by hand ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "family", "means"),
    [
        ("hellinger-ucb", "bernoulli", [0.3, 0.6, 0.5]),
        ("kl-ucb", "bernoulli", [1.0, 1.0, 0.2]),
        ("imed", "bernoulli", [0.3, 0.6, 0.5]),
        ("cold-start", "bernoulli", [0.3, 0.6, 0.5]),
        ("kl-ucb", "poisson", [0.5, 2.0]),
        ("hellinger-ucb(window=20)", "bernoulli", [0.3, 0.6, 0.5]),
        ("kl-ucb(discount=0.9)", "poisson", [0.5, 2.0]),
        ("hellinger-ucb(detect=0.3)", "bernoulli", [0.3, 0.6, 0.5]),
        ("empirical-imed", "bernoulli", [0.3, 0.6, 0.5]),
    ],
)
@pytest.mark.parametrize("init", [0, 1, 3])
def test_simulator_chooses_as_the_bandit_does(policy: str, family: str, means: list[float], init: int) -> None:
    horizon = 120
    result = simulate(
        policy, means=means, family=family, horizon=horizon, runs=1, seed=5, init=init, ties="first", checkpoints=20_000
    )
    assert result.checkpoints.tolist() == list(range(1, horizon + 1))
    reward, _ = rewards_of(family, means, seed=5)
    bandit = Bandit(policy, arms=len(means), family=family, ties="first", horizon=horizon)
    total = 0.0
    for step in range(horizon):
        arm = step // init if step < init * len(means) else int(bandit.select())
        got = reward(arm, int(bandit.pulls[arm]))
        total += got
        bandit.update(arm, got)
        assert bandit.pulls.tolist() == result.pulls[0, step].tolist(), f"round {step + 1}"
    assert result.reward[0, 0] == total


# Exact expected regret by enumeration ----------------------------------------------------------------


def exact_regret(policy: str, means: list[float], horizon: int) -> float:
    """Expected regret of a deterministic policy on two coins, ties to the first, over all counts."""
    rule = policies.policy(policy)

    @functools.cache
    def to_come(n: tuple[int, int], s: tuple[int, int]) -> float:
        step = sum(n) + 1
        if step > horizon:
            return 0.0
        arm = step - 1 if step <= 2 else int(np.argmax(rule.index(s, n, t=step)))
        pulls = tuple(x + (i == arm) for i, x in enumerate(n))
        won = tuple(x + (i == arm) for i, x in enumerate(s))
        ahead = means[arm] * to_come(pulls, won) + (1 - means[arm]) * to_come(pulls, s)
        return max(means) - means[arm] + ahead

    return to_come((0, 0), (0, 0))


@pytest.mark.parametrize("policy", ["kl-ucb", "hellinger-ucb", "imed"])
def test_mean_regret_is_the_exact_expectation(policy: str) -> None:
    exact = exact_regret(policy, [0.7, 0.4], 20)
    result = simulate(policy, means=[0.7, 0.4], horizon=20, runs=40_000, seed=3, ties="first")
    row = result.summary()[0]
    assert abs(row["mean_regret"] - exact) < 4 * row["sem"]
    assert row["sem"] < 0.01


def test_enumeration_agrees_with_a_published_value() -> None:
    # KL-UCB on (0.7, 0.4), 20 rounds
    assert exact_regret("kl-ucb", [0.7, 0.4], 20) == pytest.approx(1.468244, abs=5e-7)
