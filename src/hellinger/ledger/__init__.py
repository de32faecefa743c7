"""The fold of the event log: every count, and nothing that the log does not say."""

from __future__ import annotations

from hellinger.ledger.catalogue import DELETED, EXPIRED, HIDDEN, SHOWN, STATES, Catalogue
from hellinger.ledger.ledger import COMMON, Columns, Counts, Ledger, Listener, added
from hellinger.ledger.requests import Request, Requests, spoken_of
from hellinger.ledger.series import RESOLUTIONS, Series

__all__ = [
    "COMMON",
    "DELETED",
    "EXPIRED",
    "HIDDEN",
    "RESOLUTIONS",
    "SHOWN",
    "STATES",
    "Catalogue",
    "Columns",
    "Counts",
    "Ledger",
    "Listener",
    "Request",
    "Requests",
    "Series",
    "added",
    "spoken_of",
]
