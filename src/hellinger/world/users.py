r"""A site's users and items: who comes when, what is looked at, what is clicked, what goes wrong.

The world knows no service. It tells who visits (:meth:`World.visits`), which items come and go
(:meth:`World.changes`), and what a user does with a page once somebody has filled it (:meth:`World.react`). A driver
plays it over HTTP in real time (:mod:`hellinger.traffic.driver`), or against a desk with simulated time
(:mod:`hellinger.traffic.months`).

Model
-----
Users
    come in sessions, a Poisson process whose rate follows the hours of the day; how often a user comes is lognormal
    (``spread``). A session has a geometric number of pages (mean ``pages``), with exponential pauses (mean ``pause``
    seconds). A user is not shown again the ``memory`` items seen last: they go out with the request as ``exclude``.
Looking and clicking
    The position-based model (Richardson et al. 2007; Joachims et al. 2017): position j is looked at with probability

    .. math:: \theta_j = j^{-\eta},

    and what is looked at is clicked with the item's own rate: P(click) = θ_j · rate. A click is followed by a like
    with probability ``like`` and by a comment with probability ``comment``.
Tastes
    With ``taste`` above 1 every user likes two topics, says so with each request (its ``context``), and clicks items of
    these that many times as readily as others: users on average click each item at its own rate.
Delays
    A click happens an exponential time after the page (mean 8 s), a like 20 s after that, a comment 60 s. Word of it
    reaches the service after an exponential time (mean ``delay`` seconds) or, with probability ``slow``, a lognormal
    one (median 10 minutes, σ = 1: a telephone that was offline). So a like may well arrive before its click.
Mishaps
    Word arrives twice with probability ``duplicate``. A page is abandoned (nobody looks) with probability ``abandon``;
    a request is aborted before its answer with probability ``abort``.

Visit number i is drawn from the seed and i alone: the same user at the same time, and the same clicks for the same
page, in whatever order answers come.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np

from hellinger.errors import require
from hellinger.world.laws import TOPICS, SiteItem, Supply

__all__ = ["DAY", "Change", "Reaction", "UserModel", "Visit", "World"]

DAY = 86_400_000
_BLOCK = 512
_LATE_MEDIAN, _LATE_SIGMA = 600.0, 1.0
_LIKED = 2
"""Topics that a user likes."""
_DWELL, _LIKE_AFTER, _COMMENT_AFTER = 8.0, 20.0, 60.0


class UserModel(NamedTuple):
    """What a site's users are like; chances are probabilities, times seconds."""

    visits: float = 100_000.0
    """Pages a day."""
    k: int = 20
    """Slots of a page."""
    users: int = 5_000
    spread: float = 1.0
    """σ of the lognormal law of how often users come; 0 for all alike."""
    pages: float = 3.0
    """Pages of a session, on average."""
    pause: float = 30.0
    """Between two pages of a session, on average."""
    memory: int = 40
    """Items seen last that a user is not shown again."""
    rhythm: float = 0.6
    """How much the traffic swings between night and evening, from 0 to 1."""
    eta: float = 0.5
    """Position bias η: 0 looks at every position alike."""
    like: float = 0.1
    comment: float = 0.03
    delay: float = 5.0
    """Until word of a click arrives, on average."""
    slow: float = 0.05
    duplicate: float = 0.02
    abandon: float = 0.05
    abort: float = 0.005
    arrivals: float = 0.0
    """Items that come, and oldest ones that go, in a day."""
    taste: float = 1.0
    """How many times as readily users click items of the topics that they like; 1 for no tastes."""

    def check(self) -> UserModel:
        """Return this, or raise where it makes no sense."""
        require(0 < self.visits < math.inf, "0 < visits < inf", visits=self.visits)
        require(self.k >= 1, "1 <= k", k=self.k)
        require(self.users >= 1, "1 <= users", users=self.users)
        require(0 <= self.spread <= 5, "0 <= spread <= 5", spread=self.spread)
        require(1 <= self.pages < math.inf, "1 <= pages < inf", pages=self.pages)
        require(self.memory >= 0, "0 <= memory", memory=self.memory)
        require(0 <= self.eta < math.inf, "0 <= eta < inf", eta=self.eta)
        require(1 <= self.taste < math.inf, "1 <= taste < inf", taste=self.taste)
        for name in ("pause", "delay", "arrivals"):
            value = getattr(self, name)
            require(0 <= value < math.inf, f"0 <= {name} < inf", **{name: value})
        for name in ("rhythm", "like", "comment", "slow", "duplicate", "abandon", "abort"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"0 <= {name} <= 1", **{name: value})
        return self


class Visit(NamedTuple):
    """A page that a user asks for, at a time in milliseconds."""

    number: int
    at: int
    user: str
    fate: Literal["read", "abandoned", "aborted"]


class Reaction(NamedTuple):
    """Something done with an item of a page: when it happened, and when word of it arrives."""

    arrives: int
    happened: int
    item: str
    kind: str
    again: bool
    """Whether this is word that arrives a second time."""


class Change(NamedTuple):
    """Items that come or go at a time."""

    at: int
    item: SiteItem
    comes: bool


class World:
    """UserModel and items, from a time on; see this module's words for the model.

    Parameters
    ----------
    users
        What they are like.
    supply
        Where items come from.
    items
        How many are there at the start.
    seed
        What users and clicks are drawn from.
    start
        Milliseconds since 1970.
    """

    def __init__(self, users: UserModel, supply: Supply, *, items: int, seed: int = 0, start: int = 0) -> None:
        require(seed >= 0, "0 <= seed", seed=seed)
        require(items >= 1, "1 <= items", items=items)
        self.users = users.check()
        self.supply = supply
        self.seed = seed
        self.start = start
        self.items = supply.take(items)
        """Those there at the start."""
        self.looks = [j**-users.eta for j in range(1, users.k + 1)]
        """Chance that each position is looked at."""
        rng = np.random.default_rng([seed, 1])
        weights = np.exp(rng.normal(0.0, users.spread, users.users))
        self._shares = list(accumulate((weights / weights.sum()).tolist()))
        self._tastes = np.random.default_rng([seed, 4]).permuted(
            np.tile(np.arange(len(TOPICS), dtype=np.int8), (users.users if users.taste > 1 else 0, 1)), axis=1
        )[:, :_LIKED]
        self._seen: dict[str, deque[str]] = {}
        self._present = deque(self.items)
        self._comings = random.Random(f"{seed}/changes")
        self._next_change = self._change_after(start)
        self._visits = 0
        self._blocks: dict[int, list[list[float]]] = {}

    def resume(self, users: UserModel, start: int) -> None:
        """Go on from a later time, perhaps at another pace: the same items, the users with what they have seen."""
        same = (users.k, users.users) == (self.users.k, self.users.users)
        require(same, "k and users stay as they are", users=users)
        self.users = users.check()
        self.start = start
        self._next_change = self._change_after(start)

    # Who comes ----------------------------------------------------------------------------------------

    def visits(self) -> Iterator[Visit]:
        """Pages asked for, in order of time, from the world's start on, without end."""
        plan, rng = self.users, random.Random(f"{self.seed}/visits/{self._visits}")
        gap = DAY * plan.pages / plan.visits
        goes_on = 1.0 - 1.0 / plan.pages
        waiting: list[tuple[float, int, str]] = []  # next pages of sessions: time, tie, user
        session = float(self.start)
        # as if it had always been so: sessions under way, whose rest does not depend on what was
        under_way = (plan.pages - 1.0) * plan.pause * 1000.0 * self._busy(session) / gap
        for number in range(int(np.random.default_rng([self.seed, 3, self._visits]).poisson(under_way))):
            heapq.heappush(
                waiting, (session + rng.expovariate(1.0) * plan.pause * 1000.0, -number, self._somebody(rng))
            )
        session += rng.expovariate(1.0) * gap / self._busy(session)
        while True:
            if waiting and waiting[0][0] <= session:
                at, _, user = heapq.heappop(waiting)
            else:
                at = session
                user = self._somebody(rng)
                session += rng.expovariate(1.0) * gap / self._busy(session)
            chance = rng.random()
            fate: Literal["read", "abandoned", "aborted"] = "read"
            if chance < plan.abort:
                fate = "aborted"
            elif chance < plan.abort + plan.abandon:
                fate = "abandoned"
            number = self._visits
            self._visits += 1
            yield Visit(number, int(at), user, fate)
            if rng.random() < goes_on:
                heapq.heappush(waiting, (at + rng.expovariate(1.0) * plan.pause * 1000.0, number, user))

    def _somebody(self, rng: random.Random) -> str:
        return f"user-{min(bisect_right(self._shares, rng.random()), self.users.users - 1):06d}"

    def _busy(self, at: float) -> float:
        """How much busier than on average it is at this time of day; quietest at 5 in the morning, UTC."""
        return 1.0 - self.users.rhythm * math.cos(2.0 * math.pi * (at / DAY - 5 / 24))

    def excluded(self, visit: Visit) -> list[str]:
        """What the user has seen of late."""
        return list(self._seen.get(visit.user, ()))

    def likes(self, user: str) -> list[str]:
        """Topics that a user likes; none where users have no tastes."""
        return [TOPICS[topic] for topic in self._tastes[int(user[5:])].tolist()] if self._tastes.size else []

    def context(self, visit: Visit) -> dict[str, Any] | None:
        """What the user's request says of who asks."""
        return {"likes": self.likes(visit.user)} if self._tastes.size else None

    # What they do -------------------------------------------------------------------------------------

    def react(self, visit: Visit, items: Sequence[str]) -> tuple[list[str], list[Reaction]]:
        """What a user looks at on a page filled so, and what comes of it, in order of arrival."""
        plan = self.users
        if plan.memory and items:
            seen = self._seen.get(visit.user)
            if seen is None:
                seen = self._seen[visit.user] = deque(maxlen=plan.memory)
            seen.extend(items)
        if visit.fate != "read":
            return [], []
        looked: list[str] = []
        clicked: list[str] = []
        rates, rate, topics = self.supply.rates, self.supply.rate, self.supply.topics
        likes = self.likes(visit.user)
        other = len(TOPICS) / (_LIKED * plan.taste + len(TOPICS) - _LIKED)
        for item, chance, look in zip(items, self._draws(visit.number), self.looks, strict=False):
            if chance < look:
                looked.append(item)
                click = rates[item] if item in rates else rate(item)
                if likes and item in topics:
                    click *= plan.taste * other if topics[item] in likes else other
                if chance < look * click:
                    clicked.append(item)
        return looked, self._follow(visit, clicked) if clicked else []

    def _follow(self, visit: Visit, clicked: list[str]) -> list[Reaction]:
        plan, rng = self.users, random.Random(f"{self.seed}/{visit.number}")
        out: list[Reaction] = []
        for item in clicked:
            click = visit.at + _ms(rng, _DWELL)
            happened = [("click", click)]
            if rng.random() < plan.like:
                happened.append(("like", click + _ms(rng, _LIKE_AFTER)))
            if rng.random() < plan.comment:
                happened.append(("comment", click + _ms(rng, _COMMENT_AFTER)))
            for kind, when in happened:
                arrives = when + self._transit(rng)
                out.append(Reaction(arrives, when, item, kind, False))
                if rng.random() < plan.duplicate:
                    out.append(Reaction(arrives + self._transit(rng), when, item, kind, True))
        return sorted(out)

    def _transit(self, rng: random.Random) -> int:
        """Milliseconds until the service hears of it."""
        if rng.random() < self.users.slow:
            return int(1000.0 * _LATE_MEDIAN * rng.lognormvariate(0.0, _LATE_SIGMA))
        return _ms(rng, self.users.delay)

    def _draws(self, number: int) -> list[float]:
        """Uniform numbers of a visit, one for each slot, the same whenever they are asked for."""
        block, place = divmod(number, _BLOCK)
        rows = self._blocks.get(block)
        if rows is None:
            if len(self._blocks) > 8:  # visits are answered nearly in order
                del self._blocks[min(self._blocks)]
            rng = np.random.default_rng([self.seed, 2, block])
            rows = self._blocks[block] = rng.random((_BLOCK, self.users.k)).tolist()
        return rows[place]

    # What comes and goes ------------------------------------------------------------------------------

    def changes(self, until: int) -> list[Change]:
        """Items that have come and gone by a time, since this was last asked."""
        out = []
        while self._next_change <= until:
            at = int(self._next_change)
            for item in self.supply.take(1):
                out.append(Change(at, item, True))
                self._present.append(item)
                out.append(Change(at, self._present.popleft(), False))
            self._next_change = self._change_after(self._next_change)
        return out

    def _change_after(self, at: float) -> float:
        rate = self.users.arrivals
        return at + self._comings.expovariate(1.0) * DAY / rate if rate else math.inf


def _ms(rng: random.Random, mean: float) -> int:
    return int(1000.0 * mean * rng.expovariate(1.0))
