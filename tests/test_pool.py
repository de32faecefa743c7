"""Errors, filters, time, leaving, segments, snapshots: each behaviour the pool promises."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from hellinger import Pool
from hellinger.pool import Departure, Leaving, SegmentedPool
from hellinger.pool._tags import TagSets


def filled(spec: str = "hellinger-ucb", **options: Any) -> Pool:
    rng = np.random.default_rng(2)
    n = rng.integers(0, 60, 200)
    pool = Pool(spec, **options)
    pool.add(range(200), n, rng.binomial(n, 0.1), tags=[["even"] if i % 2 == 0 else ["odd", "all"] for i in range(200)])
    return pool


# Bad input ----------------------------------------------------------------------------------------------

BAD: list[tuple[str, Callable[[Pool], object], str]] = [
    ("unknown id", lambda p: p.record("nobody", impressions=1), "'nobody'"),
    ("unknown id among many", lambda p: p.record_many([1, 2, 999], 1), "999"),
    ("unknown removal", lambda p: p.remove([1, 999]), "999"),
    ("unknown hiding", lambda p: p.hide([1, 999]), "999"),
    ("unknown stats", lambda p: p.stats(999), "999"),
    ("unknown candidate", lambda p: p.rank(1, among=[1, 999]), "999"),
    ("negative impressions", lambda p: p.record(1, impressions=-1), "-1"),
    ("negative impressions among many", lambda p: p.record_many([1, 2], [1, -3]), r"-3"),
    ("less than no impression", lambda p: p.record(1, impressions=-0.5), r"-0\.5"),
    ("infinite impressions", lambda p: p.record(1, impressions=math.inf), "inf"),
    ("a place worth less than nothing", lambda p: p.serve(2, worth=[1, -0.5]), r"-0\.5"),
    ("places worth nothing said", lambda p: p.serve(2, worth=[]), r"\[\]"),
    ("negative rewards", lambda p: p.record(1, impressions=1, rewards=-1), r"-1\.0"),
    ("more rewards than impressions", lambda p: p.record(0, impressions=1, rewards=100), "rewards=1"),
    ("more rewards among many", lambda p: p.record_many([1, 2, 2], [1, 1, 1], [1, 0, 500]), "rewards=5"),
    ("more rewards loaded", lambda p: p.add([1000, 1001], [1, 1], [0, 2]), "rewards=2"),
    ("rewards without impressions", lambda p: p.add([1000], [0], [1]), "rewards=1 for impressions=0"),
    ("duplicate add", lambda p: p.add([1000, 5]), "5"),
    ("double add", lambda p: p.add([1000, 1000]), "1000"),
    ("duplicate string", lambda p: p.add(["x", "x"]), "'x'"),
    ("boolean id", lambda p: p.add([True]), "True"),
    ("float id", lambda p: p.add([1.5]), r"1\.5"),  # type: ignore[list-item]
    ("k = 0", lambda p: p.rank(0), "k=0"),
    ("k < 0", lambda p: p.serve(-2), "k=-2"),
    ("k is no number", lambda p: p.rank("2"), "k='2'"),  # type: ignore[arg-type]
    ("NaN impressions", lambda p: p.record_many([1], [math.nan]), "nan"),
    ("NaN rewards", lambda p: p.record(1, impressions=1, rewards=math.nan), "nan"),
    ("NaN rewards among many", lambda p: p.record_many([1, 2], 1, [0, math.nan]), "nan"),
    ("infinite rewards", lambda p: p.record(1, impressions=1, rewards=math.inf), "inf"),
    ("wrong length", lambda p: p.record_many([1, 2], [1, 1, 1]), r"\(3,\)"),
    ("words for numbers", lambda p: p.record_many([1], "many"), "many"),
    ("a tag that is none", lambda p: p.add([1000], tags=[[1]]), "1"),  # type: ignore[arg-type]
    ("too few tag sets", lambda p: p.add([1000, 1001], tags=[["a"]]), "2 ids"),
    ("time running backwards", lambda p: p.advance(-1), "-1"),
]


@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "scan"])
@pytest.mark.parametrize(("action", "says"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input_changes_nothing(action: Callable[[Pool], object], says: str, grouped: bool) -> None:
    pool = filled("hellinger-ucb" if grouped else "imed", ties="oldest")
    before = pool.rank(200), pool.ids, pool.rounds, [pool.stats(i) for i in pool.ids]
    with pytest.raises(ValueError, match=says):
        action(pool)
    assert (pool.rank(200), pool.ids, pool.rounds, [pool.stats(i) for i in pool.ids]) == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ties": "first"}, "'first'"),
        ({"window": 0}, "window=0"),
        ({"window": 5, "buckets": 0}, "buckets=0"),
        ({"window": 5, "half_life": 5}, "half_life=5"),
        ({"half_life": -1}, "half_life=-1"),
        ({"leaving": Leaving(impressions=0)}, "impressions=0"),
        ({"leaving": Leaving(share=2)}, "share=2"),
        ({"leaving": Leaving(age=-2)}, "age=-2"),
        ({"seed": 0.5}, r"seed=0\.5"),
    ],
)
def test_bad_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Pool("hellinger-ucb", **options)


def test_a_policy_that_needs_the_horizon() -> None:
    with pytest.raises(ValueError, match="needs the horizon"):
        Pool("kl-ucb++")
    assert len(Pool("kl-ucb++", horizon=1000)) == 0


# Ranking ------------------------------------------------------------------------------------------------


def test_rank_of_an_empty_pool() -> None:
    assert Pool("hellinger-ucb").rank(3) == []


def test_k_items_while_k_are_eligible() -> None:
    pool = filled(seed=1)
    seen = [content.id for content in pool.rank(150)]
    assert len(pool.rank(50, exclude=seen)) == 50
    assert len(pool.rank(51, exclude=seen)) == 50
    assert {int(content.id) % 2 for content in pool.rank(100, tags=["all"])} == {1}
    assert len(pool.rank(200, tags="even")) == 100
    assert len(pool.rank(200, tags=[])) == 0


def test_excluding_what_has_left_is_no_error() -> None:
    pool = filled()
    assert len(pool.rank(3, exclude=["gone", 12345])) == 3


def test_serving_moves_on_while_clicks_are_pending() -> None:
    pool = Pool("hellinger-ucb", seed=0)
    pool.add(range(100))
    shown = [content.id for _ in range(5) for content in pool.serve(20)]
    assert len(set(shown)) == 100
    assert pool.rounds == 100


def test_serving_without_counting() -> None:
    pool = filled()
    before = pool.rounds
    assert len(pool.serve(5, count=False)) == 5
    assert pool.rounds == before


def test_graded_rewards_stay_grouped_while_sums_repeat() -> None:
    pool = Pool("hellinger-ucb")
    pool.add(range(50))
    pool.record_many(list(range(50)), 4, [0.5 * (i % 5) for i in range(50)])
    assert pool.explain().startswith("grouped")
    assert pool.rank(1)[0].rewards == 2


def test_too_many_reward_sums_fall_back_to_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.pool._store._MOST_GROUPS", 20)
    rng = np.random.default_rng(0)
    scores = []
    pool = Pool("hellinger-ucb", ties="oldest")
    pool.add(range(100), 10, rng.random(100))
    assert pool.explain().startswith("scan of all 100 items: 100 distinct reward sums")
    scores = [content.score for content in pool.rank(100)]
    assert scores == sorted(scores, reverse=True)
    pool.record(3, impressions=5)
    assert pool.stats(3).impressions == 15


@pytest.mark.parametrize(
    ("spec", "says"),
    [("thompson", "draws"), ("imed", "against all others"), ("bayes-ucb", "not known to fall")],
)
def test_explaining_a_scan(spec: str, says: str) -> None:
    assert says in filled(spec).explain()


def test_negative_rewards_need_a_scan() -> None:
    pool = Pool("hellinger-ucb", family="gaussian")
    pool.add(["a", "b"], [1, 4], [-2.0, -2.0])
    assert "may be negative" in pool.explain()
    assert pool.rank(1)[0].id == "a" if pool.stats("a").score > pool.stats("b").score else "b"


def test_counts_of_a_family_without_upper_end() -> None:
    pool = Pool("kl-ucb", family="poisson")
    pool.add(["a", "b"], [10, 10], [25, 11])
    assert [content.id for content in pool.rank(2)] == ["a", "b"]


def test_memory_of_a_content() -> None:
    pool = Pool("hellinger-ucb")
    n = np.arange(200_000) % 500
    pool.add(range(200_000), n, n // 20)
    assert pool.memory() <= 100 * len(pool)


@pytest.mark.parametrize("ties", ["random", "oldest"])
def test_a_worn_pool_wastes_nothing_and_ranks_exactly(ties: Literal["random", "oldest"]) -> None:
    rng = np.random.default_rng(1)
    pool, twin = Pool("hellinger-ucb", seed=1, ties=ties), Pool("hellinger-ucb", seed=1, ties=ties)
    n, s = rng.integers(0, 501, 10_000), np.zeros(10_000, np.int64)
    pool.add(range(10_000), n, s)
    for _ in range(20):
        shown = rng.integers(0, 10_000, 100_000)
        clicks = rng.random(shown.size) < 0.02
        pool.record_many(shown, 1, clicks)
        n, s = n + np.bincount(shown, minlength=n.size), s + np.bincount(shown, clicks, minlength=n.size).astype(int)
    assert pool.memory() <= 100 * len(pool)
    twin.add(range(10_000), n, s)
    assert [row.score for row in pool.rank(5000)] == [row.score for row in twin.rank(5000)]
    if ties == "oldest":
        assert pool.rank(5000) == twin.rank(5000)


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("count", [False, True])
def test_pick_is_serve_in_columns(strings: bool, count: bool) -> None:
    pools = [SegmentedPool("hellinger-ucb", enough=30, seed=1) for _ in range(2)]
    for pool in pools:
        pool.add([f"c{j}" for j in range(50)] if strings else range(50), 2, 1)
    for segment in ("", "x", "x", "y", ""):
        ranked = pools[0].serve(9, segment, exclude=[3, "c3"], count=count)
        names, scores = pools[1].pick(9, segment, exclude=[3, "c3"], count=count)
        assert names == [row.id for row in ranked]
        assert scores == [row.score for row in ranked]
    assert pools[0].pooled.rank(50) == pools[1].pooled.rank(50)
    assert pools[0].segment("x").rank(50) == pools[1].segment("x").rank(50)
    assert pools[1].pooled.rounds == 100 + count * 45


def test_a_pool_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.pool._store.MOST_ITEMS", 3)
    pool = Pool("hellinger-ucb")
    pool.add(["a", "b"])
    with pytest.raises(ValueError, match="at most 3 items, but would have 4"):
        pool.add(["c", "d"])
    pool.add("c")
    assert pool.ids == ["a", "b", "c"]


def test_ids_of_both_kinds_and_numpy() -> None:
    pool = Pool("hellinger-ucb", ties="oldest")
    pool.add(np.arange(3))
    pool.add(["0", -7])
    assert pool.ids == [0, 1, 2, "0", -7]
    pool.record("0", impressions=3)
    pool.record_many(np.array([-7]), 4)
    pool.remove([0, "0"])
    assert pool.ids == [1, 2, -7]
    assert pool.stats(-7).impressions == 4
    assert "0" not in pool
    assert -7 in pool


def test_unknown_strings_among_many_in_a_pool_that_was_emptied() -> None:
    pool = Pool("hellinger-ucb")
    pool.add(["a", "b"])
    with pytest.raises(ValueError, match="'c'"):
        pool.record_many(["a", "c", "b"], 1)
    pool.remove(["a", "b"])
    with pytest.raises(ValueError, match="'a'"):
        pool.record_many(["a", "c"], 1)


def test_strings_with_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids whose keys collide are still told apart."""
    monkeypatch.setattr("hellinger.pool._ids.hash", lambda name: len(name), raising=False)
    pool = Pool("hellinger-ucb")
    pool.add(["aa", "bb"])
    pool.add(["cc", 2, "d"])
    for number, name in enumerate(["aa", "bb", "cc", 2, "d"]):
        pool.record(name, impressions=number)  # type: ignore[arg-type]
    pool.remove("aa")
    assert [pool.stats(name).impressions for name in ("bb", "cc", 2, "d")] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="'aa'"):
        pool.stats("aa")


# Time ---------------------------------------------------------------------------------------------------


def test_a_window_forgets() -> None:
    pool = Pool("hellinger-ucb", window=10, buckets=5, ties="oldest")
    pool.add(["old", "new"])
    pool.record("old", impressions=100, rewards=50)
    pool.advance(6)
    pool.record("new", impressions=100, rewards=30)
    assert pool.rank(1)[0].id == "old"
    pool.advance(3)
    assert pool.stats("old").impressions == 100
    pool.advance(1)
    assert (pool.stats("old").impressions, pool.stats("old").rewards, pool.rounds) == (0, 0, 100)
    pool.record_many(["old"], 100, 10)
    assert pool.rank(1)[0].id == "new"
    pool.advance(1000)
    assert pool.rounds == 0


def test_a_reward_may_outlast_its_impression() -> None:
    pool = Pool("hellinger-ucb", window=2, buckets=2)
    pool.add(["a"])
    pool.record("a", impressions=1)
    pool.advance(1)
    pool.record("a", rewards=1)
    pool.advance(1)  # the impression is forgotten, its reward not yet
    assert pool.stats("a")[:2] == (0, 0)
    pool.record("a", impressions=1, rewards=1)
    pool.advance(1)
    assert pool.stats("a")[:2] == (1, 1)
    pool.advance(1)
    assert pool.stats("a")[:2] == (0, 0)


def test_a_window_ignores_what_was_counted_for_a_content_since_removed() -> None:
    pool = Pool("hellinger-ucb", window=2, buckets=2)
    pool.add(["a"])
    pool.record("a", impressions=5)
    pool.remove("a")
    pool.add(["a"])
    pool.record("a", impressions=3)
    pool.advance(1)
    pool.advance(1)
    assert pool.stats("a").impressions == 0


def test_discounting_lets_a_hit_sink() -> None:
    pool = Pool("hellinger-ucb", half_life=1, ties="oldest")
    pool.add(["yesterday", "today"])
    pool.record("yesterday", impressions=800, rewards=400)
    pool.advance(3)
    pool.record("today", impressions=800, rewards=200)
    assert pool.stats("yesterday")[:2] == (100, 50)
    assert pool.rounds == 900
    assert "discounted" in pool.explain()
    index = pool.policy.index([50, 200], [100, 800], t=901)
    assert [content.score for content in pool.rank(2)] == pytest.approx(sorted(index, reverse=True), rel=1e-12)
    for _ in range(400):
        pool.advance(1)  # past the point where scales are renewed
    pool.record("today", impressions=10, rewards=1)
    assert pool.stats("today")[:2] == pytest.approx((10, 1))


# Leaving ------------------------------------------------------------------------------------------------


def test_graduation_by_impressions() -> None:
    pool = Pool("hellinger-ucb", leaving=Leaving(impressions=3), seed=1)
    pool.add(["a", "b"])
    for _ in range(2):
        pool.serve(2)
    pool.record("a", rewards=1)
    assert pool.departures() == []
    pool.advance(5)
    pool.serve(2, among=["a"])
    assert pool.departures() == [Departure("a", "graduated", 3, 1, 5)]
    assert pool.departures() == []
    assert pool.ids == ["b"]
    pool.record("b", impressions=10)
    assert [departure.impressions for departure in pool.departures()] == [12]
    assert len(pool) == 0


def test_leaving_beyond_hope() -> None:
    pool = Pool("hellinger-ucb", leaving=Leaving(share=0.8))
    pool.add(["good", "bad", "new"], [1000, 1000, 2], [200, 1, 2])
    pool.sweep()
    assert [(gone.id, gone.reason) for gone in pool.departures()] == [("bad", "outclassed")]
    assert pool.ids == ["good", "new"]


def test_expiry_by_age() -> None:
    pool = Pool("hellinger-ucb", leaving=Leaving(age=10))
    pool.add(["a"])
    pool.advance(4)
    pool.add(["b"])
    pool.advance(6)
    assert [content.id for content in pool.rank(5)] == ["b"]
    assert pool.departures() == [Departure("a", "expired", 0, 0, 10)]


# Segments -----------------------------------------------------------------------------------------------


def test_a_segment_decides_once_it_has_enough() -> None:
    pool = SegmentedPool("hellinger-ucb", enough=100, ties="oldest")
    pool.add(["a", "b", "c"], tags=["t"])
    pool.hide("c")
    pool.record_many(["a", "b"], "x", [49, 49], [30, 10])
    pool.record_many(["a", "b"], "y", [500, 500], [50, 400])
    assert pool.rank(1, "x")[0].id == "b"
    assert pool.deciding("x") is pool.pooled
    assert pool.serve(2, "x")[0].id == "b"
    assert pool.pooled.rounds == 1100
    assert pool.rank(1, "x", tags=["t"])[0].id == "a"
    pool.unhide("c")
    pool.add("d")
    assert {content.id for content in pool.rank(2, "x")} == {"c", "d"}
    pool.remove("c")
    assert len(pool) == len(pool.segment("x")) == 3
    with pytest.raises(ValueError, match="rewards=91"):
        pool.record("a", "x", rewards=11 + 50)
    assert pool.pooled.stats("a").rewards == 80


# Snapshots ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"window": 4, "buckets": 2}, {"half_life": 2}, {"ties": "oldest"}])
@pytest.mark.parametrize("spec", ["cold-start", "thompson"])
def test_a_restored_pool_goes_on_alike(spec: str, options: dict[str, Any], tmp_path: Path) -> None:
    pool = filled(spec, seed=4, leaving=Leaving(impressions=70), **options)
    pool.add(["word", "zwölf"], tags=["t"])
    pool.hide([3, 4])
    pool.serve(30)
    pool.advance(1)
    pool.remove([7, 8])
    pool.save(tmp_path / "pool")
    again = Pool.load(tmp_path / "pool")
    for p in (pool, again):
        p.record("word", impressions=2, rewards=1)
    assert again.rank(500) == pool.rank(500)
    for _ in range(5):
        assert again.serve(20, exclude=[5]) == pool.serve(20, exclude=[5])
        again.advance(1)
        pool.advance(1)
    assert again.departures() == pool.departures()
    assert again.ids == pool.ids
    assert again.explain() == pool.explain()


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    filled().save(path)
    good = path.read_bytes()
    for place in (0, 9, 40, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(ValueError, match=r"damaged|no pool's snapshot"):
            Pool.load(path)
    for length in (0, 10, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match=r"damaged|no pool's snapshot"):
            Pool.load(path)
    path.write_bytes(good)
    assert len(Pool.load(path)) == 200


def test_which_of_some_may_be_ranked() -> None:
    pool = Pool[int]()
    assert pool.offering([1, 2]).tolist() == [False, False]
    pool.add([1, 2, 3])
    pool.hide([2])
    asked = [3, 2, 9, 1]
    assert pool.offering(asked).tolist() == [pool.offers(one) for one in asked] == [True, False, False, True]


def test_a_mask_says_which_whole_numbers_are_meant() -> None:
    pool = Pool[int]("ucb1", seed=1)
    pool.add([0, 1, -1, 5])
    assert [row.id for row in pool.rank(4, among=np.array([False, True]))] == [1]
    assert {row.id for row in pool.rank(4, among=np.ones(6, np.bool_))} == {0, 1, 5}


def test_pools_share_what_they_know_of_tags() -> None:
    """A service has the same items in the pools of all variants and segments: authors took more there than items."""
    authors = [(f"author {j}",) for j in range(1000)]
    pools = [TagSets() for _ in range(20)]
    pools[0].take(authors, len(authors))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for sets in pools[1:]:
        sets.take(authors, len(authors))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / (19 * len(authors)) < 150


def test_a_tag_is_in_one_set_or_in_several() -> None:
    sets, others = TagSets(), TagSets()
    alone, both = sets.take([("a",), ("a", "b")], 2).tolist()
    copy = sets.copy()
    sets.drop(np.array([alone], np.int32))
    assert np.flatnonzero(sets.having(["a"])).tolist() == np.flatnonzero(sets.having(["b"])).tolist() == [both]
    sets.drop(np.array([both], np.int32))
    assert not sets.having(["a", "b"]).any()
    assert np.flatnonzero(copy.having(["a"])).tolist() == sorted([alone, both])
    (kept,) = others.take([("a", "b")], 1).tolist()
    assert np.flatnonzero(others.having(["a"])).tolist() == [kept]
    others.drop(np.array([kept], np.int32))
    assert not others.having(["a"]).any()


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_a_mask_and_a_list_of_the_same_numbers_are_asked_alike(share: float) -> None:
    """Where the mask has few they are looked up, and where it has many all items are gone through."""
    rng = np.random.default_rng(0)
    pool = Pool[int]("ucb1", seed=1)
    ids = rng.permutation(300)[:200]
    pool.add(ids, 5, rng.integers(0, 3, 200))
    mask = rng.random(320) < share
    meant = [one for one in np.flatnonzero(mask).tolist() if one in pool]
    assert 0 < len(meant) < mask.sum()
    assert pool.pick(9, among=mask, count=False, seed=3) == pool.pick(9, among=meant, count=False, seed=3)
