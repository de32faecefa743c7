"""What can go wrong with a log. The messages are for operators: they may name files and hosts, never passwords."""

from __future__ import annotations

from hellinger.errors import HellingerError

__all__ = ["StoreDamagedError", "StoreError", "StoreUnavailableError", "StoreVersionError"]


class StoreError(HellingerError):
    """Anything that is wrong with the database rather than with what it was given."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached, or cannot write just now: worth trying again, with the same keys."""


class StoreVersionError(StoreError):
    """The database was made by a newer version of this package, or by something else altogether."""


class StoreDamagedError(StoreError):
    """What was read is not what was written."""
