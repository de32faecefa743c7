"""No call keeps the loop or the interpreter's lock for more than so many items at a time, and answers are the same."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import running
from hellinger.engine import checking
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Query
from hellinger.engine.picture import Arranged, pictures
from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.experiment import Pages, Totals, readout
from hellinger.experiment.readout import readout_steps
from hellinger.serve import history, listing, standing
from hellinger.store import open_store

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
            for slot in catalogue.kept().tolist()
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
            pages = series.pages[name]
            together = Pages(pages.count, pages.squares, pages.largest, pages.most)
            totals.append(Totals(name, int(requests), int(impressions), reward, together))
        whole = readout(totals, weights=desk.split.probabilities, control=service.settings.control).as_json()
        for row in whole["variants"]:
            row["policy"] = desk.variants[row["variant"]]
        assert {name: read[name] for name in whole} == whole

    run(settings, story)


def test_the_state_is_of_one_moment_and_written_in_slices(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rankings are made after every piece of the text; each line is still what the pools were when it began."""
    monkeypatch.setattr(checking, "ITEMS", 20)
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
