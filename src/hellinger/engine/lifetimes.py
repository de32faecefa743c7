"""How many times more items can be shown: until they expire, by the traffic that there was.

An event of the kind ``pace`` says how many rankings an hour each variant makes, and at what time that is said. Until
the next one an item has as many rankings left as are to be expected from that time until its date. So time enters by
the log alone: what an item has left does not depend on when somebody looked.

What an item has left matters as its logarithm, in half octaves (``hellinger.pool._lives``). The next event is due after
a 32nd of what half of the items have left at least, so that most of them are hardly ever in a class that they have
left; one in its last minutes may be.
"""

from __future__ import annotations

import numpy as np

from hellinger.engine.dates import Dates
from hellinger.engine.drafts import WRITER, Draft
from hellinger.ledger import HIDDEN, RESOLUTIONS, Floats, Ledger, Slots
from hellinger.ledger.series import TimeSeries

__all__ = ["FEWEST", "draft", "due", "hourly", "left_of"]

FEWEST = 100
"""Rankings of a variant that tell how many it makes."""
_MINUTE, _HOUR, _DAY = (RESOLUTIONS[name] for name in ("minute", "hour", "day"))
_OFTEN = 32
_SAMPLE = 4096
"""Items whose dates say when the next event is due."""


def hourly(series: TimeSeries, at: int) -> dict[str, float]:
    """How many rankings an hour each variant makes: over the last day, or for longer where that has few.

    Of one that began later, since then. None of a variant that has made too few to tell.
    """
    minutes, start = series.steps["minute"], at - _DAY
    made: dict[str, float] = {}
    since: dict[str, int] = {}
    for minute in sorted(minutes, reverse=True):
        began = minute * _MINUTE
        for variant, (requests, *_) in minutes[minute].items():
            if not requests:
                continue
            if began >= start or made.get(variant, 0.0) < FEWEST:
                made[variant] = made.get(variant, 0.0) + requests
                since[variant] = began
            else:  # it was there before, and what is counted is of the whole day
                since[variant] = min(since[variant], start)
    return {
        variant: made[variant] * _HOUR / max(at - since[variant], _MINUTE)
        for variant in sorted(made)
        if made[variant] >= FEWEST
    }


def due(ledger: Ledger, dates: Dates, at: int) -> bool:
    """Whether it is to be said anew how many rankings are made: some item has a date, and enough time has passed."""
    if not dates.known:
        return False
    place, fields = ledger.pace
    if place:  # a little ahead is another replica's clock; what one that was wrong has said holds no longer
        return not int(fields["at"]) - _HOUR <= at < int(fields["until"])
    minutes, totals = ledger.series.steps["minute"], ledger.series.totals
    return sum(made for made, *_ in totals.values()) >= FEWEST and at >= (min(minutes) + 1) * _MINUTE


def draft(ledger: Ledger, dates: Dates, at: int) -> Draft:
    """Say how many rankings are made, and until when that holds."""
    after = ledger.pace[0]
    fields = {"after": after, "hourly": hourly(ledger.series, at), "until": at + _wait(ledger, dates, at)}
    return Draft.of(f"pace/{after}", "pace", at, fields | {"writer": WRITER})


def _wait(ledger: Ledger, dates: Dates, at: int) -> int:
    """Milliseconds until the next event."""
    size = len(ledger.catalogue.ids)
    slots = np.arange(0, size, 1 + size // _SAMPLE)
    ends = dates.ends(slots[ledger.catalogue["state"][slots] <= HIDDEN])
    left = ends[ends > at] - at
    return min(max(int(np.median(left)) // _OFTEN, _MINUTE), _HOUR) if left.size else _HOUR


def left_of(ledger: Ledger, variant: str | None, ends: Slots) -> Floats:
    """How many rankings more items that end at these times can be in, of one variant or of all.

    Not a number where an item never ends (0), or where nobody knows how many rankings are made.
    """
    _, fields = ledger.pace
    rates: dict[str, float] = fields.get("hourly", {})
    rate = sum(rates.values()) if variant is None else rates.get(variant, 0.0)
    if not rate:
        return np.full(ends.size, np.nan)
    return np.where(ends > 0, np.maximum(ends - fields["at"], 0) * (rate / _HOUR), np.nan)
