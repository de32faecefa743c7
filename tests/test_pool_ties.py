"""A ranking is a function of what is in the pool and of the seed given, not of how it came to be."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from hellinger import Pool
from hellinger.pool import Leaving, SegmentedPool
from hellinger.pool._layout import ARENA_TOP
from pool_model import check_cells, rebuilt

SPECS = ["hellinger-ucb", "kl-ucb", "thompson", "cold-start"]
TAGS = [(), ("a",), ("b",), ("a", "b"), ("c",)]
Ties = Literal["random", "oldest"]


class Life:
    """A pool through which random things happen: items come, go and come back with the number they had."""

    def __init__(self, spec: str, ties: Ties, seed: int, *, names: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = Pool(spec, ties=ties, seed=seed)
        self.names = names
        self.arrivals = 0
        self.gone: list[int] = []

    def id(self, number: int) -> int | str:
        return f"i{number}" if self.names else number

    def some(self, most: int) -> list[Any]:
        ids = self.pool.ids
        return [ids[j] for j in self.rng.choice(len(ids), min(len(ids), most), replace=False).tolist()]

    def add(self, count: int) -> None:
        numbers = list(range(self.arrivals, self.arrivals + count))
        self.arrivals += count
        back = self.gone[: int(self.rng.integers(0, len(self.gone) + 1))]
        self.gone = self.gone[len(back) :]
        numbers = self.rng.permutation(numbers + back).tolist()
        n = self.rng.integers(0, 4, len(numbers))
        tags = [TAGS[j] for j in self.rng.integers(0, len(TAGS), len(numbers))]
        self.pool.add([self.id(j) for j in numbers], n, self.rng.binomial(n, 0.2), tags=tags, order=numbers)

    def remove(self, most: int) -> None:
        left = self.some(most)
        self.gone += [int(str(name).removeprefix("i")) for name in left]
        self.pool.remove(left)

    def step(self, size: int) -> None:
        what = self.rng.integers(0, 8)
        if what <= 1:
            self.add(int(self.rng.integers(1, size)))
        elif what == 2:
            self.remove(int(self.rng.integers(0, size)))
        elif what == 3:
            self.pool.hide(self.some(size // 2))
        elif what == 4:
            self.pool.unhide(self.some(size))
        elif what == 5:
            self.pool.record_many(some := self.some(size), 1, self.rng.random(len(some)) < 0.2)
        elif what == 6:
            some = self.some(size)
            n = self.rng.integers(0, 4, len(some))
            self.pool.set_counts(some, n, self.rng.binomial(n, 0.2))
        else:
            self.pool.retag(some := self.some(size // 2), [TAGS[j] for j in self.rng.integers(0, 5, len(some))])

    def check(self) -> None:
        """The pool ranks as one that was given the same items afresh."""
        other = rebuilt(self.pool, self.rng)
        ids = self.pool.ids
        assert other.ids == ids
        seen = self.some(5)
        few = self.some(9)
        questions: list[dict[str, Any]] = [
            {"k": 1},
            {"k": 7},
            {"k": len(ids) + 1},
            {"k": 5, "tags": ["a"]},
            {"k": 9, "tags": ["b", "c"], "exclude": seen},
            {"k": 3, "exclude": seen},
            {"k": 4, "among": few},
        ]
        for question in questions:
            for seed in (0, 1, 987654321987):
                assert self.pool.rank(**question, seed=seed) == other.rank(**question, seed=seed)
        drawn = [one.draw(5, random.Random(4), tags=["a"]) for one in (self.pool, other)]
        assert [row.id for row in drawn[0][0]] == [row.id for row in drawn[1][0]]
        assert drawn[0][1] == drawn[1][1]


@pytest.mark.parametrize("ties", ["random", "oldest"])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("names", [False, True], ids=["numbers", "strings"])
def test_a_pool_ranks_as_one_built_afresh(spec: str, ties: Ties, names: bool) -> None:
    life = Life(spec, ties, seed=7, names=names)
    for step in range(120):
        life.step(20)
        if step % 10 == 9:
            life.check()
            if spec != "thompson":
                check_cells(life.pool)


@pytest.mark.parametrize("ties", ["random", "oldest"])
@pytest.mark.parametrize("log2", [3, 4])
def test_cells_that_are_trees_of_small_nodes(log2: int, ties: Ties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.pool._layout.NODE_LOG2", log2)
    life = Life("ucb1", ties, seed=log2)
    tallest = 0
    for step in range(300):
        life.step(120 if step < 200 else 30)
        tallest = max(tallest, check_cells(life.pool))
        if step % 30 == 29:
            life.check()
    assert tallest >= {3: 4, 4: 2}[log2]
    while len(life.pool) > 3:
        life.remove(len(life.pool) // 2)
        check_cells(life.pool)
    life.check()


@pytest.mark.parametrize("ties", ["random", "oldest"])
def test_a_cell_of_thousands(ties: Ties) -> None:
    life = Life("hellinger-ucb", ties, seed=3)
    life.add(5000)
    life.pool.set_counts(life.pool.ids, 0, 0)
    assert check_cells(life.pool) > 0
    for _ in range(6):
        life.pool.record_many(life.some(2000), 1)
        life.remove(300)
        life.add(200)
        life.check()
    check_cells(life.pool)
    life.pool.set_counts(life.pool.ids, 1, 0)
    life.check()


def test_items_added_in_order_fill_their_leaves() -> None:
    pool = Pool("ucb1")
    pool.add(range(200_000))
    assert check_cells(pool) == 2
    assert 8 * pool._store.state.meta[ARENA_TOP] <= 9.2 * len(pool)


@pytest.mark.parametrize("spec", ["hellinger-ucb", "thompson"])
def test_a_seed_decides_a_ranking_and_changes_nothing(spec: str) -> None:
    pool = Pool(spec, seed=1)
    pool.add(range(100))
    before = pool.rank(100)
    first, again, other = (pool.rank(100, seed=seed) for seed in (5, 5, 6))
    assert first == again != other
    assert pool.rank(100) == before
    assert pool.serve(10, seed=5, count=False) == first[:10]
    assert pool.pick(10, seed=5, count=False)[0] == [row.id for row in first[:10]]
    assert pool.rank(100) != before
    assert Pool(spec, seed=2).rank(1, seed=5) == []
    with pytest.raises(ValueError, match=r"seed=0\.5"):
        pool.rank(3, seed=0.5)  # type: ignore[arg-type]


def _chi2(counts: Any) -> float:
    counts = np.asarray(counts, float)
    return float(((counts - counts.mean()) ** 2 / counts.mean()).sum())


@pytest.mark.parametrize("log2", [3, 7])
def test_ties_are_uniform_over_seeds(log2: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over cells of one item, of a block and of a tree, whose items all have the index 1."""
    monkeypatch.setattr("hellinger.pool._layout.NODE_LOG2", log2)
    pool = Pool("hellinger-ucb")
    n = np.repeat([0, 1, 2, 3], [20, 6, 3, 1])
    pool.add(range(30), n, n)
    rounds = 30_000
    pairs = np.zeros((30, 30))
    follows = np.zeros((30, 30))
    last = 0
    for seed in range(rounds):
        (a, b), scores = pool.pick(2, seed=seed, count=False)
        assert scores == [1.0, 1.0]
        pairs[int(a), int(b)] += 1
        follows[last, int(a)] += 1
        last = int(a)
    assert _chi2(pairs.sum(axis=1)) < 58.3  # 99.9 % of 29 degrees of freedom
    assert _chi2(pairs.sum(axis=0)) < 58.3
    off = ~np.eye(30, dtype=bool)
    assert _chi2(pairs[off]) < 1002  # of 869
    assert _chi2(follows) < 1034  # of 899


# Arrival numbers ----------------------------------------------------------------------------------------


def test_arrival_numbers_decide_who_is_oldest() -> None:
    pool = Pool("ucb1", ties="oldest")
    pool.add(["a", "b", "c"], 0, 0, order=[7, 3, 5])
    assert pool.ids == ["b", "c", "a"]
    pool.add("d")
    pool.remove("b")
    pool.add(["e"], 0, 0, order=[4])
    assert pool.ids == [row.id for row in pool.rank(9)] == ["e", "c", "a", "d"]


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ([1, 1], "got 1 twice"),
        ([9, 2], "must be new to the pool, but got 2"),
        ([5, -1], "order=-1"),
        ([5], "for each of 2 ids"),
        ([5.0, 6.0], "a whole number for each of 2 ids"),
        ([5, 2**32], "below 4,294,967,296"),
        (8, "for each of 2 ids"),
    ],
)
def test_arrival_numbers_that_cannot_be(order: Any, says: str) -> None:
    pool = Pool("ucb1")
    pool.add(["x", "y"], 0, 0, order=[2, 4])
    with pytest.raises(ValueError, match=says):
        pool.add(["a", "b"], 0, 0, tags=["new"], order=order)
    assert pool.ids == ["x", "y"]
    assert len(pool._tags) == 1
    pool.add("z")
    assert pool.ids == ["x", "y", "z"]


def test_numbers_that_are_ids_need_no_search() -> None:
    pool = Pool("ucb1")
    by_id = []
    pool.add([3, 8, 5], 0, 0, order=[3, 8, 5])
    by_id.append(pool._store.numbered_by_id)
    pool.remove(5)
    pool.add([5, 4], 0, 0, order=[5, 4])
    by_id.append(pool._store.numbered_by_id)
    assert pool.ids == [3, 4, 5, 8]
    with pytest.raises(ValueError, match="got 4"):
        pool.add([4], 0, 0, order=[4])
    pool.add([1], 0, 0, order=[2])
    by_id.append(pool._store.numbered_by_id)
    assert by_id == [True, True, False]
    with pytest.raises(ValueError, match="got 2"):
        pool.add([2], 0, 0, order=[2])


def test_a_window_takes_only_new_numbers() -> None:
    pool = Pool("ucb1", window=2, buckets=2)
    pool.add(["a"], 3, 1, order=[4])
    pool.remove("a")
    with pytest.raises(ValueError, match=r"5 <= order.*order=4"):
        pool.add(["a"], 3, 1, order=[4])
    pool.add(["a"], 3, 1, order=[5])
    pool.advance(2)
    assert pool.stats("a")[:2] == (0, 0)


# Counts that are set ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["hellinger-ucb", "imed"])
def test_counts_that_are_set(spec: str) -> None:
    pool = Pool(spec, ties="oldest")
    pool.add(["a", "b", "c"], [10, 20, 30], [1, 2, 3])
    pool.set_counts(["c", "a"], [5, 0], [2, 0])
    assert [pool.stats(name)[:2] for name in "abc"] == [(0, 0), (20, 2), (5, 2)]
    assert pool.rounds == 60
    assert pool._present == 25
    twin = Pool(spec, ties="oldest")
    twin.add(["a", "b", "c"], [0, 20, 5], [0, 2, 2])
    twin.rounds = 60
    assert pool.rank(3) == twin.rank(3)
    pool.set_counts([], [], [])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((["a", "x"], 1, 0), "'x'"),
        ((["a", "b", "a"], 1, 0), "given once, but got 'a'"),
        ((["a", "b"], [1, -1], 0), "-1"),
        ((["a", "b"], [1, 1], [0, 2]), "rewards=2 for impressions=1"),
        ((["a", "b"], [5, 0], [0, 1]), "rewards=1 for impressions=0"),
        ((["a", "b"], [5], 0), r"\(1,\)"),
    ],
)
def test_counts_that_cannot_be_set(given: tuple[Any, Any, Any], says: str) -> None:
    pool = Pool("hellinger-ucb", ties="oldest")
    pool.add(["a", "b"], [10, 20], [1, 2])
    before = pool.rank(2)
    with pytest.raises(ValueError, match=says):
        pool.set_counts(*given)
    assert (pool.rank(2), pool._present, pool.rounds) == (before, 30, 30)


@pytest.mark.parametrize("options", [{"window": 3}, {"half_life": 3}])
def test_counts_with_a_time_cannot_be_set(options: dict[str, Any]) -> None:
    pool = Pool("hellinger-ucb", **options)
    pool.add("a")
    with pytest.raises(ValueError, match="without window, half-life and model"):
        pool.set_counts(["a"], 1, 0)


def test_items_whose_counts_are_set_may_leave() -> None:
    pool = Pool("ucb1", leaving=Leaving(impressions=10))
    pool.add(["a", "b"])
    pool.set_counts(["a", "b"], [10, 9], [1, 1])
    assert [gone.id for gone in pool.departures()] == ["a"]
    assert pool.ids == ["b"]


# Tags ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["hellinger-ucb", "imed"])
def test_tags_that_change(spec: str) -> None:
    pool = Pool(spec, ties="oldest")
    pool.add(["a", "b", "c"], [3, 2, 1], 0, tags=["x"])
    pool.retag(["c", "a"], [["y"], ["x", "z"]])
    assert [pool.stats(name).tags for name in "abc"] == [{"x", "z"}, {"x"}, {"y"}]
    assert [row.id for row in pool.rank(3, tags=["x"])] == ["b", "a"]
    assert [row.id for row in pool.rank(3, tags=["z", "y"])] == ["c", "a"]
    pool.retag("b", "y")
    pool.retag(["c"], ())
    assert [row.id for row in pool.rank(3, tags="y")] == ["b"]
    before = pool.rank(3)
    for ids, tags, says in ((["a", "q"], "x", "'q'"), (["a"], [[1]], "1"), (["a", "a"], "x", "given once")):
        with pytest.raises(ValueError, match=says):
            pool.retag(ids, tags)  # type: ignore[arg-type]
    assert pool.rank(3) == before


def test_tag_sets_without_items_are_forgotten() -> None:
    pool = Pool("ucb1")
    pool.add(range(10), tags=["old"])
    for step in range(50):
        pool.retag(step % 10, [f"tag{step}", "all"])
    assert len(pool._tags) == 11
    assert len(pool._tags.sets) <= 13
    assert len(pool.rank(10, tags=["old"])) == 0
    assert len(pool.rank(10, tags=["all"])) == 10
    assert [row.id for row in pool.rank(10, tags=["tag43"])] == [3]
    pool.remove(range(10))
    assert len(pool._tags) == 1
    assert not pool._tags._having


# Everything together ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["random", "oldest"])
def test_a_restored_pool_is_the_same_pool(ties: Ties, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.pool._layout.NODE_LOG2", 3)
    life = Life("hellinger-ucb", ties, seed=5)
    for _ in range(40):
        life.step(60)
    pool = life.pool
    pool.save(tmp_path / "pool")
    again = Pool.load(tmp_path / "pool")
    check_cells(again)
    assert again._tags.sets == pool._tags.sets
    for step in range(3):
        for one in (pool, again):
            one.retag(one.ids[0], ["brand", "new"])
            one.serve(7, tags=["a"])
            one.remove(one.ids[1])
            one.add(10_000 + step)
        assert again.rank(500) == pool.rank(500)
        assert again.rank(50, tags=["b"]) == pool.rank(50, tags=["b"])
    check_cells(again)


def test_a_blank_pool_has_the_same_arrival_numbers() -> None:
    life = Life("hellinger-ucb", "random", seed=6)
    for _ in range(30):
        life.step(30)
    blank = life.pool.blank()
    check_cells(blank)
    life.pool.set_counts(life.pool.ids, 0, 0)
    life.pool.rounds = 0
    assert blank.rank(20, seed=3) == life.pool.rank(20, seed=3)
    assert blank.rank(20, seed=3, tags=["a"]) == life.pool.rank(20, seed=3, tags=["a"])


def test_segments_know_numbers_seeds_and_tags() -> None:
    pool = SegmentedPool("hellinger-ucb", enough=2)
    pool.add([5, 6, 7], 0, 0, order=[5, 6, 7])
    pool.record(5, "x", impressions=3)
    pool.add([2], 3, 1, order=[2], parts={"x": (1, 0)})
    assert pool.pooled.ids == pool.segment("x").ids == [2, 5, 6, 7]
    pool.retag([6, 7], (tags for tags in (["a"], ["b"])))
    pool.set_counts([5, 6], [4, 1], [1, 0])
    pool.set_counts([5, 6], [2, 1], [1, 0], segment="x")
    assert [one.stats(5)[:2] for one in (pool.pooled, pool.segment("x"))] == [(4, 1), (2, 1)]
    assert [row.id for row in pool.rank(4, "x", tags=["a"])] == [6]
    assert [row.id for row in pool.rank(4, tags=["b"])] == [7]
    assert pool.rank(4, "x", seed=9) == pool.segment("x").rank(4, seed=9)
    assert pool.serve(2, seed=9, count=False) == pool.rank(2, seed=9)
    with pytest.raises(ValueError, match="got 2"):
        pool.add([9], 0, 0, order=[2])
    assert len(pool) == len(pool.segment("x")) == 4


@pytest.mark.parametrize("spec", ["hellinger-ucb", "cold-start", "ucb1", "imed"])
def test_the_size_of_the_last_tie_is_known(spec: str) -> None:
    """Counted by hand: eligible items with the index of the last one; unknown only with tags, and never too large."""
    rng = np.random.default_rng(17)
    pool = Pool(spec, learn="given")
    pool.add(list(range(60)), tags=[["even"] if i % 2 == 0 else ["odd"] for i in range(60)])
    for step in range(150):
        k = int(rng.integers(1, 25))
        exclude = [int(i) for i in rng.choice(60, int(rng.integers(0, 12)), replace=False)]
        tags = ["even"] if step % 5 == 0 else None
        among = [int(i) for i in rng.choice(60, 30, replace=False)] if step % 7 == 0 else None
        there = [i for i in (range(60) if among is None else among) if not pool.stats(i).hidden and i not in exclude]
        there = [i for i in there if tags is None or i % 2 == 0]
        scores = dict(zip(there, pool.scores(there).tolist(), strict=True)) if there else {}
        shown, indices = pool.pick(k, exclude=exclude, tags=tags, among=among, seed=step)
        if not shown:
            assert pool.tied == 0
            continue
        expected = sum(score == indices[-1] for score in scores.values())
        assert pool.tied == expected or (pool.tied == 0 and tags is not None and among is None), step
        pool.record_many(shown, 0, (rng.random(len(shown)) < 0.2).astype(float))
        if step % 20 == 19:
            pool.hide([int(rng.integers(60))])
    oldest = Pool(spec, ties="oldest")
    oldest.add(["a", "b", "c"])
    assert len(oldest.rank(2)) == 2
    assert oldest.tied == 1


def test_the_size_of_the_last_tie_is_known_with_a_model() -> None:
    rng = np.random.default_rng(3)
    pool = Pool("hellinger-ucb", model="logistic")
    pool.add(list(range(300)), features=[{"kind": f"{i % 4}"} for i in range(300)])
    for step in range(40):
        exclude = [int(i) for i in rng.choice(300, int(rng.integers(0, 20)), replace=False)]
        context: dict[str, Any] = {"person": f"{step % 3}"}
        there = pool.scores([i for i in range(300) if i not in exclude], context=context)
        shown, indices = pool.pick(int(rng.integers(1, 40)), exclude=exclude, context=context, seed=step)
        assert pool.tied == int((there == indices[-1]).sum()), step
        if step % 2:
            rewards = (rng.random(len(shown)) < 0.1).astype(float)
            pool.record_many(shown, 0, rewards, contexts=[context] * len(shown))


def test_an_id_that_is_excluded_twice_is_left_out_of_a_tie_once() -> None:
    pool = Pool[str](seed=1)
    pool.add(["a", "b", "c", "d"])
    pool.rank(1, exclude=["b", "b"])
    assert pool.tied == 3
    assert len(pool.rank(4)) == pool.tied == 4  # the next ranking excludes nobody
