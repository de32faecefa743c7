"""What the service does when the store fails at the worst moments, in one process and at chosen places."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from hellinger.engine import experiments
from hellinger.engine import service as module
from hellinger.engine.allocation import Allocation
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft, GivenFeedback, Query
from hellinger.engine.journal import JournalFullError
from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.events import Event, now
from hellinger.ledger import Ledger, recovery, starting
from hellinger.ledger.common import CommonCounts
from hellinger.ledger.comparison import differences
from hellinger.store import Store, StoreDamagedError, StoreUnavailableError, open_store

HOUR = 3_600_000


class Troubled:
    """A store that fails where it is told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.before: dict[str, int] = {}
        """How often each method is still to fail before it has done anything."""
        self.after: dict[str, int] = {}
        """How often each is still to fail when it has done its work."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self._fail(self.before, name)
            result = method(*arguments, **options)
            self._fail(self.after, name)
            return result

        return call

    @staticmethod
    def _fail(left: dict[str, int], name: str) -> None:
        if left.get(name, 0) > 0:
            left[name] -= 1
            raise StoreUnavailableError(f"{name} is told to fail")


@asynccontextmanager
async def running(path: Path, **settings: Any) -> AsyncIterator[tuple[Service, Troubled]]:
    """A service on a store that can be told to fail; what it counted is compared with the log at the end."""
    trouble: list[Troubled] = []
    real = open_store

    def opened(url: str, *, exclusive: bool) -> Any:
        trouble.append(Troubled(real(url, exclusive=exclusive)))
        return trouble[0]

    given = Settings(database=f"sqlite:///{path}/log.db", **{"variants": {"ucb1": "ucb1"}} | settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "open_store", opened)
        patch.setattr("hellinger.engine.journal.RETRY", 0.02)
        service = await Service.start(given)
    try:
        yield service, trouble[0]
        await settled(service)
        fold = recovery.recover(trouble[0]._store, base=True)
        recovery.advance(trouble[0]._store, fold)
        assert differences(service.desk.ledger, fold) == []
        for name in service.desk.variants:
            pool = service.desk.pools.of(name)
            for slot in pool.ids:
                item = service.desk.ledger.catalogue.ids[int(slot)]
                n, s = fold.sums([fold.catalogue.slots[item]], variants=fold.sources(name, shared=False))
                assert pool.stats(slot)[:2] == (n[0], s[0]), item
        assert not service.desk.state.overlay
        assert service.desk.named == {}
        assert service.desk.ledger.requests._pins == {}
    finally:
        await service.stop()


async def settled(service: Service) -> None:
    """Wait until everything is in the log and has taken effect."""
    while service.journal.waiting or service.journal.away or service.desk.ledger.seq < service.store.last():
        await asyncio.sleep(0.01)


def items(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "tags": [], "expires_at": None, "metadata": None} for name in names]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 300))


def test_a_commit_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is written some at a time, in order; an entry of more than that by itself, and whole."""
    monkeypatch.setattr("hellinger.engine.journal.ENOUGH", 4)

    async def scenario() -> None:
        async with running(tmp_path, seed=1) as (service, trouble):
            sizes: list[int] = []
            append = trouble._store.append

            def counted(events: Any, *rest: int) -> Any:
                sizes.append(len(events))
                return append(events, *rest)

            monkeypatch.setattr(trouble._store, "append", counted)
            names = iter(f"c{number}" for number in range(100))
            with service.journal._wake:  # the writer waits outside, so that all of these are there when it looks
                written = [service.describe(items(*(next(names) for _ in range(size)))) for size in (2, 2, 3, 9, 1, 1)]
                tasks = [asyncio.ensure_future(each) for each in written]
                await asyncio.sleep(0)
            await asyncio.gather(*tasks)
            assert sizes == [4, 3, 9, 2]
            assert len(service.desk.ledger.catalogue.ids) == 18

    run(scenario)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_append_that_fails(tmp_path: Path, when: str) -> None:
    """Before anything is written, or when all is and the answer is lost: told to the client, counted once."""

    async def scenario() -> None:
        async with running(tmp_path) as (service, trouble):
            await service.describe(items("a", "b"))
            ranking = await service.rank(Query(2))
            given = GivenFeedback(ranking["ranking_id"], "a", "click")
            getattr(trouble, when)["append"] = 1
            with pytest.raises(StoreUnavailableError):
                await service.feedback([given])
            await settled(service)
            outcome = await service.feedback([given])
            assert (outcome.accepted, outcome.duplicate) == ((1, 0) if when == "before" else (0, 1))
            getattr(trouble, when)["append"] = 1
            last = await service.rank(Query(1))
            await settled(service)
            assert (await service.feedback([GivenFeedback(last["ranking_id"], last["items"][0], "like")])).accepted == 1
            assert service.desk.ledger.series.totals["ucb1"] == [2, 3, 2]

    run(scenario)


def test_what_others_wrote_is_not_passed_over(tmp_path: Path) -> None:
    """Their feedback needs a request that has to be recalled, and the recalling fails."""

    async def scenario() -> None:
        async with running(tmp_path, request_cache=1) as (service, trouble):
            await service.describe(items("a", "b"))
            first, *_ = [await service.rank(Query(2)) for _ in range(3)]
            name = first["ranking_id"]
            fields = {"request": name, "item": "a", "kind": "like", "points": 1.0, "late": False, "happened": None}
            trouble.before["thread"] = 2
            trouble._store.append([Event.of(f"{name}/like/a", "feedback", 1, fields)], 0)
            with suppress(StoreUnavailableError):  # unless somebody looked before, and met the failure instead
                await service.describe(items("c"))
            await settled(service)
            assert service.desk.ledger.series.totals["ucb1"][2] == 1

    run(scenario)


def test_what_others_wrote_is_applied_a_page_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far behind a replica is: no statement reads it all, and the loop is free between two pages."""
    monkeypatch.setattr("hellinger.engine.journal.READ", 10)
    sizes: list[int] = []
    commit = Desk.commit

    def counted(self: Desk, events: Any, thread: Any = (), own: Any = ()) -> None:
        sizes.append(len(events))
        commit(self, events, thread, own)

    monkeypatch.setattr(Desk, "commit", counted)

    async def scenario() -> None:
        async with running(tmp_path, poll_ms=60_000) as (service, trouble):
            await service.describe(items("a"))
            others = [Event.of(f"item/{n}", "item", 1, items(f"x{n}")[0]) for n in range(95)]
            trouble._store.append(others, 0)
            assert len((await service.rank(Query(100)))["items"]) == 1  # what it knew when it was asked
            assert len(service.desk.ledger.catalogue) < 96, "a ranking waits for the log, not for all before it"
            assert (await service.describe(items("y")))[0] == 1  # whoever changes something waits until it is applied
            assert len(service.desk.ledger.catalogue) == 97
            assert max(sizes) == 10

    run(scenario)


def test_who_makes_no_rankings_follows_in_larger_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.engine.journal.SLICE", 10)
    sizes: list[int] = []
    commit = Desk.commit

    def counted(self: Desk, events: Any, thread: Any = (), own: Any = ()) -> None:
        sizes.append(len(events))
        commit(self, events, thread, own)

    async def scenario() -> None:
        async with running(tmp_path, poll_ms=20) as (service, trouble):
            await service.describe(items("a"))
            fields = await service.rank(Query(1))
            ledger = service.desk.ledger
            monkeypatch.setattr(Desk, "commit", counted)
            for made, expected in ((0, [45]), (1, [10, 35])):  # 1: a ranking was made since the log was applied
                sizes.clear()
                service.desk.state.made = made
                others = [Event.of(f"{made}-{n:020}", "rank", 1, fields) for n in range(45)]
                last = trouble._store.append(others, 0).seqs[-1]
                while ledger.seq != last:
                    await asyncio.sleep(0.001)
                assert sizes == expected
            sizes.clear()
            service.desk.state.made = 0
            more = [Event.of(f"item/{n}", "item", 1, items(f"x{n}")[0]) for n in range(45)]
            last = trouble._store.append(more, 0).seqs[-1]
            while ledger.seq != last:
                await asyncio.sleep(0.001)
            assert max(sizes) == 10, "items take longer"

    run(scenario)


@pytest.mark.parametrize("whose", ["own", "others"])
def test_a_variant_begins_with_the_counts_of_all_others_in_slices(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rankings are made between them, and what they show is not among the counts as of the phase's place."""
    monkeypatch.setattr("hellinger.ledger.common.PART", 5)
    sizes: list[int] = []
    steps, sums, ranked = CommonCounts.steps, Ledger.sums, 0
    at_step: list[int] = []

    def stepping(self: CommonCounts) -> Iterator[None]:
        for _ in steps(self):
            at_step.append(ranked)
            yield

    def summing(self: Ledger, slots: Any, **how: Any) -> Any:
        if how["variants"] == ["ucb1"]:
            sizes.append(len(slots))
        return sums(self, slots, **how)

    monkeypatch.setattr(CommonCounts, "steps", stepping)

    async def scenario() -> None:
        nonlocal ranked
        async with running(tmp_path, poll_ms=20, counting="served") as (service, trouble):
            names = [f"item {n}" for n in range(40)]
            await service.describe(items(*names))
            for segment in (None, "tablet", "phone"):
                rows = [{"item": name, "impressions": 7, "rewards": 2, "from": None, "to": None} for name in names]
                await service.import_counts(f"batch {segment}", "ucb1", segment, rows)
            await service.rank(Query(5))
            monkeypatch.setattr(Ledger, "sums", summing)
            beginning: asyncio.Future[Any]
            if whose == "own":
                asked: dict[str, Any] = {"variants": {"a": "ucb1"}, "share": 0.5, "begin": "common"}
                beginning = asyncio.ensure_future(service.experiments.start("ada", "side", **asked))
            else:
                allocation = Allocation({"side:a": "ucb1"}, {"side:a": 1.0}, share=0.5)
                after = service.desk.ledger.phase_place
                draft = allocation.draft(now(), after=after, by="ada", name="side", common=["side:a"])
                new = [Event.of(f"item/new {n}", "item", 1, items(f"new {n}")[0]) for n in range(3)]
                trouble._store.append([new[0], draft.event, *new[1:]], 0)
                beginning = asyncio.ensure_future(service.journal.look())
            while "side:a" not in service.desk.variants:
                await service.rank(Query(5))
                ranked += 1
            await beginning
            assert at_step[-1] > at_step[0], "rankings go on between two slices"
            assert not service.desk.ledger._common
            whole = [counts for (name, _), counts in service.desk.ledger.counts.items() if name == starting("side:a")]
            *by_segment, all_traffic = sorted(counts.rounds for counts in whole)
            assert by_segment == [280, 280]
            assert 3 * 280 + 5 <= all_traffic <= 3 * 280 + 5 + 5 * at_step[0]
            assert (max(sizes), sum(sizes)) == (5, 3 * 40)

    run(scenario)


def test_one_that_cannot_be_written_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (service, _):
            await service.describe(items("a"))
            poison = Draft.of("x" * 9000, "item", 1, {"id": "z", "tags": [], "expires_at": None})
            good = service.journal.write(service.desk.describe(items("b"), 1))
            bad = service.journal.write([poison])
            ranking = asyncio.ensure_future(service.rank(Query(2)))
            with pytest.raises(ValueError, match="at most"):
                await bad
            assert await good == [3]  # after the experiment's phase and the first item
            assert (await ranking)["items"]
            assert not service.journal.away

    run(scenario)


def test_no_more_rankings_than_can_be_written(tmp_path: Path) -> None:
    """A ranking that is refused is not counted."""

    async def scenario() -> None:
        async with running(tmp_path, queue_limit=3) as (service, trouble):
            await service.describe(items("a", "b"))
            trouble.before["append"] = 5
            for _ in range(3):
                await service.rank(Query(1))
            for key in (None, "key"):
                with pytest.raises(JournalFullError):
                    await service.rank(Query(1), key)
            await settled(service)
            assert service.desk.ledger.series.totals["ucb1"][0] == 3

    run(scenario)


@pytest.mark.parametrize("cache", [0, 1, 2])
def test_feedback_for_more_requests_than_are_kept_in_memory(tmp_path: Path, cache: int) -> None:
    async def scenario() -> None:
        async with running(tmp_path, request_cache=cache) as (service, _):
            await service.describe(items("a", "b"))
            rankings = [await service.rank(Query(2)) for _ in range(10)]
            for kind in ("click", "like"):
                given = [GivenFeedback(ranking["ranking_id"], "a", kind) for ranking in rankings]
                outcomes = await asyncio.gather(service.feedback(given), *(service.feedback([one]) for one in given))
                assert sum(outcome.accepted for outcome in outcomes) == 10
                assert sum(outcome.duplicate for outcome in outcomes) == 10
            assert service.desk.ledger.series.totals["ucb1"] == [10, 20, 10]

    run(scenario)


def test_one_key_asked_many_times_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (service, trouble):
            await service.describe(items(*"abcdef"))
            first, *others = await asyncio.gather(*(service.rank(Query(2), "key") for _ in range(20)))
            assert all(other == first for other in others)
            trouble.before["append"] = 4
            trouble.before["read"] = 4
            await service.rank(Query(1))
            assert service.journal.away
            second = await service.rank(Query(2), "another")
            assert await service.rank(Query(2), "another") == second
            again = await service.rank(Query(2), "key")
            assert (again["ranking_id"], list(again["items"])) == (first["ranking_id"], first["items"])
            await settled(service)
            assert await service.rank(Query(2), "another") == second
            assert service.desk.ledger.series.totals["ucb1"][0] == 3

    run(scenario)


def test_feedback_for_a_named_ranking_that_waits_for_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was shown while the store was away; once that is back it is not unknown, though the log has yet to get it."""
    monkeypatch.setattr("hellinger.engine.journal.ENOUGH", 1)

    async def scenario() -> None:
        async with running(tmp_path) as (service, trouble):
            await service.describe(items("a", "b"))
            trouble.before["append"] = 1
            await service.rank(Query(1))
            named = await service.rank(Query(2), "key")
            assert service.status().name == "degraded"
            written, gate, append = 0, threading.Event(), trouble._store.append

            def one_at_first(*arguments: Any) -> Any:
                nonlocal written
                written += 1
                assert written == 1 or gate.wait(60)
                return append(*arguments)

            monkeypatch.setattr(trouble._store, "append", one_at_first)
            while service.journal.away:
                await asyncio.sleep(0.01)
            given = [GivenFeedback(named["ranking_id"], item, "click") for item in named["items"]]
            with pytest.raises(StoreUnavailableError, match="send it again"):
                await service.feedback(given)
            gate.set()
            await settled(service)
            assert (await service.feedback(given)).accepted == 2

    run(scenario)


def test_a_key_that_the_log_had_while_it_was_away(tmp_path: Path) -> None:
    """Such a ranking was shown and never counts; nothing of it is kept."""

    async def scenario() -> None:
        async with running(tmp_path, request_cache=0) as (service, trouble):
            await service.describe(items(*"abcdef"))
            first = await service.rank(Query(2), "key")
            trouble.before |= {"append": 3, "read": 3}
            await service.rank(Query(1))
            assert service.journal.away
            again = await service.rank(Query(2), "key")
            assert again["ranking_id"] == first["ranking_id"]
            assert len(service.desk.named) == 1
            await settled(service)
            assert service.desk.named == {}
            assert await service.rank(Query(2), "key") == first

    run(scenario)


def test_a_store_that_only_reads_is_away(tmp_path: Path) -> None:
    """Until a write succeeds, though reading works."""

    async def scenario() -> None:
        async with running(tmp_path, poll_ms=10) as (service, trouble):
            await service.describe(items("a"))
            trouble.before |= {"append": 1, "touch": 10**9}
            with pytest.raises(StoreUnavailableError):
                await service.describe(items("b"))
            for _ in range(20):
                await asyncio.sleep(0.01)
                assert service.journal.away
            trouble.before["touch"] = 0
            await settled(service)
            await service.describe(items("b"))

    run(scenario)


def test_a_content_deleted_when_it_has_just_left_a_pool(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, graduate_after=2) as (service, _):
            await service.describe(items("a", "b"))
            for _ in range(2):
                await service.rank(Query(2))
            await asyncio.gather(service.set_state("a", "deleted"), service.describe(items("a")))
            while service.desk.about("b")["ucb1"]["left"] is None:
                await asyncio.sleep(0.01)
            about = service.desk.about("a")["ucb1"]
            assert (about["impressions"], about["left"]) == (0, None)

    run(scenario)


def test_a_clock_that_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        at = 1_700_000_000_000
        monkeypatch.setattr(module, "now", lambda: at)
        async with running(tmp_path) as (service, trouble):
            await service.describe(items("a", "b"))
            ranking = await service.rank(Query(2))
            for step in (-30 * HOUR, 20 * HOUR, -HOUR):
                at += step
                assert (await service.feedback([GivenFeedback(ranking["ranking_id"], "a", f"k{step}")])).accepted == 1
                await service.rank(Query(1))
            assert service.desk.ledger.series.totals["ucb1"] == [4, 5, 1]
            assert trouble._store.reached(at - 15 * HOUR) == 0
            series = service.desk.ledger.series.steps["hour"]
            assert sum(cells["ucb1"][0] for cells in series.values()) == 4
            ledger = recovery.recover(trouble._store)
            assert differences(ledger, service.desk.ledger) == []

    run(scenario)


def test_a_damaged_snapshot_is_gone_around(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (service, trouble):
            await service.describe(items(*(f"i{j}" for j in range(50))))
            for _ in range(20):
                await service.rank(Query(3))
            store: Any = trouble._store
            recovery.take_snapshot(store)
            with store._writing() as session:
                session.run("UPDATE snapshot_parts SET body = ?", b"damaged")
            with pytest.raises(StoreDamagedError):
                recovery.check(store)
            assert differences(recovery.recover(store), service.desk.ledger) == []

    run(scenario)


def test_what_others_wrote_is_looked_for_when_it_is_asked_for(tmp_path: Path) -> None:
    """An item that another copy has just added is found without waiting for the next look."""

    async def scenario() -> None:
        async with running(tmp_path, poll_ms=60_000) as (service, trouble):
            many = [Event.of(f"item/{j}", "item", 1, items(f"i{j}")[0]) for j in range(25_000)]
            trouble._store.append(many, 0)
            for _ in range(3_000):
                if await service.slot("i24999") is not None:
                    break
                await asyncio.sleep(0.01)
            assert await service.slot("i24999") is not None

    run(scenario)


def test_much_at_once_in_one_commit(tmp_path: Path) -> None:
    """Items come, are counted, hidden, changed, deleted and come again, all before the pools are settled."""

    async def scenario() -> None:
        async with running(tmp_path) as (service, _):
            row = {"impressions": 4, "rewards": 1, "from": None, "to": None}
            many: list[tuple[str, dict[str, Any]]] = []
            for name in "abcdef":
                many += [("item", items(name)[0]), ("item", items(f"{name}-too")[0])]
                many += [("import", {"variant": None, "segment": None, "rows": [row | {"item": name}]})]
            many += [("state", {"id": "a", "state": "hidden"}), ("state", {"id": "b", "state": "deleted"})]
            many += [("item", items("b")[0]), ("item", items("c")[0] | {"tags": ["t"]})]
            many += [("state", {"id": "a", "state": "shown"}), ("item", items("g")[0])]
            many += [("import", {"variant": "ucb1", "segment": "s", "rows": [row | {"item": "g"}]})]
            many += [("state", {"id": "g", "state": "hidden"})]
            drafts = [Draft.of(f"{kind}/{number}", kind, 1, fields) for number, (kind, fields) in enumerate(many)]
            await service.journal.write(drafts)
            shown = [f"{name}{more}" for name in "abcdef" for more in ("", "-too")]
            assert sorted((await service.rank(Query(20)))["items"]) == sorted(shown)

    run(scenario)


def test_a_compaction_that_ends_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is cut short, a start finds the same counts, and so it does once it is done."""

    async def scenario() -> None:
        at = 1_700_000_000_000
        for each in (module, experiments):
            monkeypatch.setattr(each, "now", lambda: at)
        async with running(tmp_path) as (service, trouble):
            await service.describe(items("a", "b"))
            rankings = [await service.rank(Query(2)) for _ in range(5)]
            at += 24 * HOUR
            await service.feedback([GivenFeedback(ranking["ranking_id"], "a", "click") for ranking in rankings[:2]])
            at += 100 * HOUR
            await service.rank(Query(2))
            live, store = service.desk.ledger, trouble._store
            total = store.count()
            steps = [("before", "save_snapshot"), ("after", "save_snapshot")] * 2 + [("before", "compact")]
            for when, method in steps:  # each gets one step further
                troubled = Troubled(store)
                getattr(troubled, when)[method] = 1
                with pytest.raises(StoreUnavailableError):
                    recovery.compact(cast(Any, troubled), before=at - HOUR, window=30 * HOUR)
                assert differences(recovery.recover(store), live) == []
                assert recovery.check(store) == []
                assert store.count() == total
            assert recovery.compact(store, before=at - HOUR, window=30 * HOUR).deleted == 7
            assert store.count() == total - 7
            fresh = recovery.recover(store, base=True)
            recovery.advance(store, fresh)
            assert differences(fresh, live) == []
            store.append([Event.of("item/late", "item", at, items("c")[0])], 0)
            recovery.compact(store, before=at + HOUR, window=0)
            assert recovery.check(store) == []

    run(scenario)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "writing"])
def test_a_copy_far_behind_is_not_ready_until_it_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    """A hundred thousand events of another copy: applied some at a time, in little memory, and said so meanwhile."""
    behind = 100_000

    async def scenario() -> None:
        async with running(tmp_path, seed=1, request_cache=1000) as (service, trouble):
            await service.describe(items(*(f"c{number}" for number in range(20))))
            await settled(service)
            body = Event.of("", "rank", 0, await service.rank(Query(20))).body
            other = open_store(service.settings.database)
            for start in range(0, behind, 5000):  # the loop does nothing else: this copy sees none of it yet
                other.append([Event(f"{j:022d}", "rank", 0, body) for j in range(start, start + 5000)], other.last())
            other.close()
            waited: list[int] = []

            async def rank() -> None:
                begun = service.desk.ledger.seq  # the first page may be applied already
                await service.rank(Query(1))
                waited.append(service.desk.ledger.seq - begun)

            ranking = asyncio.ensure_future(rank()) if busy else None
            pages: list[tuple[int, int]] = []
            read = trouble._store.read

            def watched(after: int, limit: int) -> Any:
                found = read(after, limit)
                pages.append((len(found), after - service.desk.ledger.seq))
                return found

            monkeypatch.setattr(trouble._store, "read", watched)
            told = set()
            while service.desk.ledger.seq < behind + 21:
                told.add(service.status())
                await asyncio.sleep(0)
            monkeypatch.undo()
            if ranking is not None:
                await ranking
                assert waited[0] <= 2000, "a ranking waits for two pages at most"
            reasons = [status.reason for status in told if not status.ready]
            assert len(reasons) > 50
            assert all(reason is not None and "events of the log are not applied yet" in reason for reason in reasons)
            await settled(service)
            assert service.status() == ("ready", True, None)
            assert service.desk.ledger.series.totals["ucb1"][0] == behind + 1 + busy
            assert max(size for size, _ in pages) == 1000
            assert max(ahead for _, ahead in pages) <= 1, "one page is applied before the next is read"

    run(scenario)


def test_rankings_and_feedback_of_a_copy_far_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rankings are written between two pages; whoever would wait for long is told to try again; all counts once."""
    monkeypatch.setattr("hellinger.engine.journal.READ", 10)

    async def scenario() -> None:
        async with running(tmp_path, seed=1, poll_ms=60_000) as (service, trouble):
            await service.describe(items("a", "b"))
            made = await service.rank(Query(2))
            await settled(service)
            begun = service.desk.ledger.seq
            others = [Event.of(f"item/{n}", "item", 1, items(f"x{n}")[0]) for n in range(1000)]
            trouble._store.append(others, 0)
            click = asyncio.ensure_future(service.feedback([GivenFeedback(made["ranking_id"], "a", "click")]))
            places = []
            for number in range(20):
                await service.rank(Query(2), f"key-{number}" if number % 2 else None)
                places.append(service.desk.ledger.seq - begun)
            waits = [after - before for before, after in pairwise([0, *places])]
            assert max(waits) <= 40, "the page under way, and one or two more"
            journal = service.journal
            journal._written = [each._replace(since=each.since - journal.patience) for each in journal._written]
            journal.watch()
            with pytest.raises(StoreUnavailableError, match="events of the log are not applied yet: try again"):
                await click
            again = await service.feedback([GivenFeedback(made["ranking_id"], "a", "click")])
            assert (again.accepted, again.duplicate) == (0, 1)
            await settled(service)
            assert service.desk.ledger.series.totals["ucb1"] == [21, 42, 1.0]

    run(scenario)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["append", "read", "last", "thread"])
def test_the_store_fails_while_a_copy_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, when: str
) -> None:
    """Whatever was written before counts once, and nothing stays pinned: see ``running``."""
    monkeypatch.setattr("hellinger.engine.journal.READ", 10)

    async def scenario() -> None:
        async with running(tmp_path, seed=1, poll_ms=60_000, request_cache=1, max_kinds=32) as (service, trouble):
            await service.describe(items("a", "b"))
            made = [await service.rank(Query(2)) for _ in range(5)]
            await settled(service)
            others = []
            for number in range(100):
                rid = made[number % 5]["ranking_id"]
                others.append(Event.of(f"item/{number}", "item", 1, items(f"x{number}")[0]))
                others.append(
                    Event.of(f"{rid}/k{number // 5}/b", "feedback", 1, {"points": 0.0, "late": False, "happened": None})
                )
            trouble._store.append(others, 0)
            getattr(trouble, when)[method] = 2
            click = [GivenFeedback(made[0]["ranking_id"], "a", "click")]
            first = asyncio.ensure_future(service.feedback(click))
            for _ in range(10):
                await service.rank(Query(2))
            with suppress(StoreUnavailableError):
                await first
            while True:
                with suppress(StoreUnavailableError):
                    again = await service.feedback(click)
                    break
                await asyncio.sleep(0.01)
            assert again.accepted + again.duplicate == 1
            await settled(service)
            assert service.desk.ledger.series.totals["ucb1"] == [15, 30, 1.0]

    run(scenario)


def test_much_feedback_is_taken_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it had come at once: duplicates within it, and the places of what was rejected."""
    monkeypatch.setattr("hellinger.engine.service.PART", 3)

    async def scenario() -> None:
        async with running(tmp_path, seed=1) as (service, _):
            sizes: list[int] = []
            sort = service.desk.sort

            def noted(given: Any, at: int) -> Any:
                sizes.append(len(given))
                return sort(given, at)

            monkeypatch.setattr(service.desk, "sort", noted)
            await service.describe(items("a", "b", "c", "d"))
            made = await service.rank(Query(4))
            rows = [(made["ranking_id"], item, "click", 1.0, None) for item in ("a", "b", "x", "c", "a", "d", "y")]
            rows.append(("A" * 22, "a", "click", 1.0, None))
            outcome = await service.feedback(rows)
            assert sizes == [3, 3, 2]
            assert outcome[:4] == (4, 1, 0, 1)
            assert [index for index, _ in outcome.rejected] == [2, 6]

    run(scenario)


def test_many_items_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ranking that is made meanwhile is in the log among them; after an error the rest can be sent again."""
    monkeypatch.setattr("hellinger.engine.service.PART", 3)

    async def scenario() -> None:
        async with running(tmp_path, seed=1) as (service, _):
            await service.describe(items("a", "b"))
            write, sizes, made = service.journal.write, [], []

            def noted(drafts: Any, **how: Any) -> Any:
                if drafts and drafts[0].event.kind == "item":
                    sizes.append(len(drafts))
                    if len(sizes) == 2:
                        made.append(asyncio.ensure_future(service.rank(Query(2))))
                    if len(sizes) == 3:
                        raise StoreUnavailableError("the store is away")
                return write(drafts, **how)

            monkeypatch.setattr(service.journal, "write", noted)
            many = items(*"abcdefghijk")
            with pytest.raises(StoreUnavailableError):
                await service.describe(many)
            ranked = await made[0]
            assert sizes == [3, 3, 3]
            assert await service.describe(many) == (3, 0, 8)
            places = {event.key: event.seq for event in service.store.read(0, 1000)}
            written = [event.seq for event in service.store.read(0, 1000) if event.kind == "item"]
            assert len(written) == 11
            assert places[ranked["ranking_id"]] < max(written)
            sizes.clear()
            monkeypatch.setattr(service.journal, "limit", 4)
            with pytest.raises(JournalFullError):
                await service.describe(items(*"lmnopq"))
            assert not sizes, "what may not wait is refused before any of it is written"

    run(scenario)
