"""Impressions that are worth less than one: in pools, in the fold of the log, and the curve that is learned."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from hellinger.engine.desk import Desk
from hellinger.engine.positions import PositionCurve, draft, due, fit_curve, worth_of
from hellinger.engine.settings import Settings
from hellinger.families import Binomial
from hellinger.ledger import COMMON, Ledger
from hellinger.ledger.looks import MOST, Looks, Worth, lacks_by, lacks_of, ties_of, zones_of
from hellinger.pool import Pool, SegmentedPool
from hellinger.pool._scan import score_counts
from hellinger.serve.looks import positions
from hellinger.traffic.months import DeskPlayer
from hellinger.world.site import Clicks, Site, turns
from ledger_model import START, Log
from lives import Copy

# Pools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["cold-start", "hellinger-ucb", "ucb1", "imed"])
def test_a_pool_ranks_exactly_by_what_impressions_are_worth(spec: str) -> None:
    """The index of every item is that of its sums, with as many impressions as its rewards take at least."""
    rng = np.random.default_rng(5)
    pool = Pool[int](spec, learn="given") if spec == "cold-start" else Pool[int](spec)
    pool.add(np.arange(300))
    n, s = np.zeros(300), np.zeros(300)
    for _ in range(200):
        some, worth = rng.permutation(300)[:8], rng.integers(1, 257, 8) / 256
        clicked = rng.random(8) < 0.3
        pool.record_many(some, worth)
        pool.record_many(some[clicked], 0, 1)
        n[some] += worth
        s[some] += clicked
    assert (s > n).sum() > 20
    a, strength, focus = (0.0, 0.0, 1.0) if pool.prior is None else pool.prior[:3]
    index = pool.policy.index(s, np.maximum(n, s), t=pool.rounds + 1)
    if spec == "cold-start":
        score_counts(pool.policy.rule, s + a, np.maximum(n, s) + strength, n.sum() * focus + 1, 300.0, index)
    np.testing.assert_array_equal(pool.scores(np.arange(300)), index)
    ranked = pool.rank(300)
    assert [row.score for row in ranked] == sorted(index, reverse=True)
    assert all(row.score == index[row.id] for row in ranked)
    assert [(row.impressions, row.rewards) for row in ranked] == [(n[row.id], s[row.id]) for row in ranked]
    assert pool.rounds == n.sum()


def test_sums_do_not_depend_on_the_order_of_events(tmp_path: Path) -> None:
    rng = random.Random(3)
    events = [(rng.randrange(50), rng.randrange(1, 257) / 256, 0) for _ in range(400)]
    events += [(rng.randrange(50), 0.0, 1) for _ in range(30)]
    pools = []
    for seed in range(2):
        pool = Pool[int]("cold-start", learn="given")
        pool.add(np.arange(50), 0.25)
        for name, impressions, rewards in random.Random(seed).sample(events, len(events)):
            pool.record(name, impressions=impressions, rewards=rewards)
        pool.learn()
        pools.append(pool)
    assert pools[0].prior == pools[1].prior
    assert pools[0].rank(50, seed=1) == pools[1].rank(50, seed=1)
    pools[0].save(tmp_path / "pool")
    again = Pool.load(tmp_path / "pool")
    assert again.rank(50, seed=1) == pools[1].rank(50, seed=1)
    again.add(60, 1, 3)  # it still knows that impressions may be worth less than one
    assert again.blank().stats(60).impressions == 0


def test_serve_counts_what_each_place_is_worth() -> None:
    pool = Pool[str]("ucb1", ties="oldest")
    pool.add(list("abcde"))
    assert [row.id for row in pool.serve(4, worth=[1, 0.5, 0.25])] == list("abcd")
    assert [pool.stats(name).impressions for name in "abcde"] == [1, 0.5, 0.25, 0.25, 0]
    assert pool.rounds == 2
    pool.record("c", rewards=1)
    stats = pool.stats("c")
    assert (stats.impressions, stats.rewards, stats.mean) == (0.25, 1, 1.0)
    assert stats.score == pool.policy.index([1.0], [1.0], t=3.0)[0]
    with pytest.raises(ValueError, match=r"0 < impressions.*rewards=1 for impressions=0"):
        pool.record("e", rewards=1)
    segments = SegmentedPool("ucb1", ties="oldest", enough=1)
    segments.add(list("abc"))
    segments.serve(2, "phone", worth=[1, 0.5])
    segments.pick(2, "phone", worth=[1, 0.5])
    assert segments.segment("phone").rounds == segments.pooled.rounds == 3


def test_a_pool_of_whole_impressions_refuses_rewards_that_they_cannot_have() -> None:
    pool = Pool[str]()
    pool.add("a", 2, 1)
    with pytest.raises(ValueError, match="rewards=3 for impressions=2"):
        pool.record("a", rewards=2)
    pool.record("a", impressions=0.5)
    pool.record("a", rewards=2)
    assert pool.stats("a")[:2] == (2.5, 3)


def test_a_window_forgets_fractions() -> None:
    pool = Pool[str]("ucb1", window=3, buckets=3)
    pool.add(["a", "b"])
    for _ in range(5):
        pool.record("a", impressions=0.1)
        pool.record("a", impressions=0.7, rewards=1)
        pool.advance(1)
    pool.advance(3)
    assert pool.stats("a").impressions == 0
    assert [row.impressions for row in pool.rank(2)] == [0, 0]


def test_a_reward_of_several_trials_takes_its_part_of_an_impression() -> None:
    pool = Pool[str]("hellinger-ucb", family=Binomial(10))
    pool.add("a", 0.25)
    pool.record("a", rewards=5)
    assert pool.scores(["a"])[0] == pool.policy.index([5.0], [0.5], t=1.25)[0]


# The curve --------------------------------------------------------------------------------------------


def _posterior(logs: Any, rewards: dict[tuple[int, int], list[float]]) -> float:
    """−log of the posterior, written down anew: increments of a random walk with a drift that is drawn."""
    curve = np.concatenate([[0.0], logs])
    value = 0.0
    for (first, end), earned in rewards.items():
        chances = np.exp(curve[first:end]) / np.exp(curve[first:end]).sum()
        value -= float(np.sum(np.array(earned) * np.log(chances)))
    x = np.log(np.arange(1.0, curve.size + 1.0))
    steps, lengths = np.diff(curve), np.diff(x)

    def walk(drift: float) -> float:
        return float(drift**2 / 2 + np.sum((steps - drift * lengths) ** 2 / (2 * 0.25 * lengths)))

    return value + float(optimize.minimize_scalar(walk).fun)


@pytest.mark.parametrize(
    "rewards",
    [
        {(0, 5): [40.0, 22.0, 12.5, 9.0, 8.0]},
        {(2, 6): [9.0, 7.0, 3.0, 4.0], (0, 2): [3.0, 1.0], (0, 6): [5.0, 0.0, 1.0, 2.0, 0.0, 1.0]},
    ],
)
def test_the_curve_is_the_most_likely_one(rewards: dict[tuple[int, int], list[float]]) -> None:
    curve = fit_curve(rewards)
    best = optimize.minimize(_posterior, np.zeros(curve.looked.size - 1), args=(rewards,), method="BFGS", tol=1e-9)
    np.testing.assert_allclose(np.log(curve.looked[1:]), best.x, atol=2e-5)
    assert curve.looked[0] == 1
    assert curve.error[0] == 0
    assert (np.diff(curve.error) > -0.05).all()


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_the_curve_is_as_certain_as_it_says(eta: float) -> None:
    """Of stretches drawn by the model: the errors of log θ, over their standard errors, have a size of about one."""
    rng = np.random.default_rng(7)
    theta = np.arange(1.0, 11.0) ** -eta
    ratios, known = [], []
    for _ in range(60):
        rewards: dict[tuple[int, int], list[float]] = {}
        for first, end, number in ((0, 10, 80), (4, 10, 60), (0, 3, 20)):
            chances = theta[first:end] / theta[first:end].sum()
            rewards[first, end] = rng.multinomial(number, chances).astype(float).tolist()
        curve = fit_curve(rewards)
        ratios.append((np.log(curve.looked[1:]) - np.log(theta[1:])) / curve.error[1:])
        known.append(curve.known)
    assert 0.4 < np.sqrt(np.mean(np.square(ratios))) < 1.2
    assert sum(known) <= 12 if eta == 0 else sum(known) >= 40


def test_without_rewards_nothing_is_known() -> None:
    assert fit_curve({}).looked.tolist() == [1.0]
    assert not fit_curve({}).known
    assert not due(Ledger())
    assert lacks_by("learned", {}) is None
    assert lacks_by((1.0, 0.9999), {}) is None


def test_zones_are_worth_the_mean_of_their_positions() -> None:
    assert zones_of(12).tolist() == [0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8]
    worth = [1.0, 0.5, 0.25, 0.25, 0.25, 0.25, 0.5, 0.25, 1e-9, 1e-9]
    assert Worth(lacks_of(worth)).of(12).tolist() == [*worth[:6], 0.375, 0.375, *4 * [1 / 256]]
    assert Worth(None).of(3).tolist() == [1, 1, 1]


def test_a_curve_is_replaced_by_one_that_differs_enough() -> None:
    error = np.array([0.0, 0.01, 0.01])
    first = PositionCurve(np.array([1.0, 0.5, 0.25]), error)
    assert worth_of(first, []) == [1.0, 0.5, 0.25]
    assert worth_of(PositionCurve(np.array([1.0, 0.52, 0.26]), error), [1.0, 0.5, 0.25]) == [1.0, 0.5, 0.25]
    assert worth_of(PositionCurve(np.array([1.0, 0.52, 0.2]), error), [1.0, 0.5, 0.25]) == [1.0, 0.52, 0.2]
    assert worth_of(PositionCurve(np.ones(3), error), [1.0, 0.5, 0.25]) == []


def test_looks_are_counted_by_stretch() -> None:
    looks = Looks()
    looks.note(0b110011, 1, 1.0)
    looks.note(0b110011, 5, 0.5)
    looks.note(0b110011, 3, 1.0)  # alone: not in random order
    looks.note((1 << 200) - 1, 0, 0.25)
    looks.note((1 << 200) - 1, 120, 1.0)  # too far back
    assert looks.rewards == {(0, 3): [0, 1, 0], (4, 7): [0, 0.5, 0], (0, MOST): [0.25, *[0.0] * (MOST - 1)]}
    again = Looks.of(looks.as_json())
    assert (again.rewards, again.total) == (looks.rewards, looks.total) == (looks.rewards, 1.75)


def test_stretches_are_found_as_by_going_from_neighbour_to_neighbour() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        size, share = rng.randint(1, 70), rng.choice([0.1, 0.5, 0.9, 0.99])
        scores = [5.0]
        for _ in range(size - 1):
            scores.append(scores[-1] - (rng.random() > share))
        ties = ties_of({"policy": "ucb1", "scores": scores})
        assert [bool(ties >> j & 1) for j in range(MOST + 1)] == [
            j + 1 < min(size, MOST + 1) and scores[j] == scores[j + 1] for j in range(MOST + 1)
        ]
        position = rng.randrange(size)
        alike = [j for j in range(min(size, MOST)) if scores[j] == scores[position]]
        looks = Looks()
        looks.note(ties, position, 0.5)
        if position < MOST and len(alike) > 1:
            assert looks.rewards == {(alike[0], alike[-1] + 1): [0.5 * (j == position) for j in alike]}
        else:
            assert (looks.rewards, looks.total) == ({}, 0.0)


# The service ------------------------------------------------------------------------------------------


def test_a_desk_learns_how_much_positions_are_looked_at() -> None:
    """On the simulated site: the curve is within its errors, pools count by it, totals stay impressions."""
    desk = Desk(Ledger(), {"a": "cold-start"}, random_share=0.3, seed=1)
    player = DeskPlayer(desk, 40)
    rates = np.random.default_rng(0).beta(2.0, 10.0, 40)
    site = Site(items=40, slots=6)
    for turn in turns(site, player, Clicks(rates, 2, eta=1.0)):
        if turn.shown >= 6 * 1500:
            break
    _, fields = desk.ledger.curve
    looked, error = np.array(fields["looked"]), np.array(fields["error"])
    assert (np.abs(np.log(looked) + np.log(np.arange(1.0, 7.0))) <= 3 * error).all()
    assert np.abs(np.log(np.array(fields["worth"]) / looked)).max() <= 0.1
    told = positions(desk)
    assert told["known"]
    assert "counts as" in told["sentence"]
    assert told["worth"] == desk.pools.of("a").rounds < 0.7 * told["impressions"]
    n, _ = desk.ledger.whole()
    assert told["impressions"] == n.sum() == desk.ledger.series.totals["a"][1]
    assert [row["worth"] for row in told["positions"]] == Worth(lacks_of(fields["worth"])).of(6).tolist()
    assert desk.ledger.priors["a", ""][1]["curve"] == fields["recounted"]  # fitted again since


def test_what_impressions_are_worth_follows_the_curve_in_force() -> None:
    copy = Copy(Log(), variants={"a": "hellinger-ucb"}, positions=(1.0, 0.5, 0.25), seed=3)
    copy.add(*"vwxyz")
    ranking = copy.rank(4)
    name, items = ranking.event.key, ranking.fields["items"]
    slots = np.array([copy.desk.ledger.catalogue.slots[item] for item in items])

    def counted() -> list[list[float]]:
        stats = [copy.desk.pools.of("a").stats(slot) for slot in slots.tolist()]
        assert [column.tolist() for column in copy.desk.pools.sums("a", slots)] == [
            [each.impressions for each in stats],
            [each.rewards for each in stats],
        ]
        return [[each.impressions for each in stats], [each.rewards for each in stats]]

    assert counted() == [[1, 0.5, 0.25, 0.25], [0, 0, 0, 0]]
    copy.flush()
    assert counted() == [[1, 0.5, 0.25, 0.25], [0, 0, 0, 0]]
    assert copy.give(name, items[3]) == "accepted"
    copy.flush()
    assert counted() == [[1, 0.5, 0.25, 0.25], [0, 0, 0, 1]]
    assert copy.desk.ledger.sums(slots)[0].tolist() == [1, 1, 1, 1]
    copy.check()
    copy.options["positions"] = "none"
    copy.start()
    assert counted() == [[1, 1, 1, 1], [0, 0, 0, 1]]
    copy.options["positions"] = "learned"
    copy.start()
    open_ = copy.rank(2)  # in the overlay while the curve changes
    copy.desk.state.commit([(copy.desk.ledger.seq + 1, draft({(0, 4): [90.0, 30.0, 20.0, 10.0]}, (0, {}), START))])
    worth = copy.desk.ledger.curve[1]["worth"]
    places = Worth(lacks_of(worth)).of(4).tolist()
    shown = [copy.desk.ledger.catalogue.slots[item] for item in open_.fields["items"]]
    expected = [places[j] + (places[shown.index(slot)] if slot in shown else 0.0) for j, slot in enumerate(slots)]
    assert counted() == [expected, [0, 0, 0, 1]]


def test_confirmed_impressions_are_worth_one() -> None:
    copy = Copy(Log(), variants={"a": "ucb1"}, positions=(1.0, 0.5), counted=False)
    copy.add(*"xyz")
    ranking = copy.rank(3)
    copy.flush()
    copy.give(ranking.event.key, ranking.fields["items"][2])
    copy.flush()
    assert copy.desk.ledger.rounds(variants=["a", COMMON], lacks=copy.desk.pools.lacks) == 1
    assert "confirmed" in positions(copy.desk)["sentence"]


def test_of_two_curves_after_one_the_log_takes_the_first() -> None:
    log = Log()
    copies = [Copy(log, seed=j) for j in range(2)]
    copies[0].add("x", "y")
    copies[1].flush()
    for copy, earned in zip(copies, ([90.0, 10.0], [10.0, 90.0]), strict=True):
        copy.write([draft({(0, 2): earned}, (0, {}), START)])
    for copy in (*copies, *copies):
        copy.flush()
    curves = [copy.desk.ledger.curve for copy in copies]
    assert curves[0] == curves[1]
    assert curves[0][1]["looked"][1] < 0.5
    lacks = [copy.desk.pools.lacks for copy in copies]
    assert lacks[0] is not None
    assert lacks[1] is not None
    assert lacks[0].tolist() == lacks[1].tolist()
    assert lacks[0].min() > 0.5


def test_a_flat_curve_says_so() -> None:
    desk = Desk(Ledger(), {"a": "ucb1"})
    assert positions(desk)["sentence"].startswith("Every impression counts as one: items in random order")
    desk.commit_own([(1, draft({(0, 4): [5.0, 5.0, 4.0, 5.0]}, (0, {}), START))])
    told = positions(desk)
    assert not told["known"]
    assert "does not tell it from all alike" in told["sentence"]
    assert all(one["low"] < one["looked"] < one["high"] for one in told["positions"][1:])
    assert positions(Desk(Ledger(), {"a": "ucb1"}, positions="none"))["sentence"].startswith("Every impression counts")


def test_settings_read_positions() -> None:
    assert Settings().positions == "learned"
    for text in ("1, 0.7, 0.5", "[1, 0.7, 0.5]"):
        assert Settings.load(environ={}, flags={"positions": text}).positions == (1.0, 0.7, 0.5)
    assert Settings.load(environ={"HELLINGER_POSITIONS": "none"}).positions == "none"
    for wrong in ("1, 0", "often", "[1, 2]", "0.5, 0.2", "[]", '{"a": 1}'):
        with pytest.raises(ValueError, match="positions"):
            Settings.load(environ={}, flags={"positions": wrong})


def test_a_refused_event_does_not_change_what_is_checked() -> None:
    pool = Pool[str]()
    pool.add("a", 10, 1)
    with pytest.raises(KeyError):
        pool.record("nobody", impressions=0.5)
    with pytest.raises(ValueError, match="'a'"):
        pool.add("a", impressions=0.5)
    with pytest.raises(ValueError, match="rewards"):
        pool.record("a", impressions=1, rewards=100)


def test_a_window_of_fractions_ends_at_nothing() -> None:
    pool = Pool[str](window=2, buckets=2)
    pool.add("a")
    for _ in range(50):
        pool.record("a", impressions=0.1)
    pool.advance(1)
    for _ in range(30):
        pool.record("a", impressions=0.7)
    pool.advance(10)
    assert pool.rounds == pytest.approx(0.0, abs=1e-9)
    assert pool.rounds >= 0


def test_ties_are_those_of_equal_neighbours_in_whatever_order() -> None:
    rng = np.random.default_rng(5)
    for size in (0, 1, 2, 20, MOST, MOST + 1, MOST + 2, 200):
        scores = [None if score == 0 else score / 4 for score in rng.integers(0, 4, size).tolist()]
        bits = [j for j in range(min(size - 1, MOST)) if scores[j] == scores[j + 1]]
        assert ties_of({"policy": "ucb1", "scores": scores}) == sum(1 << j for j in bits)
        for policy in ("ucb1", "fixed"):
            falling = sorted(scores, key=lambda score: score or 0.0, reverse=True)
            for each in (falling, falling[:1] * size):
                fields = {"policy": policy, "scores": each}
                assert ties_of(fields, falling=True) == ties_of(fields)
        assert ties_of({"policy": "fixed", "scores": scores}) == 0
        assert ties_of({"random": True, "scores": scores}) == (1 << max(min(size - 1, MOST), 0)) - 1
