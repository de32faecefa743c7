r"""How much more the log would have to be drawn at random before it can tell, and what that costs.

Where a share ε of all places is filled with one of E items at random, an item that the logger would not show has the
propensity ε/E, and the weighted reward of a place has a variance of about μE/ε. A difference of δ a ranking is told at
the level of the intervals after

.. math:: n = \frac{2 \log(2B/α)\, \sum_j μE/ε}{δ^2}

rankings, B being the number of bets that the bounds are mixed of. Meanwhile the drawn places earn as little as chance
does.

Where what the policy would show is among the m items that follow the last place, in a share s of rankings one place of
k can be given to one of these (``next_share``). The chance of an item at a place is then s/(km) instead of ε/E, and
what is given up is the difference of one place to an item nearly as good.

Where it differs in the last places alone, and there among the Z items within a share of the last one's index, these can
come in random order (``near_ties``): each is at each of z places with chance 1/Z, the variance is z·μZ, and what is
given up is the difference between the best z of them and all. Indices of items that were not shown are not logged:
:func:`near_ties` takes their rates instead, so that Z is too small where many items are young.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.experiment._mixture import UP

__all__ = ["EXPLORED", "PATIENCE", "Exploration", "NearTies", "forecast", "in_time", "near_ties", "suggested"]

SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
NEAR = (0.01, 0.02, 0.05, 0.1, 0.2)
"""What ``near_ties`` may be set to."""
EXPLORED = ("setting", "it tells", "rankings", "days", "price, in reward")
"""What the cells of an :class:`Exploration` are."""
PATIENCE = 60.0
"""Days after which nobody waits any longer."""
_SOON = 7.0
"""Days that are soon enough."""


class Exploration(NamedTuple):
    """A share of places that are drawn at random: how long until it tells, and what it costs."""

    share: float
    rankings: float
    days: float
    """Infinite where the log does not say how long it took."""
    price: float
    """Reward that is given up until then."""
    setting: str = "random_share"
    """Whose share it is: ``random_share`` of rankings drawn from all, ``next_share`` with one place for the next, or
    ``near_ties`` of the last place's index."""

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """A row of a table: the setting, when it tells, after how many rankings and days, and its price.

        >>> Exploration(0.02, 81_234.5, 3.2, 411.0).cells
        ('random_share = 0.02', 'whatever it shows', '81,000', '4', '410')
        """
        where = {
            "random_share": "whatever it shows",
            "next_share": "if it shows items that follow the last place",
            "near_ties": "if it differs among near-ties of the last place alone",
        }[self.setting]
        days = f"{max(1, math.ceil(self.days)):,}" if math.isfinite(self.days) else "–"
        rankings, price = (f"{float(f'{number:.2g}'):,.0f}" for number in (self.rankings, self.price))
        return f"{self.setting} = {self.share:g}", where, rankings, days, price


class NearTies(NamedTuple):
    """Items that are about as good as the one at the last place."""

    share: float
    """Of its rate, that theirs are apart from it at most."""
    places: int
    """Of a ranking, that are filled from them."""
    items: int
    loss: float
    """Reward of a ranking that is given up where they come in random order."""


def near_ties(
    rates: npt.NDArray[np.float64], places: int, *, looks: float = 1.0, next_items: int = 20
) -> list[NearTies]:
    """Near-ties of the last place by items' rates, for each share that has any beyond it.

    Parameters
    ----------
    rates
        Of all items.
    places
        Of a ranking.
    looks
        At the last places, relative to those that rates are of.
    next_items
        How many of those that follow the last place may be drawn.

    Examples
    --------
    >>> near_ties(np.array([0.5, 0.2, 0.19, 0.1]), 2)[0]
    NearTies(share=0.05, places=1, items=2, loss=0.005)
    """
    best = np.sort(rates)[::-1][: places + next_items]
    found = []
    for share in NEAR if best.size > places else ():
        zone = np.flatnonzero(np.abs(best - best[places - 1]) <= share * best[places - 1] * (1.0 + 1e-9))
        first = int(zone[0])
        if zone[-1] >= places:
            loss = (places - first) * float(best[first:places].mean() - best[zone].mean()) * looks
            found.append(NearTies(share, places - first, zone.size, round(loss, 12)))
    return found


def forecast(
    *,
    logged: float,
    drawn: float,
    difference: float,
    overlap: float,
    places: float,
    items: int,
    daily: float,
    following: float | None = None,
    next_items: int = 20,
    near: Sequence[NearTies] = (),
    alpha: float = 0.05,
) -> tuple[list[Exploration], str]:
    """Ways to explore, each from small shares to large, and in one sentence those that tell in time at the least price.

    Parameters
    ----------
    logged, drawn
        Reward of a place as it was, and of a place filled at random.
    difference
        Of a ranking's reward, that is to be told from 0.
    overlap
        Share of the policy's places that the logger fills as it would.
    places, items
        Places of a ranking, and items that could be in each.
    daily
        Rankings a day; 0 where it is not known.
    following, next_items
        Reward of a place filled with one of so many items that follow the last place; None where it is not known.
    near
        Near-ties of the last place.

    Examples
    --------
    >>> forecast(logged=0.05, drawn=0.02, difference=0.1, overlap=0.5, places=5, items=50, daily=20_000)[1]
    '10 % random places for 5 days would tell; price: about 1,400 of reward'
    """
    require(places > 0 and items > 0 and difference != 0.0, "0 < places, 0 < items, difference != 0", places=places)
    bets = 2.0 * math.log(2.0 * UP.size / alpha)

    def option(share: float, drawn_places: float, chance: float, loss: float, setting: str) -> Exploration:
        variance = drawn_places * logged * ((1.0 - overlap) / chance + overlap)
        rankings = bets * variance / (difference * difference)
        days = rankings / daily if daily > 0.0 else math.inf
        return Exploration(share, rankings, days, rankings * max(loss, 0.0), setting)

    options = [option(s, places, s / items, s * places * (logged - drawn), "random_share") for s in SHARES]
    best = _chosen(options)
    sentence, found = _sentence(options), list(options)

    def less(other: Exploration) -> bool:
        return best is None or other.price < best.price

    if following is not None and items > places:
        few = min(float(next_items), items - places)
        shares = (*SHARES, 0.5, 1.0)
        found += [option(s, places, s / (places * few), s * (logged - following), "next_share") for s in shares]
        other = _chosen(found[len(options) :])
        if other is not None and less(other):
            sentence += f"; if it shows the {few:.0f} items that follow, {_words(other)}"
    nearby = [option(each.share, each.places, 1.0 / each.items, each.loss, "near_ties") for each in near]
    # the more items they are, the more is told, and the longer it takes
    timely = [place for place, each in enumerate(nearby) if each.days <= PATIENCE]
    soon = [place for place in timely if nearby[place].days <= _SOON]
    chosen = soon[-1] if soon else timely[0] if timely else None
    if chosen is not None and less(nearby[chosen]):
        each = near[chosen]
        last = f"the last {each.places} places" if each.places > 1 else "the last place"
        sentence += f"; if it differs in {last} alone, among {each.items} near-ties, {_words(nearby[chosen])}"
    return found + nearby, sentence


def suggested(options: Sequence[Exploration]) -> list[Exploration]:
    """Of each setting the one to try: the smallest share that tells soon, else the one that tells first."""
    settings = dict.fromkeys(each.setting for each in options)
    each_of = [[each for each in options if each.setting == setting] for setting in settings]
    return [_chosen(its) or min(its, key=lambda each: each.rankings) for its in each_of]


def in_time(options: Sequence[Exploration]) -> list[Exploration]:
    """Those that tell before anybody loses patience; of a setting without any the quickest one."""
    found = []
    for setting in dict.fromkeys(each.setting for each in options):
        its = [each for each in options if each.setting == setting]
        timely = [each for each in its if each.days <= PATIENCE or not math.isfinite(each.days)]
        found += timely or [min(its, key=lambda each: each.rankings)]
    return found


def _chosen(options: list[Exploration]) -> Exploration | None:
    """The smallest share that tells soon enough, or the largest that tells in time."""
    timely = [each for each in options if each.days <= PATIENCE]
    # the price hardly depends on the share: the smallest that is soon enough disturbs least
    return next((each for each in timely if each.days <= _SOON), timely[-1] if timely else None)


def _words(option: Exploration) -> str:
    days = max(1, math.ceil(option.days))
    price = float(f"{option.price:.2g}")
    what = {
        "random_share": f"{100 * option.share:g} % random places",
        "next_share": f"{100 * option.share:g} % of rankings with one of these (next_share)",
        "near_ties": f"near_ties = {option.share:g}",
    }[option.setting]
    return f"{what} for {days} day{'s' * (days > 1)} would tell; price: about {price:,.0f} of reward"


def _sentence(options: list[Exploration]) -> str:
    best = _chosen(options)
    if best is not None:
        return _words(best)
    last = options[-1]
    long = f"{last.days:,.0f} days" if math.isfinite(last.days) else f"{last.rankings:,.0f} rankings"
    return f"random places would hardly tell: even {100 * last.share:g} % of them would take {long}"
