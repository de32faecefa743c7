"""Several experiments on one service: parts of the traffic, pools, holdouts, guardrails, and statistics that settle."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hellinger.engine.allocation import Allocation, check_name
from hellinger.engine.drafts import Query
from hellinger.engine.experiments import UnknownExperimentError
from hellinger.engine.routing import Routing
from hellinger.engine.service import Service, make_desk
from hellinger.engine.settings import Settings
from hellinger.events import now
from hellinger.experiment import readout
from hellinger.experiment.names import full_name
from hellinger.ledger import BUCKETS, Ledger, Shares, Users, starting
from hellinger.serve import sentences, standing
from hellinger.traffic.months import Log, play
from hellinger.world.laws import from_law
from hellinger.world.users import UserModel, World
from test_phases import item, played

DAY = 24 * 3_600_000
VARIANTS = {"variants": {"a": "ucb1", "b": "kl-ucb"}}


async def many(service: Service, number: int, **query: Any) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(service.rank(Query(2, **query)) for _ in range(number))))


async def click(service: Service, made: list[dict[str, Any]], kind: str = "click") -> None:
    await service.feedback([(each["ranking_id"], each["items"][0], kind, 1.0, None) for each in made if each["items"]])


def later(monkeypatch: pytest.MonkeyPatch, milliseconds: int) -> None:
    """Look at the experiment so much later."""
    monkeypatch.setattr(standing, "now", lambda: now() + milliseconds)


# Parts of the traffic -----------------------------------------------------------------------------------------


def phase(weights: dict[str, float], **fields: Any) -> dict[str, Any]:
    return {"seq": 1, "weights": weights, "split": "random", "placement": "", "share": 1.0} | fields


class Uniformly:
    """Draws from NumPy, as the routing takes them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def random(self) -> float:
        return float(self.rng.random())


def test_experiments_have_their_shares_and_users_stay_in_one() -> None:
    running = {
        "main": phase({"a": 1.0}),
        "front": phase({"front:a": 1.0}, placement="front", share=0.5),
        "tenth": phase({"tenth:a": 1.0}, share=0.1),
        "third": phase({"third:a": 1.0}, share=0.3),
        "over": phase({"over:a": 1.0}, share=1.0, ended=True),
    }
    routing, draws = Routing(running, b"salt"), Uniformly(1)
    expected = {
        None: {"main": 0.6, "tenth": 0.1, "third": 0.3},
        "front": {"front": 0.5, "main": 0.3, "tenth": 0.05, "third": 0.15},
        "back": {"main": 0.6, "tenth": 0.1, "third": 0.3},
    }
    for placement, shares in expected.items():
        for user in (False, True):
            found = Counter(
                routing.choose(Query(1, f"user-{j}" if user else None, placement=placement), draws)[0]
                for j in range(4000)
            )
            assert set(found) == set(shares)
            for name, share in shares.items():
                assert abs(found[name] / 4000 - share) < 5 * (share * (1 - share) / 4000) ** 0.5
    for j in range(200):
        query = Query(1, f"user-{j}", placement="front")
        assert len({routing.choose(query, draws)[0] for _ in range(3)}) == 1


def test_a_placement_taken_as_a_whole_leaves_nothing_for_the_others() -> None:
    running = {"main": phase({"a": 1.0}), "front": phase({"front:a": 1.0}, placement="front")}
    routing, draws = Routing(running, b""), Uniformly(2)
    chosen = {routing.choose(Query(1, placement="front"), draws).experiment for _ in range(100)}
    assert chosen == {"front"}


def test_an_experiment_is_started_changed_ended_and_stays_readable(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abcd"])
        experiments = service.experiments
        assert await experiments.start("ada", "side", variants={"a": "imed", "b": "ucb1"}, share=0.5, why="to see")
        assert await experiments.start("ada", "side", variants={"a": "imed", "b": "ucb1"}, share=0.5), "asked again"
        made = await many(service, 400)
        found = Counter(each["experiment"] for each in made)
        assert abs(found["side"] - 200) < 60
        assert {each["variant"] for each in made} == {"a", "b", "side:a", "side:b"}
        assert await experiments.change("ada", "side", weights={"a": 9, "b": 1})
        assert experiments.allocation("side").weights == {"side:a": 9.0, "side:b": 1.0}
        assert await experiments.end("ada", "side", why="seen enough")
        assert {each["experiment"] for each in await many(service, 50)} == {"main"}
        with pytest.raises(ValueError, match="has not ended"):
            await experiments.change("ada", "side", weights={"a": 1})
        with pytest.raises(ValueError, match="used once"):
            await experiments.start("ada", "side", variants={"a": "ucb1"})

    async def again(service: Service) -> None:
        read = await standing.standing(service, "side")
        assert (read["state"], read["name"]) == ("ended", "side")
        assert sum(row["requests"] for row in read["variants"]) == sum(
            each["requests"] for each in standing.experiments(service) if each["name"] == "side"
        )
        assert [each["why"] for each in standing.phases(service.desk.ledger, "side")] == ["to see", "", "seen enough"]
        assert set((await standing.standing(service))["former"]) == set()
        assert standing.variants(service) == ["a", "b"]
        assert set(standing.variants(service, "side")) == {"side:a", "side:b"}
        assert set(service.desk.variants) == {"a", "b"}

    played(tmp_path, story, again, **VARIANTS)


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ({"name": "Front page", "variants": {"a": "ucb1"}}, "small letters"),
        ({"name": "main", "variants": {"a": "ucb1"}}, "used once"),
        ({"name": "x", "variants": {}}, "a variant has traffic"),
        ({"name": "x", "variants": {"a": "nobody"}}, "nobody"),
        ({"name": "x", "variants": {"y:a": "ucb1"}, "share": 0.5}, "no slash and no colon"),
        ({"name": "x", "variants": {"a": "ucb1"}, "share": 0.6}, "at most 1 of all traffic"),
        ({"name": "x", "variants": {"a": "ucb1"}, "share": 0.0}, "share"),
        ({"name": "x", "variants": {"a": "ucb1"}, "weights": {"b": 1.0}}, "every variant has a weight"),
        ({"name": "x", "variants": {"a": "ucb1"}, "share": 0.5, "begin": "full"}, "begin is empty or common"),
        ({"name": "x", "variants": {"a": "ucb1"}, "learning": "alone"}, "learning is isolated or shared"),
        ({"name": "x", "variants": {"a": "ucb1"}, "holdout": "best"}, "a holdout is one of uniform, fixed"),
        ({"name": "x", "variants": {"a": "ucb1"}, "control": "b"}, "control is one of x:a"),
    ],
)
def test_an_experiment_that_cannot_be_started(tmp_path: Path, asked: dict[str, Any], rule: str) -> None:
    async def story(service: Service) -> None:
        assert await service.experiments.start("ada", "half", variants={"a": "ucb1"}, share=0.5)
        with pytest.raises(ValueError, match=rule):
            await service.experiments.start("ada", **asked)
        assert len(service.desk.ledger.phases) == 2

    played(tmp_path, story, **VARIANTS)


def test_the_main_experiment_neither_ends_nor_has_a_share(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        with pytest.raises(ValueError, match="does not end"):
            await service.experiments.end("ada", "main")
        with pytest.raises(ValueError, match="has all that no other takes"):
            await service.experiments.change("ada", share=0.5)
        with pytest.raises(UnknownExperimentError, match="must be one of main, but got 'nobody'"):
            await service.experiments.change("ada", "nobody", weights={"a": 1})

    played(tmp_path, story, **VARIANTS)


def test_names() -> None:
    assert check_name("front-page_2") == "front-page_2"
    assert [full_name("main", "a"), full_name("x", "a"), full_name("x", "x:a")] == ["a", "x:a", "x:a"]


# Pools --------------------------------------------------------------------------------------------------------


def test_a_variant_begins_from_common_counts_or_empty_as_asked(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abc"])
        await click(service, await many(service, 60))
        desk = service.desk
        n, s = desk.ledger.sums([0, 1, 2], variants=["a", "b"])
        assert await service.experiments.change("ada", variants={"warm": "ucb1"}, begin="common")
        assert await service.experiments.change("ada", variants={"cold": "ucb1"})
        for slot in range(3):
            warm, cold = (desk.pools.of(name).stats(slot) for name in ("warm", "cold"))
            assert (warm.impressions, warm.rewards, cold.impressions) == (n[slot], s[slot], 0)
        assert desk.pools.of("warm").rounds == n.sum()
        whole, _ = desk.ledger.whole()
        assert whole.sum() == n.sum(), "copies are in no total"
        assert await service.experiments.change("ada", weights={"a": 1, "b": 1})
        await many(service, 20)
        assert await service.experiments.change("ada", weights={"a": 1, "b": 1, "warm": 1}, begin="common")
        assert desk.pools.of("warm").rounds == n.sum(), "one that comes back goes on from where it was"

    async def again(service: Service) -> None:
        n, _ = service.desk.ledger.sums([0, 1, 2], variants=[starting("warm")])
        assert service.desk.pools.of("warm").rounds == n.sum() == 120

    played(tmp_path, story, again, **VARIANTS, positions="none")


def test_an_experiment_learns_from_its_own_rankings_or_from_all(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abc"])
        await service.experiments.start("ada", "own", variants={"x": "ucb1"}, placement="own", learning="isolated")
        await service.experiments.start("ada", "all", variants={"x": "ucb1"}, placement="all", learning="shared")
        await many(service, 10)
        await many(service, 5, placement="own")
        await many(service, 3, placement="all")
        rounds = {name: service.desk.pools.of(name).rounds for name in service.desk.variants}
        assert (rounds["own:x"], rounds["all:x"]) == (10, 36)
        assert rounds["a"] + rounds["b"] == 20

    played(tmp_path, story, **VARIANTS)


def test_a_holdout_does_not_learn(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "dcba"])
        experiments = service.experiments
        for order in ("uniform", "fixed"):
            await experiments.start(
                "ada", order, variants={"best": "ucb1"}, holdout=order, holdout_share=0.5, placement=order
            )
            assert experiments.allocation(order).weights == {f"{order}:best": 1.0, f"{order}:holdout": 1.0}
        made = {order: await many(service, 200, placement=order) for order in ("uniform", "fixed")}
        for each in made.values():
            await click(service, each)
            assert abs(sum(one["variant"].endswith(":holdout") for one in each) - 100) < 50
        shown = {
            order: Counter(tuple(one["items"]) for one in each if one["variant"].endswith(":holdout"))
            for order, each in made.items()
        }
        assert set(shown["fixed"]) == {("d", "c")}, "in the order in which they were added"
        assert len(shown["uniform"]) == 12, "any two, in any order"
        held_out = [one for each in made.values() for one in each if one["variant"].endswith(":holdout")]
        assert {score for one in held_out for score in one["scores"]} == {None}

    played(tmp_path, story, **VARIANTS)


# Statistics ---------------------------------------------------------------------------------------------------


def test_a_ranking_counts_once_its_reward_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abc"])
        await click(service, await many(service, 300))
        read = await standing.standing(service)
        assert (read["verdict"], read["open_requests"]) == ("early", 300)
        assert "1 day after it was made, and 300 wait" in read["sentence"]
        assert all(row["rate"] is None and row["low"] == 0.0 and row["high"] == 1.0 for row in read["variants"])
        assert sum(row["reward"] for row in read["variants"]) == 300
        later(monkeypatch, DAY - 1000)
        assert (await standing.standing(service))["open_requests"] == 300
        later(monkeypatch, DAY + DAY // 24)
        read = await standing.standing(service)
        assert read["open_requests"] == 0
        assert all(row["rate"] == 0.5 and row["settled_reward"] == row["reward"] for row in read["variants"])

    played(tmp_path, story, **VARIANTS)


def test_users_who_keep_their_variant_are_counted_once_and_by_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abc"])
        for j in range(300):
            await click(service, await many(service, 1 + j % 3, user=f"user-{j}"))
        read = await standing.standing(service)
        users = service.desk.ledger.series.users["main"]
        assert sum(users.counts.values()) == 300
        assert read["sample_ratio"] is not None
        assert not read["sample_ratio"]["alarm"]
        later(monkeypatch, 2 * DAY)
        read = await standing.standing(service)
        assert sentences.STICKY not in read["sentence"]
        for (_, variant), shares in service.desk.ledger.series.shares.items():
            buckets = shares.settled(now() + 2 * DAY).buckets
            assert buckets is not None
            row = next(row for row in read["variants"] if row["variant"] == variant)
            assert buckets.sum(axis=1).tolist() == [row["impressions"], row["reward"], 0.0]

    played(tmp_path, story, split="sticky", **VARIANTS)


def test_a_broken_sticky_split_raises_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(service: Service) -> None:
        await service.describe([item("a")])
        split = type(service.desk.split)
        choose = split.choose_for
        monkeypatch.setattr(
            split, "choose_for", lambda self, user: ("a", 0.5) if user.endswith(("1", "2", "3")) else choose(self, user)
        )
        for start in range(0, 1000, 200):
            await asyncio.gather(*(service.rank(Query(1, user=f"{start + j}")) for j in range(200) for _ in range(2)))
        read = await standing.standing(service)
        assert read["sample_ratio"]["alarm"]
        assert read["verdict"] == "split"

    played(tmp_path, story, split="sticky", **VARIANTS)


def test_a_guardrail_rings_where_its_feedback_is_more_frequent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abc"])
        made = await many(service, 1000)
        rng = np.random.default_rng(1)
        for variant, rate in (("a", 0.3), ("b", 0.1)):
            its = [each for each in made if each["variant"] == variant]
            await click(service, [each for each in its if rng.random() < rate], "hide")
        assert (await standing.standing(service))["guardrail"]["alarm"] is False, "nothing is final yet"
        later(monkeypatch, 2 * DAY)
        read = await standing.standing(service)
        rows = {row["variant"]: row for row in read["guardrail"]["variants"]}
        assert rows["a"]["alarm"]
        assert not rows["b"]["alarm"]
        assert rows["a"]["count"] == sum(
            shares.whole().guarded for (_, name), shares in service.desk.ledger.series.shares.items() if name == "a"
        )
        assert "Guardrail: hide is more frequent under A than under B, by at least" in read["sentence"]
        assert all(row["reward"] == 0 for row in read["variants"]), "its kind has weight 0"

    played(tmp_path, story, guardrail="hide", weights={"hide": 0}, **VARIANTS)


# Sums ---------------------------------------------------------------------------------------------------------


def test_final_sums_take_in_what_is_two_windows_old() -> None:
    shares, window = Shares(24_000), 24_000
    for at in range(0, 400_000, 500):
        if shares.opens(at):
            shares.begin(at)
            shares.close(at)
        shares.find(at).opened(2, 2, -1)
        assert len(shares.open) <= 2 * (window // shares.step + 1) + 60 + 1
    assert shares.whole().requests == 800
    assert shares.settled(399_500).requests == 2 * ((399_500 - window) // 1000)
    assert shares.final.requests > 500
    old = shares.find(100)
    assert old is shares.final
    assert not shares.opens(100), "a clock that is far behind opens nothing"


def test_a_share_that_was_closed_leads_on_to_the_final_one() -> None:
    shares = Shares(1000)
    shares.begin(0)
    first = shares.find(0)
    shares.close(1_000_000)
    assert first.current is shares.final
    assert shares.final.current is shares.final


def test_the_sample_of_users_stays_small_and_never_counts_one_twice() -> None:
    users, rng = Users(), np.random.default_rng(3)
    units = rng.integers(0, 1 << 53, 300_000).tolist()
    for unit in units:
        users.see(unit, 1, "a" if unit % 3 else "b")
    size = len(users.seen)
    assert users.BLOCK < size < 8 * users.BLOCK
    assert sum(users.counts.values()) == size
    for unit in units[:5000]:
        users.see(unit, 2, "a")
    assert sum(count for (phase, _), count in users.counts.items() if phase == 2) == 0
    counts = {variant: count for (_, variant), count in users.counts.items()}
    assert abs(counts["b"] / size - 1 / 3) < 0.02
    assert Users.of(users.as_json()).as_json() == users.as_json()


def test_a_users_number_fills_buckets_evenly() -> None:
    found = np.bincount([Routing.unit(f"user-{j}") % BUCKETS for j in range(50 * BUCKETS)], minlength=BUCKETS)
    assert found.min() > 15
    assert found.max() < 100


def test_an_older_phase_reads_as_one_with_what_is_usual() -> None:
    older = {"seq": 3, "variants": {"a": "ucb1"}, "weights": {"a": 1.0}, "split": "random", "control": ""}
    assert Allocation.of(older) == Allocation({"a": "ucb1"}, {"a": 1.0})


def test_a_ramp_on_the_demos_site_raises_no_alarm() -> None:
    """1 %, 10 %, then half of the traffic, a day each, looked at all the time."""
    settings = Settings(variants={"new": "cold-start", "old": "ucb1"}, variant_weights={"new": 1, "old": 99}, seed=1)
    world = World(UserModel(visits=2500.0, abort=0.0), from_law("bimodal"), items=200, seed=1, start=1_700_000_000_000)
    desk, log = make_desk(settings, Ledger(), b"salt"), Log(0)
    ramp = [{"new": 1.0, "old": 99.0}, {"new": 10.0, "old": 90.0}, {"new": 1.0, "old": 1.0}]

    def look(at: int) -> None:
        day = (at - world.start) // DAY
        if len(desk.ledger.phases) <= day:
            plan = Allocation.given(settings).changed(weights=ramp[day])
            desk.commit_own([log.place(plan.draft(at, after=desk.ledger.phase_place, by="ada"))])
        _, phases = standing.played(desk.ledger, "main", at)
        if phases:
            check = readout(phases).check
            assert check is not None
            assert not check.alarm

    look(world.start)
    made = play(world, desk, world.start + 3 * DAY, log=log, progress=look)
    assert len(desk.ledger.phases) == 3
    shares = {key: each.whole().requests for key, each in desk.ledger.series.shares.items()}
    assert sum(shares.values()) == made.requests > 6000
    for phase, weights in zip(desk.ledger.phases, ramp, strict=True):
        its = {name: shares.get((phase["seq"], name), 0) for name in weights}
        expected = weights["new"] / sum(weights.values())
        assert abs(its["new"] / sum(its.values()) - expected) < 0.03


def test_the_sentence_says_who_closes_in_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abc"])
        series = service.desk.ledger.series
        for day, (fast, slow) in enumerate([(300, 100)] * 3 + [(300, 270)] * 3):
            at = service.desk.ledger.phases[0]["at"] - (6 - day) * DAY
            series.add("a", at, 1000, 1000, fast)
            series.add("b", at, 1000, 1000, slow)
        made = await many(service, 600)
        better = [each for j, each in enumerate(made) if each["variant"] == "a" or j % 3 == 0]
        await click(service, better)
        assert (await standing.standing(service))["next"] == "Go on."
        later(monkeypatch, 2 * DAY)
        read = await standing.standing(service)
        assert read["verdict"] == "order"
        assert "B closes in: 67 % behind in the first half of the time" in read["sentence"]
        assert read["next"].startswith("Promote A if its lead is large enough")

    played(tmp_path, story, **VARIANTS)
