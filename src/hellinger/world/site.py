r"""A simulated site: pages of slots, feedback in batches and late, items that come and go, rates that change.

Whoever fills the pages is a :class:`Player`: a policy with plain counts, a pool, or the service's desk. What a
shown item earns is a :class:`Source`'s business. :func:`turns` plays the two against each other:

* ``slots`` different items are shown on a page. Feedback is read every ``batch`` pages, at the beginning of a *turn*;
  that of a page is readable after ``delay`` further pages. An impression counts when its feedback is read.
* After so many impressions that a ``day`` is over, the oldest ``arrivals`` items leave at the beginning of the next
  turn, and new ones take their places. Feedback on an item that has left is dropped.
* Every page is for a user of one of ``segments``, drawn uniformly.

With :class:`Clicks`, whether the n-th impression of an item is clicked depends on the seed, the item, n and the
position, never on the player: :math:`P(\text{click}) = j^{-\eta} \cdot \text{rate}` at position j.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hellinger._jit import entry, helper, jit
from hellinger._random import scramble as mix
from hellinger.errors import require

__all__ = ["Clicks", "Player", "Site", "Source", "Turn", "clicks", "turns"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Site(NamedTuple):
    """What a site is like.

    Attributes
    ----------
    items
        How many are there at any time, each in a place.
    slots
        Different items on a page.
    batch, delay
        Pages between two readings of feedback, and pages before a page's feedback can be read.
    arrivals, day
        Items that come, and oldest ones that go, every ``day`` impressions; 0 for items that stay.
    segments
        Of users; pages are theirs with equal chances.
    """

    items: int
    slots: int = 1
    batch: int = 1
    delay: int = 0
    arrivals: int = 0
    day: int = 0
    segments: int = 1

    def check(self) -> Site:
        """Return this, or raise where it makes no sense."""
        require(1 <= self.slots <= self.items, "1 <= slots <= items", slots=self.slots, items=self.items)
        require(self.batch >= 1 and self.delay >= 0, "1 <= batch and 0 <= delay", batch=self.batch, delay=self.delay)
        require(0 <= self.arrivals <= self.items, "0 <= arrivals <= items", arrivals=self.arrivals)
        require(not self.arrivals or self.day >= 1, "a day with arrivals has an impression", day=self.day)
        require(self.segments >= 1, "1 <= segments", segments=self.segments)
        return self


class Player(Protocol):
    """Who fills the pages. A place is a number below ``site.items``; another item may be there later."""

    def choose(self, slots: int, segments: Ints) -> Ints:
        """Places to show on the next pages: a row for each page's segment, or one row if all are alike; best first."""

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Count so many impressions of each place and what they earned; segments are those of the single impressions.

        The impressions of pages that are alike are counted together, whatever the segments.
        """

    def renew(self, places: Ints, items: Ints) -> None:
        """Forget what was known of these places: they have new items."""


class Source(Protocol):
    """What shown items earn."""

    def draw(self, items: Ints, given: Ints, places: Ints, segments: Ints, shown: int) -> Floats:
        """Rewards of the places on each page, a row for each page; adds the impressions to those ``given`` so far.

        ``items`` are those at all places, ``shown`` is how many impressions all items had before.
        """


class Turn(NamedTuple):
    """The pages between two readings of feedback."""

    shown: int
    """Impressions before."""
    places: Ints
    """A row for each page, or one row if all are alike."""
    rewards: Floats
    """A row for each page."""
    segments: Ints
    """Of each page's user."""


def turns(site: Site, player: Player, source: Source, *, seed: int = 0) -> Iterator[Turn]:
    """Play a site without end; users' segments are drawn from the seed."""
    site.check()
    here, given, come = np.arange(site.items), np.zeros(site.items, np.int64), site.items
    users = np.random.default_rng([seed, 0x7365]) if site.segments > 1 else None
    segments = np.zeros(site.batch, np.int64)
    shown, next_day = 0, site.day if site.arrivals else math.inf
    late = _Late(site)
    while True:
        if shown >= next_day:
            next_day += site.day
            oldest = np.arange(come - site.items, come - site.items + site.arrivals) % site.items
            here[oldest], given[oldest] = np.arange(come, come + site.arrivals), 0
            player.renew(oldest, here[oldest])
            come += site.arrivals
        if users is not None:
            segments = users.integers(site.segments, size=site.batch)
        places = player.choose(site.slots, segments)
        turn = Turn(shown, places, source.draw(here, given, places, segments, shown), segments)
        yield turn
        shown += site.batch * site.slots
        if site.delay:
            late.add(turn, here)
            late.read(player, here)
        elif len(places) == 1:
            player.record(places[0], site.batch, turn.rewards.sum(axis=0), segments)
        else:
            player.record(places.ravel(), 1, turn.rewards.ravel(), np.repeat(segments, site.slots))


class _Late:
    """Pages whose feedback has not been read."""

    def __init__(self, site: Site) -> None:
        self._site = site
        empty = np.empty((0, site.slots), np.int64)
        self._pages = [empty, empty, empty.astype(np.float64), empty]  # items, places, rewards, segments

    def add(self, turn: Turn, here: Ints) -> None:
        """Keep a turn's pages."""
        shape = turn.rewards.shape
        places = np.broadcast_to(turn.places, shape)
        new = (here[places], places, turn.rewards, np.broadcast_to(turn.segments[:, None], shape))
        self._pages = [np.concatenate(both) for both in zip(self._pages, new, strict=True)]

    def read(self, player: Player, here: Ints) -> None:
        """Let the player count the pages whose feedback has arrived, items that have left apart."""
        ready = max(0, len(self._pages[0]) - self._site.delay)
        items, places, rewards, segments = (part[:ready].ravel() for part in self._pages)
        self._pages = [part[ready:] for part in self._pages]
        here_still = items == here[places]
        if here_still.any():
            player.record(places[here_still], 1, rewards[here_still], segments[here_still])


def clicks(site: Site, player: Player, source: Source, marks: Sequence[int], *, seed: int = 0) -> list[float]:
    """Rewards by the end of the turn in which each of ``marks`` impressions, in rising order, is reached."""
    total, out = 0.0, list[float]()
    for turn in turns(site, player, source, seed=seed):
        total += float(turn.rewards.sum())
        while len(out) < len(marks) and turn.shown + turn.rewards.size >= marks[len(out)]:
            out.append(total)
        if len(out) == len(marks):
            break
    return out


class Clicks:
    """Clicks at each item's rate.

    Parameters
    ----------
    rates
        Of the items, those to come included: one for each; or a row for each segment; or a table of such rows for each
        of the times in ``since``.
    seed
        What clicks are drawn from.
    since
        Impressions of all items after which each table is in force, in rising order from 0.
    eta
        Position bias: position j is looked at with probability j^−eta.
    """

    def __init__(self, rates: Floats, seed: int, *, since: Sequence[int] = (0,), eta: float = 0.0) -> None:
        require(0 <= eta < math.inf, "0 <= eta < inf", eta=eta)
        self.rates = np.ascontiguousarray(rates, np.float64).reshape(len(since), -1, np.shape(rates)[-1])
        self._since = np.asarray(since, np.int64)
        steps = np.diff(self._since, prepend=-1)
        require(self._since[0] == 0 and bool((steps > 0).all()), "since rises from 0", since=tuple(since))
        self._seed = seed
        self._eta = eta
        self._looks = np.empty(0)
        self._code: Any = None

    def draw(self, items: Ints, given: Ints, places: Ints, segments: Ints, shown: int) -> Floats:
        """Clicks on these pages; rates change between pages, never within one."""
        slots = places.shape[1]
        if self._looks.size != slots:
            self._looks = np.arange(1.0, slots + 1.0) ** -self._eta
        out = np.empty((segments.size, slots))
        query = items, given, places, self.rates, self._since, shown, segments, self._looks, self._seed, out
        if self._code is None:
            self._code = entry(_click, *query)
        known = self._code(*query)
        require(known, "there is a rate for every item and segment", rates=self.rates.shape[1:], shown=shown)
        return out


@helper
def _chance(seed: int, item: int, impression: int) -> float:
    """Decides an item's n-th impression."""
    return float(mix(mix(mix(seed) + np.uint64(item)) + np.uint64(impression)) >> np.uint64(11)) * 2.0**-53


@jit
def _click(
    items: Ints,
    given: Ints,
    places: Ints,
    rates: Floats,
    since: Ints,
    shown: int,
    segments: Ints,
    looks: Floats,
    seed: int,
    out: Floats,
) -> bool:
    """Write the clicks; false where there is no rate. A lone row of rates or places is for all segments or pages."""
    table = 0
    for page in range(out.shape[0]):
        while table + 1 < since.size and since[table + 1] <= shown + page * out.shape[1]:
            table += 1
        segment = segments[page] if rates.shape[1] > 1 else 0
        for j in range(out.shape[1]):
            place = places[page if places.shape[0] > 1 else 0, j]
            item = items[place]
            if item >= rates.shape[2] or segment >= rates.shape[1]:
                return False
            rate = looks[j] * rates[table, segment, item]
            out[page, j] = 1.0 if _chance(seed, item, given[place]) < rate else 0.0
            given[place] += 1
    return True
