"""Where two ledgers differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hellinger.ledger.catalogue import STATES
from hellinger.ledger.ledger import Ledger
from hellinger.ledger.looks import ZONES

__all__ = ["differences"]


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
        yield f"item {names[j]!r} is in one only"
    both = np.flatnonzero((here >= 0) & (there >= 0))
    shared = [names[j] for j in both.tolist()]
    yield from _items(one, other, shared, here[both], there[both])
    for key in sorted(set(one.counts) | set(other.counts)):
        pairs = []
        for ledger, slots in ((one, here[both]), (other, there[both])):
            pairs.append(ledger.sums(slots, variants=[key[0]], segment=key[1]))
        for what, mine, theirs in zip(("impressions", "rewards"), *pairs, strict=True):
            for j in np.flatnonzero(mine != theirs).tolist():
                yield f"{what} of {shared[j]!r} in {key}: {mine[j]} and {theirs[j]}"
        rounds = [ledger.rounds(variants=[key[0]], segment=key[1]) for ledger in (one, other)]
        if rounds[0] != rounds[1]:
            yield f"all impressions in {key}: {rounds[0]} and {rounds[1]}"
        late = [_late(ledger, key, slots) for ledger, slots in ((one, here[both]), (other, there[both]))]
        for j in np.flatnonzero((late[0] != late[1]).any(axis=1)).tolist():
            name = shared[j] if j < len(shared) else "all items"
            yield f"positions of {name!r} in {key}: {late[0][j].tolist()} and {late[1][j].tolist()}"
    for key in sorted(set(one.priors) | set(other.priors)):
        if one.priors.get(key) != other.priors.get(key):
            yield f"prior of {key}: {one.priors.get(key)} and {other.priors.get(key)}"
    for name in sorted(set(one.models.of) | set(other.models.of)):
        a, b = one.models.of.get(name), other.models.of.get(name)
        if a is None or b is None or a.digest() != b.digest():
            yield f"what the model of {name!r} has learned is not the same"
    if one.curve != other.curve:
        yield f"how much positions are looked at: {one.curve} and {other.curve}"
    if one.pace != other.pace:
        yield f"how many rankings are made: {one.pace} and {other.pace}"
    if one.looks.as_json() != other.looks.as_json():
        yield f"rewards by position: {one.looks.as_json()} and {other.looks.as_json()}"
    if one.departed.as_json() != other.departed.as_json():
        yield f"forgotten items of groups: {one.departed.as_json()} and {other.departed.as_json()}"
    if one.phases != other.phases:
        yield f"phases: {one.phases} and {other.phases}"
    yield from _over_time(one, other)


def _late(ledger: Ledger, key: tuple[str, str], slots: Any) -> Any:
    """Impressions of these items, and of all, in each zone but the first."""
    out, counts = np.zeros((slots.size + 1, len(ZONES) - 1)), ledger.counts.get(key)
    if counts is not None:
        late = counts.behind(slots, len(ledger.catalogue.ids))
        out[: len(late)] = late
        out[-1] = counts.late
    return out


def _items(one: Ledger, other: Ledger, names: list[str], here: Any, there: Any) -> Iterator[str]:
    """What was said of each item, where both have it."""
    for column in ("since", "said", "added_at", "expires_at", "state"):
        mine, theirs = one.catalogue[column][here], other.catalogue[column][there]
        for j in np.flatnonzero(mine != theirs).tolist():
            pair = (STATES[mine[j]], STATES[theirs[j]]) if column == "state" else (mine[j], theirs[j])
            yield f"{column} of {names[j]!r}: {pair[0]} and {pair[1]}"
    for name, mine, theirs in zip(names, here.tolist(), there.tolist(), strict=True):
        for what, values in _labels(one, mine, other, theirs).items():
            if values[0] != values[1]:
                yield f"{what} of {name!r}: {values[0]} and {values[1]}"
    for variant in sorted(set(one.gone) | set(other.gone)):
        left = one.gone.get(variant, {}), other.gone.get(variant, {})
        for name, mine, theirs in zip(names, here.tolist(), there.tolist(), strict=True):
            if left[0].get(mine) != left[1].get(theirs):
                yield f"why {name!r} left {variant}: {left[0].get(mine)} and {left[1].get(theirs)}"


def _labels(one: Ledger, mine: int, other: Ledger, theirs: int) -> dict[str, tuple[Any, Any]]:
    """What an item is, in both."""
    a, b = one.catalogue, other.catalogue
    return {
        "tags": (a.tags_of(mine), b.tags_of(theirs)),
        "group": (a.group_of(mine), b.group_of(theirs)),
        "features": (a.features.get(mine), b.features.get(theirs)),
    }


def _over_time(one: Ledger, other: Ledger) -> Iterator[str]:
    """Totals of the variants, in all and by step."""
    mine, theirs = one.series, other.series
    tables: list[tuple[str, Mapping[str, list[float]], Mapping[str, list[float]]]]
    tables = [("totals", mine.totals, theirs.totals)]
    shares = [{f"{v} in phase {p}": s.as_json() for (p, v), s in x.shares.items()} for x in (mine, theirs)]
    tables.append(("share", shares[0], shares[1]))
    shadows = [{f"{v} in phase {p}": s.as_json() for (p, v), s in x.shadows.items()} for x in (mine, theirs)]
    tables.append(("what a shadow would have earned", shadows[0], shadows[1]))
    users = [{name: users.as_json() for name, users in x.users.items()} for x in (mine, theirs)]
    tables.append(("users", users[0], users[1]))
    for name in mine.steps:
        for step in sorted(set(mine.steps[name]) | set(theirs.steps[name])):
            cells = mine.steps[name].get(step, {}), theirs.steps[name].get(step, {})
            tables.append((f"{name} {step}", *cells))
    for what, held, other_held in tables:
        for variant in sorted(set(held) | set(other_held)):
            a, b = held.get(variant), other_held.get(variant)
            if a is None or b is None or list(a) != list(b):
                yield f"{what} of {variant}: {a} and {b}"
