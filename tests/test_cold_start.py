"""The cold-start policy: its prior, its agreement between bandit and pool, and how it does in the long run."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaln

from hellinger import Bandit, Pool, policy
from hellinger.coldstart._world import Site, live
from hellinger.coldstart.experiment import LAWS
from hellinger.policies.cold_start import fit_prior, learn


def beta_binomial(seed: int, arms: int, a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 300, arms).astype(float)
    return rng.binomial(n.astype(int), rng.beta(a, b, arms)).astype(float), n


def log_posterior(s: np.ndarray, n: np.ndarray, a: float, b: float) -> float:
    likelihood = (betaln(a + s, b + n - s) - betaln(a, b)).sum()
    return float(likelihood - 0.5 * (np.log(a + b) - np.log(50)) ** 2)


@pytest.mark.parametrize(("a", "b"), [(1.6, 100.0), (0.4, 3.0), (20.0, 180.0), (5.0, 5.0)])
def test_the_prior_is_found_and_most_likely(a: float, b: float) -> None:
    s, n = beta_binomial(1, 3000, a, b)
    fitted = fit_prior(s, n, np.ones(s.size), 1.0, 50.0)
    best = log_posterior(s, n, *fitted)
    assert 0 <= 2 * (best - log_posterior(s, n, a, b)) < 13.8  # 99.9 % of χ² with two degrees of freedom
    for factor in (0.999, 1.001):
        assert log_posterior(s, n, fitted[0] * factor, fitted[1]) < best
        assert log_posterior(s, n, fitted[0], fitted[1] * factor) < best


def test_the_prior_does_not_depend_on_start_or_grouping() -> None:
    s, n = beta_binomial(2, 2000, 1.6, 100.0)
    once = fit_prior(s, n, np.ones(s.size), 1.0, 50.0)
    assert fit_prior(s, n, np.ones(s.size), 30.0, 2.0) == pytest.approx(once, rel=1e-6)
    pairs, weight = np.unique(np.stack([s, n]), axis=1, return_counts=True)
    assert fit_prior(pairs[0], pairs[1], weight.astype(float), 1.0, 50.0) == pytest.approx(once, rel=1e-6)


@pytest.mark.parametrize(
    ("s", "n"), [([], []), ([0.0], [0.0]), ([0.0] * 5, [100.0] * 5), ([7.0] * 5, [7.0] * 5), ([0.5], [1.0])]
)
def test_a_prior_from_next_to_nothing_is_finite(s: list[float], n: list[float]) -> None:
    a, b = fit_prior(np.array(s), np.array(n), np.ones(len(s)), 1.0, 50.0)
    assert 0 < a < 1e6
    assert 0 < b < 1e6


def test_adaptive_sampling_does_not_bias_the_prior() -> None:
    """Arms shown until their first few clicks disappoint: plain means would be far off."""
    rng = np.random.default_rng(3)
    rates = rng.beta(1.6, 100.0, 20_000)
    n = np.full(rates.size, 30.0)
    s = rng.binomial(30, rates).astype(float)
    more = s >= 2
    n[more] += 300
    s[more] += rng.binomial(300, rates[more])
    a, b = fit_prior(s, n, np.ones(s.size), 1.0, 50.0)
    assert a / (a + b) == pytest.approx(1.6 / 101.6, rel=0.03)
    assert s.sum() / n.sum() > 1.3 * 1.6 / 101.6


def focused(law: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts of 5,000 contents of which the forty best have had most impressions."""
    rng = np.random.default_rng(seed)
    rates = np.sort(LAWS[law](rng, 5000))
    n = np.where(np.arange(5000) < 4960, 40.0, 20_000.0)
    return rng.binomial(n.astype(int), rates).astype(float), n


def test_a_prior_that_fits_is_kept_and_the_focus_measured() -> None:
    s, n = focused("beta", 7)
    a, b = fit_prior(s, n, np.ones(s.size), 1.0, 50.0)
    found = learn(s, n, np.ones(s.size), 1.0, 50.0)
    assert found[:2] == (a, a + b)
    rotating = n.sum() ** 2 / (n**2).sum()
    assert 40 < rotating < 70
    assert found.focus == pytest.approx((5000 / rotating) ** (1 / 3), rel=1e-12)


def test_a_prior_too_light_in_the_tail_gives_way_to_the_best_contents() -> None:
    s, n = focused("heavy-tailed", 8)
    a, b = fit_prior(s, n, np.ones(s.size), 1.0, 50.0)
    found = learn(s, n, np.ones(s.size), 1.0, 50.0)
    assert found.strength < 0.7 * (a + b)
    mean = found.a / found.strength
    assert mean == pytest.approx(a / (a + b), rel=1e-12)
    rank = round(n.sum() ** 2 / (n**2).sum() / 5)
    best = np.sort((s + a) / (n + a + b))[-rank]
    distance = -np.log(np.sqrt(mean * best) + np.sqrt((1 - mean) * (1 - best)))
    assert found.strength * distance == pytest.approx(0.27 * np.log(5000 / rank), rel=1e-9)


def test_nothing_shown_is_no_focus() -> None:
    assert learn(np.zeros(3), np.zeros(3), np.ones(3), 1.0, 50.0).focus == 1.0


def test_discounted_counts_are_learned_from_as_they_are_now() -> None:
    """Counts are kept undiscounted and scaled on the way out: the prior must see the scaled ones."""
    s, n = beta_binomial(9, 800, 1.6, 100.0)
    pool = Pool("cold-start", half_life=1.0)
    pool.load(range(800), n, s)
    pool.advance(3)
    pool.record_many(list(range(800)), 5, 0)
    expected = learn(s / 8, n / 8 + 5, np.ones(800), 1.0, 50.0)
    assert pool._prior.table[0].tolist() == pytest.approx(expected[:2], rel=1e-5)
    assert pool._prior.focus == pytest.approx(expected.focus, rel=1e-12)


def test_the_prior_follows_a_pool_that_has_forgotten_everything() -> None:
    pool = Pool("cold-start", half_life=1.0)
    pool.load(range(300), np.full(300, 100.0), np.full(300, 1.0))
    pool.advance(400)  # 2⁻⁴⁰⁰: the scale starts anew
    pool.record_many(list(range(300)), 100, np.random.default_rng(10).binomial(100, 0.3, 300))
    a, strength = pool._prior.table[0]
    assert a / strength == pytest.approx(0.3, abs=0.03)


def test_only_for_clicks() -> None:
    with pytest.raises(ValueError, match="needs the Bernoulli family, but got Poisson"):
        policy("cold-start", family="poisson")


def test_bandit_and_pool_agree() -> None:
    s, n = beta_binomial(4, 500, 1.6, 100.0)
    pool = Pool("cold-start", ties="oldest")
    pool.load(range(500), n, s)
    index = policy("cold-start").index(s, n)
    ranked = pool.rank(500)
    assert [content.score for content in ranked] == pytest.approx(np.sort(index)[::-1].tolist(), rel=1e-6)
    bandit = Bandit("cold-start", arms=500, ties="first")
    bandit._sums, bandit._pulls = s, n
    assert bandit.select() == ranked[0].id


def test_new_contents_start_from_what_contents_like_them_have_done() -> None:
    rng = np.random.default_rng(5)
    pool = Pool("cold-start", ties="oldest")
    for first, tag, rate in ((0, "weak", 0.01), (1000, "strong", 0.2)):
        n = np.full(1000, 200)
        pool.load(
            range(first, first + 1000), n, rng.binomial(n, rng.beta(50 * rate, 50 * (1 - rate), 1000)), tags=[tag]
        )
    pool.add(["weak new"], tags=["weak"])
    pool.add(["strong new"], tags=["strong"])
    pool.rank(1)  # the prior is learned; those added from now on have it at once
    pool.add(["late"], tags=["strong"])
    assert pool.stats("late").score == pool.stats("strong new").score
    pool.add(["unknown"], tags=["other"])
    scores = {content.id: content.score for content in pool.rank(len(pool))}
    assert scores["weak new"] < scores["strong new"]
    assert scores["weak new"] < scores["unknown"]
    everyone, weak, strong = (pool._prior.table[:, 0] / pool._prior.table[:, 1]).tolist()
    assert weak == pytest.approx(0.01, rel=0.2)
    assert strong == pytest.approx(0.2, rel=0.1)
    assert weak < everyone < strong
    assert "strong Beta(" in pool.explain()
    expected = sorted(scores.values(), reverse=True)
    assert list(scores.values()) == expected
    index = [pool.stats(name).score for name in scores]
    assert index == expected


def test_the_prior_follows_the_pool() -> None:
    pool = Pool("cold-start")
    pool.add(range(300))
    pool.rank(1)
    before = pool.explain()
    rng = np.random.default_rng(6)
    pool.record_many(list(range(300)), 50, rng.binomial(50, 0.3, 300))
    pool.rank(1)
    a, strength = pool._prior.table[0]
    assert before != pool.explain()
    assert a / strength == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("rates", [[0.5, 0.45], [0.05, 0.04, 0.03, 0.02, 0.01, 0.01], [0.9, 0.8, 0.7, 0.6]])
def test_never_worse_than_the_paper_in_the_long_run(rates: list[float]) -> None:
    """Few arms and much traffic, where the paper's policy is at home: no more regret than it, paired."""
    ours, theirs = policy("cold-start").rule, policy("hellinger-ucb").rule
    arms, horizon = len(rates), 10_000
    site = Site(arms, 1)
    truth = np.array(rates)
    pairs = [[live(rule, site, truth, [horizon], seed)[0] for rule in (ours, theirs)] for seed in range(12)]
    difference = np.array([a - b for a, b in pairs])
    error = difference.std(ddof=1) / np.sqrt(difference.size)
    assert difference.mean() > -2 * error - 0.001 * horizon * max(rates)


@pytest.mark.parametrize(
    ("law", "least"), [("beta", [1.9, 1.9, 1.3]), ("heavy-tailed", [1.1, 0.85, 0.85]), ("bimodal", [1.9, 1.5, 1.2])]
)
def test_few_of_many_are_shown(law: str, least: list[float]) -> None:
    """Ten of 5,000 contents share all traffic: what a prior thinks unlikely must be tried while there is time.

    Ratio of clicks to those of the paper's policy, mean over seeds. Where a few rates are far above all others, who
    finds them is chance: one seed in two is lost after 100 impressions for each content, whatever the order of ties.
    """
    ours, theirs = policy("cold-start").rule, policy("hellinger-ucb").rule
    site = Site(5000, 100, repeats=10)
    marks = [site.contents * each for each in (30, 100, 300)]
    ratios = []
    for seed in range(12):
        rates = LAWS[law](np.random.default_rng([11, seed]), site.contents)
        ratios.append(np.array(live(ours, site, rates, marks, seed)) / live(theirs, site, rates, marks, seed))
    assert np.all(np.mean(ratios, axis=0) > least)
