"""Lists of contents: which match, in what order, and how each stands."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger.ledger import STATES
from hellinger.serve.answers import ApiError
from hellinger.serve.desk import Desk
from hellinger.serve.models import iso

__all__ = ["cursor", "matching", "offset", "rows"]

Slots = npt.NDArray[np.int64]


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


async def matching(desk: Desk, *, tag: str | None, state: str | None, search: str | None, sort: str) -> Slots:
    """Slots of the contents that match, in order. A search through a large catalogue does not hold up rankings."""
    held = desk.ledger.catalogue
    slots = held.kept()
    if state in STATES:
        slots = slots[held["state"][slots] == STATES.index(state)]
    elif state is not None:
        left = {slot for gone in desk.ledger.gone.values() for slot, why in gone.items() if why["reason"] == state}
        slots = np.intersect1d(slots, np.array(sorted(left), np.int64))
    if tag is not None:
        having = np.array([tag in tags for tags in held.tag_sets])
        slots = slots[having[held["tags"][slots]]]
    if search:
        names = held.ids
        found = []
        for start in range(0, slots.size, 50_000):
            found += [slot for slot in slots[start : start + 50_000].tolist() if search in names[slot]]
            await asyncio.sleep(0)
        slots = np.array(found, np.int64)
    if sort == "oldest":
        return slots
    newest = slots[::-1]
    if sort == "newest":
        return newest
    n, s = desk.ledger.sums(newest, variants={name for name, _ in desk.ledger.counts})
    by = {"impressions": n, "rewards": s, "estimate": s / np.maximum(n, 1)}[sort]
    return newest[np.argsort(-by, kind="stable")]


def rows(desk: Desk, slots: Slots) -> list[dict[str, Any]]:
    """How each of these stands."""
    held = desk.ledger.catalogue
    out = []
    for slot in slots.tolist():
        name = held.ids[slot]
        if name not in held.slots:
            continue  # deleted in the meantime
        n, s = (float(x[0]) for x in desk.ledger.sums([slot], variants={v for v, _ in desk.ledger.counts}))
        out.append(
            {
                "id": name,
                "state": STATES[held["state"][slot]],
                "tags": list(held.tags_of(slot)),
                "added_at": iso(int(held["added_at"][slot])),
                "expires_at": iso(int(held["expires_at"][slot])),
                "impressions": n,
                "rewards": s,
                "estimate": s / n if n else None,
                "variants": desk.about(name),
            }
        )
    return out
