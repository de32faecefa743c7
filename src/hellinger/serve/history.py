"""What the log says of one item, as far back as reading it stays cheap."""

from __future__ import annotations

import time
from typing import Any

import orjson

from hellinger.events import Logged
from hellinger.ledger import RESOLUTIONS, Request
from hellinger.serve.models import iso
from hellinger.store import Store

__all__ = ["MOST", "history"]

MOST = 200_000
"""Events that are read at most, the newest first."""
SECONDS = 2.0
"""How long reading may take."""
BLOCK = 200
"""Events that are read or looked at before a pause: this thread has the interpreter's lock for half a millisecond."""
BYTES = 100_000
"""Of events that are read before a pause, likewise: an import may be larger than all others together."""
PAUSE = 0.001
"""Seconds between two blocks: rankings come first."""
_FINE = 3 * RESOLUTIONS["day"]
"""A history of at most this time has steps of an hour, a longer one of a day."""


def history(store: Store, item: str, since: int, last: int, *, most: int = MOST) -> dict[str, Any]:
    """What became of an item over time: impressions and reward by variant, and what was done with it.

    The log has no index by item; its newest events are looked through, back to where the item began, at most
    ``most`` of them and for two seconds. The answer is ``complete`` if every event since then was read: the log is
    without holes but for what was compacted.

    Parameters
    ----------
    since, last
        Places in the log where the item began and where to start from.
    """
    events, read = _mentions(store, item, since, last, most)
    requests: dict[str, Request] = {}
    marks: list[dict[str, Any]] = []
    cells: list[tuple[int, str, float, float]] = []
    size = 0
    for number, event in enumerate(events):
        size += len(event.body)
        if number % BLOCK == 0 or size > BYTES:
            time.sleep(PAUSE)
            size = 0
        fields = event.fields
        if event.kind == "rank" and item in fields["items"]:
            request = requests[event.key] = Request.of(event.at, fields)
            if request.counted:
                cells.append((event.at, request.variant, 1.0, 0.0))
        elif event.kind in ("feedback", "seen") and fields["item"] == item:
            known = requests.get(fields["request"])
            if known is None:
                continue
            position = known.position(item)
            shown = float(not fields.get("late") and known.see(position))
            reward = known.give(position, fields["kind"], fields["points"]) if event.kind == "feedback" else 0.0
            cells.append((event.at, known.variant, shown, reward))
        elif event.kind == "import":
            for row in fields["rows"]:
                if row["item"] == item:
                    at = min(row["to"] or event.at, event.at)  # as the ledger has it
                    cells.append((at, fields["variant"] or "", row["impressions"], row["rewards"]))
        elif event.kind in ("item", "state", "leave") and fields["id"] == item:
            marks.append(_mark(event, fields, since))
    first, last_at = min((at for at, *_ in cells), default=0), max((at for at, *_ in cells), default=0)
    resolution = "hour" if last_at - first <= _FINE else "day"
    return {
        "item": item,
        "complete": read == last - since + 1,
        "events_read": read,
        "resolution": resolution,
        **_series(cells, first, last_at, RESOLUTIONS[resolution]),
        "marks": marks,
    }


def _mentions(store: Store, item: str, since: int, last: int, most: int) -> tuple[list[Logged], int]:
    """Events that name the item, in the log's order; and how many were read to find them."""
    name, ending = orjson.dumps(item).decode(), f"/{item}"
    blocks: list[list[Logged]] = []
    read, upper, until = 0, last, time.monotonic() + SECONDS
    while upper >= since and read < most and time.monotonic() < until:
        lower = max(since - 1, upper - BLOCK)
        # where events were compacted, as many reach further than the block
        events = [event for event in store.read(lower, upper - lower) if event.seq <= upper]
        blocks.append([event for event in events if name in event.body or event.key.endswith(ending)])
        read += len(events)
        upper = lower
        time.sleep(PAUSE)
    return [event for block in reversed(blocks) for event in block], read


def _mark(event: Logged, fields: dict[str, Any], since: int) -> dict[str, Any]:
    mark: dict[str, Any] = {"at": iso(event.at), "what": "added" if event.seq == since else "changed"}
    if event.kind == "state":
        mark["what"] = fields["state"]
    elif event.kind == "leave":
        mark |= {"what": fields["reason"], "variant": fields["variant"]}
    return mark


def _series(cells: list[tuple[int, str, float, float]], begin: int, end: int, length: int) -> dict[str, Any]:
    if not cells:
        return {"steps": [], "variants": {}}
    first = begin // length
    size = end // length - first + 1
    columns: dict[str, dict[str, list[float]]] = {}
    for at, variant, n, s in cells:
        column = columns.setdefault(variant, {"impressions": [0.0] * size, "reward": [0.0] * size})
        column["impressions"][at // length - first] += n
        column["reward"][at // length - first] += s
    return {"steps": [iso((first + step) * length) for step in range(size)], "variants": columns}
