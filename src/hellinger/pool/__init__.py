"""The pool: exact top-k of any number of live items, in microseconds."""

from __future__ import annotations

from hellinger.pool.departures import Departure, Leaving
from hellinger.pool.group_effects import GroupEffect
from hellinger.pool.pool import Pool
from hellinger.pool.rows import Ranked, Stats, Table
from hellinger.pool.segments import SegmentedPool

__all__ = ["Departure", "GroupEffect", "Leaving", "Pool", "Ranked", "SegmentedPool", "Stats", "Table"]
