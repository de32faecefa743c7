"""Models: features, what is learned from an event, and rankings by it."""

from __future__ import annotations

import hashlib
import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hellinger
from hellinger import Bandit, Pool, families, models, policy
from hellinger.models import Encoder, Regression, _spread
from hellinger.models.encoder import Scaling
from hellinger.testing import check_model

PEOPLE: list[dict[str, Any]] = [
    {"age": 20.0 + 7 * (j % 9), "gender": "FM"[j % 2], "likes": ["art", "news"][: j % 3]} for j in range(40)
]
ITEMS: list[dict[str, Any]] = [
    {"genre": ["drama", "war", "love"][j % 3], "length": float(j % 7), "title": f"the story of {j}"} for j in range(90)
]


def lived(
    spec: str = "cold-start", model: Any = "logistic", *, items: int = 90, pages: int = 60, seed: int = 3
) -> Pool[int]:
    """A pool after some traffic: late rewards, items that left and came, one that is hidden."""
    pool = Pool[int](spec, model=model, seed=1)
    described = [ITEMS[j % 90] for j in range(items)]
    pool.add(np.arange(items), features=described, tags=[["even"] if j % 2 == 0 else [] for j in range(items)])
    rng = np.random.default_rng(seed)
    for page in range(pages):
        who = PEOPLE[int(rng.integers(40))]
        shown = pool.serve(5, context=who)
        for row in shown:
            rate = 0.5 if (ITEMS[row.id % 90]["genre"] == "drama") == (who["gender"] == "F") else 0.05
            if rng.random() < rate:
                pool.record(row.id, rewards=1, context=who)
        if page == pages // 2:
            pool.remove([0, 7, 20])
            pool.add([1000, 1001], [30, 0], [3, 0], features=[ITEMS[1], {}])
            pool.hide([4])
    return pool


@pytest.mark.parametrize("name", models.available())
@pytest.mark.parametrize("arguments", [{}, {"per_item": True}, {"shared": False}, {"shared": False, "per_item": True}])
def test_conformance(name: str, arguments: dict[str, Any]) -> None:
    check_model(models.get(name, **arguments))


# Features ---------------------------------------------------------------------------------------------


def test_features_become_columns() -> None:
    encoder = Encoder(columns=12, words=3)
    encoder.learn([{"n": 1.0, "c": "x", "l": ["p", "q"], "t": "two words", "b": True, "none": None}])
    assert encoder.names == ["n", "c=x", "l=p", "l=q", "t#0", "t#1", "t#2", "b=true"]
    assert encoder.encode({"n": 1.0}).tolist() == [0.0] * 8
    encoder.learn([{"n": 3.0}])
    row = encoder.encode({"n": 4.0, "c": "x", "l": ("q", "p"), "t": "words two"})
    assert row[:4].tolist() == [2.0, 1.0, pytest.approx(0.5**0.5), pytest.approx(0.5**0.5)]
    assert np.isclose((row[4:7] ** 2).sum(), 1.0) or np.isclose(np.abs(row[4:7]).max(), 2**0.5) or not row[4:7].any()
    assert encoder.encode({"n": 1e9})[0] == 4.0


def test_what_is_unknown_is_no_information() -> None:
    encoder = Encoder(columns=2)
    encoder.learn([{"c": "x"}, {"c": "y"}, {"c": "z"}, {"n": 2.0}])  # no room beyond two
    assert encoder.names == ["c=x", "c=y"]
    encoder.learn([{"c": "x"}, {"c": "another"}, {"t": "some words"}])
    assert encoder.left_out == ["c=…", "n", "t"]  # keys alone: a word may be somebody's name
    assert Encoder.from_state(encoder.state()).left_out == encoder.left_out
    encoder.learn([{f"k{j}": 1.0} for j in range(30)])
    assert len(encoder.left_out) == 20
    for unknown in (
        {},
        {"c": "z"},
        {"c": None},
        {"n": 5.0},
        {"n": math.nan},
        {"n": math.inf},
        {"c": "a text of words"},
        {"c": ""},
    ):
        assert not encoder.encode(unknown).any()
    before = encoder.state()
    encoder.encode({"new": "value", "c": "x"})
    assert encoder.state() == before


AGES = np.random.default_rng(0).integers(18, 80, 3000).astype(float)


def scaled(values: Any) -> Scaling:
    scaling = Scaling()
    for value in values:
        scaling = scaling.after(float(value))
    return scaling


@pytest.mark.parametrize("absurd", [1e4, 1e9, -1e50, 9e99])
@pytest.mark.parametrize("where", [[600], [0], [1], [0, 1, 2], [0, 3, 9, 12], [600, 601, 602, 603]])
def test_no_absurd_number_spoils_a_scaling(absurd: float, where: list[int]) -> None:
    values = AGES.copy()
    values[where] = absurd
    assert scaled(AGES).used == pytest.approx((AGES[:2048].mean(), AGES[:2048].std()), rel=1e-9)
    mean, spread = scaled(values).used
    assert abs(mean - AGES.mean()) < 0.1 * AGES.std()
    assert AGES.std() / 1.1 < spread < (1.1 if where[-1] == where[0] else 2.0) * AGES.std()
    mean, spread = scaled(values[:64]).used
    if where[0] < 64:
        assert abs(mean - AGES.mean()) < AGES.std()
        assert AGES.std() / 1.5 < spread < 2.0 * AGES.std()


def test_numbers_that_are_rarely_absurd_stay_numbers() -> None:
    rng = np.random.default_rng(1)
    mean, spread = scaled(np.where(rng.random(3000) < 0.01, 1e9, AGES)).used
    assert abs(mean - AGES.mean()) < AGES.std()
    assert spread < 3.0 * AGES.std()
    heavy = np.exp(2.0 * rng.normal(size=3000))
    encoded = scaled(heavy).of(heavy)
    assert np.corrcoef(encoded, np.log(heavy))[0, 1] > 0.65
    flags = np.arange(3000) % 200 == 0.0
    assert np.ptp(scaled(flags).of(flags * 1.0)) >= 4.0


@pytest.mark.parametrize("change", [lambda x: x * 1e9, lambda x: x / 1000.0, lambda x: x + 5000.0, lambda x: -x])
def test_a_lasting_change_of_scale_is_followed(change: Any) -> None:
    values = AGES.copy()
    values[1000:] = change(values[1000:])
    late = scaled(values).of(values[2100:])
    assert late.std() > 0.3
    assert abs(np.corrcoef(late, AGES[2100:])[0, 1]) > 0.99


def test_scalings_of_a_long_stream_are_of_its_last_part() -> None:
    """However much came before: blocks have at most 65,536 values."""
    scaling = Scaling(values=1 << 24, weight=1 << 24, used_mean=0.0, used_spread=1.0)
    for step in range(1 << 16):
        scaling = scaling.after(10.0 + (step % 2))
    assert scaling.used_mean == pytest.approx(5.25, abs=0.1)
    assert scaling.weight == 1 << 17


def test_rare_words_get_no_column() -> None:
    encoder = Encoder(columns=4, enough=5)
    for j in range(2000):
        encoder.learn([{"email": f"joe{j}@example.org", "age": float(j % 50), "plan": "free" if j % 3 else "paid"}])
    assert encoder.names == ["age", "plan=free", "plan=paid"]
    assert encoder.left_out == []
    assert encoder.encode({"email": "joe5@example.org"}).tolist() == [0.0] * 3
    assert "joe" not in repr(encoder.state())
    for _ in range(5):
        encoder.learn([{"last": "x", "one": "too many"}])
    assert encoder.names[3:] == ["last=x"]
    assert encoder.left_out == ["one"]


def test_what_one_person_alone_has_gets_no_column() -> None:
    encoder = Encoder(enough=5)
    for visit in range(300):
        encoder.learn([{"email": "joe@example.org", "city": "Oslo"}], [7])
        if visit % 60 == 0:
            encoder.learn([{"city": "Oslo", "street": f"Main-{visit}"}], [visit])
    assert encoder.names == ["city=Oslo"]
    assert "joe" not in repr(encoder.state())


def test_what_waits_takes_little_memory() -> None:
    encoder = Encoder(enough=2)
    encoder.learn([{"sku": f"s{j}"} for j in range(5000)])
    assert len(encoder._waiting) == 4096
    again = Encoder.from_state(encoder.state())
    for each in (encoder, again):
        each.learn([{"sku": "s904"}, {"sku": "s903"}, {"sku": "s4999"}])
        assert each.names == ["sku=s904", "sku=s4999"]  # the 904 first have made room
    assert encoder.state() == again.state()


def test_one_odd_item_takes_half_of_the_columns_at_most() -> None:
    posterior = Regression(models.get("logistic"))
    posterior.add(1, [{f"odd{j}": float(j) for j in range(64)}])
    assert len(posterior.things) == 16
    for j in range(12):
        posterior.add(1, [{"genre": ("drama", "war", "love")[j % 3], "sku": f"s{j}", "length": float(j)}])
    assert {"genre=drama", "genre=war", "genre=love", "length"} == set(posterior.things.names[16:])


def test_items_have_the_columns_that_they_have_waited_for(tmp_path: Path) -> None:
    """Added one by one, or with a file written between, they are what they are when added together."""
    odd: dict[str, Any] = {f"odd{j}": float(j) for j in range(16)}
    items = [odd, *({"genre": "ab"[j % 2], "length": float(j * j), "title": f"tale of {j}"} for j in range(20))]
    pools = [Pool[int](model="logistic", seed=1) for _ in range(2)]
    pools[0].add(np.arange(21), features=items)
    for j, item in enumerate(items):
        pools[1].add([j], features=item)
        if j in (2, 9):
            pools[1].save(tmp_path / "pool")
            pools[1] = Pool.load(tmp_path / "pool")
    one, two = (pool._modelled.regression for pool in pools)
    assert one.things.names == two.things.names
    rows = 3 + len(one.things)
    assert rows > 3 + 16 + 3 + 7
    np.testing.assert_array_equal(one._levels.blocks[0, 3:rows, :21], two._levels.blocks[0, 3:rows, :21])
    for each in (one, two):
        each._refresh(0, 21)
    np.testing.assert_array_equal(one._levels.blocks[0, :rows, :21], two._levels.blocks[0, :rows, :21])


def test_items_that_wait_may_move_and_leave() -> None:
    posterior = Regression(models.get("logistic(item_columns=4)"))
    posterior.add(1, [{"x": 1.0, "y": 2.0}])
    posterior.add(4, [{"genre": "war"}, {}, {}, {"genre": "war", "z": 5.0}])
    posterior.remove(np.array([1]))  # the last item takes its place
    assert posterior.things.names == ["x", "y"]
    posterior.add(1, [{"genre": "war", "z": 6.0}])
    assert posterior.things.names == ["x", "y", "genre=war"]
    assert posterior._levels.blocks[0, 5, :5].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0]
    posterior.put(2, {"z": 7.0})
    assert posterior._raw["z"][:5].tolist() == pytest.approx([math.nan, 5.0, 7.0, math.nan, 6.0], nan_ok=True)


def test_an_absurd_context_does_not_spoil_a_pool() -> None:
    """It did for good: of 600 pages then half were right, as by chance."""
    rng = np.random.default_rng(1)
    pool = Pool[str]("cold-start", model="logistic", seed=0)
    pool.add(["o", "y"], features=[{"x": "o"}, {"x": "y"}])

    def right(pages: int) -> int:
        hits = 0
        for _ in range(pages):
            reader = {"age": float(rng.integers(18, 80))}
            shown = pool.serve(1, context=reader)[0].id
            if (shown == "o") == (reader["age"] > 49):
                pool.record(shown, rewards=1, context=reader)
                hits += 1
        return hits

    pool.record("y", impressions=1, context={"age": 1e50})
    right(300)
    pool.record("o", impressions=1, context={"age": 1e9})
    right(800)
    assert right(300) > 280


def test_an_encoder_is_a_function_of_what_it_learned() -> None:
    one, two = Encoder(), Encoder()
    one.learn(PEOPLE)
    for person in PEOPLE:
        two.learn([person])
    assert one.state() == two.state() == Encoder.from_state(one.state()).state()
    np.testing.assert_array_equal(one.matrix(PEOPLE), Encoder.from_state(two.state()).matrix(PEOPLE))
    assert one.encode({"age": 30, "gender": "F"}).any()


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (3, "must be a dict"),
        ({f"k{j}": 1 for j in range(1001)}, "at most 1000 keys"),
        ({"k": "\ud800"}, "valid Unicode"),
        ({"\udfff": 1}, "valid Unicode"),
        ({"k": ["a", "\ud800"]}, "valid Unicode"),
        ({"k": 10**400}, "one that a float can hold, but 'k' is a whole number of 1329 bits"),
        ({"k": -(10**5000)}, "one that a float can hold, but 'k' is a whole number of 16610 bits"),
        ({"k": Fraction(10**400, 3)}, "one that a float can hold, but 'k' is Fraction"),
        ({"": 1}, "1 to 100 characters"),
        ({"k" * 101: 1}, "1 to 100 characters"),
        ({"k": b"bytes"}, "a number, a string or a list"),
        ({"k": {"a": 1}}, "a number, a string or a list"),
        ({"k": [1, 2]}, "strings only"),
        ({"k": ["a"] * 101}, "at most 100 entries"),
        ({"k": "x" * 201}, "at most 200 characters"),
        ({"k": "word " * 2001}, "at most 10000 characters"),
    ],
)
def test_what_cannot_be_features_is_refused(features: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        models.check_features(features)
    pool = Pool[str](model="logistic")
    with pytest.raises(ValueError, match=words):
        pool.add("a", features=features if isinstance(features, dict) else [features])
    assert len(pool) == 0
    pool.add("a")
    with pytest.raises(ValueError, match=words):
        pool.record("a", impressions=1, context=features)
    assert pool.stats("a").impressions == 0


# The posterior ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", models.available())
def test_without_features_a_model_is_pseudo_counts(name: str) -> None:
    posterior = Regression(models.get(name, strength=37.0, mean=0.03))
    posterior.add(4)
    nobody = posterior.context({})
    n, s = np.zeros(4), np.zeros(4)
    rng = np.random.default_rng(0)
    for _ in range(400):
        i, y = int(rng.integers(4)), float(rng.random() < 0.1)
        posterior.observe(i, nobody, 1.0, 0.0 if (late := rng.random() < 0.5) else y)
        if late and y:
            posterior.observe(i, nobody, 0.0, y)
        n[i] += 1.0
        s[i] += y
    means, pulls = posterior.predict({})
    exact = name == "linear"
    np.testing.assert_allclose(means, (s + 37.0 * 0.03) / (n + 37.0), rtol=0.0 if exact else 1e-12)
    np.testing.assert_allclose(pulls, n + 37.0, rtol=0.0 if exact else 1e-12)


def test_one_hot_features_with_pseudo_counts_are_todays_index() -> None:
    """Of cold-start, to the last bits: the model's pseudo-counts are what the pool learns."""
    plain, modelled = Pool[int]("cold-start", seed=0), Pool[int]("cold-start", seed=0, model="linear")
    for pool in (plain, modelled):
        pool.add(np.arange(50))
    rng = np.random.default_rng(5)
    for _ in range(300):
        i = int(rng.integers(50))
        y = float(rng.random() < 0.02 * (i % 7))
        for pool in (plain, modelled):
            pool.record(i, impressions=1, rewards=y)
    assert plain.prior == modelled.prior
    np.testing.assert_allclose(modelled.scores(np.arange(50)), plain.scores(np.arange(50)), rtol=4e-16)
    one_hot = Regression(models.get("linear(strength=1e300, mean=0, scale=0.2, learn=false)", item_columns=100))
    one_hot.add(50, [{"id": f"item{j}"} for j in range(50)])  # and no level of its own
    nobody, (n, s) = one_hot.context({}), (np.zeros(50), np.zeros(50))
    for _ in range(300):
        i, y = int(rng.integers(50)), float(rng.random() < 0.3)
        one_hot.observe(i, nobody, 1.0, y)
        n[i] += 1.0
        s[i] += y
    means, pulls = one_hot.predict({})
    np.testing.assert_allclose(pulls, n + 25.0, rtol=1e-15)
    for spec in ("hellinger-ucb", "kl-ucb", "ucb1"):
        index, todays = (policy(spec).index(*counts, t=300) for counts in ((means * pulls, pulls), (s, n + 25.0)))
        np.testing.assert_allclose(index, todays, rtol=1e-15)


def _ridge(x: Any, y: Any, spread: float) -> tuple[Any, Any]:
    precision = np.eye(x.shape[1]) / spread**2 + x.T @ x
    return np.linalg.solve(precision, x.T @ y), np.linalg.inv(precision)


def test_the_linear_model_is_ridge_regression_and_linucb() -> None:
    """Without levels: the posterior of Bayesian linear regression, rewards late or not; and LinUCB's index."""
    posterior = Regression(models.get("linear(strength=1e14, mean=0, scale=0.5, learn=false)"))
    posterior.add(6, [{"u": float(j), "v": float(j * j)} for j in range(6)])
    rng = np.random.default_rng(2)
    for z in rng.normal(size=(8, 2)):
        posterior.learn_context({"p": z[0], "q": z[1]})
    people = [{"p": a, "q": b} for a, b in rng.normal(size=(30, 2))]

    def row(i: int, who: dict[str, float]) -> Any:
        w = np.concatenate([[1.0], posterior._levels.blocks[0, 3:5, i]])
        return np.outer(np.concatenate([[1.0], posterior.context(who)]), w).reshape(-1)[1:]

    x, y = [], []
    for step in range(80):
        i, who, reward = int(rng.integers(6)), people[step % 30], float(rng.normal())
        x.append(row(i, who))
        y.append(reward)
        posterior.observe(i, posterior.context(who), 1.0, 0.0)
        if step % 3:
            posterior.observe(i, posterior.context(who), 0.0, reward)
        else:
            y[-1] = 0.0
    mean, cov = _ridge(np.array(x), np.array(y), 0.5)
    for who in people[:5]:
        means, pulls = posterior.predict(who)
        rows = np.array([row(i, who) for i in range(6)])
        np.testing.assert_allclose(means, rows @ mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(1 / pulls, np.einsum("ij,jk,ik->i", rows, cov, rows), rtol=1e-8)
        index = policy("linucb(alpha=0.7)", family="gaussian").index(means * pulls, pulls, t=9)
        width = np.sqrt(np.einsum("ij,jk,ik->i", rows, cov, rows))
        np.testing.assert_allclose(index, rows @ mean + 0.7 * width, rtol=1e-8)


def test_levels_and_features_of_items_are_a_joint_posterior() -> None:
    """The linear model without contexts is exactly Bayesian regression with a random effect for each item."""
    posterior = Regression(models.get("linear(strength=4, mean=0.25, scale=0.5, learn=false)"))
    posterior.add(5, [{"g": "ab"[j % 2]} for j in range(5)])
    rng = np.random.default_rng(4)
    nobody = posterior.context({})
    counts, sums = np.zeros(5), np.zeros(5)
    for _ in range(60):
        i, y = int(rng.integers(5)), float(rng.normal())
        posterior.observe(i, nobody, 1.0, y)
        counts[i] += 1
        sums[i] += y
    group = np.array([[1.0, 0.0] if j % 2 == 0 else [0.0, 1.0] for j in range(5)])
    design = np.hstack([np.eye(5), group])
    prior = np.diag([4.0] * 5 + [4.0] * 2)  # level: 4 pseudo-observations; weights: 1/0.5²
    precision = prior + design.T @ np.diag(counts) @ design
    cov = np.linalg.inv(precision)
    mean = 0.25 + design @ (cov @ (design.T @ (sums - 0.25 * counts)))
    means, pulls = posterior.predict({})
    np.testing.assert_allclose(means, mean, rtol=1e-10)
    np.testing.assert_allclose(1 / pulls, np.einsum("ij,jk,ik->i", design, cov, design), rtol=1e-10)


@pytest.mark.parametrize("arguments", ["", ", shared=false, per_item=true"])
def test_weights_follow_their_spread(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The linear model's posterior is then the one that it would be had the spread been known from the start."""
    wanted = np.array([0.4, 0.05, 0.3, 0.7])
    monkeypatch.setattr(_spread, "fit", lambda *_: wanted)
    spec = f"linear(strength=1e12, mean=0{arguments}"
    learns, knows = (Regression(models.get(f"{spec}, learn={flag})")) for flag in ("true", "false"))
    knows.spread = wanted
    rng = np.random.default_rng(1)
    for each in (learns, knows):
        each.add(5, ITEMS[:5])
        each.people.learn(PEOPLE)
        each._reshape()
    for _ in range(150):
        i, who, y = int(rng.integers(5)), PEOPLE[int(rng.integers(40))], float(rng.normal())
        for each in (learns, knows):
            each.observe(i, each.context(who), 1.0, y)
    assert learns._moved == learns._weights.mean.size
    for who in PEOPLE[:5]:
        means, pulls = learns.predict(who)
        np.testing.assert_allclose(means, knows.predict(who)[0], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(pulls, knows.predict(who)[1], rtol=1e-6)


def test_an_event_moves_few_weights() -> None:
    """However many there are: what follows a new spread is spread over events."""
    posterior = Regression(models.get("logistic", item_columns=40))
    posterior.add(180, [{"word": f"w{j % 60}"} for j in range(180)])
    for _ in range(5):
        nobody = posterior.learn_context({f"k{j}": "x" for j in range(10)})
    for event in range(16):
        posterior.observe(event, nobody, 1.0, float(event % 2))
    size = posterior._weights.mean.size
    assert size == 11 * 41
    moves = []
    for event in range(4):  # until the next place
        before = posterior._moved
        posterior.observe(event, nobody, 1.0, 0.0)
        moves.append(posterior._moved - before)
    assert moves[:3] == [1, 1, 1]
    assert 65536 // size**2 == 0


@pytest.mark.parametrize("own", [True, False])
def test_spreads_are_learned(own: bool) -> None:
    """From weights a third or three times as large as the one that is given, of each item's own or of all."""
    for true in (0.3, 0.03):
        rng = np.random.default_rng(3)
        posterior = Regression(models.get("linear(strength=1e12, mean=0)", per_item=own, shared=not own))
        things = [{f"f{j}": float(rng.normal()) for j in range(6)} for _ in range(40)]
        posterior.add(40, things)
        people = [{f"p{j}": float(rng.normal()) for j in range(6)} for _ in range(30)]
        posterior.people.learn(people)
        posterior._reshape()
        z = posterior.people.matrix(people)
        w = posterior.things.matrix(things) if not own else np.eye(40)
        weights = true * rng.normal(size=(6, w.shape[1]))
        for _ in range(3000 if true > 0.1 else 20_000):
            i, j = int(rng.integers(40)), int(rng.integers(30))
            posterior.observe(i, z[j], 1.0, float(z[j] @ weights @ w[i] + rng.normal()))
        found = posterior.spread[3 if own else 2] ** 0.5
        assert true / 1.5 < found < 1.5 * true


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_items_that_are_little_known_do_not_bend_weights(name: str, late: bool) -> None:
    """Rates that differ very much, few impressions of each: a word that says nothing is learned to say nothing."""
    rng = np.random.default_rng(11)
    posterior = Regression(models.get(name, strength=8, mean=0.03, scale=0.5, learn=False))
    posterior.add(2000, [{"word": "ab"[j % 2]} for j in range(2000)])
    nobody = posterior.context({})
    for _ in range(5):
        nobody = posterior.learn_context({"from": "x"})
    for i, rate in enumerate(rng.gamma(8 * 0.03, 1 / 8, 2000).tolist()):
        for _ in range(6):
            y = float(rng.random() < rate)
            posterior.observe(i, nobody, 1.0, 0.0 if late else y)
            if late and y:
                posterior.observe(i, nobody, 0.0, y)
    for effect in posterior.effects():
        assert abs(effect.effect) < 3 * effect.error
    assert min(effect.error for effect in posterior.effects()) < 0.25
    posterior.add(1, [{"word": "a"}])
    assert posterior.predict({"from": "x"}, np.array([2000]))[0] == pytest.approx(0.03, rel=0.2)


def test_a_given_prior_is_of_those_who_saw_the_items() -> None:
    """A model takes it for people without features, who were shown little; where nobody has any, as it is."""
    rng = np.random.default_rng(5)
    pools = [Pool[int]("cold-start", model="logistic", learn="given", seed=0) for _ in range(2)]
    for pool, context in zip(pools, ({"likes": "art"}, {}), strict=True):
        pool.add(np.arange(300), features=[{"topic": "art"}] * 300)
        rates = rng.beta(0.5, 50, 300)
        first, then = rng.binomial(20, rates), rng.binomial(80, np.minimum(4 * rates, 1.0))
        pool.record_many(np.arange(300), 20, first, contexts={})
        pool.record_many(np.arange(300), 80, then, contexts=[context] * 300)
        pool.set_prior(hellinger.policies.fit_prior(first + then, np.full(300, 100.0)))
    (asked, plain), regressions = pools, [pool._modelled.regression for pool in pools]
    prior = plain.prior
    assert prior is not None
    assert asked.prior is not None
    assert regressions[1].strength == prior.strength
    assert regressions[1].mass == prior.strength * (prior.a / prior.strength)
    seen = asked.prior.a / asked.prior.strength
    assert regressions[0].mass / regressions[0].strength < 0.7 * seen
    assert regressions[0].mass == pytest.approx(asked.prior.a, rel=0.05)  # log-odds differ as much as before


def test_items_of_a_poisson_model_differ_as_much_as_they_are_seen_to() -> None:
    for strength in (0.5, 20.0):
        rng = np.random.default_rng(7)
        posterior = Regression(models.get("poisson"))
        n = rng.integers(1, 200, 400).astype(float)
        posterior.add(400, None, n, rng.poisson(n * rng.gamma(2.0 * strength, 1.0 / strength, 400)))
        posterior.learn_prior(families.Poisson())
        assert strength / 1.3 < posterior.strength < 1.3 * strength
        assert posterior.mass / posterior.strength == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("spec", ["logistic", "poisson", "linear", "logistic(per_item=true)", "logistic(shared=false)"])
def test_late_rewards_are_near_those_at_once(spec: str) -> None:
    late, prompt = (Regression(models.get(spec, strength=50.0, mean=0.1, learn=False)) for _ in range(2))
    rng = np.random.default_rng(6)
    for each in (late, prompt):
        each.add(9, ITEMS[:9])
        each.people.learn(PEOPLE)
        each._reshape()
    for step in range(300):
        i, who, y = int(rng.integers(9)), PEOPLE[step % 40], float(rng.random() < 0.15)
        prompt.observe(i, prompt.context(who), 1.0, y)
        late.observe(i, late.context(who), 1.0, 0.0)
        if y:
            late.observe(i, late.context(who), 0.0, y)
    for who in PEOPLE[:6]:
        np.testing.assert_allclose(late.predict(who)[0], prompt.predict(who)[0], rtol=0.1, atol=0.005)
        np.testing.assert_allclose(late.predict(who)[1], prompt.predict(who)[1], rtol=0.1)


# The pool ---------------------------------------------------------------------------------------------

POLICIES = ("cold-start", "hellinger-ucb", "linucb(alpha=0.3)", "greedy")


@pytest.mark.parametrize("spec", POLICIES)
def test_a_ranking_is_that_of_a_full_scan(spec: str) -> None:
    pool = lived(spec, items=700, pages=40)
    assert pool._context is not None
    assert pool._context.prunes
    for who, k in itertools.product([{}, PEOPLE[0], PEOPLE[3], {"age": 99, "gender": "X"}], (1, 7, 40)):
        ids = [i for i in pool.ids if i != 4]
        full = pool.rank(k, context=who, among=ids, seed=k)
        assert pool.rank(k, context=who, seed=k) == full
        scores = np.sort(pool.scores(ids, context=who))[::-1][:k]
        assert [row.score for row in full] == scores.tolist()
        some = [i for i in ids if i % 2 == 0 and i not in (2, 6, 1000)]
        chosen = pool.rank(k, context=who, tags=["even"], exclude=[2, 6], seed=k)
        assert chosen == pool.rank(k, context=who, among=some, seed=k)
        for hints in ([], [5] * 60, range(-3, 30), range(690, 800)):  # what is looked at first changes nothing
            pool._context._hints = np.array(hints, np.int64)
            assert pool.rank(k, context=who, seed=k) == full


@pytest.mark.parametrize(
    "model", ["logistic", "linear", "logistic(per_item=true)", "logistic(shared=false, per_item=true)"]
)
@pytest.mark.parametrize("spec", ["cold-start", "hellinger-ucb", "laplace-thompson"])
def test_a_pool_goes_on_from_its_file(tmp_path: Path, spec: str, model: str) -> None:
    pool = lived(spec, model)
    pool.save(tmp_path / "pool")
    again = Pool.load(tmp_path / "pool")
    assert repr(again) == repr(pool)
    for step in range(30):
        who = PEOPLE[step]
        assert again.rank(6, context=who) == pool.rank(6, context=who)
        for each in (pool, again):
            shown = each.serve(4, context=who)
            each.record(shown[step % 4].id, rewards=1, context=who)
    assert pool.effects() == again.effects()


def test_a_pool_is_a_function_of_what_happened() -> None:
    one, two = lived(), lived()
    for _ in range(3):
        two.rank(5, context={"new": "person", "age": 1})
        two.predict([3], context={"newer": 4})
        two.explain(3, context=PEOPLE[1])
    assert one.rank(20, context=PEOPLE[5]) == two.rank(20, context=PEOPLE[5])


def test_removed_items_leave_their_places_to_others() -> None:
    pool = lived(pages=30)
    before = {i: (pool.predict([i], context=PEOPLE[2]), pool.explain(i, context=PEOPLE[2])) for i in pool.ids}
    pool.remove([1, 2, 3, 50, 89, 1001])
    for i in pool.ids:
        (means, pulls), parts = before[i]
        assert pool.predict([i], context=PEOPLE[2]) == (means, pulls)
        assert pool.explain(i, context=PEOPLE[2]) == parts


@pytest.mark.parametrize("model", ["logistic", "logistic(per_item=true, shared=false)"])
def test_an_explanation_adds_up(model: str) -> None:
    pool = lived(model=model)
    for name in pool.ids[:20]:
        parts = pool.explain(name, context=PEOPLE[1])
        (mean,), _ = pool.predict([name], context=PEOPLE[1])
        assert sum(part.effect for part in parts) == pytest.approx(math.log(mean / (1 - mean)), abs=1e-9)
        assert parts[0].name == "item"
        assert all(part.error > 0 for part in parts)


def test_people_get_what_they_like() -> None:
    pool = lived(pages=250)
    for gender, liked in (("F", True), ("M", False)):
        best = pool.rank(5, context={"gender": gender})
        assert sum((ITEMS[row.id % 90]["genre"] == "drama") == liked for row in best) >= 4
    effects = {effect.name: effect for effect in pool.effects()}
    assert effects["gender=F × genre=drama"].effect > effects["gender=F × genre=drama"].error
    assert effects["gender=M × genre=drama"].effect < 0


def test_numbers_of_items_are_scaled_by_all_of_them() -> None:
    one, two = (Regression(models.get("logistic")) for _ in range(2))
    one.add(90, ITEMS)
    for item in ITEMS:
        two.add(1, [item])
    rows = 3 + len(one.things)
    np.testing.assert_array_equal(one._levels.blocks[0, :rows, :90], two._levels.blocks[0, :rows, :90])


def test_a_blank_pool_has_the_items_and_knows_nothing() -> None:
    pool = lived()
    blank = pool.blank()
    assert blank.ids == pool.ids
    assert not any(effect.effect for effect in blank.effects())
    assert all(stats.impressions == 0 for stats in map(blank.stats, blank.ids))
    blank.serve(3, context=PEOPLE[0])


def test_what_a_model_refuses() -> None:
    pool = Pool[str]("kl-ucb")
    pool.add("a")
    for call in (
        lambda: pool.rank(1, context={"a": 1}),
        lambda: pool.record("a", rewards=0, context={}),
        lambda: pool.add("b", features={"a": 1}),
        lambda: pool.record_many(["a"], contexts=[{}]),
        lambda: pool.explain("a"),
        lambda: pool.predict(["a"]),
        lambda: pool.effects(),
    ):
        with pytest.raises(ValueError, match="model"):
            call()
    with pytest.raises(ValueError, match="window"):
        Pool(model="logistic", window=5)
    with pytest.raises(ValueError, match="window"):
        Pool(model="logistic", half_life=5)
    with pytest.raises(ValueError, match="did you mean logistic"):
        Pool(model="logstic")
    with pytest.raises(ValueError, match="0 < scale"):
        models.get("logistic(scale=-1)")
    with pytest.raises(ValueError, match="takes these arguments"):
        models.get("logistic(alpha=1)")
    modelled = Pool[str](model="logistic")
    modelled.add("a")
    with pytest.raises(ValueError, match="model"):
        modelled.set_counts(["a"], [1], [0])
    with pytest.raises(ValueError, match="for each event"):
        modelled.record_many(["a", "a"], 1, contexts=[{}])
    for wrong in (5, ["x"], np.array([1.5])):
        with pytest.raises(ValueError, match="a context must be a dict"):
            modelled.record_many(["a"], 1, contexts=wrong)  # type: ignore[arg-type]
    assert modelled.rounds == 0


def test_contexts_come_in_any_iterable() -> None:
    who = [{"age": 1}, {"age": 5}]
    means = []
    for contexts in (who, tuple(who), iter(who), np.array(who)):
        pool = Pool[str](model="logistic")
        pool.add(["a", "b"])
        pool.record_many(["a", "b"], 1, [1, 0], contexts=contexts)
        means.append(pool.predict(["a", "b"], context={"age": 3})[0].tolist())
    assert means == [means[0]] * 4


def test_another_family_takes_the_means_it_has() -> None:
    pool = Pool[int]("hellinger-ucb", family="poisson", model="poisson", seed=0)
    pool.add([0, 1, 2], features=[{"kind": "x"}, {"kind": "y"}, {}])
    for step in range(40):
        shown = pool.serve(1, context={"who": "ab"[step % 2]})
        pool.record(shown[0].id, rewards=float(3 * (shown[0].id == 1)), context={"who": "ab"[step % 2]})
    assert pool.rank(1, context={"who": "a"})[0].id == 1
    linear = Pool[int]("kl-ucb", family="gaussian", model="linear", seed=0)
    linear.add([0, 1])
    linear.record(0, impressions=5, rewards=-3.0, context={"z": 2})
    assert linear.rank(1)[0].id == 1
    assert isinstance(linear.policy.family, families.Gaussian)
    assert hellinger.models is models


@pytest.mark.parametrize("spec", ["cold-start", "hellinger-ucb", "laplace-thompson", "linucb(alpha=0.5)"])
def test_a_bandit_knows_who_is_asking(tmp_path: Path, spec: str) -> None:
    arms = {name: {"topic": name.partition("-")[0]} for name in ("news-1", "sport-1", "news-2", "sport-2")}
    bandit = Bandit(spec, arms, model="logistic", features=arms, seed=2)
    rng = np.random.default_rng(8)

    def play(each: Bandit, rounds: int) -> None:
        for step in range(rounds):
            reader = {"likes": ("news", "sport")[step % 2]}
            arm = str(each.select(context=reader))
            each.update(arm, float(rng.random() < (0.8 if arm.startswith(reader["likes"]) else 0.05)), context=reader)

    play(bandit, 200)
    bandit.remove("news-1")
    bandit.add("news-3", features={"news-3": {"topic": "news"}})
    play(bandit, 100)
    for topic in ("news", "sport"):
        assert all(str(arm).startswith(topic) for arm in bandit.rank(1, context={"likes": topic}))
    bandit.save(tmp_path / "bandit")
    again = Bandit.load(tmp_path / "bandit")
    assert repr(again) == repr(bandit)
    for step in range(40):
        who = {"likes": ("news", "sport", "art")[step % 3]}
        arm = bandit.select(context=who)
        assert again.select(context=who) == arm
        for each in (bandit, again):
            each.update(arm, float(step % 2), context=who)
    assert bandit.sums.tolist() == again.sums.tolist()


def test_a_bandit_without_a_model_takes_no_context() -> None:
    bandit = Bandit("cold-start", 3)
    for call in (
        lambda: bandit.select(context={"a": 1}),
        lambda: bandit.update(0, 1.0, context={}),
        lambda: bandit.add("x", features={"x": {}}),
    ):
        with pytest.raises(ValueError, match="has a model"):
            call()
    modelled = Bandit("cold-start", 3, model="logistic")
    with pytest.raises(ValueError, match="of arms that are added"):
        modelled.add("x", features={"y": {}})
    with pytest.raises(ValueError, match="one context for each arm"):
        modelled.update_many([0, 1], [1, 0], contexts=[{}])
    assert modelled.rounds == 0


def test_an_older_pool_with_a_model_is_refused_by_its_format(tmp_path: Path) -> None:
    """What its model had learned has another form: the error says so, not which key is missing."""
    path = tmp_path / "pool"
    for model in (None, "logistic"):
        pool: Pool[str] = Pool("cold-start", model=model)
        pool.add(["a", "b"])
        pool.save(path)
        body = path.read_bytes()[:-32].replace(b'"format": 12', b'"format": 9 ')
        path.write_bytes(body + hashlib.blake2b(body, digest_size=32).digest())
        if model is None:
            assert len(Pool.load(path)) == 2
        else:
            with pytest.raises(ValueError, match=r"a pool with a model has format 10.*format=9"):
                Pool.load(path)
