"""Groups: what they know is computed by the plain mathematics, after any life of a pool."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hellinger import Pool
from hellinger.policies import Prior, fit_prior, tag_path
from hellinger.policies import policy as make_policy
from hellinger.policies.prior import group_tree
from hellinger.policies.shares import likelihood
from hellinger.pool import SegmentedPool, _membership, _tree
from pool_model import check_cells

PRIOR = Prior(2.0, 60.0, 1.5, 1000.0, (0.3, 0.4))


@dataclass
class Member:
    n: float
    s: float
    path: tuple[str, ...]
    tags: tuple[str, ...] = ()


def units(x: float) -> int:
    return math.floor(x * 65536.0 + 0.5)


def near(m: float, mean: float, steps: int) -> int:
    return math.floor(min(max(math.log2(m * (1 - mean) / (mean * (1 - m))), -8.0), 8.0) * steps + 0.5)


class Plain:
    """The same mathematics, group by group and item by item, from the counts alone."""

    def __init__(
        self, prior: Prior, members: dict[Any, Member], gone: dict[tuple[str, ...], tuple[float, ...]]
    ) -> None:
        self.prior, self.members, self.gone = prior, members, gone
        self.mean, self.t = prior.a / prior.strength, prior.strength
        self.paths = {name: m.path or tag_path(m.tags) for name, m in members.items()}
        everything = {*self.paths.values(), *gone} - {()}
        self.groups = {path[:depth] for path in everything for depth in range(1, len(path) + 1)}

    def v(self, depth: int) -> float:
        return self.prior.shares[depth - 1] / self.t if depth <= len(self.prior.shares) else 0.0

    def rest(self, depth: int) -> float:
        return max(1 - sum(self.prior.shares[:depth]), 0.0) / self.t

    def told(self, name: Any) -> tuple[int, int]:
        member = self.members[name]
        if member.n == 0:
            return 0, 0
        w = member.n / (1 + member.n * self.rest(len(self.paths[name])))
        return units(w), units(w * (member.s / member.n))

    def known(self, path: tuple[str, ...]) -> tuple[float, float]:
        parts = [self.told(name) for name, own in self.paths.items() if own == path]
        parts += [self.passed_on(group) for group in self.groups if group[:-1] == path]
        w, y = sum(part[0] for part in parts) / 65536, sum(part[1] for part in parts) / 65536
        items, n, s = self.gone.get(path, (0, 0, 0))
        if n > 0:
            more = items * ((n / items) / (1 + n / items * self.rest(len(path))))
            w, y = w + more, y + more * (s / n)
        return w, y

    def passed_on(self, path: tuple[str, ...]) -> tuple[int, int]:
        w, y = self.known(path)
        if w == 0:
            return 0, 0
        more = w / (1 + w * self.v(len(path)))
        return units(more), units(more * (y / w))

    def above(self, path: tuple[str, ...]) -> tuple[float, float]:
        v = self.v(len(path))
        if len(path) == 1:
            return self.mean, 1 / max(v, 1e-12)
        mean, worth = self.above(path[:-1])
        w, y = self.known(path[:-1])
        if sum(group[:-1] == path[:-1] for group in self.groups) <= _tree._MANY:
            w, y = (whole - part / 65536 for whole, part in zip((w, y), self.passed_on(path), strict=True))
        k = worth + max(w, 0.0)
        step = near((worth * mean + y) / k, self.mean, 32)
        odds = 2 ** (step / 32) * self.mean / (1 - self.mean)
        known = self.t * 2 ** (math.floor(math.log2(min(k / self.t, 1e9)) * 8 + 0.5) / 8)
        return odds / (1 + odds), 1 / (1 / known + v)

    def priors(self, name: Any) -> tuple[float, float]:
        """Pseudo-counts of an item."""
        path = self.paths[name]
        if not path or not self.prior.shares:
            return self.prior.a, self.prior.strength
        mean, worth = self.above(path)
        w, y = self.known(path)
        crowd = sum(own == path for own in self.paths.values()) > _tree.CROWD
        if not crowd:
            w, y = (whole - part / 65536 for whole, part in zip((w, y), self.told(name), strict=True))
        k = worth + w
        m, p = (worth * mean + y) / k, 1 / (1 / k + self.rest(len(path)))
        if crowd:
            return m * p, p
        more = min(math.floor(math.log2(max(p / self.t, 1.0)) + 0.5), 6)
        octaves = math.log2(m * (1 - self.mean) / (self.mean * (1 - m)))
        steps = 32 if octaves >= 1 else 8 if octaves > 0 else 4
        odds = 2 ** (math.floor(octaves * steps + 0.5) / steps) * self.mean / (1 - self.mean)
        p = self.t * 2**more
        return p * odds / (1 + odds), p


def check(pool: Pool[Any], members: dict[Any, Member], gone: dict[tuple[str, ...], tuple[float, ...]]) -> None:
    """Every item has the prior of the plain mathematics, and the ranking is that of a full sort."""
    assert pool.prior is not None
    plain = Plain(pool.prior, members, gone)
    for name in members:
        assert pool.stats(name).prior == pytest.approx(plain.priors(name), rel=1e-12)
    assert set(pool._members) == plain.groups
    rule = make_policy("cold-start").rule
    scores = pool.scores(list(members))
    pseudo = [pool.stats(name).prior or (0, 0) for name in members]
    s, n = (np.array([getattr(m, of) for m in members.values()], float) for of in "sn")
    expected = np.empty(len(members))
    for j, (a, strength) in enumerate(pseudo):
        expected[j] = rule._score(s[j] + a, n[j] + strength, pool._t, float(len(members)))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    ranked = pool.rank(len(members))
    assert [row.score for row in ranked] == sorted(scores.tolist(), reverse=True)
    assert {row.id: row.score for row in ranked} == dict(zip(members, scores.tolist(), strict=True))
    check_cells(pool)


PATHS: list[Any] = [None, "x", "y", ("x", "p"), ("x", "q"), ("y", "p"), ("x", "p", "deep")]


def as_path(group: Any) -> tuple[str, ...]:
    return () if group is None else (group,) if isinstance(group, str) else group


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("learn", ["auto", "given"])
def test_any_life_of_a_pool_with_groups(
    learn: Any, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:  # so that groups get strata of their own, and many groups below one are told alike
        monkeypatch.setattr(_membership, "CROWD", 5)
        monkeypatch.setattr(_tree, "CROWD", 5)
    rng = np.random.default_rng(3 if small else 4)
    pool: Pool[int] = Pool("cold-start", learn=learn, seed=1)
    members: dict[int, Member] = {}
    gone: dict[tuple[str, ...], tuple[float, ...]] = {}
    new = 0
    for step in range(260):
        kind = rng.integers(9)
        some = [int(name) for name in rng.permutation(list(members))[: rng.integers(1, 5)]] if members else []
        if kind <= 1 or not members:
            names = list(range(new, new + int(rng.integers(1, 6))))
            new += len(names)
            groups = [PATHS[j] for j in rng.integers(len(PATHS), size=len(names))]
            tags = [("t",) if j else () for j in rng.integers(2, size=len(names))]
            n = rng.integers(0, 3, len(names)) * rng.integers(1, 200, len(names))
            s = rng.binomial(n, 0.1)
            pool.add(names, n, s, group=groups, tags=tags)
            for j, name in enumerate(names):
                members[name] = Member(float(n[j]), float(s[j]), as_path(groups[j]), tags[j])
        elif kind <= 4:
            n = rng.integers(1, 30, len(some))
            s = rng.binomial(n, rng.random(len(some)) * 0.3)
            if rng.random() < 0.5:
                pool.record_many(some, n, s)
            else:
                for name, dn, ds in zip(some, n.tolist(), s.tolist(), strict=True):
                    pool.record(name, impressions=dn, rewards=ds)
            for name, dn, ds in zip(some, n.tolist(), s.tolist(), strict=True):
                members[name].n += dn
                members[name].s += ds
        elif kind == 5:
            forget = bool(rng.random() < 0.5)
            pool.remove(some, forget=forget)
            for name in some:
                member = members.pop(name)
                path = member.path or tag_path(member.tags)
                if path and member.n and not forget and learn == "auto":
                    had = gone.get(path, (0.0, 0.0, 0.0))
                    gone[path] = had[0] + 1, had[1] + member.n, had[2] + member.s
        elif kind == 6:
            group = PATHS[rng.integers(len(PATHS))]
            pool.regroup(some, group)
            for name in some:
                members[name].path = as_path(group)
        elif kind == 7:
            pool.retag(some, ["u"])
            for name in some:
                members[name].tags = ("u",)
        elif rng.random() < 0.3:
            gone[("y",)] = (2.0, 80.0, 9.0)
            pool.set_departed(["y"], [2], [80], [9])
        if step % 40 == 20:
            pool.prior = PRIOR._replace(a=float(rng.integers(1, 5)), shares=PRIOR.shares if rng.random() < 0.8 else ())
        if step % 60 == 50:
            pool.save(tmp_path / "pool")
            pool = Pool.load(tmp_path / "pool")
        if step % 3 == 0 and members:
            check(pool, members, gone)
    assert len(members) > 20
    blank = pool.blank()
    blank.prior = PRIOR
    assert {path for path in blank._members if "\0" not in path[0]} <= set(pool._members)
    check(blank, {name: Member(0, 0, m.path, m.tags) for name, m in members.items()}, {})


def test_a_group_tells_its_new_items_what_the_others_did() -> None:
    pool = Pool("cold-start", learn="given", ties="oldest")
    pool.prior = Prior(2.0, 100.0, 1.0, 1000.0, (0.9,))
    pool.add(["a", "b"], group="good")
    pool.add(["c", "d"], group="bad")
    pool.add(["e"])
    assert len({row.score for row in pool.rank(5)}) == 1  # nothing is known yet
    pool.record_many(["a", "c"], 1000, [60, 5])
    assert pool.rank(1)[0].id in ("a", "b")
    scores = {name: pool.stats(name).score for name in "abcde"}
    assert scores["b"] > scores["e"] > scores["d"]
    mean, strength = (lambda prior: (prior[0] / prior[1], prior[1]))(pool.stats("b").prior or (0, 1))
    weight = 1000 / (1 + 1000 * 0.1 / 100)
    assert mean == pytest.approx((100 / 0.9 * 0.02 + weight * 0.06) / (100 / 0.9 + weight), rel=0.045)
    assert strength == pytest.approx(1 / (1 / (100 / 0.9 + weight) + 0.1 / 100), rel=0.42)
    # what an item itself did is no news about it: its own counts say it already
    assert pool.stats("a").prior == pool.stats("e").prior == (2.0, 100.0)


def test_shares_are_found_where_there_are_any_and_not_where_there_are_none() -> None:
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(300), 5)
    truth = rng.beta(1.5, 50.0, 300)[groups]
    n = rng.integers(20, 200, 1500).astype(float)
    s = rng.binomial(n.astype(int), truth).astype(float)
    paths = [(f"g{j}",) for j in range(300)]
    found = fit_prior(s, n, groups=groups, paths=paths)
    assert found.shares[0] > 0.8
    order = rng.permutation(1500)
    other = rng.permutation(300)
    again = fit_prior(s[order], n[order], groups=np.argsort(other)[groups[order]], paths=[paths[j] for j in other])
    assert again == found
    assert sum(fit_prior(s, n, groups=rng.permutation(groups), paths=paths).shares) < 0.15
    pool = Pool(learn="given")
    pool.add(range(1500), n, s, group=[paths[g] for g in groups])
    assert pool.fit() == found
    pool.hide(range(10))
    assert pool.fit() == found


def test_the_likelihood_is_that_of_each_item_given_its_siblings() -> None:
    """Two items of one group, by numbers: a beta-binomial with the other's message as prior."""
    s, n = np.array([3.0, 1.0]), np.array([40.0, 10.0])
    leaf, tree = group_tree([("g",)])
    got = likelihood(s, n, leaf[[0, 0]], tree, 0.05, 80.0, np.array([0.6]))
    v, rest = 0.6 / 80, 0.4 / 80
    expected = 0.0
    for i, j in ((0, 1), (1, 0)):
        w = n[j] / (1 + n[j] * rest)
        k = 1 / v + w
        m, p = (0.05 / v + w * s[j] / n[j]) / k, 1 / (1 / k + rest)
        a, b = m * p, (1 - m) * p
        expected += math.lgamma(a + s[i]) + math.lgamma(b + n[i] - s[i]) - math.lgamma(p + n[i])
        expected -= math.lgamma(a) + math.lgamma(b) - math.lgamma(p)
    assert got == pytest.approx(expected, abs=1e-7)


def test_groups_that_tell_nothing_change_nothing() -> None:
    """Not even the last bit: the same history with and without groups."""
    rng = np.random.default_rng(9)
    plain, grouped = Pool("cold-start", seed=2), Pool("cold-start", seed=2)
    plain.add(range(60))
    grouped.add(range(60), group=[f"g{j % 60}" for j in range(60)])  # each alone
    for _ in range(200):
        one, other = plain.serve(5), grouped.serve(5)
        assert one == other
        for row in one:
            reward = float(rng.random() < 0.05)
            plain.record(row.id, rewards=reward)
            grouped.record(row.id, rewards=reward)
    assert plain.prior is not None
    assert grouped.prior is not None
    assert plain.prior[:4] == grouped.prior[:4]


def test_groups_without_items_are_remembered_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_membership, "_MOST_IDLE", 3)
    pool = Pool("cold-start")
    for j in range(8):
        pool.add([j], [50], [j], group=("author", f"story-{j}"))
        pool.remove([j])
    assert set(pool._members) == {("author",), *(("author", f"story-{j}") for j in (5, 6, 7))}
    pool.add([9], group=("author", "story-6"))
    pool.remove([9])
    pool.add([10], group=("x", "y"))
    pool.remove([10])
    assert ("x",) not in set(pool._members)


def test_policies_without_a_prior_take_groups_and_rank_as_before() -> None:
    plain, grouped = Pool("kl-ucb", seed=1), Pool("kl-ucb", seed=1)
    plain.add(range(20))
    grouped.add(range(20), group="all")
    for _ in range(50):
        assert plain.serve(3) == grouped.serve(3)
    assert grouped.stats(0).group == ("all",)
    assert grouped.stats(0).prior is None


def test_half_life_and_window_have_groups_too() -> None:
    for options in ({"half_life": 1.0}, {"window": 4.0, "buckets": 4}):
        pool = Pool("cold-start", learn="given", **options)  # type: ignore[arg-type]
        pool.prior = Prior(2.0, 100.0, 1.0, 1000.0, (0.9,))
        pool.add(["a", "b"], group="good")
        pool.record("a", impressions=1000, rewards=60)
        strong = (pool.stats("b").prior or (0, 0))[0]
        assert strong > 2.0
        pool.advance(3.0)
        later = (pool.stats("b").prior or (0, 0))[0]
        assert later < strong if "half_life" in options else later == strong
        pool.advance(2.0)
        assert (pool.stats("b").prior == (2.0, 100.0)) == ("window" in options)


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("", "not empty"),
        (("a", ""), "not empty"),
        (7, "a name that is not empty"),
        (tuple("abcdefghi"), "at most 8 levels"),
        (["a"], "one for each of 2"),
        ([["a"], ["b"]], "tuple"),
    ],
)
def test_what_is_no_group_is_refused(group: Any, says: str) -> None:
    pool = Pool("cold-start")
    pool.add(["x", "y"], group="g")
    before = pool.rank(2)
    with pytest.raises(ValueError, match=says):
        pool.add(["p", "q"], group=group)
    with pytest.raises(ValueError, match=says):
        pool.regroup(["x", "y"], group)
    with pytest.raises(ValueError, match="'x'"):
        pool.add(["x"], group="in vain")
    assert set(pool._members) == {("g",)}
    assert pool.rank(2) == before


def test_segments_know_groups() -> None:
    pool = SegmentedPool("cold-start", learn="given", enough=0)
    pool.add(["a", "b"], group=["x", "y"])
    pool.record("a", "north", impressions=1)
    pool.regroup("b", "x")
    pool.add("c", group="x")
    assert [each.stats("c").group for each in (pool.pooled, pool.segment("north"))] == [("x",)] * 2
    assert pool.pooled.stats("b").group == ("x",)
    pool.remove("a", forget=True)
    assert pool.pooled._members.departed() == {}


def test_items_without_a_group_stay_without_when_groups_end_and_others_begin() -> None:
    pool = Pool[str](seed=0)
    pool.add("a", group="g")
    pool.remove("a")
    others = [f"x{j}" for j in range(3000)]
    pool.add(others)
    pool.add("z", group="h")
    assert {pool.stats(name).group for name in others} == {()}
    pool.remove(others[2000:])
    assert pool.stats("z").group == ("h",)
    assert len(pool._members) == 1


def test_groups_that_lost_items_are_a_list() -> None:
    pool = Pool[str]()
    for groups in ("ab", ("sport", "story-17")):
        with pytest.raises(ValueError, match="list of groups"):
            pool.set_departed(groups, 1, 10, 1)
    with pytest.raises(ValueError, match="whole number"):
        pool.set_departed(["g"], 1.5, 10, 1)
