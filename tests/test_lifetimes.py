"""The service knows how long items have left, by their dates and the traffic that there was."""

from __future__ import annotations

import asyncio
import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hellinger.engine import derived, lifetimes, pools
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft, Query
from hellinger.engine.service import PACE, Service
from hellinger.engine.settings import Settings
from hellinger.engine.state import HOUR
from hellinger.events import Event, now
from hellinger.ledger import Ledger
from hellinger.ledger.series import TimeSeries
from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.pool import Leaving
from hellinger.traffic.months import DeskPlayer
from hellinger.world.laws import LAWS
from hellinger.world.site import Clicks, Site, turns
from ledger_model import START, Log
from lives import Copy, same_as_rebuilt

MINUTE, DAY = 60_000, 24 * HOUR
OURS = {"ours": "cold-start"}


def _copy(variants: dict[str, str] | None = None, **options: Any) -> Copy:
    chosen: dict[str, Any] = {"seed": 1, "positions": "none", "lifetimes": True} | options
    return Copy(Log(), variants=variants or OURS, **chosen)


def _pace(copy: Copy, at: int, **hourly: float) -> None:
    """Let the log say how many rankings are made."""
    after = copy.desk.ledger.pace[0]
    fields = {"after": after, "hourly": hourly, "until": at + HOUR, "writer": "test"}
    copy.log.append(Event.of(f"pace/{after}", "pace", at, fields))
    copy.flush()


def _half_octaves(left: float) -> float:
    return float(2.0 ** (round(2 * math.log2(max(left, 1.0))) / 2))


# How many rankings are made ----------------------------------------------------------------------------


def _series(**rows: list[tuple[int, int]]) -> TimeSeries:
    """Rankings of variants: (minutes before START, how many)."""
    series = TimeSeries()
    for name, made in rows.items():
        for ago, count in made:
            for _ in range(count):
                series.add(name, START - ago * MINUTE, 1, 10, 0)
    return series


def test_rankings_an_hour_over_the_last_day() -> None:
    steady = [(ago, 1) for ago in range(1, 2 * 24 * 60, 5)]
    assert lifetimes.hourly(_series(a=steady), START) == {"a": pytest.approx(12, rel=0.01)}
    by_day = [(ago, 3) for ago in range(1, 2 * 24 * 60, 5) if ago // 60 % 24 < 8]  # nothing for two thirds of a day
    assert lifetimes.hourly(_series(a=by_day), START) == {"a": pytest.approx(12, rel=0.02)}
    faster = [(ago, 4 if ago < 24 * 60 else 1) for ago in range(1, 2 * 24 * 60, 5)]
    assert lifetimes.hourly(_series(a=faster), START) == {"a": pytest.approx(48, rel=0.01)}


def test_one_that_began_later_is_counted_since_then() -> None:
    found = lifetimes.hourly(_series(a=[(90, 100), (30, 200)], b=[(600, 150)]), START)
    assert found["a"] == pytest.approx(200, rel=0.02)
    assert found["b"] == pytest.approx(15, rel=0.02)


def test_where_there_is_little_traffic_it_is_counted_for_longer() -> None:
    few = [(ago, 1) for ago in range(30, 30 * 24 * 60, 60)]  # one an hour: 24 a day
    assert lifetimes.hourly(_series(a=few), START) == {"a": pytest.approx(1, rel=0.02)}
    assert lifetimes.hourly(_series(a=[(5, 99)]), START) == {}
    assert lifetimes.hourly(TimeSeries(), START) == {}


def test_imported_counts_are_no_rankings() -> None:
    series = _series(a=[(5, 120)])
    series.add("b", START - MINUTE, 0, 5000, 100)
    assert list(lifetimes.hourly(series, START)) == ["a"]


# In the log --------------------------------------------------------------------------------------------


def _rank(copy: Copy, at: int, count: int, step: int) -> int:
    for _ in range(count):
        copy.rank(2, at=at)
        at += step
    copy.flush()
    return at


def test_it_is_said_once_there_were_some_and_again_as_time_passes() -> None:
    copy = _copy()
    copy.add("a", "b", expires_at=START + 64 * HOUR)
    copy.add("never")
    at = _rank(copy, START, 99, 10_000)
    copy.chores(at)
    assert copy.desk.ledger.pace[0] == 0
    at = _rank(copy, at, 1, 10_000)
    copy.chores(at)
    place, said = copy.desk.ledger.pace
    assert place == max(event.seq for event in copy.log.events if event.kind == "pace")
    assert said["hourly"] == {"ours": pytest.approx(360, rel=0.05)}
    assert said["until"] == at + HOUR  # a 32nd of 64 hours is more
    pool = copy.desk.pools.of("ours")
    copy.desk.finish()
    left = (64 - (at - START) / HOUR) * said["hourly"]["ours"]
    slots = copy.desk.ledger.catalogue.slots
    assert [pool.stats(slots[name]).left for name in ("a", "b", "never")] == [_half_octaves(left)] * 2 + [None]
    copy.check(at)

    copy.chores(at + HOUR - 1)
    assert copy.desk.ledger.pace[0] == place
    copy.chores(START + 60 * HOUR)
    later, said = copy.desk.ledger.pace
    assert later > place
    assert said["until"] == START + 60 * HOUR + 4 * HOUR // 32
    copy.desk.finish()
    assert pool.stats(slots["a"]).left == _half_octaves(4 * said["hourly"]["ours"])
    copy.check(START + 60 * HOUR)

    copy.chores(START + 30 * HOUR)  # the clock had been wrong: what it said does not hold until then
    corrected, said = copy.desk.ledger.pace
    assert corrected > later
    assert said["at"] == START + 30 * HOUR


@pytest.mark.parametrize(("dates", "options"), [(False, {}), (True, {"lifetimes": False})])
def test_nothing_is_said_where_nobody_asks(dates: bool, options: dict[str, Any]) -> None:
    copy = _copy(**options)
    copy.add("a", "b", expires_at=START + DAY if dates else None)
    at = _rank(copy, START, 200, 1000)
    copy.chores(at)
    assert {event.kind for event in copy.log.events} == {"item", "rank", "prior", "positions"}
    _pace(copy, at, ours=1000.0)  # another replica may have other settings
    copy.desk.finish()
    assert copy.desk.pools.of("ours").stats(0).left is None
    copy.check(at)


def test_of_two_replicas_one_has_its_way() -> None:
    log = Log()
    one, other = (Copy(log, variants=OURS, seed=seed, lifetimes=True) for seed in (1, 2))
    one.add("a", "b", expires_at=START + DAY)
    at = _rank(one, START, 150, 1000)
    other.flush()
    for copy in (one, other):
        copy.write(copy.desk.note_pace(at + 1000 * copy.desk.seed))
    for copy in (one, other, one):
        copy.flush()
    assert one.desk.ledger.pace == other.desk.ledger.pace
    assert one.desk.ledger.pace[1]["at"] == at + 1000
    for copy in (one, other):
        copy.check(at)


def test_every_item_ages_where_a_setting_says_so() -> None:
    copy = _copy(leaving=Leaving(age=2.0))
    copy.add("a")
    copy.add("b", expires_at=START + HOUR)
    _pace(copy, START, ours=512.0)
    copy.desk.finish()
    pool = copy.desk.pools.of("ours")
    assert [pool.stats(slot).left for slot in range(2)] == [1024.0, 512.0]
    copy.add("c", at=START + HOUR)  # by what was last said
    copy.add("b", expires_at=START + 8 * HOUR)  # another date, but it leaves by its age
    pool = copy.desk.pools.of("ours")
    assert [pool.stats(slot).left for slot in range(3)] == [1024.0, 1024.0, _half_octaves(1536.0)]
    copy.check(START + HOUR)


def test_whose_rankings_count() -> None:
    """Of those it learns from: its own, or where learning is shared, everyone's."""
    for learning, left in (("isolated", [128.0, 512.0]), ("shared", [_half_octaves(640.0)] * 2)):
        copy = _copy({"one": "cold-start", "two": "cold-start", "three": "ucb1"}, learning=learning)
        copy.add("a", expires_at=START + HOUR)
        _pace(copy, START, one=128.0, two=512.0)
        copy.desk.finish()
        assert [copy.desk.pools.of(name).stats(0).left for name in ("one", "two", "three")] == [*left, None]
        copy.check()


# In pools ----------------------------------------------------------------------------------------------


def test_very_many_items_age_in_slices() -> None:
    count = 9_000
    copy = _copy()
    copy.add(*map(str, range(count)), expires_at=START + HOUR)
    copy.desk.pools.finish()
    _pace(copy, START, ours=64.0)
    desk = copy.desk
    steps, before = desk.catch_up(), desk.pools.behind
    assert before == count
    for _ in steps:
        assert 0 < before - desk.pools.behind <= derived.PRIORS * derived.SLICE
        before = desk.pools.behind
        desk.rank(Query(5), START)
        assert desk.pools.behind == before  # it does not wait
    assert before == 0
    assert desk.pools.of("ours").stats(0).left == desk.pools.of("ours").stats(count - 1).left == 64.0


def test_what_is_said_while_items_are_aged_is_in_force_for_all() -> None:
    copy = _copy()
    copy.add(*map(str, range(6_000)), expires_at=START + HOUR)
    copy.desk.pools.finish()
    _pace(copy, START, ours=64.0)
    next(copy.desk.catch_up())
    _pace(copy, START, ours=2048.0)
    copy.add("one more", expires_at=START + HOUR)
    copy.desk.finish()
    pool = copy.desk.pools.of("ours")
    assert {pool.stats(slot).left for slot in (0, 3000, 5999, 6000)} == {2048.0}
    same_as_rebuilt(copy, START)


def _believe(copy: Copy, prior: Prior, law: SegmentLaw | None = None) -> None:
    after = copy.desk.ledger.prior_place("ours")
    fields: dict[str, Any] = {"variant": "ours", "segment": "", "after": after, "rounds": 1.0, "prior": prior.state()}
    fields |= {"writer": "test"} | ({} if law is None else {"segments": law.state()})
    copy.log.append(Event.of(f"prior/ours//{after}", "prior", START, fields))
    copy.flush()
    copy.desk.finish()


def test_pools_of_segments_rank_as_without() -> None:
    """What an item has elsewhere does not depend on how long it has left, and neither does its index there."""
    law = SegmentLaw(0.1, 20.0, 0.5, (("tablet", 0.5),))
    scores = []
    for knows in (True, False):
        copy = _copy(lifetimes=knows)
        copy.add("a", "b", "c", expires_at=START + HOUR)
        copy.add("d", "e", group=["g"], expires_at=START + 3 * HOUR)
        copy.bring([("a", 40, 3), ("d", 100, 20)])
        copy.bring([("a", 20, 9), ("b", 30, 1), ("e", 5, 2)], segment="tablet")
        _believe(copy, Prior(2.0, 40.0, plays=100.0), law)
        for shares in ((), (0.5,), (), (0.3,)):
            _pace(copy, START, ours=80.0 * (1 + len(shares)))
            _believe(copy, Prior(2.0, 40.0, plays=100.0, shares=shares), law)
            if knows:
                copy.check()
            scores.append([(s, p.scores(p.ids).tolist()) for _, s, p in copy.desk.pools.each()])
    known, unknown = scores[:4], scores[4:]
    for one, other in zip(known, unknown, strict=True):
        assert [name for name, _ in one] == ["", "tablet"]
        assert one[0] != other[0]
        assert one[1:] == other[1:]


def test_where_groups_tell_and_items_are_very_many_lifetimes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "SCORED", 5)
    copy = _copy()
    copy.add(*"abcde", group=["g"], expires_at=START + HOUR)
    _believe(copy, Prior(2.0, 40.0, plays=100.0, shares=(0.5,)))
    pool = copy.desk.pools.of("ours")
    before = pool.scores(pool.ids)
    _pace(copy, START, ours=64.0)
    copy.desk.finish()
    assert (pool.scores(pool.ids) < before).all()
    assert "scan" in pool.explain()
    copy.check()
    copy.add("f", group=["h"], expires_at=START + HOUR)
    copy.desk.finish()
    assert "scan" not in copy.desk.pools.of("ours").explain()
    copy.check()
    _believe(copy, Prior(2.0, 40.0, plays=100.0))  # groups tell nothing: strata are lives
    assert copy.desk.pools.of("ours").stats(5).left == 64.0
    copy.check()


def test_the_setting() -> None:
    assert not Settings().lifetimes
    assert Settings.load(environ={"HELLINGER_LIFETIMES": "true"}).lifetimes


# What it brings ----------------------------------------------------------------------------------------


def _clicks(seed: int, *, lifetimes: bool) -> float:
    """What a site earns whose items leave after 20 days, a page a second: 30 impressions an item."""
    site = Site(1000, slots=20, batch=5, arrivals=50, day=50 * 30)
    day = site.day // site.slots * 1000
    desk = Desk(Ledger(), OURS, seed=seed, positions="none", lifetimes=lifetimes)
    player = DeskPlayer(desk, site.items, start=START, ends=lambda number: START + (number // site.arrivals + 1) * day)
    rates = LAWS["bimodal"](np.random.default_rng(seed), 2500)
    pages = 20 * site.day // site.slots
    played = islice(turns(site, player, Clicks(rates, seed)), pages // site.batch)
    return float(sum(turn.rewards.sum() for turn in played))


def test_a_site_earns_more_by_the_desk() -> None:
    """Where rates are bimodal, in twelve sites together; not in each, and not everywhere (benchmarks/dates.py)."""
    told, untold = (sum(_clicks(seed, lifetimes=knows) for seed in range(12)) for knows in (True, False))
    assert told > 1.02 * untold


def test_two_replicas_whose_clocks_are_hours_apart_say_little(tmp_path: Path) -> None:
    async def story() -> None:
        settings = Settings(database=f"sqlite:///{tmp_path}/log.db", variants=OURS, lifetimes=True, seed=1)
        service = await Service.start(settings)
        passed = 0.0
        service.clock = lambda: begun + passed
        begun = service._paced + PACE
        for task in service._tasks:  # looks are taken here alone
            task.cancel()
        try:
            dated = {"id": "a", "tags": [], "expires_at": now() + DAY, "metadata": None}
            await service.describe([dated])
            written = []
            for look in range(100):
                if look % 10 == 0:
                    passed += PACE
                place, fields = service.desk.ledger.pace
                if fields.get("writer") != "the other":  # its clock is two hours ahead, and it looks as often
                    at = now() + 2 * HOUR
                    fields = {"after": place, "hourly": {}, "until": at + HOUR, "writer": "the other"}
                    await service.journal.write([Draft.of(f"pace/{place}", "pace", at, fields)])
                assert lifetimes.due(service.desk.ledger, service.desk.state.dates, now())
                await service.learn()
                if service.desk.ledger.pace[1]["writer"] != "the other":
                    written.append(look)
            assert written == list(range(0, 100, 10)), "one a minute"
        finally:
            await service.stop()

    asyncio.run(story())
