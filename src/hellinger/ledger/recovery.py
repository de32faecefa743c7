"""From the log to a ledger: at start, for snapshots, for compaction, and to prove that counts are the log's fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hellinger.errors import require
from hellinger.ledger.ledger import Ledger
from hellinger.ledger.requests import spoken_of
from hellinger.ledger.snapshot import dumped, loaded
from hellinger.store import Store

__all__ = ["Compaction", "advance", "check", "compact", "recover", "take_snapshot"]

BATCH = 20_000

Progress = Callable[[int, int], None]
"""Called with the events folded and the events there are to fold."""


class Compaction(NamedTuple):
    """What a compaction did."""

    deleted: int
    through: int


def recover(store: Store, *, cache: int = 100_000, base: bool = False, progress: Progress | None = None) -> Ledger:
    """The ledger as of the end of the log, from a snapshot where there is one; from the base of compaction if asked."""
    saved = store.snapshot(base=True) if base else store.snapshot()
    ledger = Ledger(cache=cache) if saved is None else loaded(saved[1], cache=cache)
    if not base:
        advance(store, ledger, progress=progress)
    return ledger


def advance(store: Store, ledger: Ledger, *, through: int | None = None, progress: Progress | None = None) -> None:
    """Fold what the log has beyond the ledger, as far as ``through``."""
    first, last = ledger.seq, store.last() if through is None else through
    while ledger.seq < last:
        events = [event for event in store.read(ledger.seq, BATCH) if event.seq <= last]
        if not events:
            break
        with ledger.requests.pinned(spoken_of(events)):
            ledger.requests.recall(store.thread(ledger.missing(events)), ledger.seq)
            for event in events:
                ledger.apply(event)
        if progress is not None:
            progress(ledger.seq - first, last - first)


def take_snapshot(store: Store, *, progress: Progress | None = None) -> int:
    """Fold the log as it is and keep the result, so that a start need not; the place it reaches."""
    ledger = recover(store, progress=progress)
    store.save_snapshot(ledger.seq, dumped(ledger))
    return ledger.seq


def compact(store: Store, *, before: int, window: int, progress: Progress | None = None) -> Compaction:
    """Let events from before a time go, their counts kept in a base snapshot.

    A ranking whose feedback may have been learned after the base is kept for as long as that was possible, ``window``
    milliseconds, so that the rest of the log still folds to the same counts.
    """
    require(window >= 0, "0 <= window", window=window)
    ledger = recover(store, base=True)
    through = store.reached(before)
    if through > ledger.seq:
        advance(store, ledger, through=through, progress=progress)
        store.save_snapshot(ledger.seq, dumped(ledger), base=True)
        current = store.snapshot()
        if current is None or current[0] < ledger.seq:
            store.save_snapshot(ledger.seq, dumped(ledger))
    cut = min(ledger.seq, store.reached(before - window))
    return Compaction(store.compact(cut), cut)


def check(store: Store, *, progress: Progress | None = None) -> list[str]:
    """Differences between the snapshot's counts and the fold of the log up to it; none if all is well."""
    saved = store.snapshot()
    if saved is None:
        advance(store, recover(store, base=True), progress=progress)
        return []
    held = loaded(saved[1])
    fold = recover(store, base=True)
    if fold.seq > held.seq:
        return [f"the base of compaction reaches {fold.seq}, beyond the snapshot at {held.seq}"]
    advance(store, fold, through=held.seq, progress=progress)
    return differences(held, fold)


def differences(one: Ledger, other: Ledger, *, most: int = 20) -> list[str]:
    """Where two ledgers differ, in words."""
    found = []
    if one.seq != other.seq:
        found.append(f"place in the log: {one.seq} and {other.seq}")
    names = sorted(set(one.catalogue.slots) | set(other.catalogue.slots))
    here, there = (np.array([ledger.catalogue.slots.get(name, -1) for name in names]) for ledger in (one, other))
    for j in np.flatnonzero((here < 0) | (there < 0)).tolist():
        found.append(f"content {names[j]!r} is in one only")
    both = np.flatnonzero((here >= 0) & (there >= 0))
    for key in sorted(set(one.counts) | set(other.counts)):
        pairs = []
        for ledger, slots in ((one, here[both]), (other, there[both])):
            pairs.append(ledger.sums(slots, variants=[key[0]], segment=key[1]))
        for what, mine, theirs in zip(("impressions", "rewards"), *pairs, strict=True):
            for j in np.flatnonzero(~np.isclose(mine, theirs, rtol=1e-12, atol=1e-9)).tolist():
                name = names[both[j]]
                found.append(f"{what} of {name!r} in {key}: {mine[j]:g} and {theirs[j]:g}")
    for variant in sorted(set(one.series.totals) | set(other.series.totals)):
        a, b = one.series.totals.get(variant), other.series.totals.get(variant)
        if a is None or b is None or not np.allclose(a, b, rtol=1e-12, atol=1e-9):
            found.append(f"totals of {variant}: {a} and {b}")
    return found if len(found) <= most else [*found[:most], f"and {len(found) - most} more"]
