"""The log's upkeep: ``snapshot``, ``check``, ``compact``, ``dump`` and ``restore``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._interrupt import keeping
from hellinger.cli._service import reached
from hellinger.cli.simulate import tracked
from hellinger.errors import InputError, needs_extra

if TYPE_CHECKING:
    from hellinger.ledger.recovery import Compaction
    from hellinger.store import Store

__all__ = ["DEFAULT", "Database", "check", "compact", "dump", "opened", "restore", "snapshot"]

DAY = 86_400_000

Database = Annotated[
    str,
    typer.Option(envvar="HELLINGER_DATABASE", help="Where the log is: sqlite:///file.db or postgresql://…"),
]
DEFAULT = "sqlite:///hellinger.db"


@contextlib.contextmanager
def opened(database: str) -> Iterator[Store]:
    """The log at this address, which must exist."""
    from hellinger.store import open_store

    if database.startswith("sqlite:") and not Path(database.partition("///")[2]).is_file():
        raise InputError(f"no database at {database}: name one with --database")
    store = open_store(database)
    try:
        yield store
    finally:
        store.close()


def _folding(quiet: bool) -> AbstractContextManager[Callable[[int, int], None]]:
    return tracked("folding the log", quiet=quiet, compiles=False)


def _say(json: bool, text: str, **values: object) -> None:
    if json:
        emit(values)
    else:
        console.print(text, highlight=False)


@app.command()
def snapshot(
    database: Database = DEFAULT,
    retention_days: Annotated[float | None, typer.Option(help="Then compact events older than this.", min=0)] = None,
    attribution_hours: Annotated[float, typer.Option(help="How long feedback was learned.", min=0)] = 24.0,
    json: JsonFlag = False,
) -> None:
    """Fold the log into a snapshot, so that the next start of the service is quick. Works beside a running service."""
    _give_way()
    with needs_extra("serve"):
        from hellinger.ledger import recovery

    with (
        keeping("the log is as it was, and so are its snapshots"),
        opened(database) as store,
        _folding(json) as progress,
    ):
        reached = recovery.take_snapshot(store, progress=progress)
        deleted = 0
        if retention_days is not None:
            deleted = _compact(store, retention_days, attribution_hours, progress).deleted
    _say(json, f"snapshot at event {reached:,}", seq=reached, deleted=deleted)


def _give_way() -> None:
    """Leave the processors to a service that runs beside: before Polars is imported, which has as many threads."""
    os.nice(5)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")


def _compact(store: Store, days: float, hours: float, progress: Callable[[int, int], None]) -> Compaction:
    with needs_extra("serve"):
        from hellinger.events import now
        from hellinger.ledger import recovery

    window = round(hours * 3_600_000)
    return recovery.compact(store, before=now() - round(days * DAY), window=window, progress=progress)


@app.command()
def compact(
    database: Database = DEFAULT,
    retention_days: Annotated[float, typer.Option(help="Keep events of the last so many days.", min=0)] = 90.0,
    attribution_hours: Annotated[float, typer.Option(help="How long feedback was learned.", min=0)] = 24.0,
    json: JsonFlag = False,
) -> None:
    """Let old events go, their counts kept. Rankings of one more attribution window stay, for their feedback."""
    _give_way()
    note = "every count is kept; the same command deletes the old events that are left"
    with keeping(note), opened(database) as store, _folding(json) as progress:
        done = _compact(store, retention_days, attribution_hours, progress)
    _say(
        json,
        f"{done.deleted:,} events gone, up to event {done.through:,}; their counts are kept",
        deleted=done.deleted,
        through=done.through,
    )


@app.command()
def check(
    database: Database = DEFAULT,
    service: Annotated[
        str | None, typer.Option(help="Compare this running service too, number by number: http://127.0.0.1:8000.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(envvar="HELLINGER_KEY", help="The service's key, with the role admin.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Prove that the counts are the fold of the log: fold it anew, and compare every number.

    With --service, also what a running service ranks by: every pool's counts, prior and indices, as of the place in the
    log where the service is.
    """
    with needs_extra("serve"):
        from hellinger.ledger import recovery

    with keeping("the log was only read"), opened(database) as store, _folding(json) as progress:
        wrong = recovery.check(store, progress=progress)
        if service is not None:
            wrong += _compared(store, service, key, progress)
        events, last = store.count(), store.last()
    running = f", and {service} ranks by it" if service else ""
    good = f"{events:,} events up to {last:,}: every count is the fold of the log{running}"
    _say(json, good if not wrong else "\n".join(wrong), ok=not wrong, differences=wrong, events=events, seq=last)
    if wrong:
        raise typer.Exit(1)


def _compared(store: Store, url: str, key: str | None, progress: Callable[[int, int], None]) -> list[str]:
    """Where a running service is not what its log says.

    The whole answer is read before anything is compared, which takes long: a service ends an answer that is not read.
    """
    from itertools import islice
    from tempfile import TemporaryFile

    with needs_extra("serve"):
        import orjson

        from hellinger.engine import checking

    with TemporaryFile() as answer:
        with reached(url, key) as client:
            answer.writelines(orjson.dumps(part) + b"\n" for part in client.state())
        answer.seek(0)
        found = list(islice(checking.compare(store, map(orjson.loads, answer), progress=progress), 21))
    return found if len(found) <= 20 else [*found[:20], "and more"]


@app.command()
def dump(
    file: Annotated[Path, typer.Argument(help="File to write.")],
    database: Database = DEFAULT,
    json: JsonFlag = False,
) -> None:
    """Write the whole log to one file, checksummed, that `restore` reads into either kind of database."""
    with needs_extra("serve"):
        import hellinger.store.transfer as transfer

    with keeping(f"{file} was not written; the log was only read"), opened(database) as store:
        transfer.dump(store, file)
        events = store.count()
    _say(json, f"{events:,} events in {file}", events=events, file=str(file))


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="File that `dump` wrote.", exists=True, dir_okay=False)],
    database: Database = DEFAULT,
    json: JsonFlag = False,
) -> None:
    """Read a dump into an empty database. A damaged file is refused, and nothing is written."""
    with needs_extra("serve"):
        import hellinger.store.transfer as transfer
        from hellinger.store import open_store

    with keeping("the database is empty as before; the same command begins again"):
        transfer.restore(file, database)
    store = open_store(database)
    try:
        events = store.count()
    finally:
        store.close()
    _say(json, f"{events:,} events from {file}", events=events, file=str(file))
