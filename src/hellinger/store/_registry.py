"""Stores by the scheme of their URL, discovered from the modules of this package."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from pathlib import Path

from hellinger.errors import UnknownNameError
from hellinger.store._contract import Store

__all__ = ["available", "open_store", "reserve"]


@functools.cache
def available() -> dict[str, type[Store]]:
    """Every store by each of its schemes."""
    package = __name__.rpartition(".")[0]
    found: dict[str, type[Store]] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("_"):
            continue
        for value in vars(importlib.import_module(f"{package}.{module.name}")).values():
            schemes = vars(value).get("schemes") if isinstance(value, type) else None
            found.update(dict.fromkeys(schemes or (), value))
    return dict(sorted(found.items()))


def open_store(url: str, *, exclusive: bool = False) -> Store:
    """Open the log at a URL, made if it is not there and upgraded if it is older.

    Parameters
    ----------
    url
        ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user:password@host/database``; either
        takes ``?timeout=seconds``.
    exclusive
        Ask to be the only service on a database that is made for one.

    Examples
    --------
    >>> import tempfile
    >>> from hellinger.events import Event
    >>> store = open_store(f"sqlite:///{tempfile.mkdtemp()}/log.db")
    >>> store.append([Event("a", "rank", 0, "{}"), Event("b", "rank", 0, "{}"), Event("a", "rank", 1, "{}")], after=0)
    Appended(seqs=[1, 2, None], others=[])
    >>> store.close()
    """
    return _named(url).open(url, exclusive=exclusive)


def reserve(url: str) -> int | None:
    """Ask to be the only service on a database that is made for one, for the processes that inherit the descriptor.

    The lock ends with the last of them. None where the database is made for several services.
    """
    return _named(url).reserve(url)


def _named(url: str) -> type[Store]:
    scheme = url.partition(":")[0]
    if scheme not in available():
        raise UnknownNameError("store", scheme, [f"{known}:" for known in available()])
    return available()[scheme]
