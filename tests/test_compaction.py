"""Compaction deletes what the base snapshot stands for, and nothing that anybody could miss, killed or not."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings

from hellinger.events import Event, Logged, now
from hellinger.ledger import Ledger, recovery
from hellinger.ledger.comparison import differences
from hellinger.store import Store, open_store, transfer
from hellinger.testing.stores import Fresh
from ledger_model import Command, Model, commands, contents, written
from live import Launcher, Service, until

HOUR = 3_600_000
DAY = 24 * HOUR
GAP = 20 * DAY
KINDS = ["sqlite", "postgresql"]
Make = Callable[[str], Fresh]


@contextmanager
def filled(url: str, events: Sequence[Logged]) -> Iterator[Store]:
    with closing(open_store(f"{url}{'&' if '?' in url else '?'}timeout=30")) as store:
        store.append([event.row for event in events], 0)
        assert store.last() == len(events)
        yield store


def metadata(store: Store, ledger: Ledger) -> dict[str, Any]:
    """What the log says of each item, found as the service finds it."""
    slots = ledger.catalogue.slots
    said = {int(ledger.catalogue["said"][slot]): name for name, slot in slots.items()}
    return {said[event.seq]: event.fields["metadata"] for event in store.at(list(said))}


def alike(store: Store, whole: Ledger, said: dict[str, Any]) -> None:
    """Require that a start, a fold from the base, ``check`` and metadata agree with the log as it was."""
    started = recovery.recover(store)
    assert differences(started, whole) == []
    fold = recovery.recover(store, base=True)
    recovery.advance(store, fold)
    assert differences(fold, whole) == []
    assert recovery.check(store) == []
    assert metadata(store, started) == said


# Any log --------------------------------------------------------------------------------------------------


def two_parts(early: list[Command], late: list[Command]) -> tuple[list[Logged], int]:
    """A log with a long pause, and the place before it; no feedback is given after the pause for rankings before."""
    first = len(written(early).events)
    events = written([*early, ("wait", GAP), *late]).events
    old = {event.key for event in events[:first] if event.kind == "rank"}
    for event in events[first:]:
        if event.kind in ("feedback", "seen") and event.key.partition("/")[0] in old:
            nothing: dict[str, Any] = {"batch": "", "variant": None, "segment": None, "rows": []}
            events[event.seq - 1] = Logged(event.seq, *Event.of(f"import/{event.seq}!", "import", event.at, nothing))
    return events, first


def checked(url: str, other: str, early: list[Command], late: list[Command]) -> None:
    events, first = two_parts(early, late)
    last_of = contents(events[:first])
    with filled(url, events) as store:
        whole = recovery.recover(store)
        Model(events).check(whole)
        said = metadata(store, whole)
        pause = events[first - 1].at + GAP // 2
        done = recovery.compact(store, before=pause, window=0)
        assert done.through == first
        keep = {content.said for content in last_of.values()} | {len(events)}
        expected = [e for e in events if e.seq > first or e.seq in keep or e.kind in ("import", "leave")]
        assert store.read(0, 1 << 20) == expected
        assert done.deleted == len(events) - len(expected)
        alike(store, whole, said)
        with tempfile.TemporaryDirectory() as folder:
            transfer.dump(store, Path(folder) / "dumped")
            transfer.restore(Path(folder) / "dumped", other)
        recovery.compact(store, before=events[-1].at + GAP, window=0)
        alike(store, whole, said)
        named = {event.seq for event in store.read(0, 1 << 20) if event.kind == "item"}
        assert named - {len(events)} <= {int(whole.catalogue["said"][slot]) for slot in whole.catalogue.slots.values()}
    with closing(open_store(other)) as moved:
        assert moved.read(0, 1 << 20) == expected
        alike(moved, whole, said)


ANY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(ANY, max_examples=40)
@given(commands, commands)
def test_any_log_in_sqlite(fresh: Make, early: list[Command], late: list[Command]) -> None:
    url = fresh("sqlite")
    checked(url(), url(), early, late)


@settings(ANY, max_examples=8)
@given(commands, commands)
def test_any_log_in_postgresql(fresh: Make, early: list[Command], late: list[Command]) -> None:
    url = fresh("postgresql")
    checked(url(), url(), early, late)


# A long log, most of it said again and again ----------------------------------------------------------------


def busy(*, items: int, rounds: int, days: float, seed: int = 1) -> list[Logged]:
    """The log of a site, up to this moment, that sends the first half of its items again and again."""
    rng = random.Random(seed)
    numbers = count(1)
    log: list[Logged] = []
    names = [f"item-{j:04d}" for j in range(items)]
    end = now()

    def say(kind: str, at: int, key: str, **fields: object) -> None:
        log.append(Logged(len(log) + 1, *Event.of(key, kind, at, fields)))

    for turn in range(rounds):
        at = end - round(days * DAY * (rounds - turn) / rounds)
        for name in names[: items // 2] if turn else names:
            more = {"tags": [f"t{turn % 3}"], "expires_at": None, "metadata": {"name": name, "turn": turn}}
            say("item", at, f"item/{next(numbers)}", id=name, **more)
        if turn % 4 == 3:
            for name in rng.sample(names, 10):
                say("state", at, f"state/{next(numbers)}", id=name, state=rng.choice(["hidden", "shown", "deleted"]))
        row = {"item": rng.choice(names), "impressions": 10, "rewards": 3, "from": None, "to": None}
        say("import", at, f"import/{turn}", batch=str(turn), variant=None, segment=None, rows=[row])
        for _ in range(items):
            at += 1000
            shown, key = rng.sample(names, 3), f"r{next(numbers)}"
            common = {"policy": "ucb1", "version": "1", "chance": 1.0, "user": None, "random": False}
            answer = {"items": shown, "scores": [0.5] * 3, "propensities": 1.0, "through": len(log)}
            say("rank", at, key, variant="ucb1", segment=None, counted=True, **common, **answer)
            if rng.random() < 0.5:
                say("feedback", at + 500, f"{key}/click/{shown[0]}", points=1.0, late=False, happened=None)
    return log


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_again_does_not_pile_up(fresh: Make, kind: str) -> None:
    """Items sent every day for twelve days are there as sent in the last days, the others once."""
    events = busy(items=300, rounds=12, days=12)
    with filled(fresh(kind)(), events) as store:
        whole = recovery.recover(store)
        said = metadata(store, whole)
        done = recovery.compact(store, before=now() - 2 * DAY, window=HOUR)
        newer = sum(event.kind == "item" for event in events if event.seq > done.through)
        left = sum(event.kind == "item" for event in store.read(0, 1 << 20))
        old = sum(int(whole.catalogue["said"][slot]) <= 300 for slot in whole.catalogue.slots.values())
        assert (left, newer) == (newer + old, 2 * 150)
        assert 100 < old <= 150
        alike(store, whole, said)


class Interrupted:
    """A store that is compacted by somebody else after a number of pages have been read."""

    def __init__(self, store: Store, pages: int, then: Callable[[], object]) -> None:
        self._store, self._pages, self._then = store, pages, then

    def read(self, after: int, limit: int) -> list[Logged]:
        self._pages -= 1
        if self._pages == 0:
            self._then()
        return self._store.read(after, 500)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("page", [1, 2, 7])
def test_a_dump_during_which_the_log_is_compacted(fresh: Make, tmp_path: Path, page: int) -> None:
    url = fresh("sqlite")
    with filled(url(), busy(items=100, rounds=12, days=12)) as store:
        whole = recovery.recover(store)
        said = metadata(store, whole)
        interrupted = Interrupted(
            store, page, lambda: recovery.compact(store, before=now() - 2 * DAY, window=HOUR).deleted
        )
        transfer.dump(cast(Store, interrupted), tmp_path / "dumped")
    there = url()
    transfer.restore(tmp_path / "dumped", there)
    with closing(open_store(there)) as moved:
        alike(moved, whole, said)


# Killed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_killed_while_it_compacts(fresh: Make, launcher: Launcher, tmp_path: Path, kind: str) -> None:
    """Killed before, between and after its steps, and at last left to finish: counts and metadata stay as they were."""
    rng = random.Random(kind)
    url = fresh(kind)()
    events = busy(items=600, rounds=20, days=20)
    arguments = ["compact", "--database", url, "--retention-days", "3", "--attribution-hours", "24"]
    with filled(url, events) as store:
        whole = recovery.recover(store)
        said = metadata(store, whole)
        for life in range(8):
            before = store.count()
            number = launcher.order(start=arguments, log=str(tmp_path / "compact.log"))
            ended = partial(lambda number: launcher.order(poll=number) is not None, number)
            if life % 2 == 0:  # while it folds the log or saves a snapshot
                time.sleep(rng.uniform(0.0, 1.0))
            else:  # when it has deleted something, or has nothing left to delete
                while store.count() == before and not ended():
                    time.sleep(0.005)
                time.sleep(rng.uniform(0.0, 0.02))
            if not ended():
                os.kill(number, signal.SIGKILL)
                until(ended)
            alike(store, whole, said)
        assert launcher.told(*arguments)["through"] > 0
        assert store.count() < len(events) / 2
        alike(store, whole, said)
        assert all(store.append([event.row], store.last()).seqs == [None] for event in events if event.kind == "import")
    with Service(launcher, tmp_path, url) as service:
        service.start()
        slots = whole.catalogue.slots
        n, s = whole.sums(list(slots.values()))
        assert service.counts().keys() == slots.keys()
        assert {name: cells[""] for name, cells in service.counts().items()} == {
            name: (n[j], s[j]) for j, name in enumerate(slots)
        }
        for name in rng.sample(sorted(slots), 20):
            assert service.get(f"/v1/items/{name}").body["metadata"] == said[name]
