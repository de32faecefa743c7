"""From the log to a ledger: at start, for snapshots, for compaction, and to prove that counts are the log's fold."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hellinger.errors import require
from hellinger.events import Logged
from hellinger.ledger.comparison import differences
from hellinger.ledger.errors import OutdatedError
from hellinger.ledger.ledger import Ledger, placed
from hellinger.ledger.requests import spoken_of
from hellinger.ledger.snapshot import VERSION, decode, encode
from hellinger.store import Store, StoreDamagedError, StoreUnavailableError

__all__ = ["Compaction", "advance", "check", "compact", "differences", "fold", "recover", "recover_at", "take_snapshot"]

BATCH = 20_000
ATTEMPTS = 5
SLACK = 3_600_000
"""Milliseconds that clocks may have been wrong by."""

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the events folded and the events there are to fold."""


class Compaction(NamedTuple):
    """What a compaction did."""

    deleted: int
    through: int


def recover(store: Store, *, cache: int = 100_000, base: bool = False, progress: Progress | None = None) -> Ledger:
    """The ledger as of the end of the log, from a snapshot where there is one; from the base of compaction if asked."""
    try:
        ledger = _saved(store, cache, base=base)
    except StoreDamagedError as error:
        if base:
            raise
        log.error("%s: the log is folded from further back", error)
        ledger = _saved(store, cache, base=True)
    except OutdatedError as error:
        log.warning("%s: the log is folded from further back", error)
        ledger = _saved(store, cache, base=True)
    if not base and ledger.format < VERSION:
        # it may be older than the events it was made of, and not have all they say
        log.warning("the snapshot is of version %d: the log is folded from further back, once", ledger.format)
        ledger = _saved(store, cache, base=True)
    if not base:
        advance(store, ledger, progress=progress)
    return ledger


def recover_at(store: Store, through: int, *, cache: int = 100_000) -> Ledger:
    """The ledger as of a place in the log, from the newest snapshot that does not reach beyond it."""
    ledger, current = None, store.snapshot()
    if current is not None and current[0] <= through:
        try:
            ledger = _saved(store, cache, base=False)
        except StoreDamagedError as error:
            log.error("%s: the log is folded from further back", error)
        except OutdatedError as error:
            log.warning("%s: the log is folded from further back", error)
    if ledger is None or ledger.seq > through or ledger.format < VERSION:
        ledger = _saved(store, cache, base=True)
    advance(store, ledger, through=through)
    return ledger


def _saved(store: Store, cache: int, *, base: bool) -> Ledger:
    """The ledger of a snapshot, an empty one where there is none.

    Behind the base of compaction there is no log to learn from: a model of another version begins there.
    """
    for _ in range(ATTEMPTS):
        saved = store.snapshot(base=base)
        if saved is None:
            ledger = Ledger(cache=cache)
            ledger.format = VERSION
            return ledger
        try:
            ledger = decode(saved[1], cache=cache, anew=base)
            if base and ledger.format < VERSION:
                _describe_again(store, ledger)
            return ledger
        except StoreUnavailableError:  # a newer one has taken its place, or the store is gone and says so again
            continue
    raise StoreUnavailableError(f"the snapshot was replaced {ATTEMPTS} times while it was read")


def _describe_again(store: Store, ledger: Ledger) -> None:
    """Let items have what the log says of them beyond what an older version understood: groups and features.

    Compaction keeps the event that last described an item. Where one is missing, the snapshot is all there is.
    """
    catalogue = ledger.catalogue
    slots = catalogue.present()
    said = dict(zip(catalogue["said"][slots].tolist(), slots.tolist(), strict=True))
    places = sorted(said)
    for start in range(0, len(places), BATCH):
        for event in store.at(places[start : start + BATCH]):
            if event.kind == "item":
                ledger.describe(said[event.seq], event.seq, event.fields, event.body)


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
        ledger.recall(thread(ledger.missing(events)))
        ledger.apply(placed(events))
        ledger.models.learn()


def take_snapshot(store: Store, *, progress: Progress | None = None) -> int:
    """Fold the log as it is and keep the result, so that a start need not; the place it reaches."""
    ledger = recover(store, progress=progress)
    store.save_snapshot(ledger.seq, encode(ledger))
    return ledger.seq


def compact(store: Store, *, before: int, window: int, progress: Progress | None = None) -> Compaction:
    """Delete events from before a time, after saving what they amount to in a base snapshot.

    A ranking whose feedback may have been learned after the base is kept for as long as that was possible, ``window``
    milliseconds, so that the rest of the log still folds to the same counts. A clock may have been set back between
    the two by an hour. Of each item that still exists the event that last described it stays: its metadata is nowhere
    else.
    """
    require(window >= 0, "0 <= window", window=window)
    ledger = recover(store, base=True)
    base = ledger.seq
    advance(store, ledger, through=max(base, store.reached(before)), progress=progress)
    # first what a start needs: if this ends in between, every event that was deleted is in a snapshot to start from
    current = store.snapshot()
    if ledger.seq and (current is None or current[0] < ledger.seq):
        store.save_snapshot(ledger.seq, encode(ledger))
    if ledger.seq > base:
        store.save_snapshot(ledger.seq, encode(ledger), base=True)
    cut = min(ledger.seq, store.reached(before - window - SLACK))
    described = ledger.catalogue["said"][ledger.catalogue.present()]
    return Compaction(store.compact(cut, described.tolist()), cut)


def check(store: Store, *, progress: Progress | None = None) -> list[str]:
    """Differences between the snapshot's counts and the fold of the log up to it; none if all is well.

    Without a snapshot the log is folded twice, once with hardly any requests in memory.
    """
    saved = store.snapshot()
    fold = recover(store, base=True)
    try:
        saved_ledger = None if saved is None else decode(saved[1])
    except OutdatedError:  # a start would not use it either
        saved_ledger = None
    if saved_ledger is None:
        saved_ledger = recover(store, base=True, cache=10)
        advance(store, saved_ledger, progress=progress)
    if fold.seq > saved_ledger.seq:
        return [f"the base of compaction reaches {fold.seq}, beyond the snapshot at {saved_ledger.seq}"]
    advance(store, fold, through=saved_ledger.seq, progress=progress)
    return differences(saved_ledger, fold)
