"""The fold of the event log: every count, and nothing that the log does not say."""

from __future__ import annotations

from hellinger.ledger.catalogue import DELETED, EXPIRED, HIDDEN, SHOWN, STATES, Catalogue
from hellinger.ledger.counts import Columns, Counts, Floats, Slots, added
from hellinger.ledger.ledger import COMMON, Ledger, Listener
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
    "Floats",
    "Ledger",
    "Listener",
    "Request",
    "Requests",
    "Series",
    "Slots",
    "added",
    "spoken_of",
]
