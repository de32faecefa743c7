"""Collaborative filtering: the models against direct solutions, and players that fill pages by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hellinger.lab import simulate
from hellinger.lab.contextual import Contender, play_pages
from hellinger.lab.datasets import load_problem
from hellinger.lab.filtering import FILTERS, Factors, ModelChooser, Ratings, make_filter, preference_weights
from hellinger.policies import policy
from hellinger.testing import check_filter
from hellinger.world.contextual import ContextualProblem, Features, PagePlayer
from hellinger.world.site import Site

SMALL = "synthetic(items=40, people=15, slots=3, memory=9)"
BOTH = "choose-model(models=(latent-factors, cold-start))"

Ints = npt.NDArray[np.int64]


@pytest.mark.parametrize("name", FILTERS)
def test_conformance(name: str) -> None:
    check_filter(name)


def ratings_of(table: npt.NDArray[np.float64]) -> Ratings:
    people, items = (each.ravel() for each in np.indices(table.shape))
    return Ratings.make(people.tolist(), items.tolist(), table.ravel().tolist(), (len(table), table.shape[1]))


def test_pairwise_weights_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(6, 3)), rng.normal(size=(9, 4))
    people, items = rng.integers(6, size=50), rng.integers(9, size=50)
    rewards = rng.integers(2, size=50).astype(float)
    rows, right = [np.sqrt(0.7) * np.eye(12)], [np.zeros(12)]
    for u in range(6):
        mine = np.flatnonzero(people == u)
        for i in mine:
            for j in mine:
                rows.append(np.kron(x[u], z[items[i]] - z[items[j]])[None] / np.sqrt(mine.size))
                right.append(np.array([rewards[i] - rewards[j]]) / np.sqrt(mine.size))
    direct = np.linalg.lstsq(np.concatenate(rows), np.concatenate(right))[0].reshape(3, 4)
    found = preference_weights(Ratings.make(people.tolist(), items.tolist(), rewards.tolist(), (6, 9)), x, z, 0.7)
    np.testing.assert_allclose(found, direct, rtol=1e-9, atol=1e-12)


def fitted(ratings: Ratings, x: npt.NDArray[np.float64], z: npt.NDArray[np.float64], rank: int, passes: int) -> Factors:
    factors = Factors.begin(ratings, x, z, rank=rank, rng=np.random.default_rng(0))
    for _ in range(passes):
        factors = factors.passed(ratings)
    return factors


def test_factors_recover_a_product_that_no_feature_tells() -> None:
    rng = np.random.default_rng(1)
    truth = 0.3 + np.outer(rng.normal(size=30), rng.normal(size=40))
    hidden = rng.random(truth.shape) < 0.5
    people, items = np.nonzero(~hidden)
    ratings = Ratings.make(people.tolist(), items.tolist(), truth[~hidden].tolist(), truth.shape)
    factors = fitted(ratings, np.ones((30, 1)), np.ones((40, 1)), 1, 100)
    found = np.array([factors.expected(person, np.arange(40)) for person in range(30)])
    assert np.corrcoef(found[hidden], truth[hidden])[0, 1] > 0.995
    assert np.sqrt(np.mean((found - truth)[hidden] ** 2)) < 0.1 * truth.std()


def test_new_items_are_judged_by_their_features() -> None:
    rng = np.random.default_rng(3)
    z = np.column_stack([np.ones(60), rng.normal(size=60)])
    truth = np.tile(0.5 + 0.2 * z[:, 1], (20, 1))
    ratings = ratings_of(truth[:, :50])._asdict()
    for name in ("counts", "sums"):
        table = ratings[name].tocoo()
        ratings[name] = type(ratings["counts"])((table.data, table.coords), shape=(20, 60))
    factors = fitted(Ratings(**ratings), np.ones((20, 1)), z, 2, 50)
    np.testing.assert_allclose(factors.expected(4, np.arange(50, 60)), truth[4, 50:], atol=0.03)


def test_without_factors_a_pass_is_the_posterior_of_two_biases() -> None:
    table = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    ratings = ratings_of(table)
    before = Factors.begin(ratings, np.ones((2, 1)), np.ones((3, 1)), rank=0, rng=np.random.default_rng(0))
    after = before.passed(ratings)
    variance, noise = before.people.variance[0], before.noise
    alphas = (table.sum(axis=1) / noise) / (3 / noise + 1 / variance)
    np.testing.assert_allclose(after.people.mean[:, 1], alphas, rtol=1e-12)
    betas = ((table - alphas[:, None]).sum(axis=0) / noise) / (2 / noise + 1 / variance)
    np.testing.assert_allclose(after.things.mean[:, 1], betas, rtol=1e-12)
    spreads = [1 / (3 / noise + 1 / variance), 1 / (2 / noise + 1 / variance)]
    left = ((table - alphas[:, None] - betas) ** 2).sum() + 6 * sum(spreads)
    assert after.noise == pytest.approx((2 * noise + left) / 8, rel=1e-12)


class Fixed(PagePlayer):
    """Shows one place to everybody."""

    def __init__(self, problem: ContextualProblem, place: int) -> None:
        super().__init__(problem)
        self.place, self.learned = place, 0

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> Ints:
        return np.array([self.place])

    def learn(self, places: Ints, rewards: npt.NDArray[np.float64], people: Ints) -> None:
        self.learned += places.size


@pytest.mark.parametrize(("batch", "delay"), [(1, 0), (5, 0), (1, 4), (3, 7)])
def test_the_chooser_finds_the_better_model_and_all_models_learn(batch: int, delay: int) -> None:
    site = Site(2, 1, segments=2, batch=batch, delay=delay)
    made = ContextualProblem("two", site, ({}, {}), ({}, {}), np.array([[0.6, 0.2], [0.7, 0.1]])).check()
    players = [Fixed(made, 1), Fixed(made, 0)]
    chooser = ModelChooser(made, policy("hellinger-ucb"), players, seed=1)
    outcome = play_pages(made, chooser, [600], seed=2)
    assert outcome.pulls[0, 0] > 500
    counted = int(chooser.bandit.pulls.sum())
    assert [each.learned for each in players] == [counted, counted]
    assert counted >= 600 - batch - delay
    assert chooser.bandit.pulls[1] > 0.8 * counted


def test_a_chooser_of_one_plays_as_that_one() -> None:
    for name in ("cold-start", "latent-factors", "pairwise"):
        problem = load_problem(SMALL)
        alone, chosen = (
            play_pages(problem, Contender.read(spec).player(problem, 3), [30, 90], seed=5)
            for spec in (name, f"choose-model(models=({name}))")
        )
        assert alone.pulls.tolist() == chosen.pulls.tolist()
        assert alone.reward.tolist() == chosen.reward.tolist()


@pytest.mark.parametrize("spec", [*FILTERS, "latent-factors(explore=0.3)", BOTH])
def test_items_come_and_go_and_feedback_is_late(spec: str) -> None:
    rng = np.random.default_rng(4)
    features: tuple[Features, ...] = tuple({"kind": f"k{i % 3}", "length": float(i % 7)} for i in range(40))
    rates = np.where(rng.random((5, 40)) < 0.1, np.nan, rng.random((5, 40)))
    site = Site(16, 2, segments=5, arrivals=4, day=40, batch=3, delay=5)
    people = tuple({"age": float(i)} for i in range(5))
    made = ContextualProblem("news", site, people, features, rates, memory=3).check()
    outcome = play_pages(made, Contender.read(spec).player(made, 1), [110], seed=0)
    assert outcome.pulls[0].sum() == 220
    assert outcome.pulls[0, 28:].sum() > 0


@pytest.mark.parametrize("name", FILTERS)
def test_filters_learn(name: str) -> None:
    made = "synthetic(items=60, people=40, slots=3, memory=9, cross=1, bias=0.3, taste=0)"
    options: dict[str, Any] = {"problem": made, "horizon": 400, "runs": 2}
    result = simulate([name, f"{name}(explore=1)", BOTH], **options, workers=1)
    learned, random, _ = result.final.mean(axis=1)
    assert learned < 0.8 * random
    again = simulate([BOTH, name], **options, workers=2)
    assert np.array_equal(again.regret, result.regret[[2, 0]])


def test_fits_become_rarer() -> None:
    problem = load_problem(SMALL)
    player = make_filter("pairwise(growth=1)", problem, 0)
    play_pages(problem, player, [200], seed=0)  # 600 impressions: at 21, 42, 84, 168, 336
    assert player.fits == 5


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("latent-factors(ranks=3)", "latent-factors takes explore, growth, passes, rank"),
        ("latent-factors(rank=1.5)", "rank is a whole number"),
        ("latent-factors(rank=-1)", "0 <= rank"),
        ("latent-factors(passes=0)", "1 <= passes"),
        ("pairwise(strength=0)", "0 < strength"),
        ("pairwise(strength=much)", "strength is a number"),
        ("pairwise(explore=2)", "0 <= explore <= 1"),
        ("pairwise(growth=0)", "0 < growth"),
        ("choose-model", "choose-model has its models in parentheses"),
        ("choose-model(models=())", "choose-model has its models in parentheses"),
        ("choose-model(models=(pairwise), polic=ucb1)", "choose-model takes models, policy"),
        ("choose-model(models=(pairwize))", "unknown policy 'pairwize'"),
    ],
)
def test_what_has_no_meaning_is_refused(spec: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        simulate(spec, problem=SMALL, horizon=5, runs=1, workers=1)


@pytest.mark.parametrize("spec", ["pairwise", "latent-factors(rank=2)", "choose-model(models=(pairwise))"])
def test_a_problem_with_people_is_needed(spec: str) -> None:
    with pytest.raises(ValueError, match="play a contextual problem"):
        simulate(["ucb1", spec], means=[0.3, 0.2], horizon=5, runs=1, workers=1)
