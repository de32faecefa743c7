"""Traffic: the world is what its words say, and what a service counts is what was sent."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hellinger
from hellinger import cli
from hellinger.client import AsyncClient, RankedItem, Ranking
from hellinger.engine.desk import Desk
from hellinger.events import Event
from hellinger.ledger import Ledger, recovery
from hellinger.ledger.snapshot import encode
from hellinger.store import open_store
from hellinger.traffic import (
    Driver,
    Log,
    Pace,
    Reaction,
    Report,
    SentCounts,
    SiteItem,
    Supply,
    UserModel,
    World,
    from_csv,
    from_law,
    from_stories,
    play,
)
from hellinger.traffic.tally import Baseline, differences
from hellinger.world.laws import LAWS, TOPICS
from hellinger.world.users import DAY
from served import Served, serving

VARIANTS = {name: name for name in ("hellinger-ucb", "kl-ucb", "ucb1")}
ROUGH = UserModel(visits=20_000, k=5, users=40, memory=10, like=0.3, comment=0.1, duplicate=0.2, slow=0.2, abandon=0.1)


def world(plan: UserModel = ROUGH, *, items: int = 60, seed: int = 3, law: str = "heavy-tailed") -> World:
    return World(plan, from_law(law), items=items, seed=seed, start=1_700_000_000_000)


# The world -------------------------------------------------------------------------------------------


def test_the_same_seed_sends_the_same_users_whatever_comes_between() -> None:
    one, other, third = world(), world(), world(seed=4)
    visits = list(islice(one.visits(), 600))
    assert visits == list(islice(other.visits(), 600))
    assert visits != list(islice(third.visits(), 600))
    page = [item.id for item in one.items[:5]]
    forwards = [one.react(visit, page) for visit in visits]
    backwards = [other.react(visit, page) for visit in reversed(visits)]
    assert forwards == backwards[::-1]
    assert [visit.at for visit in visits] == sorted(visit.at for visit in visits)


def test_traffic_is_as_much_as_asked_for_from_the_first_minute() -> None:
    for rhythm, share in ((0.0, 1.0), (0.6, 1.0 - 0.6 * np.sin(np.pi / 12) / (np.pi / 12))):
        some = World(
            UserModel(visits=200_000, rhythm=rhythm), from_law("beta"), items=1, start=5 * 3_600_000 - DAY // 24
        )
        until = some.start + DAY // 12  # two hours around the quietest
        pages = sum(1 for _ in takewhile(lambda visit: visit.at < until, some.visits()))  # noqa: B023
        assert pages == pytest.approx(200_000 / 12 * share, rel=0.05)


def test_users_come_back_and_are_not_shown_what_they_have_seen() -> None:
    some = world(ROUGH._replace(memory=7))
    page = [f"p{j}" for j in range(5)]
    visits = list(islice(some.visits(), 200))
    assert len({visit.user for visit in visits}) < 41
    first, again = visits[0], next(visit for visit in visits[1:] if visit.user == visits[0].user)
    assert some.excluded(first) == []
    some.react(first, page)
    assert some.excluded(again) == page
    some.react(again, ["q1", "q2", "q3"])
    assert some.excluded(again) == ["p1", "p2", "p3", "p4", "q1", "q2", "q3"]
    assert world(ROUGH._replace(memory=0)).excluded(first) == []


def test_positions_are_looked_at_and_items_clicked_as_the_model_says() -> None:
    plan = UserModel(k=4, eta=0.5, abandon=0.0, abort=0.0, like=0.5, comment=0.25, duplicate=0.1, visits=1e6)
    some = world(plan, law="bimodal")
    best = sorted(some.items, key=lambda item: -item.rate)[:4]
    page = [item.id for item in best]
    looks, kinds, twice, size = Counter[str](), Counter[tuple[str, str]](), 0, 20_000
    for visit in islice(some.visits(), size):
        looked, reactions = some.react(visit, page)
        looks.update(looked)
        assert {reaction.item for reaction in reactions} <= set(looked)
        assert reactions == sorted(reactions)
        twice += sum(reaction.again for reaction in reactions)
        kinds.update((reaction.item, reaction.kind) for reaction in reactions if not reaction.again)
        assert all(visit.at <= reaction.happened <= reaction.arrives for reaction in reactions)
    for j, item in enumerate(best):
        clicks = kinds[item.id, "click"]
        assert looks[item.id] / size == pytest.approx((j + 1) ** -0.5, abs=0.012)
        assert clicks / looks[item.id] == pytest.approx(item.rate, abs=0.012)
        assert kinds[item.id, "like"] / clicks == pytest.approx(0.5, abs=0.04)
        assert kinds[item.id, "comment"] / clicks == pytest.approx(0.25, abs=0.04)
    assert twice / kinds.total() == pytest.approx(0.1, abs=0.01)


def test_a_like_may_arrive_before_its_click() -> None:
    some = world(ROUGH._replace(slow=0.5))
    page = [item.id for item in some.items[:5]]
    orders: set[bool] = set()
    for visit in islice(some.visits(), 4000):
        came: dict[tuple[str, str], Reaction] = {}
        for reaction in some.react(visit, page)[1]:
            came.setdefault((reaction.item, reaction.kind), reaction)
        for (item, kind), reaction in came.items():
            if kind == "like":
                orders.add(reaction.arrives < came[item, "click"].arrives)
    assert orders == {True, False}


def test_some_pages_are_abandoned_and_some_requests_aborted() -> None:
    fates = Counter(visit.fate for visit in islice(world(ROUGH._replace(abandon=0.2, abort=0.1)).visits(), 5000))
    assert fates["abandoned"] / 5000 == pytest.approx(0.2, abs=0.02)
    assert fates["aborted"] / 5000 == pytest.approx(0.1, abs=0.02)


def test_items_come_and_the_oldest_go() -> None:
    some = world(ROUGH._replace(arrivals=24.0), items=10)
    changes = some.changes(some.start + DAY)
    assert len(changes) / 2 == pytest.approx(24, abs=12)
    assert [change.item.id for change in changes if not change.comes][:3] == [c.id for c in some.items[:3]]
    assert next(change.item.id for change in changes if change.comes) == "item-00011"
    assert some.changes(some.start + DAY) == []


def test_rates_belong_to_the_id_and_the_salt() -> None:
    one, other, salted = from_law("beta"), from_law("beta"), from_law("beta", salt=1)
    rates = {item.id: item.rate for item in one.take(300)}
    assert other.rate("item-00300") == rates["item-00300"]
    assert salted.rate("item-00300") != rates["item-00300"]
    assert np.mean(list(rates.values())) == pytest.approx(1.6 / 101.6, rel=0.15)
    assert set(LAWS) == {"beta", "heavy-tailed", "bimodal"}
    with pytest.raises(ValueError, match="unknown law 'flat'"):
        from_law("flat")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"visits": 0}, "0 < visits"),
        ({"k": 0}, "1 <= k"),
        ({"pages": 0.5}, "1 <= pages"),
        ({"eta": -1}, "0 <= eta"),
        ({"abort": 2}, "0 <= abort <= 1"),
        ({"arrivals": -1}, "0 <= arrivals"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        UserModel(**wrong).check()


def test_items_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("\ufeffItem, CTR\na,0.5\nb,0\n")
    assert [(item.id, item.rate) for item in from_csv(file).take(9)] == [("a", 0.5), ("b", 0.0)]
    file.write_text("clicks,item,impressions\n1,a,1\n9,b,99\n")
    rates = {item.id: item.rate for item in from_csv(file).take(9)}
    assert rates == pytest.approx({"a": (1 + 20 * 0.1) / 21, "b": (9 + 20 * 0.1) / 119})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,ctr\na,0.5\n", "the heading has item,ctr"),
        ("item,ctr\n", "the file has a row"),
        ("item,ctr\na,1.5\n", "0 <= ctr <= 1 in line 2"),
        ("item,ctr\na,x\n", "a number stands in line 2"),
        ("item,ctr\na,0\na,0\n", "once.*line 3"),
        ("item,ctr\n,0\n", "item is not empty in line 2"),
        ("item,impressions,clicks\na,1,2\n", "0 <= clicks <= impressions in line 2"),
        ("item,impressions,clicks\na,0,0\n", "some item has impressions"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "own.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=told):
        from_csv(file)


# Counting --------------------------------------------------------------------------------------------


def ranking(name: str, variant: str, *items: str) -> Ranking:
    return Ranking(name, variant, tuple(RankedItem(item, None) for item in items))


def test_a_tally_counts_as_a_service_ought_to() -> None:
    sent = SentCounts(weights={"like": 0.25, "share": -1.0})
    sent.ranked(ranking("r", "v", "a", "b"))
    sent.ranked(ranking("r", "v", "a", "b"))  # the same, asked for again
    for kind in ("like", "like", "share", "click", "comment"):
        sent.fed_back("r", "a", kind)
    assert sent.requests == {"v": 1}
    assert sent.impressions["v"] == {"a": 1, "b": 1}
    assert sent.rewards["v"] == {"a": 1.0}
    assert (sent.kinds.total(), sent.repeated) == (4, 1)
    confirmed = SentCounts(confirmed=True)
    confirmed.ranked(ranking("r", "v", "a", "b"))
    confirmed.saw("r", "a")
    confirmed.fed_back("r", "a", "click")
    assert confirmed.impressions["v"] == {"a": 1}


def test_differences_name_every_number() -> None:
    sent = SentCounts()
    sent.ranked(ranking("r", "v", "a", "b"))
    sent.fed_back("r", "a", "click")
    before = Baseline({"v": (5, 50, 2.0)}, {("v", "a"): (3, 1)})
    after = Baseline({"v": (6, 52, 3.0)}, {("v", "a"): (4, 2), ("v", "b"): (1, 0)})
    assert differences(before, after, sent) == []
    wrong = Baseline({"v": (6, 53, 3.0)}, {("v", "a"): (4, 1), ("v", "b"): (1, 0), ("w", "a"): (1, 0)})
    assert differences(before, wrong, sent) == [
        "impressions of v: sent 2, counted 3",
        "rewards of 'a' with v: sent 1, counted 0",
        "impressions of 'a' with w: sent 0, counted 1",
    ]


# Over HTTP -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("traffic"), variants=["hellinger-ucb", "kl-ucb", "ucb1"]) as running:
        yield running


def drive(served: Served, pace: Pace, plan: UserModel = ROUGH, **options: Any) -> Report:
    async def run() -> Report:
        async with AsyncClient(served.url) as client:
            lively = Supply((SiteItem(f"lively-{number}", 0.4) for number in count()), "beta", 0)
            users = World(plan, lively, items=60, seed=3, start=1_700_000_000_000)
            return await Driver(client, users, pace, verify=True, **options).run()

    return asyncio.run(run())


def test_a_service_counts_what_was_sent(served: Served) -> None:
    rough = ROUGH._replace(abort=0.1, arrivals=1000.0)
    for seed in range(2):  # the second on top of what the first has left
        report = drive(served, Pace(requests=300, connections=8, batch=7), rough)
        sent = report.sent
        assert report.differences == [], seed
        assert sent.requests.total() == 300
        assert sent.aborted == sent.resolved > 0
        assert sent.abandoned > 0
        assert sent.repeated > 0
        assert sent.expired > 0
        assert sent.failures == 0
        assert sent.outcome.accepted == sent.kinds.total() > 30
        assert sent.outcome.duplicate == sent.repeated


def test_a_chosen_rate_and_time_are_kept(served: Served) -> None:
    plan = ROUGH._replace(visits=100 * 86_400.0, rhythm=0.0)
    report = drive(served, Pace(rate=100.0, seconds=1.0), plan)
    assert report.differences == []
    assert 0 < report.sent.requests.total() <= 160  # a slow machine sends fewer, none sends more


def test_a_service_that_counts_confirmed_impressions(tmp_path: Path) -> None:
    with serving(tmp_path, counting="confirmed", weights={"like": 0.25, "click": 0.5}) as confirmed:
        report = drive(confirmed, Pace(requests=150), weights={"like": 0.25, "click": 0.5})
    assert report.differences == []
    shown = sum(counts.total() for counts in report.sent.impressions.values())
    assert 0 < shown < 5 * report.sent.requests.total()
    assert report.sent.seen.accepted > 0


def test_the_command_verifies(served: Served) -> None:
    command = ["traffic", served.url, "--requests", "120", "--items", "80", "--verify", "--json", "--abort", "0.05"]
    result = CliRunner().invoke(cli.app, [*command, "--slots", "5", "--law", "heavy-tailed", "--duplicate", "0.3"])
    told = json.loads(result.stdout)
    assert (result.exit_code, told["verified"], told["differences"]) == (0, True, [])
    assert told["requests"] == 120
    assert told["latency_ms"].keys() == {"p50", "p95", "p99"}
    assert sum(row["requests"] for row in told["variants"].values()) == 120


def test_a_tampered_count_is_found(served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("item,ctr\nown-1,0.5\nown-2,0.2\n")
    monkeypatch.setattr("hellinger.traffic.driver._CATCH_UP", 0.0)

    async def sneak(driver: Driver) -> list[str]:
        ledger = served.service.desk.ledger
        ledger.counts["ucb1", ""].show(array("i", [ledger.catalogue.slots["own-1"]]))  # nobody was shown it
        return []

    monkeypatch.setattr(Driver, "_resolve", sneak)
    command = ["traffic", served.url, "--requests", "20", "--csv", str(file), "--verify", "--abort", "0"]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 1
    assert "1 numbers differ" in result.stdout
    assert "impressions of 'own-1' with ucb1: sent" in result.stdout


def test_an_interrupt_ends_the_traffic_in_good_order(served: Served) -> None:
    command = [sys.executable, "-m", "hellinger", "traffic", served.url, "--rate", "40", "--verify", "--json"]
    child = subprocess.Popen([*command, "--items", "50"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with hellinger.Client(served.url) as client:
            before = sum(row.requests for row in client.experiment().variants)
            while sum(row.requests for row in client.experiment().variants) < before + 20:
                assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, told = child.communicate()
    finally:
        child.kill()
        child.wait()
    report = json.loads(out)
    assert (child.returncode, report["verified"]) == (0, True)
    assert report["requests"] >= 20
    assert "ending" in told


def test_nobody_at_the_address_is_told_in_one_line() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        result = CliRunner().invoke(cli.app, ["traffic", url])
    assert isinstance(result.exception, ValueError)
    assert f"no service answers at {url}" in str(result.exception)


# Against a desk --------------------------------------------------------------------------------------


def test_months_in_a_log_fold_to_what_the_desk_has(tmp_path: Path) -> None:
    plan = ROUGH._replace(visits=400.0, arrivals=30.0, abort=0.05)
    store = open_store(f"sqlite:///{tmp_path}/log.db", exclusive=True)
    try:
        desk = Desk(Ledger(), VARIANTS, seed=1)
        some = world(plan)
        times: list[int] = []
        until = some.start + 3 * DAY
        played = play(some, desk, until, log=Log(0, store, size=500), progress=times.append)
        assert played.requests == pytest.approx(1200, rel=0.2)
        assert played.impressions == 5 * played.requests
        assert store.last() == desk.ledger.seq
        assert times == sorted(times)
        fold = recovery.recover(store)
        assert recovery.differences(desk.ledger, fold) == []
        store.save_snapshot(desk.ledger.seq, encode(desk.ledger))
        assert recovery.check(store) == []
        days = desk.ledger.series.steps["day"]
        assert len(days) in (3, 4)
        assert all(event.at <= until for event in store.read(0, 10**6))

        # the same without a log, and the world goes on where it was
        again = Desk(Ledger(), VARIANTS, seed=1)
        assert play(world(plan), again, until) == played
        assert again.ledger.series.totals == desk.ledger.series.totals
        some.resume(plan, until)
        more = play(some, desk, until + DAY, log=Log(desk.ledger.seq, store))
        assert 0 < more.requests < played.requests
        assert recovery.differences(desk.ledger, recovery.recover(store)) == []
    finally:
        store.close()


def test_a_log_that_somebody_else_writes_to_is_noticed(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    try:
        store.append([Event.of("item/x", "item", 1, {"id": "x", "tags": [], "expires_at": None})], 0)
        with pytest.raises(RuntimeError, match="somebody else writes"):
            play(world(), Desk(Ledger(), VARIANTS, seed=1), world().start, log=Log(0, store))
    finally:
        store.close()


# Stories and tastes --------------------------------------------------------------------------------------


def test_items_of_a_story_are_alike_and_each_is_of_the_law() -> None:
    items = from_stories("bimodal").take(16_000)
    rates = np.array([item.rate for item in items]).reshape(-1, 8)
    law = LAWS["bimodal"](np.random.default_rng(1), 100_000)
    for level in (0.1, 0.5, 0.8, 0.95):  # stories make the sample one of 2,000 rather than of 16,000
        assert abs((rates < np.quantile(law, level)).mean() - level) < 0.03
    between, within = rates.mean(axis=1).var(), rates.var(axis=1, ddof=1).mean()
    assert between > within
    assert {item.group for item in items[:8]} == {("story-0001",)}
    assert items[8].features == {"topic": "sport"}
    assert from_stories("bimodal").take(20) == items[:20]


def test_readers_click_by_their_tastes_and_on_average_by_the_rate() -> None:
    plan = UserModel(k=8, eta=0.0, memory=0, abandon=0.0, abort=0.0, like=0.0, comment=0.0, duplicate=0.0, taste=5.0)
    topics = [SiteItem(f"a-{topic}", 0.1, (), (), {"topic": topic}) for topic in TOPICS]
    made = World(plan, Supply(iter(topics), "beta", 0), items=8, seed=3)
    clicked = {True: 0, False: 0}
    shown = {True: 0, False: 0}
    for visit in islice(made.visits(), 6000):
        likes = made.likes(visit.user)
        assert made.context(visit) == {"likes": likes}
        assert len(set(likes)) == 2
        found = {reaction.item for reaction in made.react(visit, [item.id for item in topics])[1]}
        for item, topic in zip(topics, TOPICS, strict=True):
            shown[topic in likes] += 1
            clicked[topic in likes] += item.id in found
    assert clicked[True] / shown[True] == pytest.approx(0.25, rel=0.06)
    assert clicked[False] / shown[False] == pytest.approx(0.05, rel=0.06)
    assert sum(clicked.values()) / sum(shown.values()) == pytest.approx(0.1, rel=0.04)
    assert World(UserModel(), from_law("beta"), items=1).context(visit) is None
