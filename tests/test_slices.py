"""No call keeps the loop or the interpreter's lock for more than so many items at a time, and answers are the same."""

from __future__ import annotations

import asyncio
import itertools
import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hellinger
import running
from hellinger.engine import checking, journal, learning, pools
from hellinger.engine.derived import Derived
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft, Query
from hellinger.engine.picture import Arranged, copies, pictures
from hellinger.engine.pools import Pools
from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.engine.slot_set import SlotSet
from hellinger.events import now
from hellinger.experiment import Pages, Phase, Totals, readout
from hellinger.experiment.readout import readout_steps
from hellinger.ledger import DELETED, Catalogue, Changes, Ledger, starting
from hellinger.ledger.looks import ZONES
from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.pool._within import Touched, Within
from hellinger.serve import history, listing, standing
from hellinger.store import open_store
from lives import limit
from test_segments import site

ITEMS = 300


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("slices")
    found = Settings(database=f"sqlite:///{folder}/log.db", variants=running.VARIANTS, seed=1, graduate_after=40)
    running.fill(found, requests=900, items=ITEMS, days=2, k=20)
    return found


class Turns:
    """Counts how often others had their turn."""

    def __init__(self) -> None:
        self.count = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    def stop(self) -> int:
        self._task.cancel()
        return self.count


def run(settings: Settings, story: Any) -> Any:
    async def whole() -> Any:
        service = await Service.start(settings)
        try:
            return await story(service)
        finally:
            await service.stop()

    return asyncio.run(whole())


def test_rows_of_a_list(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    about_each, intervals = Desk.about_each, listing.intervals

    def noting_desk(desk: Desk, slots: Any) -> Any:
        sizes.append(len(slots))
        return about_each(desk, slots)

    def noting(counts: Any) -> Any:
        sizes.append(len(counts))
        return intervals(counts)

    monkeypatch.setattr(Desk, "about_each", noting_desk)
    monkeypatch.setattr(listing, "intervals", noting)

    async def story(service: Service) -> None:
        desk = service.desk
        slots = await listing.matching(desk, tag=None, state=None, search=None, sort="impressions")
        assert slots.size == ITEMS
        turns = Turns()
        rows = await listing.rows(desk, slots)
        assert turns.stop() >= ITEMS // listing.ROWS
        assert max(sizes) <= listing.ROWS
        monkeypatch.setattr(listing, "ROWS", ITEMS)
        assert await listing.rows(desk, slots) == rows
        ends = intervals([(row["impressions"], row["rewards"]) for row in rows])
        assert [(row["low"], row["high"]) for row in rows] == ends

    run(settings, story)


@pytest.mark.parametrize(
    "wanted",
    [
        {"search": "7"},
        {"tag": "news"},
        {"state": "shown"},
        {"state": "graduated"},
        {"state": "outclassed"},
        {"tag": "sport", "state": "graduated", "search": "1"},
        {"tag": "none such"},
    ],
)
def test_a_search_through_all_items(
    wanted: dict[str, str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"tag": None, "state": None, "search": None} | wanted

    async def story(service: Service) -> None:
        desk = service.desk
        catalogue, gone = desk.ledger.catalogue, desk.ledger.gone
        left = {slot for variant in gone.values() for slot, why in variant.items() if why["reason"] == asked["state"]}
        expected = [
            slot
            for slot in catalogue.present().tolist()
            if (asked["tag"] is None or asked["tag"] in catalogue.tags_of(slot))
            and (asked["state"] in (None, "shown") or slot in left)
            and (asked["search"] or "") in catalogue.ids[slot]
        ]
        assert expected or wanted.get("state") == "outclassed" or "none such" in wanted.values()
        for size in (ITEMS, 7):
            monkeypatch.setattr(listing, "NAMES", size)
            turns = Turns()
            found: Any = await listing.matching(desk, **asked, sort="oldest")  # type: ignore[arg-type]
            assert turns.stop() >= ITEMS // size
            assert found.dtype == np.int64
            assert found.tolist() == expected

    run(settings, story)


def test_a_readout_is_computed_in_steps(settings: Settings) -> None:
    totals = [Totals(f"v{n}", 500, 10_000, 500 + 40 * n, Pages(500, 1500.0, 20, 9)) for n in range(4)]
    assert sum(1 for _ in readout_steps(totals)) >= 15

    async def story(service: Service) -> None:
        turns = Turns()
        read = await standing.standing(service)
        assert turns.stop() >= 15
        series, desk = service.desk.ledger.series, service.desk
        totals = []
        for name in desk.variants:
            requests, impressions, reward = series.totals[name]
            share = series.shares[0, name].final
            pages = Pages(share.units, share.squares, share.largest, share.most)
            totals.append(Totals(name, int(requests), int(impressions), reward, pages))
        (begun,) = desk.ledger.phases  # what was played before belongs to no phase
        even = dict.fromkeys(desk.variants, 1.0)
        before = Phase(even, tuple(each._replace(assigned=0) for each in totals))
        after = Phase(even, tuple(Totals(name, 0, 0, 0.0) for name in desk.variants))
        whole = readout([before, after], control=service.settings.control).as_json()
        for row in whole["variants"]:
            row["policy"] = desk.variants[row["variant"]]
            row |= {f"settled_{what}": row[what] for what in ("requests", "impressions", "reward")}
        check = read["sample_ratio"]
        assert (check["p_value"], check["alarm"]) == (1.0, False)
        assert check["phase"] in (0, begun["seq"])
        del whole["sample_ratio"]
        assert {name: read[name] for name in whole} == whole

    run(settings, story)


def test_the_state_is_of_one_moment_and_written_in_slices(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rankings are made after every piece of the text; each line is still what the pools were when it began."""
    monkeypatch.setattr(checking, "ITEMS", 20)
    monkeypatch.setattr(checking, "NAMES", 70)
    sizes: list[int] = []
    column = Arranged.column

    def noting(arranged: Arranged, name: str, start: int, stop: int) -> list[Any]:
        sizes.append(stop - start)
        return column(arranged, name, start, stop)

    monkeypatch.setattr(Arranged, "column", noting)

    async def story(service: Service) -> None:
        text, begun, ranked = b"", {}, 0
        async for piece in checking.portrait(service):
            text += piece
            if piece.endswith(b'"pool":'):
                begun = {(p.variant, p.segment): p._asdict() for p in pictures(service.desk.pools)}
                sizes.clear()
            if piece.endswith(b"}\n") and begun:
                pool = json.loads(text.splitlines()[-1])["pool"]
                assert pool == json.loads(json.dumps(begun[pool["variant"], pool["segment"]]))
                assert 0 < max(sizes) <= 20
            await service.rank(Query(5))
            ranked += 1
        lines = [json.loads(line) for line in text.splitlines()]
        assert len(lines) == 1 + len(service.desk.variants)
        assert ranked > 6 * ITEMS / 20
        assert list(checking.compare(service.store, lines)) == []

    run(settings, story)


def test_a_picture_of_one_pool_brings_no_other_up_to_date() -> None:
    """With very many items and segments, to look up what all pools have missed would take long."""
    pools = site(4, 1.0).desk.pools
    pools.finish()
    keys = pools.ranking
    assert len(keys) == 1 + 4
    pools.expect(np.arange(3))
    made = [(copy.variant, copy.segment) for copy in copies(pools, *keys[1])]
    assert made == [keys[1]]
    assert [pools._of[key].behind > 0 for key in keys] == [False, False, True, True, True]
    assert [(copy.variant, copy.segment) for copy in copies(pools)] == keys
    assert not any(derived.behind for derived in pools._of.values())
    assert list(copies(pools, "one", "nowhere")) == []


def test_names_are_copied_in_slices_and_follow_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that come, are forgotten, or take the slot of a forgotten one, before and while names are copied."""
    monkeypatch.setattr(checking, "NAMES", 10)
    catalogue, seqs = Catalogue(), itertools.count(1)

    def add(count: int) -> None:
        for seq in itertools.islice(seqs, count):
            catalogue.add(f"item-{seq}", since=seq, at=0)

    def forget(slot: int) -> None:
        catalogue.set_state(slot, DELETED, 1)
        catalogue.forget([int(catalogue["since"][slot])])

    async def story() -> None:
        names = checking._Names()
        add(95)
        turns = Turns()
        await names.read(catalogue)
        assert turns.stop() >= 10
        for change, number in ((add, 0), (add, 7), (forget, 3), (add, 1), (add, 1)):
            change(number)
            await names.read(catalogue)
            assert names.now(catalogue) == catalogue.ids
        forget(5)
        assert names.now(catalogue) == catalogue.ids
        add(1)
        assert names.now(catalogue) == catalogue.ids
        turns = Turns()
        await names.drop()
        assert turns.stop() >= 10

    asyncio.run(story())


def test_a_history_is_read_in_small_blocks(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        assert seconds > 0
        pauses += 1

    class Noting:
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def read(self, after: int, limit: int) -> Any:
            self.sizes.append(limit)
            return store.read(after, limit)

    monkeypatch.setattr("hellinger.serve.history.time.sleep", pause)
    monkeypatch.setattr(history, "SECONDS", 1e9)
    with closing(open_store(settings.database)) as store:
        last = store.last()
        noting: Any = Noting()
        answer = history.history(noting, "item-0007", 8, last)
        assert answer["complete"]
        assert max(noting.sizes) <= history.BLOCK
        assert pauses > len(noting.sizes) == -(-(last - 7) // history.BLOCK)
        monkeypatch.setattr(history, "BLOCK", 1_000_000)
        assert history.history(store, "item-0007", 8, last) == answer


def test_items_that_expire_together_are_logged_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ranking that is made meanwhile is written after one part of them, not after the last."""
    monkeypatch.setattr("hellinger.engine.dates.TO_LOG", 10)
    waited: list[int] = []

    async def story(service: Service) -> None:
        journal, write = service.journal, service.journal.write

        def noting(drafts: Any, **how: Any) -> Any:
            if drafts and drafts[0].event.kind == "state":
                waited.append(journal.waiting)
            return write(drafts, **how)

        monkeypatch.setattr(journal, "write", noting)
        soon = now() + 300
        many: list[dict[str, Any]] = [
            {"id": f"new-{n}", "tags": [], "expires_at": soon, "metadata": None} for n in range(200)
        ]
        await service.describe(many)
        while service.desk.ledger.catalogue.live or len(waited) < 20:
            await asyncio.sleep(0.01)
        assert waited == [0] * 20

    run(Settings(database=f"sqlite:///{tmp_path}/log.db", seed=1, variants={"a": "ucb1"}), story)


@pytest.mark.parametrize("key", [None, "mine"], ids=["unnamed", "named"])
def test_a_ranking_does_not_wait_until_what_the_log_had_before_is_applied(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts from when the log has it, and its feedback finds it; in the end memory is what the log says."""
    monkeypatch.setattr(journal, "SLICE", 10)
    monkeypatch.setattr("hellinger.engine.service.PART", 3000)

    async def story(service: Service) -> None:
        many: list[dict[str, Any]] = [
            {"id": f"new-{n}", "tags": [], "expires_at": None, "metadata": None} for n in range(3000)
        ]
        await service.describe(many[:100])
        adding = asyncio.create_task(service.describe(many))
        while not service.journal._batches:  # the log has them, and they are being applied
            await asyncio.sleep(0)
        made = await service.rank(Query(5), key)
        assert not adding.done()
        assert made["ranking_id"] in service.desk.state.overlay
        n, _ = service.desk.pools.sums(
            made["variant"], np.array([service.desk.ledger.catalogue.slots[made["items"][0]]])
        )
        assert n[0] == 1
        clicked = await service.feedback([(made["ranking_id"], made["items"][0], "click", 1.0, None)])
        assert clicked.accepted == 1
        assert adding.done(), "feedback takes effect in the log's order"
        assert await adding == (2900, 0, 100)
        if key is not None:
            assert (await service.rank(Query(5), key))["ranking_id"] == made["ranking_id"]
        lines = [
            json.loads(line) for line in b"".join([part async for part in checking.portrait(service)]).splitlines()
        ]
        assert list(checking.compare(service.store, lines)) == []

    run(Settings(database=f"sqlite:///{tmp_path}/log.db", seed=1, variants={"a": "ucb1", "b": "kl-ucb"}), story)


def test_few_that_come_again_and_again_do_not_keep_many_from_their_turn() -> None:
    """A segment that is ranked for between all slices: what it shows is looked up, and so is all that there was."""
    derived = Derived(hellinger.Pool("ucb1"))
    derived.expect(np.arange(200, dtype=np.int64))
    taken: set[int] = set()
    for _ in range(200 // 15 + 1):
        derived.expect(np.arange(1000, 1005, dtype=np.int64))
        slots, _ = derived.take(20)
        assert slots.size <= 20
        taken.update(slots.tolist())
    assert taken == {*range(200), *range(1000, 1005)}
    assert derived.number < 20


def test_what_is_to_be_looked_up_again_is_remembered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that is never asked, and that nobody has time for, remembers no more than the items there are."""
    limit(monkeypatch, AT_ONCE=10)
    derived = Derived(hellinger.Pool("ucb1"))
    for number in range(500):
        slots = np.arange(number % 7, 60, dtype=np.int64)
        derived.expect(slots)
        derived.expect_later(slots)
        derived.expect_all(np.arange(60) >= 45, counts=bool(number % 2))
        assert max(derived.number, len(derived.later)) <= 60
    taken: list[int] = []
    while derived.number:
        taken += derived.take(16)[0].tolist()
    while derived.later:
        taken += derived.later.take(16).tolist()
    assert sorted(taken) == sorted([*range(60), *range(60)])


@pytest.mark.parametrize("seed", range(6))
def test_a_set_of_slots_is_one_of_numbers(seed: int) -> None:
    """Each is given once, in order, and none waits longer than until all others had their turn."""
    rng = np.random.default_rng(seed)
    slots, model, waits = SlotSet(), set[int](), dict[int, int]()
    for _ in range(300):
        some = rng.choice(rng.choice([30, 5000]), int(rng.integers(0, 25)))
        if rng.random() < 0.7:
            slots.add(some)
        else:
            marks = np.zeros(some.max(initial=0) + int(rng.integers(1, 9)), np.bool_)
            marks[some] = True
            slots.add_all(marks)
        model |= set(some.tolist())
        assert len(slots) == len(model)
        most = int(rng.integers(1, 20))
        found = slots.take(most).tolist()
        assert found == sorted(set(found))
        assert len(found) == min(most, len(model))
        assert model.issuperset(found)
        model -= set(found)
        waits = {slot: waits.get(slot, 0) + len(found) for slot in model}
        assert max(waits.values(), default=0) <= 5000 + 20
    while model:
        model -= set(slots.take(7).tolist())
    assert not len(slots)
    assert not slots.take(7).size


def test_kinds_are_numbered_as_numpy_does() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 500):
        kinds = rng.integers(-40, 60, size)
        for one, other in zip(learning._numbered(kinds), np.unique(kinds, return_inverse=True), strict=True):
            assert one.tolist() == other.tolist()


def test_priors_that_are_due_are_found_without_looking_items_up() -> None:
    desk = Desk(Ledger(), {"a": "cold-start"}, seed=1)
    desk.commit_own([(1, desk.describe([{"id": "a", "tags": [], "expires_at": None, "metadata": None}], 0)[0])])
    assert desk.pools._of["a", ""].number == 1
    learning.due(desk.state)
    assert desk.pools._of["a", ""].number == 1


GROUPS = 7


def _filled(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[Desk, Any]:
    """A desk with 200 items of groups and with counts, where 50 are many and 20 a slice; and what commits drafts."""
    limit(monkeypatch, SLICE=20, AT_ONCE=50, PRIORS=1)
    monkeypatch.setattr("hellinger.pool._membership._HEARD", 1)
    desk = Desk(Ledger(), {"a": "cold-start"}, seed=1, **settings)
    places = itertools.count(1)

    def commit(*drafts: Draft) -> None:
        desk.commit_own([(next(places), draft) for draft in drafts])

    items: list[dict[str, Any]] = [
        {"id": f"item-{n}", "tags": [], "expires_at": None, "metadata": None, "group": [f"g{n % GROUPS}"]}
        for n in range(200)
    ]
    commit(*desk.describe(items, 0))
    desk.finish()
    for at in range(30):
        made = desk.rank(Query(20), at)
        commit(made)
        clicks = [(made.event.key, item, "click", 1.0, None) for item in made.fields["items"][at % 5 :: 5]]
        desk.commit_own([(next(places), draft) for draft in desk.sort(clicks, at).drafts])
    return desk, commit


def _same(desk: Desk) -> None:
    """The desk's pools are those that its ledger alone gives, to the bit."""
    lived, made = (list(each.pools.each()) for each in (desk, Desk(desk.ledger, {"a": "cold-start"}, seed=1)))
    for (*whose, pool), (*other, fresh) in zip(lived, made, strict=True):
        assert whose == other
        table, again = pool.table(), fresh.table()
        assert (pool.rounds, pool.prior) == (fresh.rounds, fresh.prior)
        ids = table.ids(table.order())
        assert ids == again.ids(again.order())
        for column in ("n", "s"):
            assert (table.counts(column, table.order()) == again.counts(column, again.order())).all()
        assert (pool.scores(ids) == fresh.scores(ids)).all()


def test_a_new_prior_takes_effect_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rankings are made between them, and feedback comes; in the end pools are as if they were made from the log."""
    desk, commit = _filled(monkeypatch)
    for after, shares in ((0, [0.5]), (0, [0.2]), (0, [])):
        after = desk.ledger.prior_place("a")
        state = Prior(2.0, 40.0 + after, 1.0, 300.0, tuple(shares)).state()
        fields = {"variant": "a", "segment": "", "after": after, "rounds": 600.0, "curve": 0, "prior": state}
        commit(Draft.of(f"prior/a//{after}", "prior", 100, fields | {"writer": "0"}))
        pool = desk.pools.of("a")
        assert pool.prior == Prior.from_state(state), "the pool's own prior is in force at once"
        assert pool.unsettled >= 200
        slices = 0
        for _ in desk.pools.catch_up():
            slices += 1
            assert len(desk.rank(Query(5), 100 + slices).fields["items"]) == 5
        assert slices >= 200 // 20
        assert not pool.unsettled
        for name in list(desk.state.overlay.rankings):
            desk.state.overlay.remove(name)
        desk.pools.expect(np.arange(200))
        for derived in desk.pools._of.values():
            derived.pool.rounds = desk.pools._rounds("a")
        _same(desk)


def test_what_is_learned_of_segments_takes_effect_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment's pool looks few items up at once, where a law is new and where it has missed what was touched."""
    desk, commit = _filled(monkeypatch)
    monkeypatch.setattr(pools, "TOUCHED", 20)
    rows = [{"item": f"item-{n}", "impressions": 9.0, "rewards": n % 3, "from": None, "to": None} for n in range(200)]
    commit(Draft.of("import/b", "import", 0, {"batch": "b", "variant": "a", "segment": "x", "rows": rows}))
    law = SegmentLaw(0.2, 20.0, 1.0, (("x", 0.5),))
    most = 20 + 200 // GROUPS + 1  # what was touched together, a group at most, is not torn apart
    looked: list[int] = []
    revise = Within.revise

    def noting(self: Within, store: Any, slots: Any, nodes: Any = None) -> None:
        looked.append(slots.size)
        revise(self, store, slots, nodes)

    monkeypatch.setattr(Within, "revise", noting)

    def learn(law: SegmentLaw, a: float) -> None:
        after = desk.ledger.prior_place("a")
        fields = {"variant": "a", "segment": "", "after": after, "rounds": 600.0, "curve": 0, "writer": "0"}
        fields |= {"prior": Prior(a, 40.0, 1.0, 300.0, (0.5,)).state(), "segments": law.state()}
        commit(Draft.of(f"prior/a//{after}", "prior", 100, fields))

    def settled() -> None:
        whole = desk.pools.of("a")
        for _ in desk.pools.catch_up():
            made = desk.rank(Query(5, segment="x"), 101)
            commit(made)
        assert desk.pools.deciding("a", "x") is not whole
        _same(desk)

    learn(law, 2.0)
    settled()  # the segment's pool is made
    looked.clear()
    learn(law._replace(variance=2.0), 2.0)
    assert desk.pools.deciding("a", "x") is desk.pools.of("a"), "all traffic's pool ranks meanwhile"
    assert sum(looked) < 200
    settled()
    assert sum(looked) >= 200
    assert max(looked) <= most
    looked.clear()
    whole = desk.pools.of("a")
    with monkeypatch.context() as small:
        small.setattr(whole._members.touched, "most", 30)
        learn(law._replace(variance=2.0), 3.0)
        whole.settle()  # moves most items of all traffic
    settled()
    assert sum(looked) >= 200, "it has missed what was touched"
    assert max(looked) <= most


def test_a_class_of_a_large_group_is_noted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its items are others for the pools of segments, and very many may be."""
    monkeypatch.setattr("hellinger.pool._membership.CROWD", 50)
    monkeypatch.setattr("hellinger.pool._membership._HEARD", 1)
    pool = hellinger.Pool[int]("cold-start", learn="given")
    pool.bound_work(1000)
    pool.add(range(200), group="g")
    pool.add(range(200, 300), group="h")
    pool.prior = Prior(2.0, 40.0, 1.0, 300.0, (0.5,))
    pool.settle()
    touched = Touched()
    pool._members.watch(pool._store, touched)
    pool.settle()
    before = touched.end
    pool.set_counts(range(50), [1000] * 50, [400] * 50)
    assert pool.unsettled == 300
    noted = [sum(part.size for part in touched.parts[before:])]
    while pool.unsettled:
        pool.settle(20)
        noted.append(sum(part.size for part in touched.parts[before:]))
    assert noted[0] < 200
    assert max(np.diff(noted)) <= 20
    keys, _ = touched.since(before, 1000)
    assert set(keys.tolist()) >= set(range(200))


def test_a_new_curve_of_positions_takes_effect_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, commit = _filled(monkeypatch)
    looked: list[int] = []
    place = Pools._place

    def noting(self: Pools, variant: str, segment: str, slots: Any, described: set[int]) -> None:
        looked.append(slots.size)
        place(self, variant, segment, slots, described)

    before = desk.pools.of("a").table()
    monkeypatch.setattr(Pools, "_place", noting)
    fields = {"after": 0, "rewards": 99.0, "looked": [1.0, 0.5], "error": [0.0, 0.1], "worth": [1.0, 0.5]}
    commit(Draft.of("positions/0", "positions", 100, fields | {"writer": "0"}))
    pool = desk.pools.of("a")
    assert not looked
    assert (pool.table().counts("n", before.order()) == before.counts("n", before.order())).all()
    made = desk.rank(Query(5), 101)
    assert not looked, "a ranking does not wait"
    commit(made)
    for _ in desk.pools.catch_up():
        pass
    assert sum(looked) == 200
    assert max(looked) <= 20
    assert (pool.table().counts("n", before.order()) < before.counts("n", before.order())).any()
    _same(desk)


def _sizes(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """How many items pools look up at once, and how many they are asked for at once, from now on."""
    looked: list[int] = []
    asked: list[int] = []
    place, pick = Pools._place, hellinger.Pool.pick

    def noting(self: Pools, variant: str, segment: str, slots: Any, described: set[int]) -> None:
        looked.append(slots.size)
        place(self, variant, segment, slots, described)

    def noting_pick(self: Any, k: int, **how: Any) -> Any:
        asked.append(k)
        return pick(self, k, **how)

    monkeypatch.setattr(Pools, "_place", noting)
    monkeypatch.setattr(hellinger.Pool, "pick", noting_pick)
    return looked, asked


def _item(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "tags": [], "expires_at": None, "metadata": None, **more}


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["best", "drawn"])
@pytest.mark.parametrize("what", ["deleted", "hidden", "expired"])
def test_a_ranking_waits_for_few_items_and_shows_none_that_is_gone(
    what: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many have left: those that the pool has yet to take out are passed over, and few that come rank."""
    desk, commit = _filled(monkeypatch, random_share=share)
    monkeypatch.setattr(pools, "MET", 100)
    monkeypatch.setattr("hellinger.engine.dates.MOST", 60)
    first, due = [f"item-{n}" for n in range(180)], 1000
    if what == "expired":
        items = [_item(name, expires_at=due, group=[f"g{n % GROUPS}"]) for n, name in enumerate(first)]
        commit(*desk.describe(items, 100))
        desk.finish()
    looked, asked = _sizes(monkeypatch)
    if what != "expired":
        commit(*(desk.set_state(name, what, 100) for name in first))
    commit(*desk.describe([_item("late")], 101))
    left, seen = {*(f"item-{n}" for n in range(180, 200)), "late"}, set[str]()
    for at in range(due, due + 40):
        made = desk.rank(Query(5), at)
        shown = set(made.fields["items"])
        assert len(shown) == 5
        assert shown <= left
        assert sum(looked) <= 50
        assert max(asked) <= 100
        looked.clear()
        seen |= shown
        chances = made.fields["propensities"]
        assert all(p is None or p > share / len(left) - 1e-9 for p in (chances if isinstance(chances, list) else ()))
        if share:
            assert made.fields["eligible"] == len(left)
        commit(made)
    assert "late" in seen
    assert len(desk.rank(Query(200), due + 40).fields["items"]) == len(left)
    while desk.state.dates.due(due + 40):
        desk.state.expire(due + 40)
    for _ in desk.pools.catch_up():
        pass
    assert max(looked) <= 20
    if what == "expired":  # the log has to know of them for another desk to have the same
        for _ in range(20):
            commit(*desk.chores(due + 41))
    desk.finish()
    for name in list(desk.state.overlay.rankings):
        desk.state.overlay.remove(name)
    desk.pools.expect(np.arange(len(desk.ledger.catalogue.ids)))
    for derived in desk.pools._of.values():
        derived.pool.rounds = desk.pools._rounds("a")
    desk.finish()
    _same(desk)


@pytest.mark.parametrize("left", [0, 3])
@pytest.mark.parametrize("spec", ["cold-start", "ucb1", "thompson"])
def test_while_all_or_most_have_expired_a_ranking_looks_at_those_that_are_left(
    spec: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so from the first one on, and nothing is hidden or scored for it that has expired."""
    limit(monkeypatch, SLICE=20, AT_ONCE=50, MET=100)
    monkeypatch.setattr("hellinger.engine.dates.MOST", 60)
    desk, size, due = Desk(Ledger(), {"a": spec}, seed=1), 480 + left, 1000
    items = [_item(f"item-{n}", expires_at=None if n < left else due) for n in range(size)]
    desk.commit_own(list(enumerate(desk.describe(items, 0), 1)))
    desk.finish()
    pool, seq = desk.pools.of("a"), size
    scored: list[int] = []
    chosen = hellinger.Pool._chosen

    def noting(self: Any, among: Any) -> Any:
        found = chosen(self, among)
        scored.append(found.size)
        return found

    def never(*_: Any) -> None:
        raise AssertionError("an item was hidden")

    assert not desk.pools.passes_over("a")
    monkeypatch.setattr(hellinger.Pool, "_chosen", noting)
    monkeypatch.setattr(hellinger.Pool, "hide", never)
    for at in range(due, due + 10):
        made = desk.rank(Query(5), at)
        assert sorted(made.fields["items"]) == [f"item-{n}" for n in range(left)]
        assert desk.pools.passes_over("a")
        seq += 1
        desk.commit_own([(seq, made)])
    assert scored == [left] * 10 * (left > 0)
    assert len(pool) == size, "none has been taken out yet"


@pytest.mark.parametrize("what", ["deleted", "hidden", "expired"])
@pytest.mark.parametrize("share", [0.0, 0.3], ids=["ranked", "drawn"])
def test_a_segment_shows_none_that_is_gone_between_two_slices(
    what: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own pool has its turn after that of all traffic, and must not rank while many have yet to leave it."""
    limit(monkeypatch, SLICE=20, AT_ONCE=50)
    desk = Desk(Ledger(), {"a": "ucb1"}, seed=1, random_share=share)
    places = itertools.count(1)

    def commit(*drafts: Draft) -> None:
        desk.commit_own([(next(places), draft) for draft in drafts])

    best = {f"item-{n}" for n in range(130)}
    due = 100 if what == "expired" else None
    commit(*desk.describe([_item(f"item-{n}", expires_at=due if n < 130 else None) for n in range(300)], 0))
    desk.finish()
    rows = [
        {"item": f"item-{n}", "impressions": 1000.0, "rewards": 300.0 - n, "from": None, "to": None} for n in range(300)
    ]
    commit(Draft.of("import/b", "import", 0, {"batch": "b", "variant": "a", "segment": "x", "rows": rows}))
    desk.rank(Query(5, segment="x"), 1)
    desk.finish()
    assert desk.pools.deciding("a", "x") is not desk.pools.of("a")
    if what == "expired":
        desk.state.expire(101)
    else:
        commit(*(desk.set_state(name, what, 100) for name in sorted(best)))
    slices = 0
    for _ in desk.catch_up():
        slices += 1
        assert best.isdisjoint(desk.rank(Query(5, segment="x"), 101).fields["items"])
    assert slices >= 130 // 20
    assert desk.pools.deciding("a", "x") is not desk.pools.of("a")


def test_a_bulk_load_takes_effect_in_slices_and_few_items_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, commit = _filled(monkeypatch)
    looked, _ = _sizes(monkeypatch)
    for start in range(0, 300, 100):
        commit(*desk.describe([_item(f"more-{n}") for n in range(start, start + 100)], 100))
    commit(*desk.describe([_item("one")], 100))
    desk.rank(Query(5), 101)
    assert looked == [1], "rankings wait for few items alone"
    assert desk.ledger.catalogue.slots["one"] in desk.pools.as_it_is("a")
    assert desk.pools.stale
    looked.clear()
    for _ in desk.pools.catch_up():
        desk.rank(Query(5), 101)
    assert sum(looked) >= 300
    assert max(looked) <= 20
    assert desk.pools.of("a").eligible == 501
    assert not desk.pools.passes_over("a")


def test_an_empty_pool_takes_in_a_slice_for_a_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else could be ranked."""
    limit(monkeypatch, SLICE=20, AT_ONCE=50)
    desk = Desk(Ledger(), {"a": "ucb1"}, seed=1)
    drafts = desk.describe([_item(f"item-{n}") for n in range(200)], 0)
    desk.commit_own(list(enumerate(drafts, 1)))
    looked, _ = _sizes(monkeypatch)
    assert len(desk.rank(Query(5), 0).fields["items"]) == 5
    assert 1 <= len(looked) <= 2
    assert set(looked) == {20}


def test_groups_that_have_lost_very_many_are_looked_up_in_slices() -> None:
    derived = Derived(hellinger.Pool("ucb1"))
    derived.left.note(range(90_000), [(f"g{n % 3}",) for n in range(90_000)])
    derived.lose([("g0",), ("g1",), ("g2",), ("h",)])
    waits = [derived.few_groups]
    assert len(derived.some_groups(500)) < 3
    derived.groups = {("h",), ("i",)}
    assert [*waits, derived.few_groups] == [False, True]
    assert len(derived.some_groups(500)) == 2


def test_a_new_variant_ranks_once_its_pool_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then traffic is shared as before, and what is counted meanwhile the new pool knows as well."""
    monkeypatch.setattr("hellinger.engine.desk.AT_ONCE", 50)
    desk, commit = _filled(monkeypatch)

    def begin(**variants: str) -> None:
        after = desk.ledger.phase_place
        weights = dict.fromkeys(variants, 1.0)
        fields = {"name": "main", "variants": variants, "weights": weights, "split": "random", "learning": "shared"}
        commit(Draft.of(f"experiment/{after}", "experiment", 50, fields | {"after": after, "writer": "0"}))

    looked: list[int] = []
    place = Pools._place

    def noting(self: Pools, variant: str, segment: str, slots: Any, described: set[int]) -> None:
        looked.append(slots.size)
        place(self, variant, segment, slots, described)

    monkeypatch.setattr(Pools, "_place", noting)
    begin(a="ucb1", b="kl-ucb")  # a has another policy from now on: its former pool ranks for it meanwhile
    commit(*desk.describe([{"id": "late", "tags": [], "expires_at": None, "metadata": None}], 60))
    slices = 0
    for _ in desk.catch_up():
        slices += 1
        if desk.state.coming is not None:
            made = desk.rank(Query(5), 60 + slices)
            assert (made.fields["variant"], made.fields["policy"]) == ("a", "cold-start")
            if slices % 2:  # the others stay in the overlay
                commit(made)
    assert slices >= 2 * 200 // 20
    assert max(looked) <= 20
    assert {desk.rank(Query(5), 200).fields["variant"] for _ in range(50)} == {"a", "b"}
    assert desk.rank(Query(5), 200).fields["policy"] in ("ucb1", "kl-ucb")
    rebuilt = Desk(desk.ledger, {"a": "cold-start"}, seed=1)
    for name, request in desk.state.overlay.rankings.items():
        rebuilt.adopt(name, request)
    for (*whose, pool), (*other, fresh) in zip(desk.pools.each(), rebuilt.pools.each(), strict=True):
        assert whose == other
        assert (len(pool), pool.rounds) == (201, fresh.rounds)
        assert (pool.scores(np.arange(201)) == fresh.scores(np.arange(201))).all()
    begin(a="ucb1")
    assert desk.state.coming is None, "no pool is needed"
    assert desk.rank(Query(5), 300).fields["variant"] == "a"


# Events that concern all items -------------------------------------------------------------------------


def _counted(items: int, segments: int, few: int) -> Ledger:
    """A ledger whose items two variants have shown in all traffic, and a few of them in each segment."""
    ledger = Ledger()
    for number in range(items):
        ledger.catalogue.add(f"item {number}", since=number + 1, at=0)
    for variant in ("one", "two"):
        for segment in ("", *(f"s{number}" for number in range(segments))):
            slots = np.arange(few if segment else items)
            counts = ledger.counts_in(variant, segment)
            counts.add(slots, np.full(slots.size, 3.0), np.ones(slots.size))
            late = np.ones((slots.size, len(ZONES) - 1), np.int64)
            counts.set_behind(slots, late, late.sum(axis=0).tolist())
    return ledger


def _most_memory(do: Callable[[], object]) -> int:
    """The most bytes that were taken at any time while something was done."""
    tracemalloc.start()
    try:
        do()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_variant_that_begins_looks_at_no_more_than_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.ledger.common.PART", 100)
    items, few = 50_000, 10
    ledger = _counted(items, 20, few)
    ledger.catalogue.set_state(3, DELETED, 0)
    for variant in ("one", "two"):
        del ledger.counts[variant, ""]
    taken = _most_memory(lambda: ledger._begin_common("new", Changes()))
    assert taken < 8 * items, "a segment's items are found without an array of all items' numbers"
    others = [slot for slot in range(few) if slot != 3]
    for segment in ledger.segments:
        entries = ledger.counts_in(starting("new"), segment).entries()
        there = np.flatnonzero(entries.slots >= 0)
        assert sorted(entries.slots[there].tolist()) == others
        assert set(entries.n[there].tolist()) == {6.0}
        assert set(entries.s[there].tolist()) == {2.0}
        assert (entries.late[there] == 2).all()
        assert ledger.counts_in(starting("new"), segment).late.tolist() == [2.0 * len(others)] * (len(ZONES) - 1)


def test_a_variant_begins_with_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for part in (10, 10_000):
        monkeypatch.setattr("hellinger.ledger.common.PART", part)
        ledger = _counted(95, 2, 33)
        ledger._begin_common("new", changes := Changes())
        begun = [ledger.counts_in(starting("new"), segment) for segment in ("", "s0", "s1")]
        sizes = [sum(slots.size for slots in parts) for parts in changes.counted.values()]
        sums = [(*counts.of(np.arange(95), 95), counts.behind(np.arange(95), 95)) for counts in begun]
        found.append((sizes, [(c.rounds, c.late.tolist()) for c in begun], [[a.tolist() for a in s] for s in sums]))
    assert found[0] == found[1]
    assert found[0][0] == [95, 33, 33]


def test_common_counts_are_of_the_place_before_the_phase() -> None:
    """Those made ready for another place, or for a phase that comes too late, are not taken."""
    ledger = _counted(20, 0, 0)
    phase: dict[str, Any] = {"variants": {"new": "ucb1"}, "common": ["new"], "after": 7}
    assert list(ledger.prepare(phase)) == []
    assert not ledger._common
    phase["after"] = 0
    assert list(ledger.prepare(phase))
    ledger.counts_in("one").add(np.array([3]), np.ones(1), np.ones(1))
    ledger.seq += 1
    ledger._experiment(2, (0, phase, ""), changes := Changes())
    assert changes.phase
    n, s = ledger.counts_in(starting("new")).of(np.arange(20), 20)
    assert n.tolist() == [7.0 if slot == 3 else 6.0 for slot in range(20)]
    assert s.tolist() == [3.0 if slot == 3 else 2.0 for slot in range(20)]
    assert not ledger._common


def test_another_curve_takes_a_model_no_copy_of_all_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.ledger.variant_models.PART", 1000)
    items = 50_000
    ledger = _counted(items, 0, 0)
    told: list[tuple[Any, Any, float]] = []
    model: Any = SimpleNamespace(shared=True, recount=lambda *given: told.append(given))
    ledger.models.of["one"] = model
    ledger.curve = 1, {"worth": [1.0, 0.5]}
    ledger.gone["one"] = {5: {}}
    whole = 2 * items * (len(ZONES) - 1) * 4
    taken = _most_memory(ledger.models.recount)
    assert taken < whole / 2, "zones of positions are not copied for all items at once"
    ((since, n, rounds),) = told
    assert since.tolist() == [number + 1 for number in range(items) if number != 5]
    late = 0.5 * (len(ZONES) - 1)
    assert set(n.tolist()) == {2 * (3.0 - late)}
    assert rounds == items * 2 * (3.0 - late)


class _Read(dict[tuple[str, ...], int]):
    """A dictionary that counts how often it was gone through."""

    times = 0

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        self.times += 1
        return super().__iter__()


def test_groups_are_read_for_pools_that_use_them_alone() -> None:
    copy = site(4, 1.0)
    pools = copy.desk.pools
    pools.finish()
    assert len(pools._of) == 1 + 4
    copy.desk.ledger.departed.items = read = _Read({("g",): 1})
    pools.recount()
    assert read.times == 1
    assert {key for key, derived in pools._of.items() if derived.groups} == {("one", "")}
    pools._make("one", "s1")
    assert read.times == 1
