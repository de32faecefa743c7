"""The event log in SQL: ordered, idempotent, durable.

:class:`Store` is the contract; each public module that defines a class with ``schemes`` is an implementation, and
:func:`open_store` finds it by its URL. :mod:`hellinger.store.transfer` moves a log from one database to another.
"""

from __future__ import annotations

from hellinger.errors import needs_extra

with needs_extra("serve"):
    from hellinger.store._contract import Appended, Store
    from hellinger.store._registry import available, open_store, reserve
    from hellinger.store.errors import StoreDamagedError, StoreError, StoreUnavailableError, StoreVersionError

__all__ = [
    "Appended",
    "Store",
    "StoreDamagedError",
    "StoreError",
    "StoreUnavailableError",
    "StoreVersionError",
    "available",
    "open_store",
    "reserve",
]
