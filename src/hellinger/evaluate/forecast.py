r"""How much more the log would have to be drawn at random before it can tell, and what that costs.

Where a share ε of all places is filled with one of E items at random, an item that the logger would not show has the
propensity ε/E, and the weighted reward of a place has a variance of about μE/ε. A difference of δ a ranking is told at
the level of the intervals after

.. math:: n = \frac{2 \log(2B/α)\, \sum_j μE/ε}{δ^2}

rankings, B being the number of bets that the bounds are mixed of. Meanwhile the drawn places earn as little as chance
does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hellinger.errors import require
from hellinger.experiment._mixture import UP

__all__ = ["PATIENCE", "Exploration", "forecast"]

SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
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


def forecast(
    *,
    logged: float,
    drawn: float,
    difference: float,
    overlap: float,
    places: float,
    items: int,
    daily: float,
    alpha: float = 0.05,
) -> tuple[list[Exploration], str]:
    """Shares of random places from small to large, and in one sentence the cheapest that tells in time.

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

    Examples
    --------
    >>> forecast(logged=0.05, drawn=0.02, difference=0.1, overlap=0.5, places=5, items=50, daily=20_000)[1]
    '10 % random places for 5 days would tell; price: about 1,400 of reward'
    """
    require(places > 0 and items > 0 and difference != 0.0, "0 < places, 0 < items, difference != 0", places=places)
    bets = 2.0 * math.log(2.0 * UP.size / alpha)
    options = []
    for share in SHARES:
        variance = places * logged * ((1.0 - overlap) * items / share + overlap)
        rankings = bets * variance / (difference * difference)
        price = share * places * rankings * max(logged - drawn, 0.0)
        options.append(Exploration(share, rankings, rankings / daily if daily > 0.0 else math.inf, price))
    return options, _sentence(options)


def _sentence(options: list[Exploration]) -> str:
    timely = [each for each in options if each.days <= PATIENCE]
    if not timely:
        last = options[-1]
        long = f"{last.days:,.0f} days" if math.isfinite(last.days) else f"{last.rankings:,.0f} rankings"
        return f"random places would hardly tell: even {100 * last.share:g} % of them would take {long}"
    # the price hardly depends on the share: the smallest that is soon enough disturbs least
    best = next((each for each in timely if each.days <= _SOON), timely[-1])
    days = max(1, math.ceil(best.days))
    price = float(f"{best.price:.2g}")
    return (
        f"{100 * best.share:g} % random places for {days} day{'s' * (days > 1)} would tell; "
        f"price: about {price:,.0f} of reward"
    )
