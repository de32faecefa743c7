"""Rows for some slots: a random life against a dict."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from hellinger._rows import RowTable
from hellinger.ledger.counts import Counts, SegmentCounts


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_life_of_a_table_of_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, model = RowTable(), dict[int, int]()
    for _ in range(400):
        slots = rng.integers(0, 600, rng.integers(0, 30))
        if rng.random() < 0.6:
            rows = table.enter(slots)
            assert (rows > 0).all()
            for slot, row in zip(slots.tolist(), rows.tolist(), strict=True):
                assert model.setdefault(slot, row) == row
        else:
            slots = np.unique(slots)
            assert sorted(table.leave(slots).tolist()) == sorted(
                model.pop(slot) for slot in slots.tolist() if slot in model
            )
        assert len(table) == len(model) == len(set(model.values()))
        every = np.arange(600)
        assert table.find(every).tolist() == [model.get(slot, 0) for slot in range(600)]
        assert {int(slot) for slot in table.owner[: table.top] if slot >= 0} == set(model)
    assert table.top <= 1 + 600, "rows that were left are used again"


@pytest.mark.parametrize("seed", [1, 2])
def test_counts_of_a_segment_are_counts(seed: int) -> None:
    """Kept by slot or by rows of those that have any, the same is counted."""
    rng = np.random.default_rng(seed)
    whole, part = Counts(), SegmentCounts()
    for _ in range(120):
        what, slots = rng.integers(4), np.unique(rng.integers(0, 500, 25))
        for counts in (whole, part):
            if what <= 1:
                counts.show(array("i", slots.tolist()))
            elif what == 2:
                counts.add(slots, np.float64(1.0) * (slots % 3), np.float64(0.5) * (slots % 5), deleted=1.0)
            else:
                counts.clear(slots[:3])
        every = np.arange(500)
        for one, other in zip(whole.of(every, 500), part.of(every, 500), strict=True):
            assert (one == other).all()
        behind = [counts.behind(every, 500) for counts in (whole, part)]
        assert (behind[0] == behind[1]).all() if len(behind[0]) == len(behind[1]) else not np.concatenate(behind).any()
        assert whole.total() == part.total()
        assert (whole.late == part.late).all()
    entries = [counts.entries() for counts in (whole, part)]
    kept = [{int(e.slots[j]): (e.n[j], e.s[j], e.late[j].tolist()) for j in range(e.slots.size)} for e in entries]
    some = {slot: row for slot, row in kept[1].items() if slot >= 0 and (row[0] or row[1])}
    assert some == kept[0]


def test_few_items_of_a_segment_take_little_memory() -> None:
    counts = SegmentCounts()
    counts.show(array("i", range(0, 1_000_000, 50_000)))
    assert counts.of(np.array([0, 7, 950_000]), 1_000_000)[0].tolist() == [1.0, 0.0, 1.0]
    assert sum(getattr(counts, name).nbytes for name in ("_n", "_s", "_late")) < 10_000
