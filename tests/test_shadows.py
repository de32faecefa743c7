"""Shadows rank what was ranked, unseen: what they would have earned is estimated without bias, or not at all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import count, pairwise, permutations
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hellinger.engine import shadow_queue
from hellinger.engine.allocation import Allocation
from hellinger.engine.drafts import Draft, Query
from hellinger.engine.service import Service
from hellinger.engine.shadowing import Owed
from hellinger.events import Logged
from hellinger.ledger import UnknownKindError
from hellinger.ledger.ledger import _HANDLERS
from hellinger.pool import Leaving
from hellinger.serve import standing
from hellinger.serve.shadows import shadows
from ledger_model import START, Log
from lives import WINDOW, Copy
from served import application
from test_phases import item, played


@pytest.fixture(autouse=True)
def _names_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shadow draws depends on the ranking's name, so that these are the same in every run."""
    numbers = count()
    monkeypatch.setattr("hellinger.engine.desk.new_request", lambda _: f"ranking-{next(numbers):016}")


class Site:
    """Items with known rates, ranked by one policy and by a shadow."""

    def __init__(self, seed: int, policy: str, shadow: str, *, items: int = 20, k: int = 3, **options: Any) -> None:
        self.rng, self.k = random.Random(seed), k
        self.rates = [self.rng.betavariate(2, 12) for _ in range(items)]
        self.copy = Copy(Log(), variants={"one": policy}, seed=seed, **options)
        self.copy.add(*(f"{j}" for j in range(items)))
        allocation = Allocation({"one": policy}, {"one": 1.0}, window=WINDOW, shadows={"dark": shadow}).check()
        self.copy.write([allocation.draft(START, after=0, by="test")])
        self.copy.flush()
        self.truth: list[float] = []
        self.at = START

    def page(self, made: Draft) -> float:
        """What the shadow would earn on average instead of a ranking, a place: over the random order of ties."""
        pools, request = self.copy.desk.pools, self.copy.desk.state.find(made.event.key)
        assert request is not None
        with pools.without("dark", request) as pool:
            slots = pool.ids
            scores = pool.scores(slots)
        earned, left = 0.0, self.k
        for score in sorted(set(scores.tolist()), reverse=True):
            tie = [self.rates[int(slot)] for slot, own in zip(slots, scores.tolist(), strict=True) if own == score]
            earned += float(np.mean(tie)) * min(len(tie), left)
            left -= min(len(tie), left)
            if not left:
                break
        return earned / self.k

    def play(self, rankings: int) -> None:
        for _ in range(rankings):
            self.at += 500
            query, copy = Query(self.k), self.copy
            made = copy.desk.rank(query, self.at)
            copy.write([made])
            copy.flush()
            clicked = [each for each in made.fields["items"] if self.rng.random() < self.rates[int(each)]]
            early = self.rng.random() < 0.5  # what came of it may be known before the shadow ranks
            for name in clicked if early else ():
                copy.give(made.event.key, name, at=self.at)
            copy.flush()
            if made.fields["items"]:
                self.truth.append(self.page(made))
            told = copy.desk.shadow(query, made, self.at)
            assert (told is None) == (not made.fields["items"])
            copy.write([] if told is None else [told])
            for name in () if early else clicked:
                copy.give(made.event.key, name, at=self.at)
            copy.flush()

    def row(self) -> dict[str, Any]:
        ledger = self.copy.desk.ledger
        return shadows(ledger, "main", Allocation.of(ledger.experiments["main"]), self.at + 3 * WINDOW)[0]


# What a shadow would show ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["ucb1", "hellinger-ucb", "cold-start", "uniform"])
def test_a_twin_would_show_the_same(policy: str) -> None:
    """A shadow of the same policy has the weight 1 everywhere, though what was shown counts already, and its clicks."""
    site = Site(1, policy, policy)
    site.play(60)
    told = [event.fields["shadows"]["dark"] for event in site.copy.log.events if event.kind == "shadow"]
    assert len(told) == 60
    for each in told:
        assert each["weights"] == pytest.approx([1.0, 1.0, 1.0], abs=1e-12)
    row = site.row()
    assert row["rate"] == pytest.approx(row["logged"], abs=0.1)  # what its items earn elsewhere is 180 places' luck
    assert row["estimates"][0]["value"] == pytest.approx(row["logged"], abs=1e-12)
    site.copy.check(site.at)


@pytest.mark.parametrize(
    ("policy", "shadow"), [("ucb1", "cold-start"), ("cold-start", "uniform"), ("uniform", "fixed")]
)
def test_overlap_is_exact(policy: str, shadow: str) -> None:
    """On tiny pools: over all orders in which the shadow's ties may come."""
    site = Site(2, policy, shadow, items=5, k=2)
    for _ in range(30):
        site.at += 500
        query = Query(2)
        made = site.copy.desk.rank(query, site.at)
        site.copy.write([made])
        site.copy.flush()
        request = site.copy.desk.state.find(made.event.key)
        assert request is not None
        with site.copy.desk.pools.without("dark", request) as pool:
            slots = pool.ids
            scores = dict(zip(slots, pool.scores(slots).tolist(), strict=True))
        pages = [
            list(map(int, order[:2])) for order in permutations(slots) if _descends([scores[one] for one in order])
        ]
        pages = [[0, 1]] if shadow == "fixed" else pages
        shown = list(map(int, made.fields["items"]))
        told = site.copy.desk.shadow(query, made, site.at)
        assert told is not None
        found = told.fields["shadows"]["dark"]
        assert found["same"] == pytest.approx(np.mean([len(set(page) & set(shown)) / 2 for page in pages]))
        placed = np.mean([sum(a == b for a, b in zip(page, shown, strict=True)) / 2 for page in pages])
        assert found["placed"] == pytest.approx(placed)
        if site.rng.random() < 0.3:
            site.copy.give(made.event.key, made.fields["items"][0], at=site.at)


def _descends(scores: Sequence[float]) -> bool:
    return all(one >= other for one, other in pairwise(scores))


def test_what_a_ranking_has_shown_is_taken_back_and_comes_again() -> None:
    """Also of items that have left the shadow's pool, and of impressions that were confirmed or are worth less."""
    for options in ({"leaving": Leaving(impressions=4)}, {"counted": False}, {"positions": (1.0, 0.5, 0.25)}):
        site = Site(3, "ucb1", "cold-start", items=6, **options)
        site.play(25)
        site.copy.chores(site.at)
        site.copy.check(site.at)


def test_looks_that_are_owed_are_paid_once() -> None:
    owed = Owed()
    assert owed.pay({7: 1.0, 8: 0.5}, 10, [7, 9], [20.0, 10.0], 10) == [1.0, 0.0]
    assert owed.pay({}, 9, [8], [20.0], 11) == [0.0]  # made before the shadow chose it
    assert owed.pay({8: 0.5}, 12, [8], [0.75], 12) == [0.75]
    assert owed.pay({}, 13, [8, 7], [20.0, 20.0], 13) == [0.25, 0.0]
    assert owed.pay({}, 14, [8], [20.0], 14) == [0.0]


# What it would have earned --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "shadow"), [("uniform", "cold-start"), ("ucb1", "hellinger-ucb"), ("ucb1", "fixed")]
)
def test_intervals_cover_what_it_would_earn(policy: str, shadow: str) -> None:
    """Over many short logs, looked at several times: an interval that ever misses is one miss."""
    logs, missed, apart = 12, 0, []
    for seed in range(logs):
        site = Site(seed, policy, shadow)
        wrong = False
        for _ in range(3):
            site.play(50)
            truth = float(np.mean(site.truth))
            rows = site.row()["estimates"]
            wrong |= any(not each["low"] <= truth <= each["high"] for each in rows)
        missed += wrong
        apart += [[each["value"] - truth * min(each["mean_weight"], 1.0) for each in rows]]
    assert missed <= 1
    if policy == "uniform":  # all that the shadow would show is shown: neither estimate is biased
        errors = np.array(apart)
        assert (abs(errors.mean(axis=0)) < 3.5 * errors.std(axis=0) / np.sqrt(logs)).all()


def test_a_better_learner_is_safe_to_promote_and_a_worse_one_refused_or_warned_of() -> None:
    site = Site(5, "ucb1", "cold-start", items=30)
    site.play(1200)
    row = site.row()
    assert row["safe"]
    assert row["sentence"].startswith("Safe to promote: at least +")
    assert row["low"] <= np.mean(site.truth) <= row["high"]
    assert row["lift_low"] < np.mean(site.truth) / row["logged"] - 1.0
    other = Site(5, "cold-start", "uniform", items=200)
    other.play(300)
    found = other.row()
    assert not found["safe"]
    assert "of what it would show was never shown" in found["sentence"]


def test_what_is_not_final_is_in_no_figure() -> None:
    site = Site(6, "ucb1", "uniform")
    site.play(20)
    ledger = site.copy.desk.ledger
    row = shadows(ledger, "main", Allocation.of(ledger.experiments["main"]), site.at)[0]
    assert (row["requests"], row["settled_requests"], row["rate"]) == (20, 0, None)
    assert "may still come" in row["sentence"]


# The service ----------------------------------------------------------------------------------------------


def test_the_answer_is_sent_before_a_shadow_ranks(tmp_path: Path) -> None:
    order: list[str] = []
    shell = application(tmp_path, variants="one=ucb1")

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            await send(message)
            order.append(message["type"])

        await shell(scope, receive, sent)

    async def ask() -> None:
        async with (
            shell.app.router.lifespan_context(shell.app),
            httpx.AsyncClient(transport=httpx.ASGITransport(noting), base_url="http://test") as client,
        ):
            service: Service = shell.app.state.service
            await client.post("/v1/items", json={"items": [{"id": name} for name in "abcd"]})
            body = {"shadows": {"dark": "cold-start"}, "why": "test"}
            assert (await client.post("/v1/experiments/main/phases", json=body)).status_code == 200
            desk, real = service.desk, service.desk.shadow

            def noted(query: Query, made: Draft, at: int) -> Draft | None:
                order.append("shadow")
                return real(query, made, at)

            desk.shadow = noted  # type: ignore[method-assign]
            for headers in ({}, {"Idempotency-Key": "k"}):
                order.clear()
                assert (await client.post("/v1/rank", json={"k": 2}, headers=headers)).status_code == 200
                assert "shadow" not in order
                while "shadow" not in order:
                    await asyncio.sleep(0.005)
                assert order.index("http.response.body") < order.index("shadow")
            for _ in range(200):
                row = (await client.get("/v1/experiments/main")).json()["shadows"][0]
                if row["requests"] == 2:
                    break
                await asyncio.sleep(0.01)
            assert (row["requests"], row["share"]) == (2, 1.0)

    asyncio.run(ask())


def test_only_so_many_rankings_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load a shadow ranks a part of all, and says which."""
    monkeypatch.setattr(shadow_queue, "REST", 3600.0)

    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abc"])
        assert await service.experiments.change("test", shadows={"dark": "ucb1"})
        for _ in range(3 * shadow_queue.LIMIT):
            await service.rank(Query(2))
        assert len(service.shadows) == shadow_queue.LIMIT
        while service.shadows._waiting:
            service.shadows._take(*service.shadows._waiting.popleft())
        await service.journal.write((), lasting=True)
        await _until(service, shadow_queue.LIMIT)
        row = (await standing.standing(service))["shadows"][0]
        assert row["share"] == pytest.approx(1 / 3)

    played(tmp_path, story, variants="one=ucb1")


def test_shadows_take_a_fifth_of_the_loop_at_most() -> None:
    """However long one takes: a pool with very much to look up, or a slow model."""
    for seconds in (1e-5, 1e-3, 0.01, 0.1, 3.0):
        pause = shadow_queue.pause_after(seconds)
        assert seconds / (seconds + pause) <= shadow_queue.SHARE + 1e-12
        assert pause >= shadow_queue.GAP


def test_what_rankings_showed_meanwhile_is_looked_up_when_a_shadow_is_asked() -> None:
    """Also what was taken back for the last ranking, and counts that came with very many others."""
    site = Site(5, "ucb1", "cold-start", items=12)
    pools = site.copy.desk.pools
    for number in range(40):
        site.at += 500
        query = Query(site.k)
        made = site.copy.desk.rank(query, site.at)
        site.copy.write([made])
        site.copy.give(made.event.key, made.fields["items"][0], at=site.at)
        site.copy.flush()
        if number % 4:
            continue
        told = site.copy.desk.shadow(query, made, site.at)
        assert told is not None
        site.copy.write([told])
        site.copy.flush()
        assert pools._of["dark", ""].counts  # for the next time
        pool = pools.of("dark")
        slots = np.array(pool.ids, np.int64)
        found = [pool.stats(slot) for slot in slots.tolist()]
        n, s = pools.sums("dark", slots)
        assert [one.impressions for one in found] == n.tolist()
        assert [one.rewards for one in found] == s.tolist()
    site.copy.check(site.at)


def test_debts_beyond_the_most_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.engine.shadowing.MOST", 3)
    owed = Owed()
    for item_number in range(6):
        owed.pay({item_number: 1.0}, item_number, [], [], item_number)
    owed.pay({}, 10, [], [], 10)
    assert owed.pay({}, 11, list(range(6)), [1.0] * 6, 11) == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


async def _until(service: Service, requests: int) -> None:
    for _ in range(500):
        if (await standing.standing(service))["shadows"][0]["requests"] == requests:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the shadow has not ranked")


def test_a_shadow_survives_a_restart_and_is_promoted_with_what_it_has_learned(tmp_path: Path) -> None:
    told: list[Any] = []

    async def first(service: Service) -> None:
        await service.describe([item(name) for name in "abcdef"])
        assert await service.experiments.change("test", shadows={"dark": "cold-start"}, why="is it better?")
        for number in range(30):
            ranked = await service.rank(Query(2))
            if number % 3 == 0:
                await service.feedback([(ranked["ranking_id"], ranked["items"][0], "click", 1.0, None)])
            await asyncio.sleep(0.012)
        await _until(service, 30)
        ledger = service.desk.ledger
        told.append({key: shares.as_json() for key, shares in ledger.series.shadows.items()})

    async def second(service: Service) -> None:
        ledger = service.desk.ledger
        assert {key: shares.as_json() for key, shares in ledger.series.shadows.items()} == told[0]
        pool = service.desk.pools.of("dark")
        before = [pool.stats(slot)[:2] for slot in sorted(pool.ids)]
        assert sum(n for n, _ in before) == 60
        assert "dark" not in service.desk.variants
        assert await service.experiments.change("test", weights={"one": 1, "dark": 1})
        assert service.desk.variants["dark"] == "cold-start"
        assert not service.desk.shadows
        pool = service.desk.pools.of("dark")
        assert [pool.stats(slot)[:2] for slot in sorted(pool.ids)] == before
        assert {(await service.rank(Query(1)))["variant"] for _ in range(60)} == {"one", "dark"}

    async def third(service: Service) -> None:
        assert await service.experiments.change("test", weights={"dark": 1})
        assert {(await service.rank(Query(1)))["variant"] for _ in range(9)} == {"dark"}

    played(tmp_path, first, second, third, variants="one=ucb1", learning="isolated")


def test_a_shadow_is_no_variant() -> None:
    plan = Allocation({"one": "ucb1"}, {"one": 1.0}, shadows={"dark": "kl-ucb"})
    assert plan.changed(weights={"dark": 1}).variants == {"dark": "kl-ucb"}
    assert plan.changed(weights={"dark": 1, "one": 1}).shadows == {}
    assert plan.changed(shadows={"dark": None}).shadows == {}
    assert plan.changed(shadows={"dim": "imed"}).shadows == {"dark": "kl-ucb", "dim": "imed"}
    for changes, rule in (
        ({"shadows": {"one": "imed"}}, "no variant with traffic"),
        ({"shadows": {"nobody": None}}, "one of those there are"),
        ({"shadows": {"dim": "no such policy"}}, "no such policy"),
    ):
        with pytest.raises(ValueError, match=rule):
            plan.changed(**changes)
    old = {name: value for name, value in plan._asdict().items() if name != "shadows"}
    assert Allocation.of(old).shadows == {}


def test_a_version_that_knows_no_shadows_says_who_wrote_them() -> None:
    """It reads ``shadow`` as any kind that it does not know: by its ``writer``."""
    site = Site(7, "ucb1", "uniform")
    site.play(1)
    (event,) = [each for each in site.copy.log.events if each.kind == "shadow"]
    assert "shadow" not in _HANDLERS
    unknown = Logged(event.seq, event.key, "shadows-of-tomorrow", event.at, event.body)
    with pytest.raises(UnknownKindError, match=event.fields["writer"]):
        site.copy.desk.commit([unknown._replace(seq=event.seq + 100)])
