"""Copies of a service on one PostgreSQL: they see each other, agree with the log, and survive each other's death."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from crowd import WEIGHTS, Client, Crowd, stable
from hellinger.ledger import Ledger, recovery
from hellinger.store import open_store
from live import VARIANTS, Launcher, Service, at_once, until
from throwaway import Server

SETTINGS = {"weights": json.dumps(WEIGHTS), "request_cache": 50}


@pytest.fixture
def database(postgresql: Server) -> str:
    return postgresql.fresh()


@pytest.fixture
def pair(launcher: Launcher, tmp_path: Path, database: str) -> Iterator[list[Service]]:
    """Two copies."""
    with ExitStack() as stack:
        copies = [stack.enter_context(Service(launcher, tmp_path, database, **SETTINGS)) for _ in range(2)]
        for copy in copies:
            copy.start()
        copies[0].add(*stable())
        until(lambda: len(copies[1].counts()) == len(stable()))
        yield copies


def folded(database: str) -> Ledger:
    """The fold of the whole log, from its first event."""
    with closing(open_store(database)) as store:
        ledger = Ledger()
        recovery.advance(store, ledger)
        return ledger


def caught_up(*copies: Service) -> Callable[[], bool]:
    """Whether all have taken in as much of the log."""
    return lambda: len({copy.get("/v1/experiments/main").body["events"] for copy in copies}) == 1


def agree_with_the_log(database: str, copies: list[Service]) -> None:
    """Require that every copy has counted exactly what the log says."""
    ledger = folded(database)

    def caught() -> bool:
        nonlocal ledger
        ledger = folded(database)  # the curve of positions may have been learned meanwhile: an event of its own
        return all(copy.get("/v1/experiments/main").body["events"] == ledger.seq for copy in copies)

    until(caught)
    names = list(ledger.catalogue.slots)
    slots = [ledger.catalogue.slots[name] for name in names]
    sums = {variant: ledger.sums(slots, variants=[variant]) for variant in VARIANTS}
    for copy in copies:
        counts = copy.counts()
        assert counts.keys() == set(names)
        for variant, (n, s) in sums.items():
            assert [counts[name][variant] for name in names] == list(zip(n.tolist(), s.tolist(), strict=True))
            assert copy.totals()[variant] == tuple(ledger.series.totals.get(variant, (0, 0, 0)))


def test_killed_and_started_again_under_load(pair: list[Service], database: str) -> None:
    rng = random.Random(7)
    crowd = Crowd([Client(number, pair) for number in range(4)])
    for _ in range(5):
        victim = rng.choice(pair)
        crowd.begin(stubborn=True)
        crowd.work(rng.randint(20, 120))
        victim.kill()
        crowd.work(20)
        victim.start()
        crowd.work(20)
        crowd.end()
        crowd.settle()
        until(caught_up(*pair))
        for copy in pair:
            crowd.agrees(copy)
    agree_with_the_log(database, pair)
    assert [copy.stop() for copy in pair] == [0, 0]


def test_each_sees_the_others_feedback(pair: list[Service], record_property: Callable[[str, object], None]) -> None:
    """In a moment: the time is reported, and not judged."""
    one, other = pair
    delays = []
    for _ in range(10):
        ranking = one.rank(1)
        item, variant = ranking["items"][0]["id"], ranking["variant"]
        rewards = other.counts()[item][variant][1]
        one.feedback((ranking["ranking_id"], item, "comment"))
        delays.append(until(lambda: other.counts()[item][variant][1] == rewards + 1))  # noqa: B023
    record_property("seconds until the other copy knows", [round(delay, 3) for delay in delays])
    print("seconds until the other copy knows:", [round(delay, 3) for delay in delays])


def test_the_same_feedback_to_both_counts_once(pair: list[Service], database: str) -> None:
    rewards = 0
    for _ in range(15):
        ranking = pair[0].rank(3)
        event = ranking["ranking_id"], ranking["items"][0]["id"], "comment"
        answers = at_once(*(partial(copy.feedback, event) for copy in pair * 2))
        assert sum(answer["accepted"] for answer in answers) == 1
        assert sum(answer["duplicate"] for answer in answers) == 3
        rewards += 1
    agree_with_the_log(database, pair)
    for copy in pair:
        assert sum(reward for _, _, reward in copy.totals().values()) == rewards


def test_the_same_key_at_both_gives_one_ranking(pair: list[Service], database: str) -> None:
    for number in range(15):
        answers = at_once(*(partial(copy.rank, 4, key=f"key {number}") for copy in pair * 2))
        assert all(answer == answers[0] for answer in answers), answers
    agree_with_the_log(database, pair)
    for copy in pair:
        assert sum(requests for requests, _, _ in copy.totals().values()) == 15


def test_kinds_given_to_different_copies_are_worth_one_at_most(pair: list[Service], database: str) -> None:
    expected = 0.0
    for kinds in (("comment", "like"), ("click", "like"), ("like", "comment"), ("click", "scroll")) * 4:
        ranking = pair[0].rank(2)
        request, item = ranking["ranking_id"], ranking["items"][1]["id"]
        at_once(*(partial(copy.feedback, (request, item, kind)) for copy, kind in zip(pair, kinds, strict=True)))
        expected += min(1.0, sum(WEIGHTS[kind] for kind in kinds))
    agree_with_the_log(database, pair)
    for copy in pair:
        assert sum(reward for _, _, reward in copy.totals().values()) == expected


def test_a_request_of_one_copy_takes_feedback_at_the_other(pair: list[Service], database: str) -> None:
    """At once, before the other has heard of it, and after the first is gone."""
    one, other = pair
    rankings = [one.rank(2) for _ in range(20)]
    for ranking in rankings:
        assert other.feedback((ranking["ranking_id"], ranking["items"][0]["id"], "click"))["accepted"] == 1
    one.kill()
    for ranking in rankings:
        assert other.feedback((ranking["ranking_id"], ranking["items"][0]["id"], "like"))["accepted"] == 1
    agree_with_the_log(database, [other])
