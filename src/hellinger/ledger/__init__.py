"""The fold of the event log: every count, and nothing that the log does not say."""

from __future__ import annotations

from hellinger.experiment.names import MAIN
from hellinger.ledger.catalogue import DELETED, EXPIRED, HIDDEN, SHOWN, STATES, Catalogue
from hellinger.ledger.changes import Changes
from hellinger.ledger.counts import Columns, Counts, Entries, Floats, Slots, added, joined
from hellinger.ledger.errors import EventError, UnknownKindError
from hellinger.ledger.ledger import COMMON, Ledger, placed, starting
from hellinger.ledger.requests import Request, Requests, spoken_of
from hellinger.ledger.series import RESOLUTIONS, TimeSeries
from hellinger.ledger.shares import BUCKETS, Share, Shares, Users

__all__ = [
    "BUCKETS",
    "COMMON",
    "DELETED",
    "EXPIRED",
    "HIDDEN",
    "MAIN",
    "RESOLUTIONS",
    "SHOWN",
    "STATES",
    "Catalogue",
    "Changes",
    "Columns",
    "Counts",
    "Entries",
    "EventError",
    "Floats",
    "Ledger",
    "Request",
    "Requests",
    "Share",
    "Shares",
    "Slots",
    "TimeSeries",
    "UnknownKindError",
    "Users",
    "added",
    "joined",
    "placed",
    "spoken_of",
    "starting",
]
