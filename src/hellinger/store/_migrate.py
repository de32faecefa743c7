"""Bring a database to this version's schema: an older one is upgraded, a newer one refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from hellinger.store.errors import StoreVersionError

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["FOLDER", "VERSION_TABLE", "migrate", "revisions"]

FOLDER = Path(__file__).parent / "_migrations"
VERSION_TABLE = "hellinger_version"  # a database shared with another application may have an alembic_version already


def revisions() -> list[str]:
    """Every revision known here, oldest first."""
    return sorted(path.stem[1:].partition("_")[0] for path in (FOLDER / "versions").glob("v*.py"))


def migrate(found: str | None, begin: Callable[[], AbstractContextManager[Connection]]) -> None:
    """Upgrade a database whose revision is ``found``, ``None`` for an empty one.

    ``begin`` opens a transaction that keeps all other upgrades out. It is not called where there is nothing to do, and
    Alembic is not imported then: most commands open a database that is up to date.
    """
    known = revisions()
    _refuse_newer(found, known)
    if found == known[-1]:
        return
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import inspect
    from sqlalchemy.exc import DBAPIError

    from hellinger.store._schema import METADATA

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    try:
        with begin() as connection:
            options = {"version_table": VERSION_TABLE}
            found = MigrationContext.configure(connection, opts=options).get_current_revision()
            _refuse_newer(found, known)  # somebody may have been here since
            foreign = METADATA.tables.keys() & set(inspect(connection).get_table_names())
            if found is None and foreign:
                raise StoreVersionError(f"the database holds tables that this package did not make: {sorted(foreign)}")
            with EnvironmentContext(config, script, fn=lambda at, _: script._upgrade_revs("head", at)) as environment:
                environment.configure(connection=connection, target_metadata=METADATA, version_table=VERSION_TABLE)
                environment.run_migrations()
    except DBAPIError as error:  # the driver's own, which the store knows how to tell
        raise (error.orig or error) from None


def _refuse_newer(found: str | None, known: list[str]) -> None:
    if found is not None and found not in known:
        raise StoreVersionError(
            f"the database has schema {found}, made by a newer version of this package; this one knows {known[-1]}"
        )
