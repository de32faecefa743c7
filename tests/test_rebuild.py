"""A failure is a failure: what could not be applied is not acknowledged, and memory is made anew from the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hellinger.engine.dates import Dates
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import WRITER, Draft, Query
from hellinger.engine.journal import NotAppliedError
from hellinger.engine.overlay import Overlay
from hellinger.engine.picture import differences as unlike
from hellinger.engine.picture import pictures
from hellinger.engine.pools import Pools
from hellinger.engine.service import Service, make_desk
from hellinger.engine.settings import Settings
from hellinger.events import Event
from hellinger.ledger import Catalogue, Counts, Ledger, Requests, UnknownKindError, recovery
from hellinger.ledger.comparison import differences
from hellinger.store import StoreUnavailableError, open_store

STEPS: list[tuple[type, str]] = [
    (Desk, "recall"),
    (Desk, "commit"),
    (Requests, "put"),
    (Requests, "release"),
    (Ledger, "apply"),
    (Ledger, "_rank"),
    (Ledger, "_count_gathered"),
    (Ledger, "_count"),
    (Ledger, "slots_of"),
    (Counts, "show"),
    (Counts, "add"),
    (Catalogue, "forget"),
    (Counts, "clear"),
    (Overlay, "remove"),
    (Overlay, "look_up"),
    (Dates, "follow"),
    (Pools, "follow"),
    (Pools, "_forget"),
    (Pools, "_place"),
    (Pools, "_set_counts"),
    (Pools, "_rounds"),
    (Pools, "_set_prior"),
]


class BrokenError(RuntimeError):
    """What is made to happen."""


class Fault:
    """Makes one call of a method fail: the so-many-th that is made on the event loop while a commit is applied."""

    def __init__(self, owner: type, name: str, number: int, *, late: bool, patch: pytest.MonkeyPatch) -> None:
        real, commit = getattr(owner, name), Desk.commit
        self.left = number
        always = owner is Desk or (owner, name) == (Pools, "_place")  # which rankings call too
        self.applying = name == "release" or always

        def faulty(*arguments: Any, **options: Any) -> Any:
            if self.applying and self.left:
                self.left -= 1
                if not self.left:
                    if late:
                        real(*arguments, **options)
                    raise BrokenError(f"{owner.__name__}.{name}")
            return real(*arguments, **options)

        def committing(*arguments: Any, **options: Any) -> Any:
            self.applying = True
            try:
                return commit(*arguments, **options)
            finally:
                self.applying = always

        patch.setattr(owner, name, faulty)
        if not self.applying:
            patch.setattr(Desk, "commit", committing)

    @property
    def happened(self) -> bool:
        return not self.left


@asynccontextmanager
async def running(path: Path, **settings: Any) -> AsyncIterator[Service]:
    given: dict[str, Any] = {"variants": {"one": "cold-start", "two": "ucb1"}, "seed": 3, "poll_ms": 20} | settings
    service = await Service.start(Settings(database=f"sqlite:///{path}/log.db", **given))
    try:
        yield service
    finally:
        await service.stop()


async def insist(call: Callable[[], Awaitable[Any]]) -> Any:
    """What a client does: send again what was answered 503."""
    for _ in range(200):
        try:
            return await call()
        except StoreUnavailableError:
            await asyncio.sleep(0.01)
    raise AssertionError("never answered")


def item(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "tags": [], "expires_at": None, "metadata": None} | fields


async def story(service: Service) -> dict[tuple[str, str], int]:
    """A little of everything; how often each item's feedback was accepted, by variant and item."""
    accepted: dict[tuple[str, str], int] = {}
    await insist(lambda: service.describe([item("a"), item("b", tags=["x"]), item("c")]))
    for number in range(6):
        segment = "tablet" if number % 2 else None
        made = await insist(partial(service.rank, Query(2, segment=segment)))
        first = made["items"][0]
        outcome = await insist(partial(service.feedback, [(made["ranking_id"], first, "click", 1.0, None)]))
        assert outcome.accepted + outcome.duplicate == 1  # logged by a try that was not acknowledged
        key = made["variant"], first
        accepted[key] = accepted.get(key, 0) + 1
    rows = [{"item": "b", "impressions": 120, "rewards": 7.0, "from": None, "to": None}]
    await insist(lambda: service.import_counts("batch", None, "tablet", rows))
    await insist(service.learn)
    await insist(lambda: service.set_state("c", "hidden"))
    await insist(lambda: service.describe([item("b", tags=["y"]), item("c", expires_at=1)]))
    await insist(lambda: service.rank(Query(2), "key", "me"))
    await insist(lambda: service.describe([item("d", tags=["z"])]))
    held = service.desk.ledger.catalogue
    since = int(held["since"][held.slots["d"]])
    await insist(lambda: service.set_state("d", "deleted"))
    forget = Draft.of("forget/d", "forget", 0, {"since": [since], "writer": WRITER})
    await insist(lambda: service.journal.write((forget,)))
    await insist(lambda: service.describe([item("e")]))
    return accepted


async def settled(service: Service) -> None:
    while (
        service.journal.failure is not None
        or service.journal.waiting
        or service.desk.ledger.seq < service.store.last()
        or service.desk.state.overlay
    ):
        await asyncio.sleep(0.01)


def same_as_log(service: Service) -> Ledger:
    """The running service is the fold of its log, to the bit; the fold."""
    fold = recovery.recover(service.store, base=True)
    recovery.advance(service.store, fold)
    assert differences(service.desk.ledger, fold) == []
    rebuilt = make_desk(service.settings, fold, service.secret)
    at = 10**15
    for desk in (service.desk, rebuilt):
        desk.state.expire(at)
    one, other = ({(p.variant, p.segment): p._asdict() for p in pictures(d.pools)} for d in (service.desk, rebuilt))
    assert one.keys() == other.keys()
    assert [found for key in one for found in unlike(one[key], other[key])] == []
    return fold


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=lambda x: getattr(x, "__name__", x))
def test_a_failure_at_any_step_of_a_commit(owner: type, name: str, tmp_path: Path) -> None:
    """Failing once at each of its calls, before or after what it does."""

    async def play(number: int, late: bool) -> bool:
        folder = tmp_path / f"{number}-{late}"
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            async with running(folder) as service:
                fault = Fault(owner, name, number, late=late, patch=patch)
                accepted = await story(service)
                await settled(service)
                patch.undo()
                fold = same_as_log(service)
                assert service.rebuilt == fault.happened
                for (variant, item), count in accepted.items():
                    _, rewards = fold.sums([fold.catalogue.slots[item]], variants=[variant])
                    assert rewards[0] == count
                made = await service.rank(Query(2))
                assert made["items"]
            return fault.happened

    happened = 0
    for number, late in ((1, False), (2, True), (7, False)):
        happened += asyncio.run(play(number, late))
    assert happened


def test_what_was_not_applied_is_not_acknowledged(tmp_path: Path) -> None:
    async def play() -> None:
        with pytest.MonkeyPatch.context() as patch:
            async with running(tmp_path) as service:
                await service.describe([item("a")])
                made = await service.rank(Query(1))
                Fault(Pools, "follow", 1, late=False, patch=patch)
                click = [(made["ranking_id"], "a", "click", 1.0, None)]
                with pytest.raises(NotAppliedError, match="try again"):
                    await service.feedback(click)
                with pytest.raises(NotAppliedError, match="rebuilt from the log"):
                    await service.rank(Query(1))
                assert service.status()[:2] == ("degraded", False)
                await settled(service)
                assert service.status().ready
                assert (await service.feedback(click)).duplicate == 1  # the log had it, and now memory has it too
                assert service.desk.about("a")[made["variant"]]["rewards"] == 1.0

    asyncio.run(play())


def test_rankings_made_while_the_store_was_away_survive_a_rebuild(tmp_path: Path) -> None:
    """They are in no log yet: the new memory takes them over, and they are logged when the store is back."""

    async def play() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hellinger.engine.journal.RETRY", 0.02)
            async with running(tmp_path) as service:
                await service.describe([item("a"), item("b")])
                store, real = service.store, service.store.append

                def away(*_: Any) -> Any:
                    raise StoreUnavailableError("gone fishing")

                patch.setattr(store, "append", away)
                for _ in range(5):
                    await service.rank(Query(1))
                assert len(service.desk.state.overlay) == 5
                patch.setattr("hellinger.engine.journal.ENOUGH", 2)  # the first two are logged, and break it
                Fault(Dates, "follow", 1, late=False, patch=patch)
                patch.setattr(store, "append", real)
                while not service.rebuilt:
                    await asyncio.sleep(0.01)
                await settled(service)
                patch.undo()
                fold = same_as_log(service)
                assert sum(fold.rounds(variants=[name]) for name in ("one", "two")) == 5

    asyncio.run(play())


def test_an_event_of_a_newer_version_stops_the_service(tmp_path: Path) -> None:
    """It cannot know what the event means: it refuses to serve, and says which version wrote it."""

    async def play() -> None:
        async with running(tmp_path) as service:
            await service.describe([item("a")])
            with closing(open_store(service.settings.database)) as newer:
                newer.append([Event.of("vote/1", "vote", 0, {"writer": "9.9.1"})], 0)
                place = newer.last()
            while not isinstance(service.journal.failure, UnknownKindError) or service._rebuilding is None:
                await asyncio.sleep(0.01)
            await service._rebuilding
            with pytest.raises(NotAppliedError, match=r"hellinger 9\.9\.1"):
                await service.rank(Query(1))
            with pytest.raises(NotAppliedError, match=r"hellinger 9\.9\.1"):
                await service.describe([item("b")])
            assert not service.status().ready
        with pytest.raises(UnknownKindError, match=rf"event {place} .*vote.*hellinger 9\.9\.1: run that version"):
            await Service.start(service.settings)

    asyncio.run(play())


def test_a_damaged_event_is_named_by_its_place(tmp_path: Path) -> None:
    for number, body in enumerate(['{"points":', "{}", "[]", '{"id": "a"}']):
        url = f"sqlite:///{tmp_path}/{number}.db"
        with closing(open_store(url)) as store:
            store.append([Event.of("item/a", "item", 0, item("a")), Event("item/b", "item", 0, body)], 0)
        with pytest.raises(ValueError, match="event 2 of the log"):
            asyncio.run(Service.start(Settings(database=url)))


def test_memory_that_cannot_be_made_anew_is_tried_again(tmp_path: Path) -> None:
    async def play() -> None:
        with pytest.MonkeyPatch.context() as patch:
            async with running(tmp_path) as service:
                await service.describe([item("a")])
                real, left = recovery.recover, [3]

                def failing(*arguments: Any, **options: Any) -> Ledger:
                    if left[0]:
                        left[0] -= 1
                        raise BrokenError("recover")
                    return real(*arguments, **options)

                patch.setattr(recovery, "recover", failing)
                Fault(Dates, "follow", 1, late=True, patch=patch)
                await insist(lambda: service.describe([item("b")]))
                await settled(service)
                assert (left, service.rebuilt) == ([0], 1)
                same_as_log(service)

    asyncio.run(play())
