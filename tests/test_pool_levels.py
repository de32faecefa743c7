"""A pool whose policy looks at single rewards: ratings, dwell time and whatever else has bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hellinger import Pool, theory
from hellinger.engine.settings import Settings
from hellinger.errors import InputError
from hellinger.pool._levels import LEVELS

GRID = [j / (LEVELS - 1) for j in range(LEVELS)]


class Plain:
    """The same pool in plain Python: a list of (reward, how often) for each item."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.rewards: dict[str, list[tuple[float, float]]] = {}
        self.open: dict[str, int] = {}
        """Impressions without a reward."""
        self.rounds = 0.0

    def add(self, name: str, n: int = 0, s: float = 0.0) -> None:
        self.rewards[name], self.open[name] = [(1.0, s), (0.0, n - s)] if n else [], 0
        self.rounds += n

    def record(self, name: str, n: int, s: float) -> None:
        if n > 1:
            self.rewards[name] += [(1.0, s), (0.0, n - s)]
        elif s > 0.0:
            self.rewards[name].append((s, 1.0))
            self.open[name] += n - 1
        else:
            self.open[name] += n
        self.rounds += n

    def histogram(self, name: str) -> list[float]:
        levels = [0.0] * LEVELS
        for reward, times in self.rewards[name]:
            left = min(math.floor(reward * (LEVELS - 1)), LEVELS - 2)
            share = reward * (LEVELS - 1) - left
            levels[left] += times * (1.0 - share)
            levels[left + 1] += times * share
        levels[0] += self.open[name]
        return levels

    def scores(self, names: Sequence[str]) -> list[float]:
        tables = {name: self.histogram(name) for name in self.rewards}
        shown = {name: sum(table) for name, table in tables.items()}
        t, out = self.rounds + 1.0, []
        best = max(
            (sum(map(float.__mul__, table, GRID)) / shown[n] for n, table in tables.items() if shown[n] > 0), default=0
        )
        for name in names:
            table, n = tables[name], shown[name]
            if self.policy == "empirical-imed":
                value = math.inf if n <= 0 else -(n * theory.k_inf(GRID, best, counts=table) + math.log(n))
            else:
                value = 1.0 if n <= 0 else theory.empirical_upper(GRID, math.log(t) / n, counts=table)
            out.append(value)
        return out


@pytest.mark.parametrize("policy", ["empirical-kl-ucb", "empirical-imed"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_life_equals_a_plain_one(policy: str, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    pool, plain = Pool[str](policy, seed=seed, ties="oldest"), Plain(policy)
    for step in range(400):
        names = list(plain.rewards)
        what = rng.integers(0, 10)
        if what == 0 or len(names) < 3:
            name, n = f"i{step}", int(rng.integers(0, 3)) * 10
            s = float(rng.integers(0, n + 1))
            pool.add(name, n, s)
            plain.add(name, n, s)
        elif what == 1 and len(names) > 4:
            name = names[int(rng.integers(len(names)))]
            pool.remove(name)
            del plain.rewards[name], plain.open[name]
        elif what == 2:
            for ranked in pool.serve(2):
                plain.record(ranked.id, 1, 0.0)
        elif what == 3:
            waiting = [name for name in names if plain.open[name] > 0]
            for name in waiting[:2]:
                reward = float(rng.random())
                pool.record(name, rewards=reward)
                plain.record(name, 0, reward)
        elif what == 4:
            n = int(rng.integers(2, 9))
            s = float(n * rng.random())
            pool.record_many([names[0], names[-1]], n, s)
            for name in (names[0], names[-1]):
                plain.record(name, n, s)
        elif what == 5:
            pool.save(tmp_path / "pool")
            pool = Pool.load(tmp_path / "pool")
        else:
            name = names[int(rng.integers(len(names)))]
            reward = float(rng.choice([0.0, 1.0, 0.2, 0.4, rng.random()]))
            pool.record(name, impressions=1, rewards=reward)
            plain.record(name, 1, reward)
        names = list(plain.rewards)
        wanted = plain.scores(names)
        assert pool.scores(names).tolist() == pytest.approx(wanted, abs=1e-9)
        first = [each.score for each in pool.rank(3)]
        assert first == pytest.approx(sorted(wanted, reverse=True)[:3], abs=1e-9)


def test_rewards_of_one_and_nothing_are_coins() -> None:
    single, coins = Pool[str]("empirical-kl-ucb", seed=1), Pool[str]("kl-ucb", seed=1)
    for pool in (single, coins):
        pool.add(["a", "b"])
        for reward in (1, 0, 0, 1, 0):
            pool.record("a", impressions=1, rewards=reward)
        pool.record("b", impressions=40, rewards=3)
    assert single.scores(["a", "b"]) == pytest.approx(coins.scores(["a", "b"]), abs=1e-9)


def test_levels_only_spread_rewards() -> None:
    """The bound of the levels is never below that of the rewards themselves, and the mean is the same."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        rewards = rng.beta(0.5, 2.0, int(rng.integers(1, 40)))
        pool = Pool[str]("empirical-kl-ucb")
        pool.add("a")
        for reward in rewards.tolist():
            pool.record("a", impressions=1, rewards=reward)
        radius = math.log(rewards.size + 1) / rewards.size
        assert pool.scores(["a"])[0] >= theory.empirical_upper(rewards, radius) - 1e-12
        assert pool._levels is not None
        table = pool._levels.table(1)[0]
        assert table @ GRID == pytest.approx(rewards.sum(), rel=1e-12)
        assert pool.scores(["a"])[0] <= theory.empirical_upper(np.minimum(rewards + 1 / (LEVELS - 1), 1), radius) + 1e-9


def test_how_it_ranks_is_said() -> None:
    pool = Pool[str]("empirical-kl-ucb")
    pool.add(["a", "b"])
    assert pool.explain() == "scan of all 2 items: empirical-kl-ucb looks at how often each item had which reward"
    assert pool.memory() > Pool[str]("kl-ucb").memory()
    pool.record("a", impressions=3, rewards=2.0)
    assert len(pool.blank()) == 2
    assert pool.blank().scores(["a"]).tolist() == [1.0]
    table = pool.table()
    assert table.score(table.items, table.order()).tolist() == pool.scores(["a", "b"]).tolist()


def test_what_cannot_be_is_refused() -> None:
    options: list[dict[str, Any]] = [{"window": 5.0}, {"half_life": 3.0}, {"model": "logistic"}, {"weighted": True}]
    for each in options:
        with pytest.raises(InputError, match="single rewards goes without model"):
            Pool("empirical-kl-ucb", **each)
    with pytest.raises(InputError, match="a lower and an upper bound"):
        Pool("empirical-kl-ucb", family="poisson")
    pool = Pool[str]("empirical-kl-ucb")
    pool.add("a")
    pool.record("a", impressions=1)
    pool.record("a", rewards=0.3)
    with pytest.raises(InputError, match="one reward at most"):
        pool.record("a", rewards=0.4)
    with pytest.raises(InputError, match="must be whole"):
        pool.record("a", impressions=0.5)
    with pytest.raises(InputError, match="must be whole"):
        pool.add("b", 0.5)
    with pytest.raises(InputError, match="one reward at most"):
        pool.record("a", impressions=1, rewards=1.9)
    pool.record("a", impressions=1, rewards=0.4)  # nothing of what was refused has stayed
    assert pool.stats("a")[:2] == (2, 0.7)
    assert "b" not in pool


@pytest.mark.parametrize("policy", ["empirical-kl-ucb", "empirical-imed"])
def test_the_service_says_that_it_counts_sums_alone(policy: str) -> None:
    with pytest.raises(ValueError, match="all that the service counts of an item"):
        Settings(variants={"one": "cold-start", "two": policy})
