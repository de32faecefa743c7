"""Traffic as real clients send it: a world of users and items, played over HTTP or against a desk."""

from __future__ import annotations

from hellinger.errors import needs_extra

with needs_extra("serve"):
    from hellinger.traffic.driver import Driver, Pace, Report
    from hellinger.traffic.months import DeskPlayer, Log, Played, play
    from hellinger.traffic.tally import Baseline, SentCounts, differences
    from hellinger.world.laws import SiteItem, Supply, from_csv, from_law, from_stories
    from hellinger.world.users import Change, Reaction, UserModel, Visit, World

__all__ = [
    "Baseline",
    "Change",
    "DeskPlayer",
    "Driver",
    "Log",
    "Pace",
    "Played",
    "Reaction",
    "Report",
    "SentCounts",
    "SiteItem",
    "Supply",
    "UserModel",
    "Visit",
    "World",
    "differences",
    "from_csv",
    "from_law",
    "from_stories",
    "play",
]
