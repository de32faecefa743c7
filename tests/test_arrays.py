"""Arrays that grow: what they hold stays, large ones are copied seldom, and room takes no memory until it is used."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from hellinger._arrays import LARGE, ROOM, grown
from hellinger.ledger import Catalogue
from hellinger.ledger.counts import Counts
from hellinger.pool import Pool


@pytest.mark.parametrize("size", [1, 63, 64, 65, 5000, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE])
@pytest.mark.parametrize("kind", [np.float64, np.bool_, np.dtype([("a", np.float64), ("b", np.int8)], align=True)])
def test_what_an_array_held_stays(size: int, kind: np.dtype[np.generic]) -> None:
    array = grown(np.zeros(0, kind), 40)
    column = array["a"] if array.dtype.names else array
    column[:40] = np.arange(40) % 2
    larger = grown(array, size)
    assert larger.size >= size
    assert larger.dtype == array.dtype
    assert larger.flags.aligned
    assert larger.flags.writeable
    assert (larger[:40] == array[:40]).all()
    assert not larger[40:].view(np.uint8).any()
    assert grown(larger, size) is larger


def test_a_large_array_is_copied_seldom() -> None:
    array, copies = np.zeros(0), 0
    for size in range(1000, 2_000_000, 1000):
        larger = grown(array, size)
        copies += larger is not array and array.size >= LARGE
        array = larger
    assert copies <= 1  # when it becomes large


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_room_takes_no_memory_until_it_is_used() -> None:
    before = _resident()
    array = grown(np.ones(LARGE), LARGE + 1)
    assert array.nbytes == 8 * ROOM * (LARGE + 1)
    assert _resident() - before < array.nbytes / 2
    array[-1] = 1.0
    assert array[-2] == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_counts_of_a_few_items_take_small_pages() -> None:
    """A hundred in large pages would take, and clear, 200 MB at once, while rankings wait."""
    counts, few = Counts(), np.linspace(0, 20_000_000, 100).astype(np.int64)
    counts.view(20_000_001)
    before = _resident()
    counts.show_many(few, [few.size])
    assert _resident() - before < 20e6
    n, _ = counts.of(few, 20_000_001)
    assert (n == 1).all()


def test_without_address_space_there_is_less_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more")

    monkeypatch.setattr(mmap, "mmap", refuse)
    array = grown(np.ones(LARGE), LARGE + 1)
    assert LARGE < array.size < 2 * LARGE
    assert array[:LARGE].all()


def test_the_arrays_of_a_large_pool_and_catalogue_are_not_copied() -> None:
    """Also after a start: what was loaded has room for what is to come."""
    size = LARGE + 5
    pool = Pool("ucb1")
    pool.add(range(size))
    before = pool._store.state.items
    pool.add(range(size, 2 * size))
    assert pool._store.state.items is before
    assert pool.memory() <= 100 * len(pool)
    catalogue = Catalogue()
    catalogue.columns = {name: np.zeros(size, array.dtype) for name, array in catalogue.columns.items()}
    catalogue.restore([f"item-{number}" for number in range(size)], [()])
    columns = dict(catalogue.columns)
    for number in range(100):
        catalogue.add(f"new-{number}", since=size + number, at=1)
    assert all(catalogue[name] is array for name, array in columns.items())
