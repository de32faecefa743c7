"""Lists of items: which match, in what order, and how each stands."""

from __future__ import annotations

import asyncio
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger.engine.desk import Desk
from hellinger.engine.journal import pause
from hellinger.experiment import Totals, rate_bounds
from hellinger.ledger import DELETED, STATES, Columns, added
from hellinger.serve.answers import ApiError
from hellinger.serve.models import iso
from hellinger.serve.rising import Rises

__all__ = ["cursor", "intervals", "matching", "offset", "rows"]

Slots = npt.NDArray[np.int64]

NAMES = 10_000
"""Items looked at in a search before rankings have their turn."""
ROWS = 50
"""Rows made before rankings have their turn: their intervals take a millisecond."""


def cursor(start: int) -> str:
    """A page's beginning as clients hand it back."""
    return urlsafe_b64encode(str(start).encode()).decode().rstrip("=")


def offset(given: str | None) -> int:
    """The beginning that a cursor stands for."""
    if given is None:
        return 0
    try:
        start = int(urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    except ValueError:
        start = -1
    if not 0 <= start < 2**53:
        raise ApiError(422, f"`cursor` must be the `next` of an earlier answer, but got {given!r}")
    return start


async def matching(
    desk: Desk,
    *,
    tag: str | None,
    state: str | None,
    search: str | None,
    sort: str,
    reverse: bool = False,
    rises: Rises | None = None,
) -> Slots:
    """Slots of the items that match, in order. A search through a large catalogue does not hold up rankings.

    With ``rises`` only the rising match, in their own order.
    """
    catalogue = desk.ledger.catalogue
    places = catalogue.added()
    if rises is None:
        slots = catalogue.present()
    else:
        here = rises.slots < places.size  # all, unless memory was made anew from the log
        slots = rises.slots[here]
        slots = slots[places[slots] == rises.added[here]]
    if tag is not None or state is not None or search:
        matches = _Filter(desk, tag, state, search)
        found = []
        for start in range(0, slots.size, NAMES):
            begun = time.perf_counter()
            found.append(matches.of(slots[start : start + NAMES]))
            await pause(begun)
        slots = np.concatenate([*found, np.empty(0, np.int64)])
    if sort != "rising":
        slots = await asyncio.to_thread(_ordered, desk.ledger.views(), slots, places, sort, reverse)
    same: npt.NDArray[np.bool_] = catalogue["since"][slots] == places[slots]
    return slots[same]  # a slot may have got another item meanwhile


class _Filter:
    """Which of some items match."""

    def __init__(self, desk: Desk, tag: str | None, state: str | None, search: str | None) -> None:
        self._ledger = desk.ledger
        self._tag = tag
        self._state = state
        self._search = search
        self._having: dict[int, bool] = {}
        """Of sets of tags, by number: whether the tag is among them."""

    def of(self, slots: Slots) -> Slots:
        catalogue = self._ledger.catalogue
        if self._state in STATES:
            slots = slots[catalogue["state"][slots] == STATES.index(self._state)]
        elif self._state is not None:
            slots = slots[self._have_left(slots)]
        if self._tag is not None:
            numbers, where = np.unique(catalogue["tags"][slots], return_inverse=True)
            having = np.array([self._has_tag(number) for number in numbers.tolist()], np.bool_)
            slots = slots[having[where]]
        if self._search:
            names, search = catalogue.ids, self._search
            slots = np.array([slot for slot in slots.tolist() if search in names[slot]], np.int64)
        return slots

    def _have_left(self, slots: Slots) -> npt.NDArray[np.bool_]:
        left = np.zeros(slots.size, np.bool_)
        for gone in self._ledger.gone.values():
            if gone:
                left |= [slot in gone and gone[slot]["reason"] == self._state for slot in slots.tolist()]
        return left

    def _has_tag(self, number: int) -> bool:
        known = self._having.get(number)
        if known is None:
            known = self._having[number] = self._tag in self._ledger.catalogue.tags.values[number]
        return known


def _ordered(views: list[Columns], slots: Slots, places: Slots, sort: str, reverse: bool) -> Slots:
    """In a thread: a million items take a tenth of a second, in which rankings go on."""
    oldest = slots[np.argsort(places[slots], kind="stable")]
    if sort in ("newest", "oldest"):
        return oldest[::-1] if (sort == "newest") != reverse else oldest
    newest = oldest[::-1]
    n, s = added(((n[newest], s[newest]) for n, s in views), newest.size)
    by = {"impressions": n, "rewards": s, "estimate": s / np.maximum(n, 1)}[sort]
    order: Slots = np.argsort(by if reverse else -by, kind="stable")
    return newest[order]


async def rows(desk: Desk, slots: Slots, rises: Rises | None = None) -> list[dict[str, Any]]:
    """How each of these stands. Rankings have their turn after every ``ROWS`` of them."""
    recent = {}
    if rises is not None:
        gathered = zip(rises.impressions.tolist(), rises.rewards.tolist(), rises.low.tolist(), strict=True)
        parts = [{"impressions": n, "rewards": s, "low": low} for n, s, low in gathered]
        recent = dict(zip(rises.slots.tolist(), parts, strict=True))
    out: list[dict[str, Any]] = []
    ends: dict[tuple[float, ...], tuple[float, float]] = {}
    for start in range(0, slots.size, ROWS):
        begun = time.perf_counter()
        out += _some_rows(desk, slots[start : start + ROWS], recent, ends)
        await pause(begun)
    return out


def _some_rows(
    desk: Desk, slots: Slots, recent: dict[int, dict[str, float]], ends: dict[tuple[float, ...], tuple[float, float]]
) -> list[dict[str, Any]]:
    """A few rows; ``ends`` are the intervals known by their counts, which many items share while they are new."""
    catalogue = desk.ledger.catalogue
    present = [slot for slot in slots.tolist() if catalogue["state"][slot] != DELETED]  # in the meantime
    sums = list(map(tuple, np.stack(desk.ledger.sums(present), axis=1).tolist()))
    fresh = [counts for counts in dict.fromkeys(sums) if counts not in ends]
    ends.update(zip(fresh, intervals(fresh), strict=True))
    return [
        {
            "id": catalogue.ids[slot],
            "state": STATES[catalogue["state"][slot]],
            "tags": list(catalogue.tags_of(slot)),
            "group": list(catalogue.group_of(slot)),
            "added_at": iso(int(catalogue["added_at"][slot])),
            "expires_at": iso(int(catalogue["expires_at"][slot])),
            "impressions": n,
            "rewards": s,
            "estimate": s / n if n else None,
            "low": ends[n, s][0],
            "high": ends[n, s][1],
            "recent": recent.get(slot),
            "variants": variants,
        }
        for slot, (n, s), variants in zip(present, sums, desk.about_each(present), strict=True)
    ]


def intervals(counts: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Both ends of the rates of these (impressions, rewards)."""
    if not counts:
        return []
    low, high = rate_bounds([Totals("", 0, int(n), min(s, n)) for n, s in counts])
    return list(zip(low.tolist(), high.tolist(), strict=True))
