"""Policies that choose by the order of rewards, and means that change, against plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hellinger import Bandit, Pool, families, policy, theory
from hellinger._jit import jit
from hellinger.engine.specs import canonical
from hellinger.errors import HellingerWarning, InputError
from hellinger.lab import Changing, changing, simulate
from hellinger.policies import Rule
from hellinger.policies import _dispatch as d
from hellinger.policies._rule import fill, observe
from hellinger.policies.constant_space import WORDS
from hellinger.policies.ids import _least_ratio, _regret_and_gain
from rewards import rewards_of


def game(bandit: Bandit, reward: Callable[[int], float], rounds: int) -> list[tuple[int, float]]:
    """Play, and return the arms and rewards in their order."""
    played = []
    for _ in range(rounds):
        arm = int(bandit.select())
        played.append((arm, reward(arm)))
        bandit.update(*played[-1])
    return played


def coin(seed: int, *means: float) -> Callable[[int], float]:
    rng = np.random.default_rng(seed)
    return lambda arm: float(rng.random() < means[arm])


@jit
def limit(rule: Rule, t: float, arms: float, out: Any) -> None:
    d.limit(rule, t, arms, out)


@jit
def exact(rule: Rule, arm: int, t: float, arms: float) -> float:
    return d.exact(rule, arm, t, arms)


# Forgetting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ucb1", "kl-ucb", "hellinger-ucb", "imed"])
def test_a_window_scores_the_last_plays(name: str) -> None:
    bandit, plain = Bandit(f"{name}(window=25)", arms=3, seed=1), policy(name)
    played: list[tuple[int, float]] = []
    reward = coin(2, 0.3, 0.5, 0.7)
    for _ in range(120):
        last = played[-25:]
        pulls = [sum(arm == i for arm, _ in last) for i in range(3)]
        sums = [sum(x for arm, x in last if arm == i) for i in range(3)]
        assert bandit.index().tolist() == plain.index(sums, pulls, t=len(last) + 1).tolist()
        played += game(bandit, reward, 1)


def test_a_window_of_real_rewards_does_not_drift() -> None:
    bandit, plain = Bandit("ucb1(window=10)", arms=2, family="gaussian", seed=1), policy("ucb1", family="gaussian")
    rng = np.random.default_rng(3)
    played = game(bandit, lambda arm: float(rng.normal(1e6)), 5000)[-10:]
    pulls = [sum(arm == i for arm, _ in played) for i in range(2)]
    sums = [math.fsum(x for arm, x in played if arm == i) for i in range(2)]
    assert bandit.index() == pytest.approx(plain.index(sums, pulls, t=11), rel=1e-14)


def best_of_the_last(played: list[tuple[int, float]], window: int) -> set[int]:
    """Arms whose index by the last plays alone, added up exactly, is the largest."""
    last = played[-window:]
    had = [[x for arm, x in last if arm == i] for i in range(3)]
    index = policy("hellinger-ucb").index([math.fsum(x) for x in had], [len(x) for x in had], t=len(last) + 1)
    return set(np.flatnonzero(index >= index.max() - 1e-12).tolist())


def test_a_window_of_decimal_rewards_never_has_less_than_nothing() -> None:
    """0.1 + 0.2 − 0.1 − 0.2 is less than 0, and the square root of that no number."""
    rewards = [0.0, 0.1, 0.2, 0.3, 0.7]
    for seed in range(4):
        bandit, rng = Bandit("hellinger-ucb(window=7)", arms=3, seed=seed), np.random.default_rng(seed)
        played: list[tuple[int, float]] = []
        for _ in range(400):
            expected = best_of_the_last(played, 7)
            played += game(bandit, lambda _, rng=rng: float(rng.choice(rewards)), 1)  # type: ignore[misc]
            assert played[-1][0] in expected

    drawn: list[tuple[int, float]] = []

    def reward(rng: np.random.Generator, arm: int) -> float:
        drawn.append((arm, float(rng.choice(rewards))))
        return drawn[-1][1]

    with pytest.warns(HellingerWarning, match="Python functions"):
        simulate(
            "hellinger-ucb(window=7)", means=[0.26] * 3, rewards=reward, horizon=900, runs=1, ties="first", workers=1
        )
    assert len(drawn) == 900
    for step in range(3, 900):
        assert drawn[step][0] in best_of_the_last(drawn[:step], 7)


@pytest.mark.parametrize(
    ("spec", "family", "rewards"),
    [
        ("kl-ucb(window=20)", "bernoulli", [1.0, 0.9, 0.1]),
        ("kl-ucb(window=20)", "binomial(n=3)", [3.0, 3.0, 2.9]),
        ("kl-ucb(discount=0.98)", "binomial(n=3)", [3.0]),
        ("imed(discount=0.7)", "binomial(n=3)", [3.0, 0.1]),
        ("kl-ucb(detect=0.5)", "binomial(n=3)", [3.0, 3.0, 2.9]),
    ],
)
def test_means_of_what_is_left_are_means_that_rewards_can_have(spec: str, family: str, rewards: list[float]) -> None:
    high = families.get(family).mean_bounds[1]
    for seed in range(3):
        bandit, rng = Bandit(spec, arms=3, family=family, seed=seed), np.random.default_rng(seed)
        for _ in range(400):
            assert not np.isnan(bandit.index()).any()
            game(bandit, lambda _, rng=rng: float(rng.choice(rewards)), 1)  # type: ignore[misc]
            sums, pulls = bandit.policy.memory["counts"][:2]
            left = pulls > 0.0
            assert (sums[left] / pulls[left] <= high).all()
            assert (sums >= 0.0).all()
            assert (sums[~left] == 0.0).all()


@pytest.mark.parametrize("name", ["ucb1", "kl-ucb", "hellinger-ucb"])
def test_a_discount_lets_plays_fade(name: str) -> None:
    bandit, plain = Bandit(f"{name}(discount=0.95)", arms=3, seed=1), policy(name)
    played = game(bandit, coin(4, 0.3, 0.5, 0.7), 150)
    weights = 0.95 ** np.arange(149, -1, -1)
    arms, rewards = np.array([arm for arm, _ in played]), np.array([x for _, x in played])
    pulls = [weights[arms == i].sum() for i in range(3)]
    sums = [(weights * rewards)[arms == i].sum() for i in range(3)]
    assert bandit.index() == pytest.approx(plain.index(sums, pulls, t=1 + sum(pulls)), rel=1e-12)


def kl(p: float, q: float) -> float:
    return sum(a * math.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)


def test_a_change_is_detected_as_by_the_test_written_out() -> None:
    """An arm alone: its restarts are those of the likelihood ratio over all splits, up to 64 plays after each."""
    rng = np.random.default_rng(5)
    bandit = Bandit("kl-ucb(detect=0.1)", arms=1)
    rewards = list[float]()
    restarts = 0
    for step in range(1, 300):
        reward = float(rng.random() < (0.05 if step // 40 % 2 else 0.95))
        bandit.update(0, reward)
        rewards.append(reward)
        n = len(rewards)
        mean = sum(rewards) / n
        apart = [
            s * kl(sum(rewards[:s]) / s, mean) + (n - s) * kl(sum(rewards[s:]) / (n - s), mean) for s in range(1, n)
        ]
        if n % 5 == 0 and max(apart) >= math.log(4 * n**1.5 / 0.1):
            rewards, restarts = [], restarts + 1
        assert n < 64, "the tested lives are short"
        assert bandit.policy.memory["counts"][:2, 0].tolist() == [sum(rewards), len(rewards)]
    assert restarts >= 5


def test_false_alarms_are_as_rare_as_asked_for() -> None:
    alarms = 0
    for seed in range(100):
        bandit = Bandit("ucb1(detect=0.1)", arms=2, seed=seed)
        game(bandit, coin(seed, 0.5, 0.5), 400)
        alarms += bool((bandit.policy.memory["counts"][2] > 0).any())
    assert alarms <= 10  # an upper bound of each arm's chance at any time


def test_forgetting_is_checked() -> None:
    for spec, words in (
        ("ucb1(window=0)", "1 <= window"),
        ("ucb1(window=2.5)", "whole number"),
        ("kl-ucb(discount=1)", "0 < discount < 1"),
        ("kl-ucb(detect=1.5)", "0 < detect < 1"),
        ("ucb1(window=5, discount=0.9)", "one of window"),
        ("imed(detect=0.1)", "each arm by itself"),
        ("cold-start(window=9)", "half_life"),
        ("exp3(window=9)", "its own memory"),
        ("exp3s(changes=-1)", "0 <= changes"),
        ("ucb1(window=soon)", "a number"),
        ("ucb1(windows=9)", "window, discount, detect"),
    ):
        with pytest.raises(InputError, match=words):
            policy(spec)
    with pytest.raises(InputError, match="scores counts"):
        Pool("ucb1(window=9)")
    with pytest.raises(InputError, match=r"does not grow with the square of the items. must hold, but got policy=.ids"):
        Pool("ids")
    for spec in ("ids", "ids(points=50, model=logistic)", "ucb1(window=9)"):
        with pytest.raises(InputError, match="a pool's policy"):
            canonical(spec)
    with pytest.raises(InputError, match="sees its reward"):
        simulate("exp3", means=[0.1, 0.2], horizon=10, batch=2)
    assert policy("ucb1(window=9)") != policy("ucb1") == policy("ucb1(window=none)")


# Exp3 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "gamma", "share", "span"),
    [
        ("exp3(gamma=0.2)", 0.2, 0.0, None),
        ("exp3(horizon=400)", math.sqrt(3 * math.log(3) / ((math.e - 1) * 400)), 0.0, None),
        (
            "exp3s(changes=2, horizon=400)",
            math.sqrt(3 * (3 * math.log(1200) + math.e) / ((math.e - 1) * 400)),
            1 / 400,
            None,
        ),
        (
            "exp3s(changes=0, horizon=400)",
            math.sqrt(3 * (math.log(1200) + math.e) / ((math.e - 1) * 400)),
            1 / 400,
            None,
        ),
        (
            "rexp3(variation=2, horizon=400)",
            math.sqrt(3 * math.log(3) / ((math.e - 1) * math.ceil((3 * math.log(3)) ** (1 / 3) * 200 ** (2 / 3)))),
            0.0,
            math.ceil((3 * math.log(3)) ** (1 / 3) * 200 ** (2 / 3)),
        ),
    ],
)
def test_weights_are_those_of_the_definition(spec: str, gamma: float, share: float, span: int | None) -> None:
    bandit = Bandit(spec, arms=3, seed=1)
    w = np.ones(3)
    for t, (arm, x) in enumerate(game(bandit, coin(6, 0.2, 0.5, 0.8), 150), 1):
        p = (1 - gamma) * w / w.sum() + gamma / 3
        estimate = np.where(np.arange(3) == arm, x / p[arm], 0.0)
        w = w * np.exp(gamma * estimate / 3) + math.e * share / 3 * w.sum()
        if span is not None and t % span == 0:
            w = np.ones(3)
    kept = bandit.policy.memory["weights"]
    assert kept / kept.sum() == pytest.approx(w / w.sum(), rel=1e-9)


def test_arms_are_played_by_their_weights() -> None:
    bandit = Bandit("exp3(gamma=0.3)", arms=3, seed=1)
    bandit.policy.memory["weights"][:] = [1.0, 2.0, 3.0]
    rng = np.random.default_rng(2)
    out, plays = np.empty(3), np.zeros(3)
    for _ in range(4000):
        bandit.policy.fill(np.zeros(3), np.zeros(3), 1.0, rng, out)
        plays += out
    assert plays / 4000 == pytest.approx(0.7 * np.array([1, 2, 3]) / 6 + 0.1, abs=0.03)


# Others -----------------------------------------------------------------------------------------------


def test_constant_space_remembers_ten_numbers_and_finds_the_best() -> None:
    for arms in (1, 2, 5, 1000):
        made = policy("constant-space").begin(arms)
        assert [array.size for array in made.memory.values()] == [WORDS]
    means = [0.2, 0.35, 0.8, 0.5, 0.1]
    result = simulate("constant-space", means=means, horizon=6000, runs=20, seed=2)
    assert result.pulls[0, -1].argmax() == 2
    assert result.pulls[0, -1, 2] > 0.8 * 6000


@pytest.mark.parametrize(
    ("sums", "pulls"),
    [
        ([3, 1, 7], [5, 6, 11]),
        ([100, 70, 9], [1000, 1000, 900]),
        ([520, 500, 480], [10_000, 10_000, 10_000]),
        ([1000, 550, 0], [10_000, 10_000, 0]),
        ([1000, 21, 1], [10_000, 300, 20]),
        ([10_000, 470, 0], [100_000, 5_000, 10]),
    ],
)
def test_information_and_regret_are_those_of_quadrature(sums: list[int], pulls: list[int]) -> None:
    """With 400 points, for narrow posteriors too, and narrow ones beside wide ones."""
    size, arms = 200_000, range(3)
    x = (np.arange(size) + 0.5) / size
    laws = [(1.0 + s, 1.0 + n - s) for s, n in zip(sums, pulls, strict=True)]
    below = np.array([stats.beta.cdf(x, a, b) for a, b in laws])
    mass = np.array([np.diff(stats.beta.cdf(np.arange(size + 1) / size, a, b)) for a, b in laws])
    part = np.array([a / (a + b) * stats.beta.cdf(x, a + 1.0, b) for a, b in laws])
    inside = np.divide(part, below, out=np.zeros_like(part), where=below > 0.0)
    best = np.array([mass[i] * np.delete(below, i, 0).prod(axis=0) for i in arms])
    chance = best.sum(axis=1)
    known = np.array([[(best[i] * (x if i == j else inside[j])).sum() for j in arms] for i in arms])
    want = [sum(known[i, i] - known[i, j] for i in arms) for j in arms]
    likely = [i for i in arms if chance[i] > 1e-15]
    gain = [sum(chance[i] * kl(known[i, j] / chance[i], laws[j][0] / sum(laws[j])) for i in likely) for j in arms]
    regret, found = _regret_and_gain(np.array(sums, float), np.array(pulls, float), 400)
    assert regret == pytest.approx(want, rel=0.01)
    assert found == pytest.approx(gain, rel=0.02, abs=1e-7)


def test_the_ratio_is_least_over_all_pairs_and_chances() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        regret, gain = rng.random(4), rng.random(4)
        one, other, share = _least_ratio(regret, gain)
        mixed = share * regret[one] + (1 - share) * regret[other]
        found = mixed**2 / (share * gain[one] + (1 - share) * gain[other])
        q = np.linspace(0, 1, 501)[:, None, None]
        tried = (q * regret[:, None] + (1 - q) * regret) ** 2 / (q * gain[:, None] + (1 - q) * gain)
        assert found <= tried.min() + 1e-12


@pytest.mark.parametrize(("name", "other"), [("empirical-kl-ucb", "kl-ucb"), ("empirical-imed", "imed")])
def test_of_coins_empirical_likelihood_is_that_of_the_family(name: str, other: str) -> None:
    bandit = Bandit(name, arms=3, seed=1)
    for _ in range(60):
        plain = policy(other).index(bandit.sums, bandit.pulls, t=bandit.rounds + 1)
        assert bandit.index() == pytest.approx(plain, rel=1e-10, abs=1e-12)
        game(bandit, coin(bandit.rounds, 0.3, 0.5, 0.7), 1)


def test_empirical_bounds_are_those_of_the_rewards() -> None:
    bandit = Bandit("empirical-kl-ucb(c=1)", arms=2, seed=1)
    rng = np.random.default_rng(8)
    had: list[list[float]] = [[], []]
    for arm, reward in game(bandit, lambda arm: float(rng.beta(2, 3 + arm)), 80):
        had[arm].append(reward)
    level = math.log(81) + math.log(math.log(81))
    wanted = [theory.empirical_upper(rewards, level / len(rewards)) for rewards in had]
    assert bandit.index() == pytest.approx(wanted, rel=1e-11)


def test_more_rewards_than_are_told_apart_are_rounded_up() -> None:
    bandit = Bandit("empirical-kl-ucb", arms=1, seed=1)
    rewards = np.random.default_rng(9).random(400)
    bandit.update_many([0] * 400, rewards)
    exact = theory.empirical_upper(rewards.tolist(), math.log(401) / 400)
    assert exact <= bandit.index()[0] <= exact + 0.02


@pytest.mark.parametrize("spec", ["empirical-kl-ucb", "empirical-kl-ucb(c=3)", "empirical-imed"])
def test_no_index_exceeds_what_is_kept_of_it(spec: str) -> None:
    """At every later round, whatever others earn: so that the bound alone may rule an arm out."""
    rng = np.random.default_rng(10)
    laws: list[Callable[[], float]] = [
        lambda: float(rng.random() < 0.4),
        lambda: float(rng.integers(5)) / 4.0,
        lambda: float(rng.beta(3, 2)),
        lambda: 1.0 - 1e-12 * float(rng.random()),
        lambda: float(rng.choice([0.0, 1e-300, 0.3])),
    ]
    for law in [*laws, None]:
        rule = policy(spec).begin(4).rule
        bound, index = np.empty(4), np.empty(4)
        for t in range(1, 250):
            limit(rule, float(t), 4.0, bound)
            fill(rule, np.empty(0), np.empty(0), float(t), None, index)
            assert (bound >= index).all()
            for arm in rng.permutation(4)[: rng.integers(5)]:
                assert exact(rule, int(arm), float(t), 4.0) == index[arm]
            arm = int(rng.choice([0, 0, 0, 1, 1, 2, 3] if t > 10 else [1, 2]))
            observe(rule, arm, (law or laws[arm])(), float(t))


@pytest.mark.parametrize("spec", ["empirical-kl-ucb", "empirical-kl-ucb(c=3)", "empirical-imed"])
@pytest.mark.parametrize(
    ("means", "family"),
    [
        ([0.5, 0.45, 0.3, 0.55], "bernoulli"),
        ([0.0, 1.0, 0.99], "bernoulli"),
        ([0.05] * 40, "bernoulli"),
        ([1.5, 2.0, 2.1, 2.1], "binomial(n=4)"),
        ([150.0, 151.0, 149.0], "binomial(n=300)"),
    ],
)
def test_few_indices_make_the_choices_of_all(spec: str, means: list[float], family: str) -> None:
    for init, ties in ((1, "random"), (0, "first")):
        few, all_ = (
            simulate(
                spec, means=means, family=family, horizon=1500, runs=3, seed=4, init=init, ties=ties, player=player
            )
            for player in ("auto", "scan")
        )
        assert np.array_equal(few.pulls, all_.pulls)
        assert np.array_equal(few.regret, all_.regret)
        assert np.array_equal(few.reward, all_.reward)


# Means that change ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["hellinger-ucb", "ucb1(window=40)", "kl-ucb(detect=0.3)"])
@pytest.mark.parametrize("player", ["scan", "leader", "lazy", "pages"])
def test_regret_is_against_the_best_arm_of_the_moment(spec: str, player: str) -> None:
    table = [[0.9, 0.2], [0.1, 0.6], [0.3, 0.5]]
    course = Changing.make(table, since=[1, 51, 100])
    result = simulate(spec, means=course, horizon=150, runs=1, seed=5, ties="first", checkpoints=20_000, player=player)
    draw = [rewards_of("bernoulli", row, seed=5)[0] for row in table]
    bandit = Bandit(spec, arms=2, ties="first")
    regret = total = 0.0
    for step in range(1, 151):
        row = sum(step >= start for start in (51, 100))
        arm = step - 1 if step <= 2 else int(bandit.select())
        reward = draw[row](arm, int(bandit.pulls[arm]))
        bandit.update(arm, reward)
        regret += max(table[row]) - table[row][arm]
        total += reward
        assert result.regret[0, 0, step - 1] == pytest.approx(regret)
    assert result.reward[0, 0] == total
    assert result.changes == [51, 100]
    assert result.means == pytest.approx(np.dot([50, 49, 51], table) / 150)


def test_pages_of_changing_means_are_compared_with_the_best_of_the_moment() -> None:
    course = Changing.make([[0.5, 0.4, 0.1], [0.1, 0.2, 0.9]], since=[1, 11])
    result = simulate("uniform", means=course, horizon=20, runs=4000, slots=2, checkpoints=20_000)
    expected = 10 * (0.9 - 2 * 1.0 / 3) + 10 * (1.1 - 2 * 1.2 / 3)
    assert result.final.mean() == pytest.approx(expected, abs=0.05)


def test_kinds_of_change() -> None:
    drift = changing("drift(arms=4, variation=3, low=0.2, high=0.8)", horizon=5000, seed=1)
    assert drift.table.shape == (1000, 4)
    assert 2.4 < drift.variation <= 3.0 + 1e-9
    assert drift.table.min() >= 0.2
    assert drift.table.max() <= 0.8
    season = changing("seasonal(arms=2, cycles=2)", horizon=2000)
    assert season.table.sum(axis=1) == pytest.approx(np.ones(1000))
    assert season.variation == pytest.approx(4.0, abs=0.02)
    pieces = changing("piecewise(arms=2, changes=3)", horizon=10)
    assert pieces.since.tolist() == [1, 3, 6, 8]
    assert not np.array_equal(pieces.table, changing("piecewise(arms=2, changes=3)", horizon=10, seed=1).table)


def test_means_that_change_from_a_file(tmp_path: Any) -> None:
    file = tmp_path / "means.csv"
    file.write_text("round,a,b\n1,0.9,0.1\n1001,0.1,0.9\n")
    result = simulate(["kl-ucb", "kl-ucb(detect=0.05)"], means=str(file), horizon=2000, runs=20)
    late, soon = result.final.mean(axis=1)
    assert soon < late
    kept = result.load(result.save(tmp_path / "kept"))
    assert kept.changes == [1001]
    for text, words in (
        ("round,a\n2,0.5\n", "rises from 1"),
        ("round,a\n1,x\n", "CSV of numbers"),
        ("round\n1\n", "one for each arm"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=words):
            simulate("ucb1", means=str(file), horizon=10)
    file.write_text("round,a\n1,0.5\n5,1.5\n")
    with pytest.raises(InputError, match=r"1\.5"):
        simulate("ucb1", means=str(file), horizon=10)


def test_kinds_of_change_are_checked() -> None:
    for spec, words in (
        ("piecewise(arms=0)", "1 <= arms"),
        ("piecewise(changes=9)", "changes < horizon"),
        ("drift(speed=1)", "takes arms"),
        ("drift(variation=-1)", "0 <= variation"),
        ("seasonal(low=1, high=0)", "low < high"),
        ("seasonal(arms=two)", "a number"),
    ):
        with pytest.raises(InputError, match=words):
            simulate("ucb1", means=spec, horizon=9)
    with pytest.raises(InputError, match="means that stay"):
        simulate("ucb1", means="seasonal", horizon=9, rewards=lambda rng, arm: 1.0)


def test_families_of_rewards_without_bounds_are_refused() -> None:
    for name in ("exp3", "exp3s", "rexp3", "empirical-kl-ucb", "empirical-imed"):
        with pytest.raises(InputError, match="upper bound"):
            policy(name, family=families.Poisson())
    with pytest.raises(InputError, match="Bernoulli"):
        policy("ids", family="poisson")
