"""Clients of the service: :class:`Client`, :class:`AsyncClient`, and buffers that send feedback in batches."""

from __future__ import annotations

from hellinger.errors import needs_extra

with needs_extra("serve"):
    from hellinger.client.answers import (
        Added,
        CalibrationClass,
        CountRow,
        Experiment,
        ExperimentPhase,
        ExperimentSummary,
        Feedback,
        Health,
        HistoryMark,
        Imported,
        Item,
        ItemHistory,
        ItemHistoryColumn,
        LearnedEffect,
        LearnedModel,
        LiveMessage,
        NewItem,
        Outcome,
        Position,
        Positions,
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
    from hellinger.client.errors import BufferFullError, ClientError, ServiceError, UnreachableError
    from hellinger.client.retry import Retry

__all__ = [
    "Added",
    "AsyncClient",
    "AsyncFeedbackBuffer",
    "BufferFullError",
    "CalibrationClass",
    "Client",
    "ClientError",
    "CountRow",
    "Experiment",
    "ExperimentPhase",
    "ExperimentSummary",
    "Feedback",
    "FeedbackBuffer",
    "Health",
    "HistoryMark",
    "Imported",
    "Item",
    "ItemHistory",
    "ItemHistoryColumn",
    "LearnedEffect",
    "LearnedModel",
    "LiveMessage",
    "NewItem",
    "Outcome",
    "Position",
    "Positions",
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
