"""Clients of the service: :class:`Client`, :class:`AsyncClient`, and buffers that send feedback in batches."""

from __future__ import annotations

from hellinger.client.answers import (
    Added,
    CountRow,
    Experiment,
    ExperimentPhase,
    ExperimentSummary,
    Feedback,
    Health,
    Imported,
    Item,
    NewItem,
    Outcome,
    RankedItem,
    Ranking,
    Rejected,
    Series,
    SeriesColumn,
    Standing,
    VariantStanding,
)
from hellinger.client.buffer import AsyncFeedbackBuffer, FeedbackBuffer
from hellinger.client.client import AsyncClient, Client
from hellinger.client.errors import ServiceError, UnreachableError
from hellinger.client.retry import Retry

__all__ = [
    "Added",
    "AsyncClient",
    "AsyncFeedbackBuffer",
    "Client",
    "CountRow",
    "Experiment",
    "ExperimentPhase",
    "ExperimentSummary",
    "Feedback",
    "FeedbackBuffer",
    "Health",
    "Imported",
    "Item",
    "NewItem",
    "Outcome",
    "RankedItem",
    "Ranking",
    "Rejected",
    "Retry",
    "Series",
    "SeriesColumn",
    "ServiceError",
    "Standing",
    "UnreachableError",
    "VariantStanding",
]
