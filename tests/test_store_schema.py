"""Databases older and newer than this version, and what else may be found in one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, NullPool, create_engine, inspect, text

from hellinger.store import StoreDamagedError, StoreVersionError, _migrate, open_store
from hellinger.store._migrate import VERSION_TABLE
from hellinger.store._schema import METADATA
from hellinger.testing._logs import Fresh, events, everything, intact


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, fresh: Callable[[str], Fresh]) -> str:
    return fresh(request.param)()


def engine(url: str) -> Engine:
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of the package that has one more revision."""
    folder = tmp_path / "migrations"
    shutil.copytree(_migrate.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    later = f'''
import sqlalchemy as sa
from alembic import op
revision = "9999"
down_revision = "{_migrate.revisions()[-1]}"
def upgrade():
    op.add_column("meta", sa.Column("note", sa.Text()))
    op.execute("UPDATE events SET kind = 'upgraded'")
'''
    (folder / "versions" / "v9999_later.py").write_text(later)
    monkeypatch.setattr(_migrate, "FOLDER", folder)


def test_migrations_lead_to_the_schema(url: str) -> None:
    open_store(url).close()
    with engine(url).connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, METADATA) == []
        inspector = inspect(connection)
        assert set(inspector.get_table_names()) == {*METADATA.tables, VERSION_TABLE}
        for name, table in METADATA.tables.items():
            assert inspector.get_pk_constraint(name)["constrained_columns"] == [c.name for c in table.primary_key]
        assert context.get_current_revision() == _migrate.revisions()[-1]


@pytest.mark.usefixtures("newer")
def test_older_is_upgraded_and_newer_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(_migrate, "FOLDER", Path(_migrate.__file__).parent / "_migrations")
        with closing(open_store(url)) as store:
            store.append(events(["a", "b"]), 0)
            secret = store.secret()
    with closing(open_store(url)) as store:
        found = everything(store)
        intact(found)
        assert [event.kind for event in found] == ["upgraded", "upgraded"]
        assert store.secret() == secret
        assert store.append(events(["a", "c"]), 2).seqs == [None, 3]
    open_store(url).close()
    monkeypatch.setattr(_migrate, "FOLDER", Path(_migrate.__file__).parent / "_migrations")
    with pytest.raises(StoreVersionError, match=r"schema 9999, made by a newer version .* knows 0"):
        open_store(url)


@pytest.mark.usefixtures("newer")
def test_a_failed_upgrade_changes_nothing(url: str) -> None:
    broken = _migrate.FOLDER / "versions" / "v9999_later.py"
    working = broken.read_text()
    broken.write_text(working.replace("'upgraded'", "'upgraded' WHERE nothing"))
    with pytest.raises(StoreDamagedError, match="nothing"):
        open_store(url)
    with engine(url).connect() as connection:
        assert inspect(connection).get_table_names() == []
    broken.write_text(working)
    open_store(url).close()


def test_opened_by_many_at_once(url: str) -> None:
    with ThreadPoolExecutor(6) as threads:
        stores = list(threads.map(open_store, [url] * 6))
    for number, store in enumerate(stores):
        assert store.append(events([f"k{number}"]), number).seqs == [number + 1]
        store.close()


def test_tables_of_somebody_else(url: str) -> None:
    with engine(url).begin() as connection:
        connection.execute(text("CREATE TABLE meta (theirs integer)"))
    with pytest.raises(StoreVersionError, match=r"did not make: \['meta'\]"):
        open_store(url)
    with engine(url).connect() as connection:
        assert inspect(connection).get_table_names() == ["meta"]
