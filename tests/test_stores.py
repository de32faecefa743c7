"""The conformance suite over every store there is, and what two kinds of store do with each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hellinger import store as stores
from hellinger.store import Store, StoreDamagedError, open_store
from hellinger.store._sql import SqlStore
from hellinger.testing._upkeep import moves
from hellinger.testing._writers import snapshot_of
from hellinger.testing.stores import Fresh, store_checks

KINDS = {each.schemes[0]: each for each in stores.available().values()}
Make = Callable[[str], Fresh]


def test_both_databases_are_found(tmp_path: Path) -> None:
    assert {"sqlite", "postgresql", "postgres"} <= stores.available().keys()
    with closing(open_store(f"sqlite:///{tmp_path}/log.db")) as store:
        assert isinstance(store, Store)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("check", store_checks())
def test_conformance(fresh: Make, name: str, check: str) -> None:
    store_checks()[check](fresh(name))


PAIRS = [(one, other) for one in KINDS for other in KINDS if one != other]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_log_moves_from_one_kind_to_another(fresh: Make, one: str, other: str) -> None:
    moves(fresh(one), fresh(other))


@pytest.mark.parametrize("name", KINDS)
def test_damaged_snapshots_are_refused(fresh: Make, name: str) -> None:
    damages = (
        "UPDATE snapshot_parts SET body = ? WHERE part = 2",
        "UPDATE snapshot_parts SET digest = '' WHERE part = 2",
        "DELETE FROM snapshot_parts WHERE part = 4",
        "DELETE FROM snapshot_parts WHERE part = 0",
        "UPDATE snapshots SET parts = 4",
        "UPDATE snapshot_parts SET part = 9 - part",
    )
    with closing(open_store(fresh(name)())) as store:
        assert isinstance(store, SqlStore)
        for place, damage in enumerate(damages):
            store.save_snapshot(place, snapshot_of(place))
            with store._writing() as session:
                assert session.run(damage, *[b"changed"] * damage.count("?")) > 0
            with pytest.raises(StoreDamagedError, match=f"place {place}"):
                list((store.snapshot() or (0, iter(())))[1])
        store.save_snapshot(99, snapshot_of(99))
        found = store.snapshot()
        assert found is not None
        assert list(found[1]) == snapshot_of(99)
        assert len(store._rows("SELECT part FROM snapshot_parts")) == 5, "what was replaced must be gone"
