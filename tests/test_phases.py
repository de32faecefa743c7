"""Phases of the experiment: on all copies at once, without a restart, and nothing learned is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hellinger.engine.allocation import SETTINGS, Allocation
from hellinger.engine.drafts import Query
from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.ledger import COMMON
from hellinger.serve import standing
from ledger_model import Log
from lives import Copy

ALLOCATION = Allocation({"one": "ucb1", "two": "kl-ucb"}, {"one": 1.0, "two": 1.0}, "random", "two")


def item(name: str) -> dict[str, Any]:
    return {"id": name, "tags": [], "expires_at": None, "metadata": None}


def played(folder: Path, *stories: Any, **settings: Any) -> None:
    """Each story with a service of its own, one after the other on one database."""

    async def whole() -> None:
        for story, others in [one if isinstance(one, tuple) else (one, {}) for one in stories]:
            service = await Service.start(
                Settings(**{"database": f"sqlite:///{folder}/log.db", "seed": 1} | settings | others)
            )
            try:
                await story(service)
            finally:
                await service.stop()

    asyncio.run(whole())


async def rank(service: Service, times: int) -> list[str]:
    return [(await service.rank(Query(2)))["variant"] for _ in range(times)]


def test_a_plan_changes_as_asked() -> None:
    ramped = ALLOCATION.changed(weights={"one": 9, "two": 1})
    assert (ramped.weights, ramped.variants, ramped.control) == ({"one": 9.0, "two": 1.0}, ALLOCATION.variants, "two")
    added = ALLOCATION.changed(variants={"new": "cold-start"})
    assert added.weights == {"one": 1.0, "two": 1.0, "new": 1.0}
    stopped = ALLOCATION.changed(weights={"one": 1})
    assert (stopped.variants, stopped.control) == ({"one": "ucb1"}, "")
    assert stopped.changed(weights={"one": 1, "two": 3}, former=ALLOCATION.variants).variants == ALLOCATION.variants
    assert ALLOCATION.changed(variants={"two": "imed"}).variants["two"] == "imed"
    assert ALLOCATION.changed(split="sticky", control="one")[2:4] == ("sticky", "one")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"weights": {}}, "0 < sum of weights < inf"),
        ({"weights": {"one": 0.0}}, "0 < sum of weights < inf"),
        ({"weights": {"nobody": 1.0}}, "every weight is one of a variant"),
        ({"weights": {"one": -1.0, "two": 1.0}}, "weight"),
        ({"weights": {"one": float("nan"), "two": 1.0}}, "weight"),
        ({"variants": {"new": "no such policy"}}, "no such policy"),
        ({"control": "nobody"}, "control is one of"),
        ({"split": "even"}, "split is random or sticky"),
    ],
)
def test_a_plan_that_nothing_can_be_played_by(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        ALLOCATION.changed(**changes)


def test_of_several_phases_after_one_the_log_takes_the_first() -> None:
    log = Log()
    one, other = Copy(log), Copy(log)
    one.add("a", "b")
    other.flush()
    for copy, name in ((one, "one"), (other, "two")):
        allocation = Allocation({name: "ucb1"}, {name: 1.0}, "random", "")
        copy.write([allocation.draft(0, after=copy.desk.ledger.phase_place, by=name)])
    one.flush()
    other.flush()
    one.flush()
    for copy in (one, other):
        assert [phase["by"] for phase in copy.desk.ledger.phases] == ["one"]
        assert copy.desk.variants == {"one": "ucb1"}
        copy.check()


def test_settings_begin_a_phase_once_and_again_when_they_are_others(tmp_path: Path) -> None:
    async def first(service: Service) -> None:
        (phase,) = service.desk.ledger.phases
        assert (phase["by"], Allocation.of(phase)) == (SETTINGS, Allocation.given(service.settings))
        assert await service.experiments.change("ada", weights={"a": 9, "b": 1})

    async def again(service: Service) -> None:
        assert [phase["by"] for phase in service.desk.ledger.phases] == [SETTINGS, "ada"]
        assert service.desk.split.weights == {"a": 9.0, "b": 1.0}

    async def otherwise(service: Service) -> None:
        assert [phase["by"] for phase in service.desk.ledger.phases] == [SETTINGS, "ada", SETTINGS]
        assert service.desk.variants == {"b": "kl-ucb", "c": "imed"}

    variants = {"a": "ucb1", "b": "kl-ucb"}
    played(tmp_path, first, again, (otherwise, {"variants": {"b": "kl-ucb", "c": "imed"}}), variants=variants)


def test_a_ramp_changes_shares_at_once_and_keeps_what_was_learned(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abcd"])
        await rank(service, 40)
        before = service.desk.ledger.sums([0, 1, 2, 3], variants=["a"])
        assert await service.experiments.change("ada", weights={"a": 1})
        assert set(await rank(service, 30)) == {"a"}
        after = service.desk.ledger.sums([0, 1, 2, 3], variants=["a"])
        assert (after[0] >= before[0]).all()
        assert await service.experiments.change("ada", variants={"new": "cold-start"}, weights={"new": 1})
        pool = service.desk.pools.of("new")
        assert (len(pool), pool.rounds) == (4, 0.0)
        assert set(await rank(service, 5)) == {"new"}
        assert await service.experiments.change("ada", weights={"a": 1, "b": 1}), (
            "one that stopped comes back with its policy"
        )
        assert service.desk.variants["b"] == "kl-ucb"
        n, _ = service.desk.ledger.sums([0, 1, 2, 3], variants=["a", COMMON])
        assert service.desk.pools.of("a").rounds == n.sum()
        shown = standing.phases(service.desk.ledger)
        assert [sum(phase["requests"].values()) for phase in shown] == [40, 30, 5, 0]
        assert shown[1]["requests"] == {"a": 30}

    played(tmp_path, story, variants={"a": "ucb1", "b": "kl-ucb"})


def test_asked_twice_a_phase_begins_once(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        place = service.desk.ledger.phase_place
        for _ in range(2):  # the first answer was lost
            assert await service.experiments.change("ada", weights={"a": 9, "b": 1}, after=place)
            assert await service.experiments.change("ada", weights={"a": 9, "b": 1})
        assert len(service.desk.ledger.phases) == 2
        assert not await service.experiments.change("bob", weights={"a": 1, "b": 9}, after=place)
        assert len(service.desk.ledger.phases) == 2

    played(tmp_path, story, variants={"a": "ucb1", "b": "kl-ucb"})


def test_feedback_counts_in_the_phase_of_its_ranking(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        await service.describe([item("x")])
        made = await service.rank(Query(1))
        assert await service.experiments.change("ada", weights={"a": 2, "b": 1})
        await service.feedback([(made["ranking_id"], "x", "click", 1.0, None)])
        phases = [phase["seq"] for phase in service.desk.ledger.phases]
        shares = service.desk.ledger.series.shares
        whole = {key: each.whole() for key, each in shares.items()}
        assert [(key, share.requests, share.reward) for key, share in whole.items()] == [
            ((phases[0], made["variant"]), 1, 1.0)
        ]

    played(tmp_path, story, variants={"a": "ucb1", "b": "kl-ucb"})


def test_a_ramp_raises_no_alarm_and_a_broken_split_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(service: Service) -> None:
        await service.describe([item(name) for name in "abcd"])
        for weights in ({"a": 99, "b": 1}, {"a": 9, "b": 1}, {"a": 1, "b": 1}):
            assert await service.experiments.change("ada", weights=weights)
            await asyncio.gather(*(service.rank(Query(1)) for _ in range(1000)))
            read = await standing.standing(service)
            assert not read["sample_ratio"]["alarm"]
        assert {row["variant"]: round(row["intended"], 2) for row in read["variants"]} == {"a": 0.8, "b": 0.2}
        choose = type(service.desk.split).choose
        monkeypatch.setattr(
            type(service.desk.split),
            "choose",
            lambda split, rng: choose(split, rng) if rng.random() < 0.7 else ("a", 0.5),
        )
        await asyncio.gather(*(service.rank(Query(1)) for _ in range(1000)))
        read = await standing.standing(service)
        assert read["sample_ratio"]["alarm"]
        assert read["sample_ratio"]["phase"] == service.desk.ledger.phase_place
        assert read["sentence"].startswith("The split is off in one of the phases: A got")

    played(tmp_path, story, variants={"a": "ucb1", "b": "kl-ucb"})
