"""What features tell: found where there is something, not where there is nothing, and the same in whatever order."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hellinger import Pool
from hellinger.errors import InputError
from hellinger.models import hashed
from hellinger.policies import Prior, fit_prior
from hellinger.policies import effects as module
from hellinger.policies.effects import Column, Described, Effects, Named, Rows, column_key

GENRES = dict(zip("abcde", (-0.6, -0.3, 0.0, 0.3, 0.6), strict=True))


def made(rng: np.random.Generator, items: int, telling: bool) -> tuple[Any, Any, list[dict[str, Any]]]:
    """Rewards and impressions of items whose log-odds depend on genre and length, or on neither; and their features."""
    genre, length = rng.choice(list(GENRES), items), rng.normal(3.0, 2.0, items).round(2)
    eta = np.full(items, -3.5) + rng.normal(0.0, 0.5, items)
    if telling:
        eta += np.array([GENRES[each] for each in genre]) + 0.15 * (length - 3.0)
    n = rng.integers(1, 200, items).astype(float)
    s = rng.binomial(n.astype(int), 1 / (1 + np.exp(-eta))).astype(float)
    words = rng.choice(["one", "two", "three", "four", "five", "six"], (items, 3))
    features = [
        {"genre": [str(g)], "length": float(x), "headline": " ".join(w)}
        for g, x, w in zip(genre, length, words, strict=True)
    ]
    return s, n, features


def columns(features: list[Any]) -> Described:
    encoded = [hashed(each) for each in features]
    names = {key: name for keys, _, named in encoded for key, name in zip(keys, named, strict=True)}
    return Described(Rows.of([(keys, values) for keys, values, _ in encoded]).taken, names.__getitem__)


def test_effects_are_found_and_the_same_in_whatever_order() -> None:
    rng = np.random.default_rng(1)
    s, n, features = made(rng, 2000, telling=True)
    pool: Pool[int] = Pool(learn="given")
    pool.add(range(2000), n, s, features=features)
    prior = pool.fit()
    assert prior.effects is not None
    found = {str(column.name): column.weight for column in prior.effects.columns}
    for genre, weight in GENRES.items():
        assert found[f"genre={genre}"] == pytest.approx(weight, abs=0.15)
    number = next(column for column in prior.effects.columns if column.name.kind == "number")
    assert number.weight / number.spread == pytest.approx(0.15, abs=0.03)
    assert all(abs(weight) < 0.1 for name, weight in found.items() if name.startswith("headline"))
    assert Prior.from_state(json.loads(json.dumps(prior.state()))) == prior
    order = rng.permutation(2000)
    other: Pool[int] = Pool(learn="given")
    other.add(order, n[order], s[order], features=[features[j] for j in order])
    assert other.fit() == prior == fit_prior(s, n, features=columns(features))
    # what features explain is no longer open: a rate is known as if the item had been shown more often
    plain = fit_prior(s, n)
    assert prior.a > 1.4 * plain.a
    assert prior[2:4] == plain[2:4]


def test_useless_features_have_no_effect_at_all() -> None:
    rng = np.random.default_rng(2)
    engaged = 0
    for _ in range(6):
        s, n, features = made(rng, 1000, telling=False)
        engaged += fit_prior(s, n, features=columns(features)).effects is not None
    assert engaged == 0


def test_calibration_is_out_of_sample_and_true_however_impressions_were_given() -> None:
    """Each item is shown until it fails to earn: sums of rewards over impressions would be far off."""
    rng = np.random.default_rng(3)
    genre = rng.integers(5, size=3000)
    rates = np.minimum(0.02 * np.exp(np.array(list(GENRES.values()))[genre]) * rng.gamma(3.0, 1 / 3.0, 3000), 1.0)
    n, s = np.full(3000, 50.0), rng.binomial(50, rates).astype(float)
    for _ in range(4):
        on = s >= 0.03 * n
        n[on] += 100.0
        s[on] += rng.binomial(100, rates[on])
    prior = fit_prior(s, n, features=columns([{"genre": "abcde"[g]} for g in genre.tolist()]))
    assert prior.effects is not None
    rows = prior.effects.calibration
    assert 5 <= len(rows) <= 10
    assert [row.predicted for row in rows] == sorted(row.predicted for row in rows)
    assert sum(row.impressions for row in rows) == n.sum()
    assert sum(abs(row.observed - row.predicted) < 2 * row.deviation for row in rows) >= len(rows) - 1
    assert abs(sum((row.observed - row.predicted) / row.deviation for row in rows)) < 2 * math.sqrt(len(rows))
    mean = sum(row.predicted * row.impressions for row in rows) / n.sum()
    assert s.sum() / n.sum() > 1.2 * mean


def test_the_weights_are_those_of_the_penalised_regression() -> None:
    """With the variance of a key as found, the slope of the penalised likelihood vanishes at its weights."""
    rng = np.random.default_rng(4)
    s, n, features = made(rng, 500, telling=True)
    rows = columns([{"genre": each["genre"]} for each in features]).rows
    design, whose, numbers = module._design(rows(np.arange(500)))
    weights, errors = np.zeros(5), np.zeros(5)
    a = 2.0
    base = module._regress(s, n, np.ones(500, np.bool_), design, 1, a, weights, errors)
    x = np.zeros((500, 5))
    x[design.item, np.repeat(np.arange(5), np.diff(design.first))] = design.x
    p = 1 / (1 + np.exp(-(base + x @ weights)))
    slope = (s - n * p) / (1 + n * p / a)
    bend = n * p * (1 - p) / (1 + n * p / a)
    assert abs(slope.sum()) < 2e-3 * bend.sum()
    curve = bend @ (x * x)
    ridge = 1 / errors**2 - curve
    np.testing.assert_allclose(ridge, ridge.mean(), rtol=0.05)  # one variance for all columns of a key
    assert (abs(slope @ x - ridge * weights) < 2e-3 * (curve + ridge)).all()
    known = (curve / (curve + ridge)).sum()
    assert 1 / ridge.mean() == pytest.approx((weights**2).sum() / known, rel=0.06)  # MacKay's rule
    assert not numbers
    assert whose.tolist() == sorted({column_key("category", "genre", each) for each in "abcde"})


def test_an_item_that_comes_has_the_mean_of_its_features() -> None:
    pool = Pool("cold-start", learn="given", ties="oldest")
    drama = Column(Named("category", "genre", "drama"), math.log(2), 0.1)
    pool.prior = Prior(2.0, 200.0, effects=Effects(0.01, (drama,)))
    pool.add(["plain", "other"], features=[None, {"genre": "crime"}])
    pool.add("drama", features={"genre": "drama"})
    assert pool.stats("plain").prior == pool.stats("other").prior == (2.0, 200.0)
    a, strength = pool.stats("drama").prior or (0, 0)
    assert a / strength == pytest.approx(0.0198, rel=0.03)  # twice the odds, in an eighth of an octave
    assert strength == 100.0  # so many impressions of a rate twice as high tell as much
    assert [row.id for row in pool.rank(3)] == ["drama", "plain", "other"]
    assert [(effect.name, effect.effect) for effect in pool.explain("drama")] == [("genre=drama", math.log(2))]
    assert pool.explain("plain") == []
    assert [effect.name for effect in pool.effects()] == ["genre=drama"]
    assert "1 features tell" in pool.explain()
    pool.describe("drama", None)
    assert pool.stats("drama").prior == (2.0, 200.0)
    pool.describe(["plain", "other"], {"genre": ["drama"]})
    assert pool.stats("plain").prior == pool.stats("other").prior == (a, strength)


def test_items_that_have_left_still_tell_what_features_are_worth() -> None:
    rng = np.random.default_rng(5)
    s, n, features = made(rng, 1200, telling=True)
    pool: Pool[int] = Pool(learn="given")
    pool.add(range(1200), n, s, features=features)
    whole = pool.fit()
    pool.remove(range(1, 1200, 2))
    less = pool.fit()
    assert whole.effects is not None
    assert less.effects is not None
    weight = {str(column.name): column.weight for column in whole.effects.columns}
    for column in less.effects.columns:
        assert column.weight == pytest.approx(weight.get(str(column.name), 0.0), abs=0.08)
    pool.remove(range(0, 1200, 2), forget=True)
    assert len(pool._described.left) == 600  # type: ignore[union-attr]
    assert pool.fit().effects is None


def test_features_need_a_policy_that_learns() -> None:
    with pytest.raises(InputError, match="learns a prior"):
        Pool("kl-ucb").add("a", features={"genre": "drama"})
    pool = Pool("cold-start")
    with pytest.raises(InputError, match="one for each of 2 ids"):
        pool.add(["a", "b"], features=[{}])
    with pytest.raises(InputError, match="a number, a string or a list"):
        pool.add("a", features={"x": object()})  # type: ignore[dict-item]
    assert len(pool) == 0
    pool.add("a")
    assert pool.serve(1)[0].id == "a"


def test_a_snapshot_of_the_format_before_features() -> None:
    """Written with groups, departed items and a prior: it ranks as a pool made of the same counts and prior does."""
    pool = Pool.load(Path(__file__).parent / "golden" / "pool-7")
    ranked = [(row.id, row.score) for row in pool.rank(4)]
    assert ranked == [
        ("i32", 0.1198262734990432),
        ("i36", 0.10818722393130328),
        ("i42", 0.09934817073005364),
        ("i48", 0.09892995882255191),
    ]
    pool.add("new", features={"genre": "drama"})
    pool.regroup("new", "g1")
    pool.remove("i1")
    assert len(pool.rank(100)) == len(pool) == 57


def test_a_snapshot_of_the_format_in_which_lives_and_groups_had_the_same_numbers() -> None:
    """Written with groups and a prior that they tell of, one of them large then; and with lives."""
    golden = Path(__file__).parent / "golden"
    pools = [Pool.load(golden / name) for name in ("pool-10", "pool-10-lives")]
    assert [[row.id for row in pool.rank(4)] for pool in pools] == [
        ["i3", "i21", "i9", "i12"],
        ["i21", "i9", "i12", "i23"],
    ]
    known, lives = pools
    assert [row.score for row in lives.rank(2)] == [0.20691928509187235, 0.19714435381807222]
    assert lives.stats("i3").left == 2**5.5
    assert lives.explain().startswith("grouped")
    for pool in pools:
        scores = pool.scores(pool.ids)
        assert len(set(scores.tolist())) > 10
        pool._members.refresh(pool._store, 1.0)
        assert pool.scores(pool.ids).tolist() == scores.tolist()
    lives.regroup("i1", "g")
    known.regroup("i1", "g1")
    known.remove("i2")
    assert len(known.rank(100)) == len(known) == 23


def test_columns_of_an_item_that_comes_as_others_are_moved_together_keep_their_names() -> None:
    """Whatever leaves: a name was lost where room was made for the item that has it."""
    pool = Pool[int]("cold-start", learn="given")
    pool.add(range(40), features=[{"word": f"w{j}"} for j in range(40)])
    for j in range(40, 400):
        pool.remove([j - 40])
        pool.add(j, features={"word": f"w{j}"})
        described = pool._described
        assert described is not None
        assert set(described.rows(np.arange(len(pool))).key.tolist()) <= set(described.names)
