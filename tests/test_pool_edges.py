"""Pools at their edges: what a user may do in the first hour."""

from __future__ import annotations

import numpy as np
import pytest

import hellinger
from hellinger import Bandit, Pool, policy, simulate
from hellinger.pool import Leaving, SegmentedPool


@pytest.mark.parametrize("family", ["poisson", "gaussian", "gamma", "geometric"])
def test_unbounded_families_take_new_contents_without_a_warning(family: str) -> None:
    pool = Pool("hellinger-ucb", family=family, window=2.0, buckets=2)
    pool.add(["a", "b"])
    pool.record("a", impressions=3, rewards=4.0)
    pool.advance(5.0)
    assert pool.stats("a").impressions == 0


@pytest.mark.parametrize("spec", ["imed", "thompson", "uniform"])
def test_contents_are_outclassed_only_by_an_upper_bound(spec: str) -> None:
    with pytest.raises(ValueError, match=r"upper bound.*policy='" + spec):
        Pool(spec, leaving=Leaving(share=0.5))


def test_ranking_changes_nothing_though_a_prior_is_learned() -> None:
    rng = np.random.default_rng(3)
    quiet, curious = Pool(ties="oldest"), Pool(ties="oldest")
    for pool in (quiet, curious):
        pool.add(range(300))
    for _ in range(40):
        ids = rng.integers(0, 300, 50)
        clicks = rng.random(50) < 0.05
        for pool in (quiet, curious):
            pool.record_many(ids, 1, clicks)
        curious.rank(5)
    assert quiet.rank(300) == curious.rank(300)
    best = quiet.rank(1)[0]
    assert quiet.stats(best.id).score == best.score


def test_stats_and_rank_agree_right_after_loading() -> None:
    rng = np.random.default_rng(1)
    n = rng.integers(50, 200, 1000)
    pool = Pool()
    pool.add(range(1000), n, rng.binomial(n, 0.03))
    assert pool.stats(0).score == next(content.score for content in pool.rank(1000) if content.id == 0)


def test_one_id_may_be_excluded_by_itself() -> None:
    pool = Pool("ucb1", ties="oldest")
    pool.add(["t1", "t2"])
    assert [content.id for content in pool.rank(2, exclude="t1")] == ["t2"]
    with pytest.raises(ValueError, match="no such"):
        pool.rank(2, exclude="t1", among=["no such"])
    assert {content.id for content in pool.rank(2)} == {"t1", "t2"}  # it was excluded from that ranking alone


def test_ids_from_a_generator_reach_every_segment() -> None:
    pool = SegmentedPool("ucb1")
    pool.add(["a", "b", "c"])
    pool.record("a", "north", impressions=1)
    pool.remove(name for name in ["a", "b"])
    assert len(pool) == len(pool.segment("north")) == 1
    pool.add("a")
    assert len(pool.segment("north")) == 2


@pytest.mark.parametrize("options", [{}, {"window": 4.0, "buckets": 2}, {"half_life": 2.0}])
def test_a_blank_pool_has_the_contents_and_no_history(options: dict[str, float]) -> None:
    pool = Pool("hellinger-ucb", ties="oldest", **options)  # type: ignore[arg-type]
    pool.add(["a", "b", "c"], [5, 50, 0], [1, 2, 0], tags=[["x"], ["y"], ["x"]])
    pool.hide("c")
    pool.advance(3.0)
    pool.add("d")
    pool.remove("a")
    blank = pool.blank()
    assert (blank.ids, blank.eligible, blank.rounds, blank.time) == (["b", "c", "d"], 2, 0, 3.0)
    assert blank.stats("b")[:2] == (0, 0)
    assert (blank.stats("b").age, blank.stats("b").tags) == (3.0, frozenset({"y"}))
    blank.unhide("c")
    blank.record("b", impressions=3)
    assert [content.id for content in blank.rank(3)] == ["c", "d", "b"]
    assert pool.stats("b").impressions == pytest.approx(50 if not options.get("half_life") else 50 / 2**1.5)
    assert not pool.offers("c")


@pytest.mark.parametrize("way", ["serve", "pick"])
def test_contents_that_leave_by_the_first_ranking_of_a_segment(way: str) -> None:
    pool = SegmentedPool("ucb1", leaving=Leaving(impressions=1))
    pool.add(["a", "b", "c"])
    getattr(pool, way)(2, "new")
    assert len(pool.departures()) == 2
    assert [len(pool), len(pool.segments["new"])] == [1, 1]
    assert [pool.pooled.rounds, pool.segments["new"].rounds] == [2, 2]


def test_contents_that_expire_leave_every_segment() -> None:
    pool = SegmentedPool("ucb1", leaving=Leaving(age=2.0))
    pool.add(["a"])
    pool.record("a", "north", impressions=1)
    pool.advance(1.0)
    pool.add(["b"])
    pool.advance(1.0)
    assert [gone.id for gone in pool.departures()] == ["a"]
    assert pool.segment("north").ids == pool.pooled.ids == ["b"]


def test_ids_beyond_63_bits_are_refused_not_wrapped() -> None:
    pool = Pool("ucb1")
    with pytest.raises(ValueError, match="2"):
        pool.add(np.array([2**63 + 5], np.uint64), 0, 0)
    assert len(pool) == 0


def test_a_refused_add_leaves_no_tags_behind() -> None:
    pool = Pool("ucb1")
    pool.add("a")
    with pytest.raises(ValueError, match="a"):
        pool.add(["b", "a"], tags=["new"])
    assert len(pool._tags) == 1


def test_numbers_of_numpy_are_numbers() -> None:
    assert Bandit("ucb1", arms=np.int64(2)).arms == [0, 1]  # type: ignore[arg-type]
    assert Bandit("ucb1", arms=np.arange(2)).arms == [0, 1]
    pool = Pool("ucb1", seed=np.int64(3))  # type: ignore[arg-type]
    pool.add(np.int64(5))  # type: ignore[arg-type]
    assert pool.ids == [5]
    with pytest.raises(ValueError, match="1 <= k"):
        Bandit("ucb1", arms=2).rank(2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"rounds": -5}, {"sums": [float("nan"), 0.0]}, {"rng": "junk"}])
def test_a_bandit_refuses_a_damaged_state(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must"):
        Bandit.from_state(Bandit("ucb1", arms=2).state() | wrong)


def test_the_horizon_of_a_policy_counts_plays() -> None:
    result = simulate(["moss"], means=[0.1, 0.2, 0.3], horizon=100, slots=2, runs=1)
    assert result.policies == ["moss(horizon=200)"]


def test_a_policy_keeps_its_own_family_in_a_simulation() -> None:
    common = {"means": [0.1, 0.2], "horizon": 500, "runs": 3, "seed": 1}
    own = simulate([policy("hellinger-ucb", family="poisson")], **common)  # type: ignore[arg-type]
    same = simulate(["hellinger-ucb"], **common)  # type: ignore[arg-type]
    assert not np.array_equal(own.regret, same.regret)
    assert own.family == same.family == hellinger.families.get("bernoulli").spec
