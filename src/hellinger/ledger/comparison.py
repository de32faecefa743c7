"""Two ledgers side by side: every number that one has and the other has not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from hellinger.ledger.ledger import Ledger

__all__ = ["differences"]


def differences(one: Ledger, other: Ledger, *, most: int = 20) -> list[str]:
    """Where two ledgers differ, in words, up to so many; what is held of deleted contents does not matter."""
    return list(islice(_all(one, other), most))


def _all(one: Ledger, other: Ledger) -> Iterator[str]:
    if one.seq != other.seq:
        yield f"place in the log: {one.seq} and {other.seq}"
    names = sorted(set(one.catalogue.slots) | set(other.catalogue.slots))
    here, there = (
        np.array([ledger.catalogue.slots.get(name, -1) for name in names], np.intp) for ledger in (one, other)
    )
    for j in np.flatnonzero((here < 0) | (there < 0)).tolist():
        yield f"content {names[j]!r} is in one only"
    both = np.flatnonzero((here >= 0) & (there >= 0))
    names, here, there = [names[j] for j in both.tolist()], here[both], there[both]
    for column in one.catalogue.columns.keys() - {"tags"}:  # whose numbers are given in the order they were met
        mine, theirs = one.catalogue[column][here], other.catalogue[column][there]
        for j in np.flatnonzero(mine != theirs).tolist():
            yield f"{column} of {names[j]!r}: {mine[j]} and {theirs[j]}"
    for name, slot, place in zip(names, here.tolist(), there.tolist(), strict=True):
        if one.catalogue.tags_of(slot) != other.catalogue.tags_of(place):
            yield f"tags of {name!r}: {one.catalogue.tags_of(slot)} and {other.catalogue.tags_of(place)}"
    for key in sorted(set(one.counts) | set(other.counts)):
        pairs = [
            ledger.sums(slots, variants=[key[0]], segment=key[1]) for ledger, slots in ((one, here), (other, there))
        ]
        for what, mine, theirs in zip(("impressions", "rewards"), *pairs, strict=True):
            for j in np.flatnonzero(~np.isclose(mine, theirs, rtol=1e-12, atol=1e-9)).tolist():
                yield f"{what} of {names[j]!r} in {key}: {mine[j]:g} and {theirs[j]:g}"
    for variant in sorted(set(one.gone) | set(other.gone)):
        left, right = one.gone.get(variant, {}), other.gone.get(variant, {})
        for name, slot, place in zip(names, here.tolist(), there.tolist(), strict=True):
            if left.get(slot) != right.get(place):
                yield f"{name!r} left {variant}: {left.get(slot)} and {right.get(place)}"
    for variant in sorted(set(one.series.totals) | set(other.series.totals)):
        a, b = (ledger.series.totals.get(variant) for ledger in (one, other))
        if not _close(a, b):
            yield f"totals of {variant}: {a} and {b}"
        a, b = (ledger.series.together(variant).as_json() for ledger in (one, other))
        if not _close(a, b):
            yield f"rewards that lie together in requests of {variant}: {a} and {b}"


def _close(a: Sequence[float] | None, b: Sequence[float] | None) -> bool:
    return a is not None and b is not None and bool(np.allclose(a, b, rtol=1e-12, atol=1e-9))
