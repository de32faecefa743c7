"""Lists of contents: which match, in what order, and how each stands."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger.engine.desk import Desk
from hellinger.experiment import Totals, rate_bounds
from hellinger.ledger import DELETED, STATES, Columns, added
from hellinger.serve.answers import ApiError
from hellinger.serve.models import iso
from hellinger.serve.rising import Rises

__all__ = ["cursor", "intervals", "matching", "offset", "rows"]

Slots = npt.NDArray[np.int64]

_AT_ONCE = 10_000
"""Names looked at before others get their turn."""


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
    """Slots of the contents that match, in order. A search through a large catalogue does not hold up rankings.

    With ``rises`` only the rising match, in their own order.
    """
    held = desk.ledger.catalogue
    places = held.added()
    if rises is None:
        slots = held.kept()
    else:
        here = rises.slots < places.size  # all, unless memory was made anew from the log
        slots = rises.slots[here]
        slots = slots[places[slots] == rises.added[here]]
    if state in STATES:
        slots = slots[held["state"][slots] == STATES.index(state)]
    elif state is not None:
        left = {slot for gone in desk.ledger.gone.values() for slot, why in gone.items() if why["reason"] == state}
        slots = slots[np.isin(slots, np.array(sorted(left), np.int64))]
    if tag is not None:
        having = np.array([tag in tags for tags in held.tag_sets])
        slots = slots[having[held["tags"][slots]]]
    if search:
        names = held.ids
        found = []
        for start in range(0, slots.size, _AT_ONCE):
            found += [slot for slot in slots[start : start + _AT_ONCE].tolist() if search in names[slot]]
            await asyncio.sleep(0)
        slots = np.array(found, np.int64)
    if sort != "rising":
        slots = await asyncio.to_thread(_ordered, desk.ledger.views(), slots, places, sort, reverse)
    same: npt.NDArray[np.bool_] = held["since"][slots] == places[slots]
    return slots[same]  # a slot may have got another item meanwhile


def _ordered(views: list[Columns], slots: Slots, places: Slots, sort: str, reverse: bool) -> Slots:
    """In a thread: a million contents take a tenth of a second, in which rankings go on."""
    oldest = slots[np.argsort(places[slots], kind="stable")]
    if sort in ("newest", "oldest"):
        return oldest[::-1] if (sort == "newest") != reverse else oldest
    newest = oldest[::-1]
    n, s = added(((n[newest], s[newest]) for n, s in views), newest.size)
    by = {"impressions": n, "rewards": s, "estimate": s / np.maximum(n, 1)}[sort]
    order: Slots = np.argsort(by if reverse else -by, kind="stable")
    return newest[order]


def rows(desk: Desk, slots: Slots, rises: Rises | None = None) -> list[dict[str, Any]]:
    """How each of these stands."""
    held = desk.ledger.catalogue
    recent = {}
    if rises is not None:
        gathered = zip(rises.impressions.tolist(), rises.rewards.tolist(), rises.low.tolist(), strict=True)
        told = [{"impressions": n, "rewards": s, "low": low} for n, s, low in gathered]
        recent = dict(zip(rises.slots.tolist(), told, strict=True))
    kept = [slot for slot in slots.tolist() if held["state"][slot] != DELETED]  # in the meantime
    sums = np.stack(desk.ledger.sums(kept), axis=1).tolist()
    return [
        {
            "id": held.ids[slot],
            "state": STATES[held["state"][slot]],
            "tags": list(held.tags_of(slot)),
            "added_at": iso(int(held["added_at"][slot])),
            "expires_at": iso(int(held["expires_at"][slot])),
            "impressions": n,
            "rewards": s,
            "estimate": s / n if n else None,
            "low": low,
            "high": high,
            "recent": recent.get(slot),
            "variants": variants,
        }
        for slot, (n, s), (low, high), variants in zip(kept, sums, intervals(sums), desk.about_each(kept), strict=True)
    ]


def intervals(counts: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Both ends of the rates of these (impressions, rewards)."""
    if not counts:
        return []
    low, high = rate_bounds([Totals("", 0, int(n), min(s, n)) for n, s in counts])
    return list(zip(low.tolist(), high.tolist(), strict=True))
