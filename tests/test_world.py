"""The simulated site: its rules against a plain model, its players against each other, and where rates come from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hellinger import Pool, policy
from hellinger.engine.desk import Desk
from hellinger.ledger import Ledger
from hellinger.traffic import DeskPlayer
from hellinger.world.laws import LAWS, grouped
from hellinger.world.players import CountsPlayer, Oracle, PoolPlayer, SegmentPlayers
from hellinger.world.site import Clicks, Player, Site, _chance, clicks, turns

MANY = 400


class Life(NamedTuple):
    site: Site
    since: list[int]
    eta: float
    seed: int


@st.composite
def lives(draw: st.DrawFn) -> Life:
    items = draw(st.integers(2, 8))
    arrivals = draw(st.integers(0, 2))
    site = Site(
        items,
        slots=draw(st.integers(1, items)),
        batch=draw(st.integers(1, 4)),
        delay=draw(st.integers(0, 7)),
        arrivals=arrivals,
        day=draw(st.integers(1, 40)) if arrivals else 0,
        segments=draw(st.integers(1, 3)),
    )
    since = [0, *sorted(draw(st.sets(st.integers(1, 60), max_size=2)))]
    return Life(site, since, draw(st.sampled_from([0.0, 0.7])), draw(st.integers(0, 9)))


class Noted:
    """A player that chooses by a rule anyone can follow, and notes what it is told."""

    def __init__(self, items: int, alike: bool) -> None:
        self.items, self.alike = items, alike
        self.counts = [[0, 0.0] for _ in range(items)]

    def choose(self, slots: int, segments: np.ndarray) -> np.ndarray:
        order = sorted(range(self.items), key=lambda place: (self.counts[place][0], -self.counts[place][1], place))
        if self.alike:
            return np.array([order[:slots]])
        return np.array([np.roll(order, page)[:slots] for page in range(segments.size)])

    def record(self, places: np.ndarray, impressions: int, rewards: np.ndarray, segments: np.ndarray) -> None:
        for place, reward in zip(places.tolist(), rewards.tolist(), strict=True):
            self.counts[place][0] += impressions
            self.counts[place][1] += reward

    def renew(self, places: np.ndarray, items: np.ndarray) -> None:
        for place in places.tolist():
            self.counts[place] = [0, 0.0]


def modelled(life: Life, rates: np.ndarray, segments: Sequence[int], pages: int, alike: bool) -> list[list[Any]]:
    """The site's rules, page by page: places and rewards of each page."""
    site, lone = life.site, Noted(life.site.items, alike)
    here, impressions = list(range(site.items)), [0] * site.items
    oldest, fresh, next_day, shown = 0, site.items, site.day, 0
    unread: list[tuple[int, list[tuple[int, int, float]]]] = []  # page, and place, item and reward of each slot
    out, rows = [], np.empty(0)
    for page in range(pages):
        if page % site.batch == 0:
            while unread and unread[0][0] < page - site.delay:
                for place, item, reward in unread.pop(0)[1]:
                    if here[place] == item:
                        lone.record(np.array([place]), 1, np.array([reward]), np.zeros(1))
            if site.arrivals and shown >= next_day:
                next_day += site.day
                for _ in range(site.arrivals):
                    place = oldest % site.items
                    here[place], impressions[place] = fresh, 0
                    lone.renew(np.array([place]), np.array([fresh]))
                    oldest, fresh = oldest + 1, fresh + 1
            rows = lone.choose(site.slots, np.zeros(site.batch))
        places = rows[0 if alike else page % site.batch].tolist()
        table = max(i for i, start in enumerate(life.since) if start <= shown)
        slots = []
        for j, place in enumerate(places):
            rate = rates[table, segments[page], here[place]] * (j + 1) ** -life.eta
            reward = 1.0 if _chance(life.seed, here[place], impressions[place]) < rate else 0.0
            impressions[place] += 1
            slots.append((place, here[place], reward))
        unread.append((page, slots))
        shown += site.slots
        out.append([places, [reward for _, _, reward in slots]])
    return out


@settings(max_examples=60, deadline=None)
@given(life=lives(), alike=st.booleans())
def test_lives_of_a_site_follow_its_rules(life: Life, alike: bool) -> None:
    site, pages = life.site, 30 * life.site.batch
    rates = np.random.default_rng(life.seed).uniform(0.0, 1.0, (len(life.since), site.segments, MANY))
    source = Clicks(rates, life.seed, since=life.since, eta=life.eta)
    played = list(islice(turns(site, Noted(site.items, alike), source, seed=life.seed), 30))
    segments = [segment for turn in played for segment in turn.segments.tolist()]
    assert set(segments) <= set(range(site.segments))
    found = [
        [places.tolist(), rewards.tolist()]
        for turn in played
        for places, rewards in zip(np.broadcast_to(turn.places, turn.rewards.shape), turn.rewards, strict=True)
    ]
    assert found == modelled(life, rates, segments, pages, alike)


# Players -----------------------------------------------------------------------------------------------


def test_a_pool_and_plain_counts_choose_alike() -> None:
    """Where counts differ so that no two indices are equal, how ties are drawn cannot matter."""
    one, other = CountsPlayer(policy("hellinger-ucb"), 30), PoolPlayer(policy("hellinger-ucb"), 30)
    nobody, rng = np.zeros(1, np.int64), np.random.default_rng(0)
    for player in (one, other):
        for place in range(30):
            player.record(np.array([place]), 40 + 3 * place, np.array([1.0 + place % 7]), nobody)
    for _ in range(50):
        first, second = one.choose(5, nobody), other.choose(5, nobody)
        assert first.tolist() == second.tolist()
        rewards = rng.integers(0, 2, 5).astype(float)
        for player in (one, other):
            player.record(first[0], 1, rewards, nobody)


@pytest.mark.parametrize("described", [False, True])
def test_items_that_leave_a_site_go_on_informing_their_groups(described: bool) -> None:
    """As in a user's pool, from which items are removed."""
    groups = [f"story-{j // 3}" for j in range(12)]
    features = [{"length": float(j)} for j in range(12)] if described else None
    player = PoolPlayer(policy("cold-start"), 6, groups=groups, features=features)
    pool = Pool("cold-start")
    pool.add(range(6), group=groups[:6], features=None if features is None else features[:6])
    nobody = np.zeros(1, np.int64)
    for places, items in (([0, 1], [6, 7]), ([2, 3, 4], [8, 9, 10])):
        shown, rewards = np.array(places[:2]), np.array([2.0, 1.0])
        player.record(shown, 10, rewards, nobody)
        pool.record_many(shown, 10, rewards)
        player.renew(np.array(places), np.array(items))
        pool.remove(places)
        pool.add(places, group=[groups[item] for item in items])
    expected = pool._members.departed()
    assert expected == {("story-0",): (3.0, 30.0, 5.0), ("story-1",): (1.0, 10.0, 1.0)}
    assert player._pool._members.departed() == expected
    assert [player._pool.stats(place).group for place in range(6)] == [pool.stats(place).group for place in range(6)]


@pytest.mark.parametrize("place", [-1, 3])
def test_places_beyond_the_pool_are_refused(place: int) -> None:
    pool = Pool("ucb1")
    pool.add(["a", "b", "c"])
    with pytest.raises(ValueError, match="0 <= place < items"):
        pool.record_places(np.array([0, place]), 1, np.zeros(2))
    assert pool.rounds == 0
    pool.record_places(pool.pick_places(2, seed=1), 3, np.array([1.0, 2.0]))
    assert pool.rounds == sum(pool.stats(name).impressions for name in "abc") == 6


def test_nobody_does_better_than_who_knows_the_rates() -> None:
    site = Site(200, slots=5, batch=4, delay=3, arrivals=10, day=500)
    rates = LAWS["bimodal"](np.random.default_rng(1), 5000)
    players: dict[str, Player] = {
        "oracle": Oracle(rates, 200),
        "pool": PoolPlayer(policy("cold-start"), 200),
        "counts": CountsPlayer(policy("hellinger-ucb"), 200),
        "uniform": CountsPlayer(policy("uniform"), 200, rng=np.random.default_rng(2)),
    }
    got = {name: clicks(site, player, Clicks(rates, 3), [20_000])[0] for name, player in players.items()}
    assert got["oracle"] > got["pool"] > got["counts"] > got["uniform"]


def test_players_of_segments_learn_what_each_likes() -> None:
    rates = np.full((2, 20), 0.05)
    rates[0, 3], rates[1, 17] = 0.5, 0.5
    site = Site(20, slots=1, batch=2, segments=2)
    both = SegmentPlayers([PoolPlayer(policy("hellinger-ucb"), 20, seed=seed) for seed in range(2)])
    *_, last = islice(turns(site, both, Clicks(rates, 0)), 1500)
    assert [row[0] for row in last.places.tolist()] == [(3, 17)[segment] for segment in last.segments.tolist()]
    blind = PoolPlayer(policy("hellinger-ucb"), 20)
    assert clicks(site, both, Clicks(rates, 1), [2000]) > clicks(site, blind, Clicks(rates, 1), [2000])


def test_the_service_plays_a_site() -> None:
    desk = Desk(Ledger(), {"main": "hellinger-ucb"}, seed=1)
    site = Site(30, slots=3, batch=5, delay=4, arrivals=2, day=150)
    player = DeskPlayer(desk, site.items, start=1_700_000_000_000)
    rates = LAWS["bimodal"](np.random.default_rng(5), 400)
    played = list(islice(turns(site, player, Clicks(rates, 6)), 101))
    n, s = desk.ledger.whole()
    assert n.sum() == sum(turn.rewards.size for turn in played) == 1515
    read = np.concatenate([turn.rewards for turn in played])[: -site.batch - site.delay]
    gone = len(desk.ledger.catalogue.ids) - site.items
    assert gone == 20
    assert 0.9 * read.sum() <= s.sum() <= read.sum()  # that of items which have left is dropped
    best = clicks(site, PoolPlayer(policy("hellinger-ucb"), site.items), Clicks(rates, 6), [1515])[0]
    assert sum(turn.rewards.sum() for turn in played) == pytest.approx(best, rel=0.3)


# Rates -------------------------------------------------------------------------------------------------


def test_groups_share_an_effect() -> None:
    rates, group = grouped("beta", np.random.default_rng(0), 20_000, groups=5, sigma=1.0)
    plain, alike = grouped("beta", np.random.default_rng(0), 20_000, groups=5, sigma=0.0)
    np.testing.assert_allclose(plain, LAWS["beta"](np.random.default_rng(0), 20_000))
    np.testing.assert_array_equal(group, alike)
    moved = np.log(rates / (1 - rates)) - np.log(plain / (1 - plain))
    effects = np.array([moved[group == g].mean() for g in range(5)])
    np.testing.assert_allclose(moved, effects[group], atol=1e-9)
    assert effects.std() > 0.3


@pytest.mark.parametrize(
    ("site", "says"),
    [
        (Site(5, slots=6), "slots <= items"),
        (Site(5, batch=0), "1 <= batch"),
        (Site(5, arrivals=6, day=1), "arrivals <= items"),
        (Site(5, arrivals=1), "day"),
        (Site(5, segments=0), "1 <= segments"),
        (Site(5, segments=3), "a rate for every item and segment"),
        (Site(5, arrivals=5, day=1), "a rate for every item and segment"),
    ],
)
def test_sites_that_make_no_sense(site: Site, says: str) -> None:
    source = Clicks(np.full((2, 9), 0.5), 0)
    with pytest.raises(ValueError, match=says):
        list(islice(turns(site, PoolPlayer(policy("ucb1"), 5), source), 99))
