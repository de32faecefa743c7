"""From the log to a ledger: at start, for snapshots, for compaction, and to prove that counts are the log's fold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hellinger.errors import require
from hellinger.events import Logged
from hellinger.ledger.catalogue import STATES
from hellinger.ledger.ledger import Ledger
from hellinger.ledger.requests import spoken_of
from hellinger.ledger.snapshot import dumped, loaded
from hellinger.store import Store

__all__ = ["Compaction", "advance", "check", "compact", "differences", "fold", "recover", "take_snapshot"]

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
        fold(ledger, events, store.thread)
        if progress is not None:
            progress(ledger.seq - first, last - first)


def fold(ledger: Ledger, events: Sequence[Logged], thread: Callable[[list[str]], Iterable[Logged]]) -> None:
    """Apply the log's next events; ``thread`` finds what it has of requests, as ``Store.thread`` does."""
    with ledger.requests.pinned(spoken_of(events)):
        ledger.requests.recall(thread(ledger.missing(events)), ledger.seq)
        for event in events:
            ledger.apply(event)


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
    found = list(_differences(one, other))
    return found if len(found) <= most else [*found[:most], f"and {len(found) - most} more"]


def _differences(one: Ledger, other: Ledger) -> Iterator[str]:
    if one.seq != other.seq:
        yield f"place in the log: {one.seq} and {other.seq}"
    names = sorted(set(one.catalogue.slots) | set(other.catalogue.slots))
    here, there = (np.array([x.catalogue.slots.get(name, -1) for name in names], np.int64) for x in (one, other))
    for j in np.flatnonzero((here < 0) | (there < 0)).tolist():
        yield f"content {names[j]!r} is in one only"
    both = np.flatnonzero((here >= 0) & (there >= 0))
    shared = [names[j] for j in both.tolist()]
    yield from _contents(one, other, shared, here[both], there[both])
    for key in sorted(set(one.counts) | set(other.counts)):
        pairs = []
        for ledger, slots in ((one, here[both]), (other, there[both])):
            pairs.append(ledger.sums(slots, variants=[key[0]], segment=key[1]))
        for what, mine, theirs in zip(("impressions", "rewards"), *pairs, strict=True):
            for j in np.flatnonzero(~_close(mine, theirs)).tolist():
                yield f"{what} of {shared[j]!r} in {key}: {mine[j]:g} and {theirs[j]:g}"
        rounds = [ledger.rounds(variants=[key[0]], segment=key[1]) for ledger in (one, other)]
        if not _close(*rounds):
            yield f"all impressions in {key}: {rounds[0]:g} and {rounds[1]:g}"
    yield from _over_time(one, other)


def _contents(one: Ledger, other: Ledger, names: list[str], here: Any, there: Any) -> Iterator[str]:
    """What was said of each content, where both have it."""
    for column in ("since", "said", "added_at", "expires_at", "state"):
        mine, theirs = one.catalogue[column][here], other.catalogue[column][there]
        for j in np.flatnonzero(mine != theirs).tolist():
            pair = (STATES[mine[j]], STATES[theirs[j]]) if column == "state" else (mine[j], theirs[j])
            yield f"{column} of {names[j]!r}: {pair[0]} and {pair[1]}"
    for name, mine, theirs in zip(names, here.tolist(), there.tolist(), strict=True):
        tags = one.catalogue.tags_of(mine), other.catalogue.tags_of(theirs)
        if tags[0] != tags[1]:
            yield f"tags of {name!r}: {tags[0]} and {tags[1]}"
    for variant in sorted(set(one.gone) | set(other.gone)):
        left = one.gone.get(variant, {}), other.gone.get(variant, {})
        for name, mine, theirs in zip(names, here.tolist(), there.tolist(), strict=True):
            if left[0].get(mine) != left[1].get(theirs):
                yield f"why {name!r} left {variant}: {left[0].get(mine)} and {left[1].get(theirs)}"


def _over_time(one: Ledger, other: Ledger) -> Iterator[str]:
    """Totals of the variants, in all and by step."""
    mine, theirs = one.series, other.series
    tables: list[tuple[str, Mapping[str, list[float]], Mapping[str, list[float]]]]
    tables = [("totals", mine.totals, theirs.totals)]
    one_pages, other_pages = ({v: p.as_json() for v, p in x.pages.items()} for x in (mine, theirs))
    tables.append(("requests", one_pages, other_pages))
    for name in mine.steps:
        for step in sorted(set(mine.steps[name]) | set(theirs.steps[name])):
            cells = mine.steps[name].get(step, {}), theirs.steps[name].get(step, {})
            tables.append((f"{name} {step}", *cells))
    for what, held, other_held in tables:
        for variant in sorted(set(held) | set(other_held)):
            a, b = held.get(variant), other_held.get(variant)
            if a is None or b is None or not np.all(_close(a, b)):
                yield f"{what} of {variant}: {a} and {b}"


def _close(one: Any, other: Any) -> Any:
    """Whether numbers agree but for rounding."""
    return np.isclose(one, other, rtol=1e-12, atol=1e-9)
