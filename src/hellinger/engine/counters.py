"""Plain numbers about what the engine does.

Each is written by one thread and read by others: adding to one costs a tenth of what a locked counter costs.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

__all__ = ["COUNTS", "SECONDS", "Counter", "Counters", "Histogram"]

SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Edges for times: 1, 2, 5, 10 and 20 ms among them, finer around where rankings lie."""

COUNTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 100_000.0)


class Counter:
    """A number that only grows. One thread may write it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Add to it."""
        self.value += amount


class Histogram:
    """How often values fell between two edges, an edge belonging to what is below it. One thread may write it."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: tuple[float, ...] = SECONDS) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Edges with the number of values at or below each."""
        names = [*(repr(edge) for edge in self.edges), "+Inf"]
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))


class Counters:
    """What became of feedback (accepted, duplicate, late, unknown, rejected), and how large and slow commits were."""

    def __init__(self) -> None:
        self.accepted = Counter()
        self.duplicate = Counter()
        self.late = Counter()
        self.unknown = Counter()
        self.rejected = Counter()
        self.commit_events = Histogram(COUNTS)
        self.commit_seconds = Histogram()
