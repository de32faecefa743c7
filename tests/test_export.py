"""What an export reads of the log, and what it finds there."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import orjson
import polars as pl
import pytest

from hellinger.events import Event, Logged
from hellinger.serve import export
from hellinger.store import Store, open_store

HOUR = 3_600_000
START = 1_700_000_000_000
RANK = {
    "variant": "ucb1",
    "policy": "ucb1",
    "version": "1",
    "chance": 1.0,
    "segment": None,
    "user": None,
    "random": False,
    "counted": True,
    "through": 0,
    "items": ["a"],
    "scores": [0.5],
    "propensities": 1.0,
}


class Counting:
    """A store that counts what is read of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.events = 0

    def read(self, after: int, limit: int) -> list[Logged]:
        found = self._store.read(after, limit)
        self.events += len(found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/log.db")) as opened:
        yield opened


def ranks(times: list[int]) -> list[Event]:
    return [Event.of(f"r{number:06d}", "rank", at, RANK) for number, at in enumerate(times)]


def exported(store: Store, first: int | None, last: int | None) -> tuple[list[str], int]:
    """The rankings found, and how many events were read for them."""
    counting = Counting(store)
    found = [row["ranking_id"] for batch in export.rows(cast(Store, counting), first, last) for row in batch]
    return found, counting.events


def test_what_lies_before_and_after_is_not_read(tmp_path: Path) -> None:
    """A ranking every ten seconds; of interest is one day."""
    read = []
    for days in (3, 12):
        events = ranks([START + 10_000 * j for j in range(2 * days * 8640)])
        first = START + 24 * HOUR * days
        with closing(open_store(f"sqlite:///{tmp_path}/{days}.db")) as store:
            store.append(events, 0)
            found, count = exported(store, first, first + 24 * HOUR)
        assert found == [event.key for event in events if first <= event.at < first + 24 * HOUR]
        read.append(count)
    assert abs(read[1] - read[0]) <= export.BATCH  # where the blocks of reading begin differs
    assert max(read) < 8640 + 3 * 360 + 2 * export.BATCH


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_missed_when_clocks_are_set_back(store: Store, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Three machines whose clocks differ by up to an hour; some of the log has been compacted."""
    monkeypatch.setattr(export, "BATCH", 10)
    rng = random.Random(seed)
    offsets = [0, rng.randrange(HOUR), rng.randrange(HOUR)]
    times = [START + 120_000 * j + rng.choice(offsets) for j in range(600)]
    store.append(ranks(times), 0)
    store.compact(150, [])
    left = [event for event in store.read(0, 1000) if event.kind == "rank"]
    for first, last in [(None, None), *((rng.choice(times), rng.choice([None, *times])) for _ in range(40))]:
        wanted = [e.key for e in left if (first is None or e.at >= first) and (last is None or e.at < last)]
        assert exported(store, first, last)[0] == wanted


def test_contexts_can_be_left_out(store: Store) -> None:
    who = {"age": 31.0, "likes": ["x"]}
    store.append([Event.of("r1", "rank", START, RANK | {"context": who}), Event.of("r2", "rank", START, RANK)], 0)
    for contexts, found in ((True, [who, None]), (False, [None, None])):
        assert [row["context"] for part in export.rows(store, None, None, contexts=contexts) for row in part] == found
        for form in ("jsonl", "parquet"):
            out = io.BytesIO()
            export.write(store, form, None, None, out, contexts=contexts)
            read = pl.read_ndjson(out.getvalue()) if form == "jsonl" else pl.read_parquet(out.getvalue())
            assert (b"likes" in out.getvalue()) == contexts
            if form == "parquet":
                assert [text and orjson.loads(text) for text in read["context"].to_list()] == found


def test_an_empty_log(store: Store) -> None:
    assert exported(store, START, None) == ([], 0)


FILTERS: list[dict[str, Any]] = [
    {"k": 2},
    {"k": 2, "exclude": ["c", "d"]},
    {"k": 2, "among": ["a", "b", "e"], "tags": ["new"]},
    {"k": 2, "exclude": [f"x{j}" for j in range(1000)], "asked": 1200},
    {},  # of before filters were kept
]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_filters_are_in_the_first_row_of_a_ranking(store: Store, form: export.Format) -> None:
    two = RANK | {"items": ["a", "b"], "scores": [0.5, 0.5]}
    store.append([Event.of(f"r{j}", "rank", START + j, two | each) for j, each in enumerate(FILTERS)], 0)
    out = io.BytesIO()
    export.write(store, form, None, None, out)
    out.seek(0)
    read = pl.read_parquet(out) if form == "parquet" else pl.read_ndjson(out, schema=export.SCHEMA)
    rows = read.to_dicts()
    assert [row["filtered"] for row in rows[::2]] == [False, True, True, True, None]
    assert [row["cut"] for row in rows[::2]] == [False, False, False, True, None]
    for row, asked in zip(rows[::2], FILTERS, strict=True):
        assert [row[name] for name in ("exclude", "tags", "among")] == [
            asked.get(name) for name in ("exclude", "tags", "among")
        ]
    assert {str(row[name]) for row in rows[1::2] for name in ("exclude", "tags", "among")} == {"None"}
    assert [row["filtered"] for row in rows[1::2]] == [row["filtered"] for row in rows[::2]]
