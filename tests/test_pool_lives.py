"""Items that are known to leave: their index is the formula's, and rankings are those of a sort, by cells or not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hellinger import Pool
from hellinger.policies import Prior, policy
from hellinger.policies.segments import SegmentLaw
from hellinger.pool._lives import LEFT, life_classes
from hellinger.pool._scan import score_counts
from hellinger.world.players import LifetimesPlayer
from hellinger.world.site import Clicks, Site, turns


def _upper(p: float, x: float) -> float:
    """The largest q with −log(√(pq) + √((1 − p)(1 − q))) ≤ x, by halves."""
    low, high = p, 1.0
    for _ in range(60):
        q = 0.5 * (low + high)
        if -math.log(math.sqrt(p * q) + math.sqrt((1 - p) * (1 - q))) <= x:
            low = q
        else:
            high = q
    return low


def _index(s: float, n: float, left: float | None, prior: tuple[float, float], t: float, items: int) -> float:
    s, n = s + prior[0], n + prior[1]
    if left is None:
        level = 0.27 * math.log(math.e**2 + t / (items * n))
    else:
        m = left * s / n
        level = 0.12 * math.log(1 + left / (5 * n)) * m / (m + 0.4)
    return _upper(s / n, level / n)


def _scores(pool: Pool[int], lives: dict[int, float | None]) -> dict[int, float]:
    stats = {name: pool.stats(name) for name in lives}
    assert pool.prior is not None
    t = sum(each.impressions for each in stats.values()) * pool.prior.focus + 1.0
    out = {}
    for name, left in lives.items():
        of = stats[name]
        assert of.left == left
        assert of.prior is not None
        weight = 1.0  # of counts, where groups make the prior strong and the life is not known
        if left is None and pool.prior.effects is None:
            weight = math.sqrt(max(of.prior[1] / pool.prior.strength, 1.0))
        prior = of.prior[0] * weight, of.prior[1] * weight
        out[name] = _index(of.rewards * weight, of.impressions * weight, left, prior, t, len(lives))
    return out


def _rounded(left: float | None) -> float | None:
    """To half an octave, from one on."""
    return None if left is None else 2.0 ** (round(2 * math.log2(max(left, 1.0))) / 2)


def _check(pool: Pool[int], lives: dict[int, float | None]) -> None:
    scores = _scores(pool, lives)
    ranked = pool.rank(len(lives))
    assert sorted(row.id for row in ranked) == sorted(lives)
    for row in ranked:
        assert row.score == pytest.approx(scores[row.id], rel=1e-9)
    assert [row.score for row in ranked] == sorted((row.score for row in ranked), reverse=True)
    assert dict(zip(lives, pool.scores(list(lives)).tolist(), strict=True)) == {row.id: row.score for row in ranked}
    some = pool.rank(5, exclude=[ranked[0].id, ranked[3].id])
    rest = [row.score for row in ranked if row.id not in (ranked[0].id, ranked[3].id)]
    assert [row.score for row in some] == rest[:5]
    table = pool.table()
    order = table.order()
    known = dict(zip(table.ids(order), table.score(table.items, order).tolist(), strict=True))
    assert known == {row.id: row.score for row in ranked}


@pytest.mark.parametrize("grouped", [False, True])
def test_whatever_happens_the_index_is_the_formulas(tmp_path: Path, grouped: bool) -> None:
    rng = np.random.default_rng(5)
    pool = Pool[int]("cold-start", learn="given", seed=3)
    lives: dict[int, float | None] = {}
    rates: dict[int, float] = {}

    def add(names: list[int], left: list[float | None] | None) -> None:
        group = [f"g{name % 7}" if name % 5 else None for name in names] if grouped else None
        given = None if left is None else [math.nan if each is None else each for each in left]
        pool.add(names, group=group, left=given)
        for j, name in enumerate(names):
            lives[name] = None if left is None else _rounded(left[j])
            rates[name] = float(rng.beta(1.6, 30)) * (1 + name % 7 / 3)

    add(list(range(60)), None)
    for step in range(60):
        kind = step % 6
        names = sorted(lives)
        chosen = [int(name) for name in rng.choice(names, 9, replace=False)]
        if kind == 0:
            first = max(names) + 1
            add(list(range(first, first + 5)), [float(x) for x in rng.uniform(0, 3000, 5)] if step % 12 else None)
        elif kind in (1, 3):
            n = rng.integers(1, 60, 9)
            pool.record_many(chosen, n, rng.binomial(n, [min(rates[name], 1.0) for name in chosen]))
        elif kind == 2:
            left = rng.choice([0.0, 1.0, 7.0, 90.0, 5e3, 1e7, math.nan], 9)
            pool.set_left(chosen, left)
            told = [None if math.isnan(x) else _rounded(x) for x in left.tolist()]
            lives |= dict(zip(chosen, told, strict=True))
        elif kind == 4:
            pool.remove(chosen[:3])
            for name in chosen[:3]:
                del lives[name]
            if grouped:
                pool.regroup(chosen[4:6], ["g1", None])
        else:
            pool.learn()
        _check(pool, lives)
        if grouped and step == 40:
            pool.prior = Prior(1.0, 30.0, plays=10.0, shares=(0.6,))  # groups tell something: no cells by lives
            _check(pool, lives)
            assert "how long they live" in pool.explain()
            pool.save(tmp_path / "grouped")
            _check(Pool.load(tmp_path / "grouped"), lives)
    assert grouped or pool.explain().startswith("grouped")
    pool.save(tmp_path / "pool")
    loaded = Pool[int].load(tmp_path / "pool")
    assert loaded.rank(20) == pool.rank(20)
    _check(loaded, lives)
    pool.prior = Prior(1.0, 30.0, plays=10.0)
    _check(pool, lives)
    blank = pool.blank()
    _check(blank, lives)
    pool.set_left(sorted(lives), None)
    _check(pool, dict.fromkeys(lives))


def test_cells_and_scan_rank_alike() -> None:
    rng = np.random.default_rng(1)
    n = rng.integers(0, 80, 3000)
    s = rng.binomial(n, rng.beta(1.6, 60, 3000))
    left = 2.0 ** rng.uniform(0, 12, 3000)
    pool = Pool[int](seed=2)
    pool.add(range(3000), n, s, left=left)
    ranked = pool.rank(400, seed=7)
    among = pool.rank(400, seed=7, among=range(3000))  # looks at every item
    assert [row.score for row in ranked] == [row.score for row in among]


def test_the_size_of_the_last_tie_with_items_excluded() -> None:
    pool = Pool[int](seed=2)
    pool.add(range(100), left=[50.0] * 40 + [400.0] * 60)
    pool.rank(5, exclude=[*range(10), *range(60, 75), 60])
    assert pool.tied == 45  # those that can be shown longer are best, and 15 of them are excluded
    pool.set_prior(Prior(1.0, 30.0, plays=10.0, shares=(0.6,)))
    pool.regroup(range(100), "all")  # now every item is scored
    pool.rank(5, exclude=[*range(10), *range(60, 75), 60])
    assert pool.tied == 45


def test_lives_become_known_while_a_prior_takes_effect() -> None:
    """Strata of groups that are on their way out are none of lives."""
    rng = np.random.default_rng(4)
    n = rng.integers(1, 80, 300)
    s = rng.binomial(n, 0.1)
    pool = Pool[int](learn="given", seed=2)
    pool.add(range(300), n, s, group=[f"g{name % 9}" for name in range(300)])
    pool.set_prior(Prior(1.0, 30.0, plays=10.0, shares=(0.6,)))
    pool.set_prior(Prior(2.0, 40.0, plays=10.0), slowly=True)
    assert pool.unsettled
    pool.set_left(range(100), 90)
    lives = {name: _rounded(90.0) if name < 100 else None for name in range(300)}
    _check(pool, lives)
    assert pool.unsettled, "the others of the groups that were known have their turn"
    pool.settle()
    _check(pool, lives)


def _strata(pool: Pool[int]) -> list[int]:
    return list(pool._store.items["stratum"])


def test_a_prior_by_which_groups_tell_something_comes_in_slices_where_lives_are_known() -> None:
    """Strata become those of groups, or of lives, a slice at a time: all at once they held up a service."""
    rng = np.random.default_rng(4)
    pool, n = Pool[int](learn="given", seed=2), rng.integers(1, 80, 300)
    lives = {name: _rounded(2.0 ** (name % 12)) if name % 3 else None for name in range(300)}
    left = [math.nan if each is None else each for each in lives.values()]
    pool.add(range(300), n, rng.binomial(n, 0.1), group=[f"g{name % 9}" for name in range(300)], left=left)
    for turn, shares in enumerate([(0.6,), (), (0.3,), (0.3, 0.2), ()]):
        pool.set_prior(Prior(1.0, 30.0 + turn, plays=10.0, shares=shares), slowly=True)
        slices = 0
        while pool.unsettled:
            before = _strata(pool)
            pool.settle(10)
            assert sum(a != b for a, b in zip(before, _strata(pool), strict=True)) <= 10
            ranked = pool.rank(300)
            assert len({row.id for row in ranked}) == 300
            assert pool.scores([row.id for row in ranked]).tolist() == [row.score for row in ranked]
            assert pool.stats(5).prior is not None
            slices += 1
        assert slices >= 30
        _check(pool, lives)


def test_lives_become_known_while_groups_cease_to_tell_something() -> None:
    """Not in one go, whatever is left to do: what groups told of an item goes when it has its turn."""
    pool = Pool[int](learn="given", seed=2)
    pool.add(range(300), np.full(300, 40), np.arange(300) % 9, group=[f"g{name % 9}" for name in range(300)])
    pool.set_prior(Prior(1.0, 30.0, plays=10.0, shares=(0.6,)))
    pool.set_prior(Prior(1.0, 30.0, plays=10.0), slowly=True)
    before = _strata(pool)
    pool.set_left(range(20), 90)
    assert sum(a != b for a, b in zip(before, _strata(pool), strict=True)) <= 20
    assert pool.unsettled
    pool.settle()
    _check(pool, {name: _rounded(90.0) if name < 20 else None for name in range(300)})


def test_lives_that_are_no_longer_known() -> None:
    """A pool of which nothing is known any more is ranked as one of which nothing ever was: by cells, ties counted."""
    pool = Pool[int](learn="given", seed=2)
    pool.add(range(20), group="g", left=[50.0] * 3 + [math.nan] * 17)
    pool.set_prior(Prior(1.0, 30.0, plays=10.0, shares=(0.6,)))
    assert "scan" in pool.explain()
    pool.remove([2])
    pool.set_left([0], None)
    assert "scan" in pool.explain()
    pool.set_left([1], None)
    assert "scan" not in pool.explain()
    pool.set_left([5], 9.0)
    assert "scan" in pool.explain()
    pool.remove([5])
    assert "scan" not in pool.explain()
    _check(pool, {name: None for name in range(20) if name not in (2, 5)})


def test_an_event_that_leaves_work_with_lives_known() -> None:
    rng = np.random.default_rng(4)
    pool = Pool[int](learn="given", seed=2)
    pool.add(range(300), group=[("a", f"g{name % 9}") for name in range(300)], left=40)
    pool.set_prior(Prior(1.0, 30.0, plays=10.0, shares=(0.4, 0.3)))
    pool.bound_work(10)
    lives: dict[int, float | None] = dict.fromkeys(range(300), _rounded(40.0))
    for _ in range(5):
        names = rng.choice(300, 20, replace=False)
        pool.record_many(names, 30, rng.binomial(30, 0.2, 20))
        _check(pool, lives)
    assert pool.unsettled
    pool.settle()
    _check(pool, lives)


def test_the_index_falls_with_impressions_and_rises_with_rewards_and_life() -> None:
    rule = policy("cold-start").rule
    n = np.repeat(np.arange(20.0, 420.0, 3.0), 20)
    s = np.tile(np.arange(0.1, 10.1, 0.5), n.size // 20)
    kept = s < 0.5 * n
    s, n = s[kept], n[kept]
    out, other = np.empty(n.size), np.empty(n.size)
    before = np.zeros(n.size)
    for left in (1.0, 10.0, 300.0, 1e5):
        score_counts(rule, s, n, -left, 1000.0, out)
        assert (out > s / n).all()
        assert (out > before).all()
        score_counts(rule, s, n + 1.0, -left, 1000.0, other)
        assert (other < out).all()
        score_counts(rule, s + 0.5, n, -left, 1000.0, other)
        assert (other > out).all()
        before = out.copy()


def test_a_life_in_classes() -> None:
    assert LEFT[life_classes([0, 1, 1.3, 90, math.nan, math.inf], 6)].tolist() == pytest.approx(
        [1, 1, 2**0.5, 2**6.5, 0, 2.0**40]
    )
    assert life_classes(None, 3).tolist() == [0, 0, 0]
    assert life_classes(4, 3).tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("left", "says"), [([1, 2], "one for each.*ids=3"), (-1, "0 <= left"), ([1, -2, 3], "0 <= left")]
)
def test_lives_that_make_no_sense(left: object, says: str) -> None:
    pool = Pool[int]()
    with pytest.raises(ValueError, match=says):
        pool.add(range(3), left=left)  # type: ignore[arg-type]
    assert len(pool) == 0
    pool.add(range(3))
    with pytest.raises(ValueError, match=says):
        pool.set_left(range(3), left)  # type: ignore[arg-type]


def test_who_has_no_use_for_lives() -> None:
    for refuses in (Pool("hellinger-ucb"), Pool("cold-start", model="logistic")):
        refuses.add([1, 2])
        with pytest.raises(ValueError, match="left goes with"):
            refuses.set_left([1], 5)
    pooled, segment = Pool[int](), Pool[int]()
    pooled.add([1, 2], left=5)
    segment.add([1, 2], left=5)  # forgotten there
    segment.shrink_to(pooled)
    with pytest.raises(ValueError, match="left goes with"):
        segment.set_left([1], 5)


@pytest.mark.parametrize("seed", range(4))
def test_what_an_item_has_elsewhere_does_not_depend_on_its_life(seed: int) -> None:
    """Two pools of all traffic, one of which knows lives, each with one of a segment that follows it."""
    rng = np.random.default_rng(seed)
    known, unknown = pairs = [(Pool[int](learn="given"), Pool[int](learn="given")) for _ in range(2)]
    withins = []
    for pooled, segment in pairs:
        pooled.add(range(30), group=[("g", f"g{name % 3}") if name < 20 else None for name in range(30)])
        segment.add(range(30))
        withins.append(segment.shrink_to(pooled))
    for turn in range(40):
        names = rng.choice(30, rng.integers(1, 30), replace=False)
        n = rng.integers(1, 40, names.size)
        s = rng.binomial(n, 0.2)
        shares = [(), (0.5,), (0.3, 0.4)][rng.integers(3)]
        slowly, left = bool(rng.random() < 0.5), 2.0 ** rng.uniform(0, 10, names.size)
        what = rng.integers(4)
        for pooled, segment in pairs:
            if what == 0:
                pooled.set_prior(Prior(1.0, 30.0, plays=10.0, shares=shares), slowly=slowly)
            elif what == 1:
                pooled.record_many(names, n, s)
                segment.record_many(names[:5], n[:5], s[:5])
            elif what == 2:
                pooled.settle(5)
            elif pooled is known[0]:
                pooled.set_left(names, np.where(left < 3, np.nan, left))
        if turn % 4 == 3:
            for (pooled, _), within in zip(pairs, withins, strict=True):
                pooled.settle()
                if within.set_law(SegmentLaw(0.05, 30.0, 0.5, (("s", 0.2),)), "s", pooled.prior or Prior()):
                    within.refresh(within._store, 1.0)
                within.catch_up()
            priors = [[segment.stats(name).prior for name in range(30)] for _, segment in pairs]
            assert priors[0] == priors[1]
            assert known[1].scores(range(30)).tolist() == unknown[1].scores(range(30)).tolist()


def test_a_player_learns_how_many_pages_items_have_left() -> None:
    """At every turn each item can be shown as often as there are turns before the day at whose end it leaves."""
    site = Site(40, 4, arrivals=8, day=8 * 5)
    player = LifetimesPlayer(policy("cold-start"), site, seed=1)
    rates = np.random.default_rng(0).beta(1.6, 30, 200)
    leaves = (np.arange(40) // 8 + 1) * 10
    for number, turn in enumerate(turns(site, player, Clicks(rates, 3))):
        if number == 35:
            break
        if number and number % 10 == 0:
            gone = np.arange(number // 10 * 8 - 8, number // 10 * 8) % 40
            leaves[gone] += 50
        if number:
            known = [player._pool.stats(place).left for place in range(40)]
            assert known == [_rounded(float(left)) for left in leaves - number]
        assert turn.places.shape == (1, 4)
