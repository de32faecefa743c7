"""Traffic as real clients send it: a world of users and items, played over HTTP or against a desk."""

from __future__ import annotations

from hellinger.traffic.contents import Content, Supply, from_csv, from_law
from hellinger.traffic.driver import Driver, Pace, Report
from hellinger.traffic.months import Log, Played, play
from hellinger.traffic.tally import Baseline, SentCounts, differences
from hellinger.traffic.world import Change, Plan, Reaction, Visit, World

__all__ = [
    "Baseline",
    "Change",
    "Content",
    "Driver",
    "Log",
    "Pace",
    "Plan",
    "Played",
    "Reaction",
    "Report",
    "SentCounts",
    "Supply",
    "Visit",
    "World",
    "differences",
    "from_csv",
    "from_law",
    "play",
]
