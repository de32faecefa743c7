"""What was sent, counted as the service ought to count it; and where the service's counts differ."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hellinger.client import Experiment, Item, Outcome, Ranking

__all__ = ["Baseline", "SentCounts", "differences"]

_TOLERANCE = 1e-6
"""Rewards are whole multiples of 2⁻²⁰ on the service's side."""


class SentCounts:
    """Everything sent so far.

    Parameters
    ----------
    weights
        Points of each kind of feedback on the service, 1 for the others.
    confirmed
        Whether impressions count when they are confirmed, not when they are served.
    """

    def __init__(self, *, weights: Mapping[str, float] | None = None, confirmed: bool = False) -> None:
        self._weights = dict(weights or {})
        self._confirmed = confirmed
        self.requests: Counter[str] = Counter()
        """Answered rankings by variant."""
        self.impressions: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By variant and item."""
        self.rewards: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.kinds: Counter[str] = Counter()
        """Feedback sent by kind, repetitions left out."""
        self.repeated = 0
        """Feedback sent a second time on purpose."""
        self.aborted = 0
        """Requests cut before their answer."""
        self.resolved = 0
        """Those whose answer was asked for again in the end."""
        self.abandoned = 0
        self.empty = 0
        """Rankings without an item."""
        self.added = 0
        self.expired = 0
        self.failures = 0
        """Calls given up after all retries."""
        self.outcome = Outcome()
        """The service's answers to feedback, added up."""
        self.seen = Outcome()
        """The service's answers to confirmations, added up."""
        self.latencies = array("d")
        """Seconds from request to ranking."""
        self._variants: dict[str, str] = {}
        self._points: dict[tuple[str, str], dict[str, float]] = {}
        self._shown: set[tuple[str, str]] = set()

    # What was sent ------------------------------------------------------------------------------------

    def ranked(self, ranking: Ranking) -> None:
        """Count a ranking that was answered."""
        if ranking.ranking_id in self._variants:
            return
        self._variants[ranking.ranking_id] = ranking.variant
        self.requests[ranking.variant] += 1
        self.empty += not ranking.items
        if not self._confirmed:
            self.impressions[ranking.variant].update(ranking.ids)

    def saw(self, request: str, item: str) -> None:
        """Count a confirmation, or feedback, which is one."""
        if self._confirmed and (request, item) not in self._shown:
            self._shown.add((request, item))
            self.impressions[self._variants[request]][item] += 1

    def fed_back(self, request: str, item: str, kind: str) -> None:
        """Count feedback: once for (request, item, kind), and at most one point for an impression."""
        kinds = self._points.setdefault((request, item), {})
        if kind in kinds:
            self.repeated += 1
            return
        self.kinds[kind] += 1
        self.saw(request, item)
        before = min(1.0, sum(kinds.values()))
        kinds[kind] = min(1.0, max(0.0, self._weights.get(kind, 1.0)))
        gained = min(1.0, sum(kinds.values())) - before
        if gained:
            self.rewards[self._variants[request]][item] += gained

    # What it amounts to -------------------------------------------------------------------------------

    def percentiles(self, last: int | None = None) -> dict[str, float]:
        """Milliseconds until a ranking was there: median, 95th and 99th percentile, of the last so many."""
        some = np.asarray(self.latencies[-last:] if last else self.latencies)
        if not some.size:
            return {}
        return {f"p{q}": round(float(np.percentile(some, q)) * 1000.0, 2) for q in (50, 95, 99)}

    def as_json(self) -> dict[str, Any]:
        """Everything but the items one by one."""
        return {
            "requests": self.requests.total(),
            "impressions": sum(counts.total() for counts in self.impressions.values()),
            "rewards": sum(sum(counts.values()) for counts in self.rewards.values()),
            "feedback": dict(sorted(self.kinds.items())),
            "repeated": self.repeated,
            "aborted": self.aborted,
            "resolved": self.resolved,
            "abandoned": self.abandoned,
            "empty": self.empty,
            "added": self.added,
            "expired": self.expired,
            "failures": self.failures,
            "variants": {
                name: {
                    "requests": self.requests[name],
                    "impressions": self.impressions[name].total(),
                    "rewards": sum(self.rewards[name].values()),
                }
                for name in sorted(self.requests)
            },
            "answers": _answers(self.outcome),
            "latency_ms": self.percentiles(),
        }


def _answers(outcome: Outcome) -> dict[str, int]:
    rejected = len(outcome.rejected)
    return {
        "accepted": outcome.accepted,
        "duplicate": outcome.duplicate,
        "late": outcome.late,
        "unknown": outcome.unknown,
        "rejected": rejected,
    }


class Baseline(NamedTuple):
    """What a service had counted at a time."""

    variants: Mapping[str, tuple[float, float, float]]
    """Requests, impressions and reward by variant."""
    items: Mapping[tuple[str, str], tuple[float, float]]
    """Impressions and rewards by variant and item."""

    @classmethod
    def of(cls, experiment: Experiment, items: Iterable[Item]) -> Baseline:
        """From what the service says."""
        variants = {row.variant: (row.requests, row.impressions, row.reward) for row in experiment.variants}
        counts = {}
        for item in items:
            for variant, standing in item.variants.items():
                if standing.impressions or standing.rewards:
                    counts[variant, item.id] = (standing.impressions, standing.rewards)
        return cls(variants, counts)


def differences(before: Baseline, after: Baseline, sent: SentCounts) -> list[str]:
    """Where what the service counted between two times is not what was sent, number by number, in words."""
    found: list[str] = []
    for variant in sorted({*after.variants, *sent.requests}):
        was, now = (one.variants.get(variant, (0.0, 0.0, 0.0)) for one in (before, after))
        sums = (sent.requests[variant], sent.impressions[variant].total(), sum(sent.rewards[variant].values()))
        for what, old, new, wanted in zip(("requests", "impressions", "reward"), was, now, sums, strict=True):
            _compare(found, f"{what} of {variant}", new - old, wanted)
    both = (sent.impressions, sent.rewards)
    pairs = {(variant, item) for counts in both for variant, items in counts.items() for item in items}
    for variant, item in sorted({*after.items, *before.items, *pairs}):
        past, now_ = (one.items.get((variant, item), (0.0, 0.0)) for one in (before, after))
        own = (sent.impressions[variant][item], sent.rewards[variant].get(item, 0.0))
        for what, old, new, wanted in zip(("impressions", "rewards"), past, now_, own, strict=True):
            _compare(found, f"{what} of {item!r} with {variant}", new - old, wanted)
    return found


def _compare(found: list[str], what: str, counted: float, sent: float) -> None:
    if abs(counted - sent) > _TOLERANCE * max(1.0, sent):
        found.append(f"{what}: sent {sent:g}, counted {counted:g}")
