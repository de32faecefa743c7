"""Groups: what they know is computed by the plain mathematics, after any life of a pool."""

from __future__ import annotations

import json
import math
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import betaincinv

from hellinger import Pool
from hellinger.policies import Prior, fit_prior, tag_path
from hellinger.policies import policy as make_policy
from hellinger.policies.effects import Column, Effects, Named
from hellinger.policies.prior import group_tree
from hellinger.policies.shares import fit_shares, likelihood
from hellinger.pool import SegmentedPool, _membership, _tree
from hellinger.pool._layout import ITEM
from hellinger.pool.group_effects import beta_interval
from hellinger.pool.snapshot import _RECORDS
from pool_model import check_cells
from sliced_pools import SlicedLife

PRIOR = Prior(2.0, 60.0, 1.5, 1000.0, (0.3, 0.4))
EFFECTS = Effects(
    0.04,
    (
        Column(Named("category", "genre", "drama"), 0.9, 0.1),
        Column(Named("category", "genre", "crime"), -1.6, 0.1),
        Column(Named("number", "length", ""), 0.5, 0.1, 3.0, 2.0),
        Column(Named("text", "headline", "why"), 0.7, 0.1),
    ),
)
FEATURES: list[Any] = [
    None,
    {},
    {"genre": "drama"},
    {"genre": ["drama", "crime"], "length": 5},
    {"genre": "crime", "length": 100.0, "author": "unknown"},
    {"headline": "why not", "length": None},
]


@dataclass
class Member:
    n: float
    s: float
    path: tuple[str, ...]
    tags: tuple[str, ...] = ()
    features: Any = None

    def step(self, effects: Effects | None) -> int:
        """The item's factor, in 16ths of an octave."""
        if effects is None or not self.features:
            return 0
        weights, eta = {str(column.name): column.weight for column in effects.columns}, 0.0
        genres = self.features.get("genre", [])
        genres = [genres] if isinstance(genres, str) else genres
        eta += sum(weights[f"genre={genre}"] / math.sqrt(len(genres)) for genre in genres)
        if self.features.get("length") is not None:
            eta += weights["length"] * min((self.features["length"] - 3.0) / 2.0, 4.0)
        if "headline" in self.features:
            eta += weights["headline~why"] / math.sqrt(2)
        rate = effects.mean * math.exp(eta) / (1 - effects.mean + effects.mean * math.exp(eta))
        return math.floor(16 * math.log2(rate / effects.mean) + 0.5)


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
        n = max(member.n * self.factor(name), member.s)
        w = n / (1 + n * self.rest(len(self.paths[name])))
        return units(w), units(w * (member.s / n))

    def factor(self, name: Any) -> float:
        return float(2 ** (self.members[name].step(self.prior.effects) / 16))

    def known(self, path: tuple[str, ...]) -> tuple[float, float]:
        parts = [self.told(name) for name, own in self.paths.items() if own == path]
        parts += [self.passed_on(group) for group in self.groups if group[:-1] == path]
        w, y = sum(part[0] for part in parts) / 65536, sum(part[1] for part in parts) / 65536
        items, n, s = self.gone.get(path, (0, 0, 0))
        here = [units(self.factor(name)) / 65536 for name, own in self.paths.items() if own == path]
        n = max(n * (sum(here) / len(here)), s) if here else n
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
        if sum(group[:-1] == path[:-1] for group in self.groups) <= _tree.MANY:
            w, y = (whole - part / 65536 for whole, part in zip((w, y), self.passed_on(path), strict=True))
        k = worth + max(w, 0.0)
        step = near((worth * mean + y) / k, self.mean, 32)
        odds = 2 ** (step / 32) * self.mean / (1 - self.mean)
        known = self.t * 2 ** (math.floor(math.log2(min(k / self.t, 1e9)) * 8 + 0.5) / 8)
        return odds / (1 + odds), 1 / (1 / known + v)

    def priors(self, name: Any) -> tuple[float, float]:
        """Pseudo-counts of an item."""
        path, step = self.paths[name], self.members[name].step(self.prior.effects)
        if not path or not self.prior.shares:
            return self.rounded(self.mean, self.t, step)
        mean, worth = self.above(path)
        w, y = self.known(path)
        crowd = sum(own == path for own in self.paths.values()) > _tree.CROWD
        if not crowd:
            w, y = (whole - part / 65536 for whole, part in zip((w, y), self.told(name), strict=True))
        k = worth + w
        m, p = (worth * mean + y) / k, 1 / (1 / k + self.rest(len(path)))
        if crowd:
            f = 2 ** (math.floor(step / 4 + 0.5) / 4)
            return min(m * f, 1 - 1e-9) * p / f, p / f
        return self.rounded(m, p, step)

    def rounded(self, m: float, p: float, step: int) -> tuple[float, float]:
        f = 2 ** (step / 16)
        m, p = min(m * f, 1 - 1e-9), p / f
        if m == self.mean and p == self.t:
            return self.prior.a, self.prior.strength
        more = math.log2(p / self.t)
        fine = 16 if more < 0.25 else 4
        more = math.floor(more * fine + 0.5) / fine if 0 < more < 1 else min(max(math.floor(more + 0.5), -4), 6)
        octaves = math.log2(m * (1 - self.mean) / (self.mean * (1 - m)))
        steps = 32 if abs(octaves) < 0.25 else 8
        odds = 2 ** (math.floor(octaves * steps + 0.49) / steps) * self.mean / (1 - self.mean)
        p = self.t * 2**more
        return p * odds / (1 + odds), p


def check_effects(pool: Pool[Any], plain: Plain) -> None:
    """What is told of groups is what they know by the plain mathematics, the most certain differences first."""
    found = {each.group or tag_path(each.tags): each for each in pool.group_effects(1000)}
    within = {path: [name for name, own in plain.paths.items() if own[: len(path)] == path] for path in plain.groups}
    shown = {
        path: sum(plain.members[name].n for name in names)
        + sum(sums[1] for left, sums in plain.gone.items() if left[: len(path)] == path)
        for path, names in within.items()
    }
    assert set(found) == ({path for path in shown if shown[path] > 0} if plain.prior.shares else set())
    for path, each in found.items():
        mean, worth = plain.above(path)
        w, y = plain.known(path)
        k = worth + w
        assert each.effect == pytest.approx((worth * mean + y) / k / plain.mean, rel=1e-9)
        m = each.effect * plain.mean
        ends = betaincinv(m * k, (1 - m) * k, [0.025, 0.975])
        assert [each.low * plain.mean, each.high * plain.mean] == pytest.approx(ends, rel=0.03, abs=0.03 * m)
        assert each.items == len(within[path])
        assert each.impressions == pytest.approx(shown[path])
    certain = [max(each.low, 1 / each.high) for each in found.values()]
    assert certain == sorted(certain, reverse=True)
    assert pool.group_effects(2) == list(found.values())[:2]
    levels = [sum(len(path) == depth + 1 for path in plain.groups) for depth in range(len(plain.prior.shares))]
    assert pool.group_levels() == list(zip(plain.prior.shares, levels, strict=True))


def check(pool: Pool[Any], members: dict[Any, Member], gone: dict[tuple[str, ...], tuple[float, ...]]) -> None:
    """Every item has the prior of the plain mathematics, and the ranking is that of a full sort."""
    assert pool.prior is not None
    plain = Plain(pool.prior, members, gone)
    for name in members:
        assert pool.stats(name).prior == pytest.approx(plain.priors(name), rel=1e-12)
    assert set(pool._members) == plain.groups
    check_effects(pool, plain)
    rule = make_policy("cold-start").rule
    scores = pool.scores(list(members))
    pseudo = [pool.stats(name).prior or (0, 0) for name in members]
    s, n = (np.array([getattr(m, of) for m in members.values()], float) for of in "sn")
    expected = np.empty(len(members))
    for j, (a, strength) in enumerate(pseudo):
        weight = math.sqrt(max(strength / pool.prior.strength, 1.0)) if pool.prior.effects is None else 1.0
        expected[j] = rule._score((s[j] + a) * weight, (n[j] + strength) * weight, pool._t, float(len(members)))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    ranked = pool.rank(len(members))
    assert [row.score for row in ranked] == sorted(scores.tolist(), reverse=True)
    assert {row.id: row.score for row in ranked} == dict(zip(members, scores.tolist(), strict=True))
    check_cells(pool)


PATHS: list[Any] = [None, "x", "y", ("x", "p"), ("x", "q"), ("y", "p"), ("x", "p", "deep")]


def as_path(group: Any) -> tuple[str, ...]:
    return () if group is None else (group,) if isinstance(group, str) else group


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(("learn", "slowly"), [("auto", False), ("given", False), ("given", True)])
def test_any_life_of_a_pool_with_groups_and_features(
    learn: Any, slowly: bool, small: bool, described: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a prior that is set slowly, and events that work out few priors, all is right when nothing is unsettled."""
    monkeypatch.setattr(_membership, "_HEARD", 2)
    if small:  # so that groups get strata of their own, and many groups below one are told alike
        for module in (_membership, _tree):
            monkeypatch.setattr(module, "CROWD", 5)
            monkeypatch.setattr(module, "MANY", 1)
    rng = np.random.default_rng(3 if small else 4)
    pool: Pool[int] = Pool("cold-start", learn=learn, seed=1)
    members: dict[int, Member] = {}
    gone: dict[tuple[str, ...], tuple[float, ...]] = {}
    new = slow = bounded = 0
    for step in range(260):
        if slowly:
            pool.bound_work(4)
        kind = rng.integers(9)
        some = [int(name) for name in rng.permutation(list(members))[: rng.integers(1, 5)]] if members else []
        if kind <= 1 or not members:
            names = list(range(new, new + int(rng.integers(1, 6))))
            new += len(names)
            groups = [PATHS[j] for j in rng.integers(len(PATHS), size=len(names))]
            tags = [("t",) if j else () for j in rng.integers(2, size=len(names))]
            n = rng.integers(0, 3, len(names)) * rng.integers(1, 200, len(names))
            s = rng.binomial(n, 0.1)
            features = [FEATURES[j] for j in rng.integers(len(FEATURES), size=len(names))] if described else None
            if described and not step % 2:  # groups or features alone, too
                groups = [None] * len(names)
            pool.add(names, n, s, group=groups, tags=tags, features=features)
            for j, name in enumerate(names):
                members[name] = Member(float(n[j]), float(s[j]), as_path(groups[j]), tags[j])
                members[name].features = features[j] if features else None
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
        elif described and rng.random() < 0.7:
            features = [FEATURES[j] for j in rng.integers(len(FEATURES), size=len(some))]
            pool.describe(some, features)
            for name, each in zip(some, features, strict=True):
                members[name].features = each
        elif rng.random() < 0.3:
            gone[("y",)] = (2.0, 80.0, 9.0)
            pool.set_departed(["y"], [2], [80], [9])
        bounded += bool(pool._members._waiting)
        if step % 40 == 20:
            prior = PRIOR._replace(a=float(rng.integers(1, 5)), shares=PRIOR.shares if rng.random() < 0.8 else ())
            prior = prior._replace(effects=EFFECTS) if described and rng.random() < 0.8 else prior
            pool.set_prior(prior, slowly=slowly)
            slow += pool.unsettled > 0
        if pool.unsettled:
            pool.rank(3)
            pool.settle(int(rng.integers(1, 4)))
        if step % 60 == 50:
            pool.save(tmp_path / "pool")
            pool = Pool.load(tmp_path / "pool")
        if step % 3 == 0 and members and not pool.unsettled:
            check(pool, members, gone)
    assert len(members) > 20
    assert (slow >= 3) == (bounded >= 3) == slowly
    pool.settle()
    check(pool, members, gone)
    blank = pool.blank()
    blank.prior = PRIOR._replace(effects=EFFECTS) if described else PRIOR
    assert {path for path in blank._members if "\0" not in path[0]} <= set(pool._members)
    check(blank, {name: Member(0, 0, m.path, m.tags, m.features) for name, m in members.items()}, {})


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


def shares_of(s: Any, n: Any, groups: Any) -> tuple[tuple[float, ...], float]:
    """The shares of these items, and by how much they make the logarithm of the likelihood larger than none do."""
    leaf, tree = group_tree([(f"g{j}",) for j in range(int(groups.max()) + 1)])
    found, _ = fit_shares(s, n, leaf[groups], tree, 0.03, 100.0)
    with_them, without = (
        likelihood(s, n, leaf[groups], tree, 0.03, 100.0, np.array(shares or (0.0,))) for shares in (found, ())
    )
    return found, with_them - without


def test_large_shares_are_believed_until_counts_speak_against_them() -> None:
    one_each = np.arange(50)
    found, gain = shares_of(np.zeros(50), np.full(50, 10.0), one_each)  # nobody has a sibling: nothing can be known
    assert found == (0.89,)  # the largest of the lattice
    assert gain == pytest.approx(0.0, abs=1e-6)
    rng = np.random.default_rng(0)
    n = np.full(200, 300.0)
    s = rng.binomial(300, rng.beta(3, 97, 200)).astype(float)
    assert shares_of(s, n, np.arange(200) // 4)[0] == ()


def test_fits_remember_what_those_before_have_said() -> None:
    """By the items that there are neither rule could tell; by those there were both can."""
    rng = np.random.default_rng(2)
    n = np.full(400, 60.0)
    rates = rng.beta(2, 60, 100).repeat(4)
    s = rng.binomial(60, rates).astype(float)
    leaf, tree = group_tree([(f"g{j}",) for j in range(100)])
    trusted = doubted = 0.0
    for _ in range(300):
        shares, trusted = fit_shares(s, n, leaf[np.arange(400) // 4], tree, 0.03, 60.0, trusted)
        assert shares
        _, doubted = fit_shares(s, n, leaf[np.arange(400) % 100], tree, 0.03, 60.0, doubted)
    assert 5.0 < trusted <= 6.0
    assert -6.0 <= doubted < -5.0
    few, n = np.zeros(8), np.full(8, 20.0)
    few[[0, 5]] = 3.0
    known = [fit_shares(few, n, leaf[np.arange(8) // 4], tree, 0.03, 60.0, trust)[0] for trust in (trusted, doubted)]
    assert known[0]
    assert not known[1]
    assert Prior.from_state(Prior(trust=trusted).state()).trust == trusted
    assert "trust" not in Prior().state()


@pytest.mark.parametrize("seed", range(30))
def test_shares_never_make_the_items_much_less_likely(seed: int) -> None:
    """And small ones make them more likely: by what is held beforehand alone no share is taken."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 60, 120).astype(float)
    s = rng.binomial(n.astype(int), rng.beta(3, 97, 120)).astype(float)
    found, gain = shares_of(s, n, np.arange(120) // 3)
    assert not found or gain >= 5.0 - 8.0 * found[0] - 1e-9
    assert not found or gain >= -2.2
    assert not found or found[0] > 5 / 8 or gain > 0.0


def test_a_small_share_is_found_where_counts_show_it() -> None:
    rng = np.random.default_rng(3)
    groups = np.arange(4000) // 20
    rates = np.clip(0.03 + 0.01 * rng.normal(size=200)[groups] + 0.014 * rng.normal(size=4000), 0.001, 1)
    n = np.full(4000, 400.0)
    (share,), gain = shares_of(rng.binomial(400, rates).astype(float), n, groups)
    assert 0.1 < share < 0.6
    assert gain > 20


def test_the_likelihood_is_that_of_each_item_given_those_before() -> None:
    """Two items of one group, by numbers: a beta-binomial with the first one's message as prior of the second."""
    s, n = np.array([3.0, 1.0]), np.array([40.0, 10.0])
    leaf, tree = group_tree([("g",)])
    got = likelihood(s, n, leaf[[0, 0]], tree, 0.05, 80.0, np.array([0.6]))
    v, rest = 0.6 / 80, 0.4 / 80
    expected, k, y = 0.0, 1 / v, 0.05 / v
    for i in (0, 1):
        m, p = y / k, 1 / (1 / k + rest)
        a, b = m * p, (1 - m) * p
        expected += math.lgamma(a + s[i]) + math.lgamma(b + n[i] - s[i]) - math.lgamma(p + n[i])
        expected -= math.lgamma(a) + math.lgamma(b) - math.lgamma(p)
        w = n[i] / (1 + n[i] * rest)
        k, y = k + w, y + w * s[i] / n[i]
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


def test_what_an_owner_says_of_groups_without_items_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which groups a pool forgot would depend on its life; one that is made anew from a log has had none."""
    monkeypatch.setattr(_membership, "_MOST_IDLE", 3)
    pool: Pool[int] = Pool("cold-start", learn="given")
    pool.add([0], group="x")
    groups = [("author", f"story-{j}") for j in range(8)]
    for group in groups:
        pool.set_departed([group], [2], [80], [9])
    assert set(pool._members.departed()) == set(groups)


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
        (["a"], "one for each of 2 ids, but got 1$"),
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
    with pytest.raises(ValueError, match=r"of 1 ids, but got 2; the levels of one group are a tuple, \('a', 'b'\)$"):
        pool.add("p", group=["a", "b"])
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


def test_intervals_of_groups_are_those_of_their_laws() -> None:
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.uniform(0, 8, 2000)), np.exp(rng.uniform(0, 10, 2000))
    ends = beta_interval(a, b)
    expected = betaincinv(a, b, [[0.025], [0.975]])
    assert (np.abs(ends - expected) <= 0.03 * (expected[1] - expected[0])).all()
    low, high = beta_interval(np.array([1e-3, 1e-3, 50.0]), np.array([50.0, 1e-3, 1e-3]))
    assert low.tolist()[:2] == [0.0, 0.0]
    assert high.tolist()[1:] == [1.0, 1.0]


def test_intervals_of_groups_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    effect = np.exp(rng.normal(0, 0.8, 400))
    story = rng.integers(400, size=4000)
    pool: Pool[int] = Pool("cold-start", learn="given")
    n = rng.integers(20, 200, 4000)
    rates = np.minimum(0.02 * effect[story] * rng.gamma(4, 0.25, 4000), 1.0)
    pool.add(range(4000), n, rng.binomial(n, rates), group=[f"story-{g}" for g in story.tolist()])
    pool.learn()
    assert pool.prior is not None
    mean, found = pool.prior.a / pool.prior.strength, pool.group_effects(400)
    held = [each.low * mean <= 0.02 * effect[int(each.group[0][6:])] <= each.high * mean for each in found]
    assert len(held) > 390
    assert 0.92 <= np.mean(held) <= 0.98


def test_groups_are_told_of_by_a_thread_while_the_pool_goes_on() -> None:
    pool: Pool[int] = Pool("cold-start", learn="given")
    pool.prior = PRIOR
    pool.add(range(500), group=[("x", f"g{number % 40}") for number in range(500)])
    rng = np.random.default_rng(0)
    with ThreadPoolExecutor(1) as other:
        for step in range(60):
            asked = other.submit(pool.group_effects)
            names = rng.integers(500 * (step + 1), size=50)
            here = names[pool.contains(names)]
            pool.record_many(here, np.ones(here.size), rng.integers(0, 2, here.size).astype(float))
            pool.remove(np.unique(here)[:20], forget=True)
            pool.add(range(500 * (step + 1), 500 * (step + 2)), group=[f"g{number % 90}" for number in range(500)])
            for each in asked.result():
                assert 0.0 <= each.low <= each.effect <= each.high < 50


def test_with_a_model_groups_tell_nothing_and_nothing_says_otherwise() -> None:
    """A model ranks by features: what groups would tell is not in the prior, nor in what reports it."""
    names = [f"{group}/{i}" for group in range(40) for i in range(10)]
    paths: list[Any] = [f"story {group}" for group in range(40) for _ in range(10)]
    rewards = [float(5 + 3 * (group % 10)) for group in range(40) for _ in range(10)]
    plain: Pool[str] = Pool("cold-start", learn="given")
    modelled: Pool[str] = Pool("cold-start", model="logistic", learn="given")
    for pool in (plain, modelled):
        pool.add([*names, "new"], [200.0] * 400 + [0.0], [*rewards, 0.0], group=[*paths, "story 9"])
        pool.set_prior(Prior(2.0, 20.0, 1.5, 80_000.0, (0.9,)))
    assert plain.group_effects()
    assert plain.stats("new").prior != (2.0, 20.0)
    assert "between groups" in plain.explain()
    assert modelled.prior is not None
    assert modelled.prior.shares == ()
    assert modelled.group_effects() == []
    assert modelled.stats("new").prior == (2.0, 20.0)
    assert "between groups" not in modelled.explain()


@pytest.mark.parametrize("seed", [*range(8), 17, 27, 44, 53, 94, 207, 329])
def test_a_pool_that_settles_in_slices_is_one_made_at_its_end(seed: int) -> None:
    assert SlicedLife(seed).live().compared >= 5


def test_a_group_that_ends_while_groups_tell_nothing_takes_back_what_it_said() -> None:
    """It was forgotten without: those above it went on knowing what it had told them."""
    on, off = Prior(1.0, 30.0, plays=10.0, shares=(0.3, 0.4)), Prior(1.0, 30.0, plays=10.0)
    scores = []
    for slowly in (False, True):
        pool = Pool[int](learn="given", seed=1)
        pool.add(range(20), group=[("a", "x" if one < 5 else "y") for one in range(20)])
        pool.record_many(range(20), np.full(20, 500), np.where(np.arange(20) < 5, 200, 20))
        pool.prior = on
        pool.set_prior(off, slowly=True)
        pool.settle()
        pool.remove(range(5), forget=True)
        pool.set_prior(on, slowly=slowly)
        pool.settle()
        pool.add([99], group=[("a", "z")])
        scores.append(float(pool.scores([99])[0]))
    assert scores[0] == scores[1]


def check_settled(pool: Pool[int]) -> None:
    """All that groups have heard, and every prior, is what it is when worked out anew."""
    nodes, scores = pool._members.tree.nodes[["mean", "known"]].copy(), pool.scores(pool.ids)
    pool._members.refresh(pool._store, pool._scale)
    assert np.array_equal(pool._members.tree.nodes[["mean", "known"]], nodes)
    assert np.array_equal(pool.scores(pool.ids), scores)


def test_siblings_learn_that_they_are_fewer() -> None:
    """Where there are very many, what one has sent is not taken out of what it hears."""
    count = _tree.MANY + 1
    pool = Pool[int](learn="given", seed=1)
    pool.add(range(count), group=[("top", f"g{one}") for one in range(count)])
    pool.prior = Prior(1.0, 30.0, plays=10.0, shares=(0.3, 0.4))
    rng = np.random.default_rng(0)
    n = rng.integers(200, 4000, 40)
    pool.record_many(range(40), n, rng.binomial(n, rng.uniform(0.0, 0.4, 40)))
    pool.remove([count - 1])
    check_settled(pool)


def authors(count: int, items: int) -> Pool[int]:
    """A pool of items by so many authors of one site, of each of which something is known."""
    pool = Pool[int](learn="given", seed=1)
    rng = np.random.default_rng(5)
    n = rng.integers(1, 40, items)
    pool.add(range(items), n, rng.binomial(n, 0.1), group=[("site", f"a{one % count}") for one in range(items)])
    pool.prior = Prior(1.8, 120.0, plays=10.0, shares=(0.1, 0.4))
    pool.bound_work(50)
    return pool


def test_an_event_looks_at_no_sibling_where_these_are_very_many() -> None:
    """All hear the same, and it is seldom something else: they were all looked at for each event, and all waited."""
    pool = authors(3000, 6000)
    rng = np.random.default_rng(6)
    for _ in range(50):
        ids = rng.integers(0, 6000, 4)
        pool.record_many(ids, np.ones(4), rng.binomial(1, 0.1, 4))
        assert not pool.unsettled
    check_settled(pool)


def test_what_very_many_siblings_hear_comes_in_slices_and_ends_under_traffic() -> None:
    pool = authors(3000, 6000)
    rng = np.random.default_rng(6)
    site = pool._members._number[("site",)]
    pool.record_many(range(500), np.full(500, 900), np.full(500, 700))
    left, slices = int(pool._members.tree.heads["untold"][site]), 0
    assert left > 2000
    while pool.unsettled:
        pool.settle(400)
        pool.record_many(rng.integers(0, 6000, 4), np.ones(4), rng.binomial(1, 0.1, 4))
        now = int(pool._members.tree.heads["untold"][site])
        assert left - now <= 1 + 400 // 16 + 1 + 50 // 16  # a slice, and an event
        assert len(pool._members._waiting) < 1000
        left, slices = now, slices + 1
    assert 100 < slices < 1000
    check_settled(pool)


def test_groups_come_and_go_while_their_siblings_have_yet_to_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_membership, "MANY", 3)
    for first in range(8):
        for then in range(12):
            pool = Pool[int](learn="given", seed=1)
            pool.add(range(8), group=[("site", f"a{one}") for one in range(8)])
            pool.prior = Prior(1.8, 20.0, plays=10.0, shares=(0.2, 0.3))
            pool.bound_work(0)
            for rewards, slices in ((400, first), (0, then)):
                pool.record_many([2, 5], [500, 500], [rewards, rewards])
                for _ in range(slices):
                    pool.settle(1)
            gone = (first + then) % 9
            if gone < 8:
                pool.remove([gone], forget=True)
            pool.add([8], group=[("site", "new")])  # the number of the one that ended is given to it
            pool.settle()
            check_settled(pool)


def test_siblings_learn_that_they_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all were told while they were as many before says nothing of what each has heard since."""
    monkeypatch.setattr(_membership, "MANY", 3)
    pool = Pool[int](learn="given", seed=1)
    pool.add(range(4), group=[("site", f"a{one}") for one in range(4)])
    pool.prior = Prior(1.8, 20.0, plays=10.0, shares=(0.2, 0.3))
    pool.record_many([0, 1, 2], np.full(3, 500), [300, 3, 50])
    for _ in range(2):
        pool.remove([3], forget=True)
        check_settled(pool)
        pool.add([3], group=[("site", "a3")])
        check_settled(pool)


def test_few_members_are_looked_at_for_an_event() -> None:
    """Members that have told nothing have a prior in common: only where it becomes another are they looked at."""
    pool = Pool[int](learn="given", seed=1)
    pool.add(range(3000), group=[f"g{one % 2}" for one in range(3000)])
    pool.prior = Prior(1.0, 30.0, plays=10.0, shares=(0.5,))
    members = pool._members
    pool.record_many(range(10), np.full(10, 5000), np.full(10, 100))
    members.most = 100  # there would be more to look at than this
    for _ in range(20):
        pool.record_many(range(10), np.ones(10), np.zeros(10))
        assert not pool.unsettled
    pool.record_many(range(10), np.zeros(10), np.full(10, 900))
    assert pool.unsettled, "all members of both groups have another prior now, and those of one wait"


@pytest.mark.parametrize("strength", [40.0, 120.0, 250.0])
def test_after_a_trial_without_reward_members_of_untried_groups_come_first(strength: float) -> None:
    pool = Pool("cold-start", learn="given", ties="oldest")
    pool.add(["a1", "a2", "b1", "b2"], group=["a", "a", "b", "b"])
    pool.prior = Prior(0.02 * strength, strength, shares=(0.86,))
    pool.record("a1", impressions=5)
    assert [row.id for row in pool.rank(2)] == ["b1", "b2"]


def test_classes_of_priors_are_told_apart_and_are_nearest() -> None:
    """Every class is that of its own prior, and a mean is at most half a step from that of its class."""
    relative = _tree.relative_classes()
    used = np.unique(np.arange(_tree.KNOWN, _tree.CLASSES))
    odds = relative[:, 0] * 0.02 / 0.98
    table = np.column_stack([relative[:, 1] * 100 * odds / (1 + odds), relative[:, 1] * 100])
    np.testing.assert_array_equal(_tree.classes_of(table, 0.02, 100.0)[used], used)
    octaves = np.random.default_rng(0).uniform(-3, 3, 1000)
    odds = 2.0**octaves * 0.02 / 0.98
    classes = _tree.classes_of(np.column_stack([300 * odds / (1 + odds), np.full(1000, 300.0)]), 0.02, 100.0)
    far = np.abs(np.log2(relative[classes, 0]) - octaves)
    assert (far <= np.where(abs(octaves) < 0.25, 0.51 / 32, 0.51 / 8) + 1e-9).all()


def test_a_snapshot_with_the_classes_of_format_11_is_read(tmp_path: Path) -> None:
    pool = Pool("cold-start", learn="given", seed=3)
    pool.add(range(4200), group=["large"] * 4150 + [f"group-{j // 5}" for j in range(50)])
    pool.prior = PRIOR
    pool.record_many(range(4100, 4200), 20, np.arange(100) % 4)
    assert max(pool._members.tree.nodes["stratum"]) == _tree.CLASSES
    pool.save(tmp_path / "pool")
    data = (tmp_path / "pool").read_bytes()
    (length,) = struct.unpack_from("<Q", data, 8)
    header = json.loads(data[16 : 16 + length])
    start, parts = 16 + length, []
    for name, kind, shape in header["arrays"]:
        dtype = {"nodes": _tree.TREE_NODE, "items": ITEM}.get(name)
        size = math.prod(shape) * (dtype or _RECORDS.get(name) or np.dtype(kind)).itemsize
        part, start = data[start : start + size], start + size
        if dtype is not None:
            column = np.frombuffer(part, dtype).copy()
            strata = column["stratum"]
            strata[strata >= _tree.CLASSES] -= _tree.CLASSES - 1887
            part = column.tobytes()
        parts.append(part)
    text = json.dumps(header | {"format": 11}).encode()
    body = data[:8] + struct.pack("<Q", len(text)) + text + b"".join(parts)
    (tmp_path / "pool").write_bytes(body + blake2b(body, digest_size=32).digest())
    again = Pool.load(tmp_path / "pool")
    assert again.rank(4200, seed=1) == pool.rank(4200, seed=1)
    for each in (pool, again):
        each.record(4199, impressions=30)
    assert again.scores(range(4200)).tolist() == pool.scores(range(4200)).tolist()
