"""Segments: an item's counts in one shrink to what it has elsewhere, as strongly as all counts tell."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft
from hellinger.engine.pools import ITEM_BYTES, SLICE
from hellinger.ledger import Ledger
from hellinger.policies import Prior, policy
from hellinger.policies.segments import LATTICE, SegmentLaw, fit_segments
from hellinger.pool import Leaving, SegmentedPool
from hellinger.pool._within import Touched, Within
from hellinger.traffic.months import DeskPlayer
from hellinger.world.laws import LAWS
from hellinger.world.players import Ints, PoolPlayer, SegmentedPlayer
from hellinger.world.site import Clicks, Site, clicks, turns
from ledger_model import START, Log
from lives import Copy, limit
from segment_model import agrees, rounded, unknown

SEGMENTS = ["north", "south", "west"]
LAW = SegmentLaw(0.05, 40.0, 0.5, (("north", 0.25), ("south", -0.5)))


def check(pool: SegmentedPool, counts: dict[Any, dict[str, list[float]]]) -> None:
    """Every prior, and the time that the level is of, as plain Python has them from the counts."""
    law, pooled = pool.law, pool.pooled
    assert pooled.prior is not None
    for segment, _ in law.shifts:
        own = pool.deciding(segment)
        assert own is pool.segments.get(segment, pooled)
        if own is pooled:
            continue
        least = unknown(law, segment)[1]
        shown, informed = 0.0, 0.0
        for name in pooled.ids:
            mine, all_of_it = own.stats(name), pooled.stats(name)
            assert [mine.impressions, mine.rewards] == counts[name][segment]
            n = sum(part[0] for part in counts[name].values()) - mine.impressions
            s = sum(part[1] for part in counts[name].values()) - mine.rewards
            assert all_of_it.prior is not None
            assert agrees(mine.prior, law, segment, pooled.prior, all_of_it.prior, n, s)
            assert mine.prior is not None
            assert mine.group == all_of_it.group
            shown += mine.impressions
            informed += mine.prior[1] - least
        assert own._t == pytest.approx((shown + max(informed, 0.0)) * pooled.prior.focus + 1)


@pytest.mark.parametrize("seed", range(12))
def test_priors_are_those_of_the_counts_whatever_happens(seed: int) -> None:
    rng = random.Random(seed)
    pool = SegmentedPool("cold-start", learn="given", seed=seed)
    names = [f"i{j}" for j in range(12)]
    counts: dict[Any, dict[str, list[float]]] = {}
    for _ in range(150):
        action = rng.randrange(10)
        here = sorted(counts)
        if action == 0 or not here:
            name = rng.choice(names)
            if name not in counts:
                pool.add(name, group=rng.choice([None, "g", ("g", "h")]))
                counts[name] = {segment: [0, 0] for segment in ("", *SEGMENTS)}
        elif action == 1 and len(here) > 3:
            gone = rng.choice(here)
            pool.remove(gone, forget=True)
            del counts[gone]
        elif action == 2:
            pool.regroup(rng.choice(here), rng.choice([None, "g", "h"]))
        elif action == 3:
            shares = rng.choice([(), (0.6,), (0.3, 0.4)])
            pool.pooled.prior = Prior(rng.choice([1.0, 3.0]), 40.0, focus=1.5, shares=shares)
        elif action == 4:
            pool.law = rng.choice([SegmentLaw(), LAW, LAW._replace(variance=2.0)])
        elif action == 5:
            rng.choice([pool.hide, pool.unhide])(rng.choice(here))
        else:
            name, segment = rng.choice(here), rng.choice(["", *SEGMENTS])
            n = rng.choice([1, 1, 7, 300])
            s = rng.randrange(n + 1)
            pool.record_many([name], segment, n, s)
            counts[name][segment][0] += n
            counts[name][segment][1] += s
        if rng.random() < 0.2:
            check(pool, counts)
    check(pool, counts)


def test_a_pool_of_a_segment_is_the_same_however_it_came_about() -> None:
    rng = np.random.default_rng(1)
    one, other = (SegmentedPool("cold-start", learn="given", seed=3) for _ in range(2))
    for pool in (one, other):
        pool.add(range(60), group=[f"g{j % 7}" for j in range(60)])
        pool.pooled.prior = Prior(2.0, 40.0, shares=(0.6,))
    one.law = LAW
    total = np.zeros((2, 2, 60))
    for _ in range(80):
        place = int(rng.integers(2))
        who = rng.choice(60, 5, replace=False)
        n = rng.integers(1, 30, 5)
        s = rng.binomial(n, 0.1)
        one.record_many(who, SEGMENTS[place], n, s)
        total[place, 0, who] += n
        total[place, 1, who] += s
        one.rank(3, SEGMENTS[int(rng.integers(2))])
    other.set_counts(range(60), *total.sum(axis=0))
    for place in (0, 1):
        other.set_counts(range(60), *total[place], segment=SEGMENTS[place])
    other.pooled.rounds = one.pooled.rounds
    other.law = LAW
    for segment in SEGMENTS[:2]:
        assert one.deciding(segment).scores(range(60)).tolist() == other.deciding(segment).scores(range(60)).tolist()
        assert one.rank(20, segment, seed=5) == other.rank(20, segment, seed=5)


def featured(*, late: bool) -> SegmentedPool:
    """Items whose genre tells nearly all; described as they come, or when segments have pools already."""
    pool = SegmentedPool("cold-start", learn="given", seed=0)
    features = [{"genre": f"genre-{j % 4}"} for j in range(80)]
    pool.add(range(80), features=None if late else features)
    for j in range(80):
        pool.record(j, SEGMENTS[j % 2], impressions=200, rewards=(2, 5, 10, 40)[j % 4] + j % 3)
    if late:
        pool.describe(range(80), features)
    pool.learn()
    pool.law = LAW
    pool.add(["new good", "new bad"], features=[{"genre": "genre-3"}, {"genre": "genre-0"}])
    return pool


def test_a_segment_knows_what_features_tell_all_users() -> None:
    pool, later = featured(late=False), featured(late=True)
    prior = pool.pooled.prior
    assert prior is not None
    assert prior.effects is not None
    assert later.pooled.prior == prior
    for segment in ("", *SEGMENTS):
        of = {row.id: row.score for row in pool.rank(82, segment)}
        assert of["new good"] > 2 * of["new bad"]
        assert of == {row.id: row.score for row in later.rank(82, segment)}
    pool.describe("new bad", {"genre": "genre-3"})
    for segment in ("", "north"):
        of = {row.id: row.score for row in pool.rank(82, segment)}
        assert of["new good"] == of["new bad"]


def test_features_that_no_pool_of_segments_can_use_change_nothing() -> None:
    pool = SegmentedPool("hellinger-ucb", seed=0)
    pool.add(["a"])
    pool.record("a", "north", impressions=1)
    with pytest.raises(ValueError, match="whose policy learns a prior"):
        pool.add(["b"], features={"genre": "drama"})
    assert [list(each.ids) for each in (pool.pooled, pool.segments["north"])] == [["a"], ["a"]]


def test_ranking_is_that_of_scoring_every_item() -> None:
    rng = np.random.default_rng(0)
    pool = SegmentedPool("cold-start", learn="given", ties="oldest")
    pool.add(range(500))
    pool.law = LAW
    for _ in range(100):
        who = np.unique(rng.integers(0, 500, 30))
        n = rng.integers(1, 40, who.size)
        pool.record_many(who, SEGMENTS[int(rng.integers(2))], n, rng.binomial(n, 0.07))
    own = pool.deciding("north")
    scores = own.scores(range(500))
    best = np.lexsort((np.arange(500), -scores))[:25]
    assert [item.id for item in pool.rank(25, "north")] == best.tolist()
    assert "log-odds here vary by 0.71" in own.explain()


def drawn(deviation: float, shift: float = 0.0, seed: int = 0) -> tuple[Any, ...]:
    """Counts of 400 items in three segments, as pairs."""
    rng = np.random.default_rng(seed)
    mean = rng.beta(2, 60, 400)
    log_odds = np.log(mean / (1 - mean)) + rng.normal(0, deviation, (3, 400)) + shift * np.array([[-1.0], [0.0], [1.0]])
    n = rng.geometric(1 / 300, (3, 400)).astype(float)
    s = rng.binomial(n.astype(int), 1 / (1 + np.exp(-log_odds))).astype(float)
    place = np.repeat(np.arange(3), 400)
    elsewhere = (s.sum(axis=0) - s).ravel(), (n.sum(axis=0) - n).ravel()
    return SEGMENTS, place, s.ravel(), n.ravel(), elsewhere, Prior(2.0, 62.0)


def test_the_fit_finds_how_far_segments_are_apart() -> None:
    for deviation in (0.3, 0.5, 1.0):
        found = fit_segments(*drawn(deviation)).variance
        assert 0.5 * deviation**2 <= found <= 2 * deviation**2
    law = fit_segments(*drawn(0.5, 0.7))
    assert [law.of(segment) for segment in SEGMENTS] == sorted(law.of(segment) or 0 for segment in SEGMENTS)
    assert law.of("north") == pytest.approx(-1.2, abs=0.4)
    assert law.of("east") is None


def test_segments_dealt_at_random_tell_nothing() -> None:
    assert [fit_segments(*drawn(0.0, seed=seed)) for seed in range(10)] == [SegmentLaw()] * 10


def test_the_fit_does_not_depend_on_the_order_of_the_pairs() -> None:
    names, place, s, n, (other_s, other_n), prior = drawn(0.5)
    order = np.random.default_rng(0).permutation(s.size)
    again = fit_segments(names, place[order], s[order], n[order], (other_s[order], other_n[order]), prior)
    assert again == fit_segments(*drawn(0.5))


# Where a policy chose what to show ------------------------------------------------------------------------


class Uneven(SegmentedPlayer):
    """Of the site's hundred segments the first so many are one, all others the other."""

    def __init__(self, of: int, seed: int) -> None:
        super().__init__(policy("cold-start"), ADAPTIVE.items, seed=seed)
        self.of = of
        self.laws = {self.pool.law}

    def choose(self, slots: int, segments: Ints) -> Ints:
        out = super().choose(slots, (segments < self.of).astype(np.int64))
        self.laws.add(self.pool.law)
        return out

    def record(self, places: Ints, impressions: int, rewards: Any, segments: Ints) -> None:
        super().record(places, impressions, rewards, (segments < self.of).astype(np.int64))


ADAPTIVE = Site(1000, slots=10, batch=5, segments=100)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("of", [0, 1, 50])
def test_where_segments_mean_nothing_it_ranks_as_without(of: int, law: str) -> None:
    """Whatever the law of rates, and all the more where all traffic is of one segment."""
    for seed in range(2):
        rates = LAWS[law](np.random.default_rng(seed), ADAPTIVE.items)
        player, without = Uneven(of, seed), PoolPlayer(policy("cold-start"), ADAPTIVE.items, seed=seed)
        earned = (clicks(ADAPTIVE, each, Clicks(rates, seed), [20_000], seed=seed) for each in (player, without))
        assert next(earned) == next(earned)
        assert player.laws == {SegmentLaw()}


@pytest.mark.parametrize("of", [0, 1, 50])
def test_a_law_that_says_too_much_is_refuted_by_what_is_shown_by_it(of: int) -> None:
    for law, seed in (("heavy-tailed", 1), ("bimodal", 3)):
        rates = LAWS[law](np.random.default_rng(seed), ADAPTIVE.items)
        player = Uneven(of, seed)
        clicks(ADAPTIVE, player, Clicks(rates, seed), [8_000], seed=seed)
        player.pool.law = SegmentLaw(0.05, 40.0, 0.5, (("0", 0.0), ("1", 0.0)))
        clicks(ADAPTIVE, player, Clicks(rates, seed + 1), [12_000], seed=seed)
        assert player.pool.law == SegmentLaw()


def test_shifts_are_not_what_good_items_earn_where_they_are_good() -> None:
    """Every segment shows what is better there than elsewhere: no sign that its users click more on everything."""
    rng = np.random.default_rng(0)
    log_odds = np.log(rng.beta(2, 60, 300)) + rng.normal(0, 1, (5, 300))
    player = SegmentedPlayer(policy("cold-start"), 300)
    clicks(Site(300, slots=4, batch=5, segments=5), player, Clicks(1 / (1 + np.exp(-log_odds)), 1), [30_000])
    assert player.pool.law.variance >= 1
    assert -0.5 <= np.mean([shift for _, shift in player.pool.law.shifts]) <= 0.25


def test_an_item_that_nobody_else_has_seen_tells_nothing() -> None:
    names, place, s, n, (other_s, other_n), prior = drawn(0.5)
    more = (np.repeat(np.arange(3), 400), np.full(1200, 300.0), np.full(1200, 900.0), np.zeros(1200), np.zeros(1200))
    pairs = zip((place, s, n, other_s, other_n), more, strict=True)
    place, s, n, other_s, other_n = (np.concatenate(pair) for pair in pairs)
    law = fit_segments(names, place, s, n, (other_s, other_n), prior)
    assert law == fit_segments(*drawn(0.5))
    assert law.variance > 0
    assert fit_segments(names, *more[:3], more[3:], prior) == SegmentLaw()


@pytest.mark.parametrize("rate", [0.03, 0.3, 0.5, 0.9])
def test_the_fit_is_right_where_rates_are_high(rate: float) -> None:
    """For rare and frequent rewards alike: what it says of rewards it says of their absence."""
    rng = np.random.default_rng(3)
    base = math.log(rate / (1 - rate))
    n = rng.geometric(1 / 300, (3, 400)).astype(float)
    for deviation, least, most in ((0.0, 0.0, 0.0), (0.5, 0.125, 0.5), (1.0, 0.5, 2.0)):
        log_odds = base + rng.normal(0, 0.3, 400) + rng.normal(0, deviation, (3, 400))
        s = rng.binomial(n.astype(int), 1 / (1 + np.exp(-log_odds))).astype(float)
        of: Any = s, n - s
        laws = []
        for which in of:
            elsewhere = (which.sum(axis=0) - which).ravel(), (n.sum(axis=0) - n).ravel()
            place = np.repeat(np.arange(3), 400)
            laws.append(fit_segments(SEGMENTS, place, which.ravel(), n.ravel(), elsewhere, Prior(2.0, 4.0)))
        assert laws[0].variance == laws[1].variance
        assert least <= laws[0].variance <= most
        for (_, up), (_, down) in zip(*(law.shifts for law in laws), strict=True):
            assert abs(up + down) <= 0.125


def test_what_is_in_force_stays_while_counts_do_not_clearly_tell_otherwise() -> None:
    names, place, s, n, elsewhere, prior = drawn(0.5)
    law = fit_segments(names, place, s, n, elsewhere, prior)
    near = prior._replace(a=prior.a * 1.05, strength=prior.strength * 1.04)
    assert fit_segments(names, place, s, n, elsewhere, near, law) == law
    far = prior._replace(a=prior.a * 1.5, strength=prior.strength * 1.5)
    assert fit_segments(names, place, s, n, elsewhere, far, law).strength > law.strength
    assert law.variance in LATTICE


def test_a_law_survives_json_and_refuses_what_it_cannot_be() -> None:
    assert SegmentLaw.from_state(json.loads(json.dumps(LAW.state()))) == LAW
    assert SegmentLaw.from_state(None) == SegmentLaw()
    for bad in (LAW._replace(mean=1.0), LAW._replace(variance=-1.0), LAW._replace(shifts=(("a", 99.0),))):
        with pytest.raises(ValueError, match="must hold"):
            bad.check()
    with pytest.raises(ValueError, match=r"SegmentLaw\.state"):
        SegmentLaw.from_state({"mean": 0.1})


def test_a_pool_that_has_missed_too_much_looks_everything_up() -> None:
    touched = Touched(most=10)
    for j in range(6):
        touched.note(np.arange(j, j + 3))
    assert touched.size <= 10
    end = touched.end
    assert [touched.since(end - back, 10)[0].tolist() for back in (0, 1)] == [[], [5, 6, 7]]
    assert [touched.since(end - 2, most)[1] - end for most in (3, 4)] == [-1, 0]
    touched.note(np.arange(1000))
    assert (touched.size, touched.start) == (0, touched.end)


def test_items_leave_a_segment_by_the_pooled_counts() -> None:
    pool = SegmentedPool("cold-start", leaving=Leaving(impressions=50))
    pool.add(["a", "b"])
    pool.law = LAW
    pool.record("a", "north", impressions=30)
    pool.record("a", "south", impressions=30)
    assert [item.id for item in pool.rank(2, "north")] == ["b"]
    with pytest.raises(ValueError, match="stand alone"):
        pool.segment("north").save("nowhere")


def test_windows_and_half_lives_forget_in_both() -> None:
    forgetful: list[dict[str, Any]] = [{"window": 4.0, "buckets": 4}, {"half_life": 1.0}]
    for options in forgetful:
        pool = SegmentedPool("cold-start", learn="given", **options)
        pool.add(["a", "b"])
        pool.law = LAW
        pool.record("a", "north", impressions=400, rewards=40)
        pool.advance(2)
        pool.record("a", "south", impressions=100, rewards=10)
        pool.advance(3)
        own, every = pool.deciding("north").stats("a"), pool.pooled.stats("a")
        n = every.impressions - own.impressions
        s = every.rewards - own.rewards
        want = rounded(LAW, 0.25, LAW.strength + n, (LAW.mean * LAW.strength + s) / (LAW.strength + n))
        assert own.prior == pytest.approx((want[0] * want[1], want[1]))


# In the service ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["heavy-tailed", "bimodal"])
def test_a_site_that_always_sends_the_same_segment_earns_what_it_earns_without(law: str) -> None:
    rates = LAWS[law](np.random.default_rng(0), 1000)
    site, shown, named = Site(1000, slots=10, batch=10), [], []
    for segments in (1, 2):  # of two, of which only one ever comes
        desk = Desk(Ledger(), {"ours": "cold-start"}, seed=1, positions="none")
        player = DeskPlayer(desk, site.items, start=START, segments=segments)
        played = islice(turns(site, player, Clicks(rates, 0)), 200)
        shown.append([turn.places.tolist() for turn in played])
        named.append(desk.ledger.segments)
        assert "segments" not in desk.ledger.priors["ours", ""][1]
    assert shown[0] == shown[1]
    assert named == [[], ["0"]]


def site(segments: int, deviation: float, **options: Any) -> Copy:
    """A service with counts of 60 items in some segments, as imports, that has learned from them."""
    copy = Copy(Log(), variants={"one": "cold-start"}, **options)
    names = [f"i{j}" for j in range(60)]
    copy.add(*names)
    rng = np.random.default_rng(0)
    log_odds = np.log(rng.beta(2, 40, 60)) + rng.normal(0, deviation, (segments, 60))
    for j, rates in enumerate(1 / (1 + np.exp(-log_odds))):
        n = rng.geometric(1 / (100 + 20 * j), 60)
        s = rng.binomial(n, rates)
        copy.bring(list(zip(names, n.tolist(), s.astype(float).tolist(), strict=True)), segment=f"s{j}")
    copy.chores(START)
    return copy


def law_of(copy: Copy) -> SegmentLaw:
    return SegmentLaw.from_state(copy.desk.ledger.priors["one", ""][1].get("segments"))


def test_the_service_learns_what_segments_tell() -> None:
    copy = site(4, 1.0)
    assert law_of(copy).variance >= 0.5
    assert sorted(copy.desk.pools.segments("one")) == ["s0", "s1", "s2", "s3"]
    ranked = {tuple(copy.rank(5, segment=f"s{j}").fields["items"]) for j in range(4)}
    assert len(ranked) == 4
    assert copy.desk.pools.deciding("one", "unheard of") is copy.desk.pools.of("one")
    copy.flush()
    copy.check()


def test_segments_that_tell_nothing_have_no_pools() -> None:
    copy = site(4, 0.0)
    assert law_of(copy) == SegmentLaw()
    assert copy.desk.pools.segments("one") == []
    pools = copy.desk.pools
    assert pools.deciding("one", "s1") is pools.of("one")
    copy.check()


def test_the_busiest_segments_have_the_memory() -> None:
    copy = site(4, 1.0, segment_bytes=2 * 60 * ITEM_BYTES)
    pools = copy.desk.pools
    assert sorted(pools.segments("one")) == ["s2", "s3"] == sorted(name for name, _ in law_of(copy).shifts[:2])
    assert pools.deciding("one", "s0") is pools.of("one")
    copy.check()
    names = [f"more {j}" for j in range(60)]
    copy.add(*names)
    pools.finish()
    (busiest, _), *_ = law_of(copy).shifts
    assert pools.segments("one") == [busiest]
    assert {segment for _, segment, _ in pools.each()} == {"", busiest}
    copy.check()


@pytest.mark.parametrize("most", [0, 1, 2, 4])
def test_policies_without_a_prior_keep_to_the_memory_too(most: int) -> None:
    """Every segment that had impressions enough had a pool, whatever that took."""
    variants = {"one": "ucb1", "two": "kl-ucb", "fixed": "fixed"}
    copy = Copy(Log(), variants=variants, enough=1, segment_bytes=2 * most * 60 * ITEM_BYTES)
    names = [f"i{j}" for j in range(60)]
    copy.add(*names)
    for j in range(4):
        copy.bring([(name, 10 + j, 1.0) for name in names], segment=f"s{j}")
    pools = copy.desk.pools
    busiest = [f"s{j}" for j in range(4)][4 - most :]
    for _ in range(3):
        for j in range(4):
            copy.rank(5, segment=f"s{j}")
        pools.finish()
        assert [pools.segments(name) for name in variants] == [busiest, busiest, []]
        assert pools.by_segment == 2 * most
    copy.flush()
    copy.check()
    copy.bring([(name, 1000, 1.0) for name in names], segment="s0")
    pools.finish()
    assert pools.by_segment == 2 * most, "memory goes from the one to the other"
    assert ("s0" in pools.segments("one")) == (most > 0)
    copy.check()


LIFE = """
import gc
from numba.core.dispatcher import Dispatcher
from ledger_model import START, Log
from lives import Copy
from hellinger.engine.warming import warm_policies

def compiled():
    return {d.py_func.__qualname__: len(d.overloads) for d in gc.get_objects() if isinstance(d, Dispatcher)}

variants = {name: name for name in ("cold-start", "hellinger-ucb", "kl-ucb", "ucb1")}
copy = Copy(Log(), variants=variants, enough=1)
warm_policies(variants.values())
before = compiled()
hour = 3_600_000
for day in range(3):
    at = START + 24 * hour * day
    names = [f"{day} {j}" for j in range(200)]
    for j, name in enumerate(names):
        copy.add(name, at=at, tags=[f"author {j % 20}"], expires_at=at + 20 * hour)
    for j in range(80):
        copy.rank(10, at + j, segment=f"s{j % 3}", **({"tags": ["author 3"]} if j % 9 == 8 else {}))
    copy.flush()
    for segment in ("s0", "s1", "s2"):
        rows = [(name, 40, float(j % 20 + (j % 7) * (segment == "s1"))) for j, name in enumerate(names)]
        copy.bring(rows, segment=segment)
    copy.chores(at + hour)
    copy.rank(10, at + hour, segment="s1")
    copy.flush()
    copy.turn(names[0], "hidden", at + hour)
    copy.turn(names[1], "deleted", at + hour)
    copy.rank(10, at + hour, segment="s2")
    copy.chores(at + 22 * hour)
    copy.desk.sweep()
copy.chores(START + 24 * 30 * hour)
copy.desk.finish()
after = compiled()
print({name: (before.get(name, 0), count) for name, count in after.items() if before.get(name, 0) != count})
"""


def test_what_a_service_computes_is_compiled_beforehand() -> None:
    """The compiler keeps megabytes for each kernel, and rankings waited for it: see ``compile_apart``."""
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", LIFE]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("{}\n", 0), done.stderr


def test_an_event_in_one_segment_is_looked_up_by_others_when_they_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = site(8, 1.0)
    pools = copy.desk.pools
    pools.finish()
    for j in range(8):
        copy.rank(2, segment=f"s{j}")
    copy.flush()
    looked: list[tuple[int, int]] = []
    revise = Within.revise

    def noting(self: Within, store: Any, slots: Any, nodes: Any = None) -> None:
        looked.append((id(self), slots.size))
        revise(self, store, slots, nodes)

    monkeypatch.setattr(Within, "revise", noting)
    for _ in range(20):
        copy.rank(3, segment="s0")
    assert len({who for who, _ in looked}) == 1
    del looked[:]
    copy.rank(3, segment="s5")
    assert len({who for who, _ in looked}) == 1
    assert sum(size for _, size in looked) <= 60 + 3
    copy.flush()
    copy.check()


def test_another_law_is_taken_in_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.engine.pools.TOUCHED", SLICE)
    limit(monkeypatch, PRIORS=1)
    copy = site(2, 1.0)
    copy.add(*(f"more {j}" for j in range(3 * SLICE)))
    pools = copy.desk.pools
    pools.finish()
    place, fields = copy.desk.ledger.priors["one", ""]
    law = law_of(copy)
    told = {"variant": "one", "segment": "", "after": place, "rounds": fields["rounds"], "prior": fields["prior"]}
    told |= {"segments": law._replace(variance=2 * law.variance).state(), "writer": "test"}
    copy.write([Draft.of(f"prior/one//{place}", "prior", START, told)])
    copy.flush()
    assert pools.deciding("one", "s0") is pools.of("one")
    assert sum(1 for _ in pools.catch_up()) >= 2 * 3
    assert pools.deciding("one", "s0") is not pools.of("one")
    copy.check()


def test_a_log_of_an_older_version_has_no_law() -> None:
    copy = site(2, 1.0)
    place, fields = copy.desk.ledger.priors["one", ""]
    told = {"variant": "one", "segment": "", "after": place, "rounds": fields["rounds"], "prior": fields["prior"]}
    copy.write([Draft.of(f"prior/one//{place}", "prior", START, told | {"writer": "1.0"})])
    told |= {"segment": "s0", "after": 0}
    copy.write([Draft.of("prior/one/s0/0", "prior", START, told | {"writer": "1.0"})])
    copy.flush()
    assert copy.desk.pools.segments("one") == []
    copy.check()
