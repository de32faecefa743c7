"""Indices and choices equal those of the slow reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
from golden.make_regret import DRAWN, ORDERED
from hellinger import Bandit, Policy, families, policies, policy
from hellinger.policies import balls, levels
from hellinger.testing.policies import histories

HORIZON = 4000.0
FAMILIES = [list(family.cases())[-1] for family in families.available().values()]
NAMES = [name for name in policies.available() if name not in DRAWN + ORDERED]
ARGUMENTS: list[tuple[str, dict[str, object]]] = [
    ("hellinger-ucb", {"c": 0.5}),
    ("kl-ucb", {"c": 3.0}),
    ("ucb1", {"variance": 0.25}),
    ("moss", {"variance": 2.0}),
    ("moss", {"anytime": True}),
    ("moss-anytime", {"alpha": 0.2}),
    ("ada-ucb", {"anytime": True, "variance": 0.5}),
    ("kl-ucb++", {"anytime": True}),
    ("hellinger-ucb++", {"anytime": True, "c": 0.3}),
    ("kl-ucb-switch", {"anytime": True, "variance": 1.0}),
    ("bayes-ucb", {"c": 5.0}),
    ("linucb", {"alpha": 0.3}),
    ("agrawal", {"variance": 1.0}),
    ("c2ucb", {"dimension": 4.0}),
]
GRID: list[tuple[str, dict[str, object]]] = [
    ("ucb", {"ball": ball.name, "level": level, "scale": 0.4, "extra": 2.0, "variance": 0.7})
    for ball in balls.Ball.__subclasses__()
    for level in levels.available()
]


def make(name: str, arguments: dict[str, object], family: families.Family) -> Policy:
    made = policy(name, family=family, **arguments)
    return made.at_horizon(HORIZON) if made.needs_horizon else made


def compare(made: Policy, sums: np.ndarray, pulls: np.ndarray, t: float) -> None:
    got = made.index(sums, pulls, t)
    want = reference.index(made.name, made.arguments, made.family, sums.tolist(), pulls.tolist(), t)
    tolerance = 1e-9 if made.name in ("bayes-ucb", "cold-start") else 1e-12
    for value, exact, s, n in zip(got, want, sums, pulls, strict=True):
        scale = max(abs(exact), abs(s / n) if n else 0.0)
        same = value == exact or abs(value - exact) <= tolerance * scale
        assert same, f"{made!r} at s={s}, n={n}, t={t}: {value!r}, not {exact}"
    first, second = sorted(map(float, want), reverse=True)[:2]
    if first - second > 1e-9 * max(abs(first), 1e-3) or (first == math.inf > second):
        assert int(np.argmax(got)) == max(range(len(want)), key=lambda i: want[i])


def takes(name: str, family: families.Family) -> bool:
    if name == "cold-start":
        return family.name == "bernoulli"
    return name != "bayes-ucb" or family.posterior_quantile


CASES: list[tuple[str, dict[str, object], families.Family]] = [
    *((name, {}, family) for name in NAMES for family in FAMILIES if takes(name, family)),
    *((name, arguments, families.get(family)) for name, arguments in ARGUMENTS for family in ("bernoulli", "poisson")),
]


@pytest.mark.parametrize(("name", "arguments", "family"), CASES, ids=lambda value: getattr(value, "spec", str(value)))
def test_random_histories(name: str, arguments: dict[str, object], family: families.Family) -> None:
    made = make(name, arguments, family)
    for number, (sums, pulls) in enumerate(histories(family, seed=21, count=2, arms=5)):
        if number:
            sums[1] = pulls[1] = 0.0
        compare(made, sums, pulls, pulls.sum() + 1)


@pytest.mark.parametrize(("name", "arguments"), GRID, ids=str)
def test_grid(name: str, arguments: dict[str, object]) -> None:
    made = make(name, arguments, families.Bernoulli())
    for sums, pulls in histories(made.family, seed=22, count=3, arms=5):
        sums[0], sums[1] = 0.0, pulls[1]
        compare(made, sums, pulls, pulls.sum() + 1)


def agree(arm: int | str, want: list[float], tolerance: float) -> None:
    best = max(want)
    near = [i for i, value in enumerate(want) if value == best or value > best - tolerance * abs(best)]
    assert arm in near
    assert len(near) > 1 or arm == near[0]


@pytest.mark.parametrize("name", [name for name in NAMES if takes(name, families.Poisson()) and name != "bayes-ucb"])
def test_a_game_is_played_alike(name: str) -> None:
    """Forty rounds, each choice by both; ties go to the first arm."""
    family = families.Poisson()
    made = make(name, {}, family)
    bandit = Bandit(made, arms=3, ties="first")
    rng = np.random.default_rng(23)
    for t in range(1, 41):
        want = reference.index(name, made.arguments, family, bandit.sums.tolist(), bandit.pulls.tolist(), t)
        arm = bandit.select()
        agree(arm, [float(value) for value in want], 1e-12)
        bandit.update(arm, float(rng.poisson([0.5, 1.5, 1.0][int(arm)])))


@pytest.mark.parametrize("means", [[0.05, 0.15, 0.1], [0.5, 0.9, 0.7]])
def test_a_game_of_a_policy_that_learns_is_played_alike(means: list[float]) -> None:
    """The same on clicks, the reference fitting its own prior at 1, 2, 4, … plays."""
    family = families.Bernoulli()
    bandit = Bandit("cold-start", arms=3, ties="first")
    rng = np.random.default_rng(24)
    prior = reference.learned([0.0] * 3, [0.0] * 3)
    for t in range(1, 81):
        sums, pulls = bandit.sums.tolist(), bandit.pulls.tolist()
        if t - 1 in (1, 2, 4, 8, 16, 32, 64):
            prior = reference.learned(sums, pulls)
        want = [float(value) for value in reference.cold_start(family, sums, pulls, prior)]
        assert bandit.index().tolist() == pytest.approx(want, rel=1e-9)
        arm = bandit.select()
        agree(arm, want, 1e-9)
        bandit.update(arm, float(rng.random() < means[int(arm)]))
