"""Feedback and confirmations: what is to become of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter

from orjson import dumps

from hellinger.engine.drafts import Draft, FeedbackRow, Sorted
from hellinger.ledger import Request

__all__ = ["classify", "classify_seen", "points"]

UNIT = 2.0**-20
"""Points are whole multiples of this, so that their sums are exact in whatever order."""

_CLICK = dumps({"points": 1.0, "late": False, "happened": None}).decode()
"""The body of nearly all feedback."""

Find = Callable[[str], Request | None]


def points(weight: float, value: float = 1.0) -> float:
    """What feedback is worth, in [0, 1] and exact to sum."""
    if weight == 1.0 == value:
        return 1.0
    return min(1.0, max(0.0, round(weight * value / UNIT) * UNIT))


def classify(
    given: Sequence[FeedbackRow],
    find: Find,
    at: int,
    *,
    window: int,
    weights: Mapping[str, float],
    max_kinds: int,
) -> Sorted:
    """Classify feedback, and make drafts of what is to be logged; ``find`` gives a ranking by its name.

    A ranking has feedback of at most ``max_kinds`` kinds: what the log has of it and this batch are counted.
    """
    out = Sorted([], [], set(), [], [], [])
    keys: list[str] = []
    bodies: list[str] = []
    said: list[tuple[str, int, str, float, bool, int | None]] = []
    since = at - window
    spare = max_kinds - len(set(map(itemgetter(2), given)))
    fresh: dict[str, set[str]] = {}
    last: str | None = None
    request: Request | None = None
    for j, (name, item, kind, value, happened) in enumerate(given):
        if name != last:
            request, last = find(name), name
        if request is None:
            out.unknown.append(j)
            continue
        try:
            position = request.items.index(item)
        except ValueError:
            out.rejected.append((j, _not_ranked(item)))
            continue
        known = request.given
        if kind in known:
            if position in known[kind]:
                out.duplicate.append(j)
                continue
        elif len(known) > spare:  # else there is room for every kind of this batch
            kinds = fresh.setdefault(name, set())
            if kind not in kinds and len(known) + len(kinds) >= max_kinds:
                out.rejected.append((j, _one_kind_too_many(kind, max_kinds)))
                continue
            kinds.add(kind)
        late, worth = request.at < since, 1.0
        if late:
            worth = 0.0
            out.late.add(j)
        elif value != 1.0 or kind in weights:
            worth = points(weights.get(kind, 1.0), value)
        body = _CLICK
        if worth != 1.0 or happened is not None:
            body = dumps({"points": worth, "late": late, "happened": happened}).decode()
        keys.append(f"{name}/{kind}/{item}")
        bodies.append(body)
        said.append((name, position, kind, worth, late, happened))
        out.places.append(j)
    rows = zip(keys, repeat("feedback"), repeat(at), bodies, strict=False)
    out.drafts.extend(zip(rows, said, strict=True))
    return out


def classify_seen(given: Sequence[tuple[str, str]], find: Find, at: int, *, window: int) -> Sorted:
    """The same for confirmations that an item of a ranking was seen."""
    out = Sorted([], [], set(), [], [], [])
    for j, (name, item) in enumerate(given):
        request = find(name)
        if request is None:
            out.unknown.append(j)
        elif (position := request.position(item)) < 0:
            out.rejected.append((j, _not_ranked(item)))
        elif request.counted or (request.seen is not None and position in request.seen):
            out.duplicate.append(j)
        elif at - request.at > window:
            out.late.add(j)
        else:
            fields = {"request": name, "item": item}
            out.drafts.append(Draft.of(f"{name}/seen!/{item}", "seen", at, fields))
            out.places.append(j)
    return out


def _one_kind_too_many(kind: str, most: int) -> str:
    return f"a ranking must have feedback of at most {most} kinds (max_kinds), but {kind!r} would be one more"


def _not_ranked(item: str) -> str:
    return f"`item` must be one of those ranked in the request, but got {item!r}"
