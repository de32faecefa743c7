"""What the log says items are, for a prior: columns of features, and which items a fit has them of."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from sys import getsizeof
from threading import Lock
from typing import Any

import numpy as np

from hellinger.ledger import Floats, Slots
from hellinger.ledger.modelled import read_features
from hellinger.models import hashed
from hellinger.policies.effects import FITTED, Described, Named, Rows
from hellinger.policies.shares import mark_of

__all__ = ["Encodings", "described", "features_of"]

MEMORY = 32 << 20
"""Bytes that encoded features may take: those of some twenty thousand items with ten words each."""
_ENTRY = 250
"""Bytes that one takes besides its text and its columns."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
LEFT = FITTED // 2
"""Items that have left and still tell what features are worth; of more, the last."""


def features_of(texts: Mapping[int, str], slots: Slots) -> list[dict[str, Any] | None] | None:
    """What these items are; None where the log says it of none."""
    if not texts:
        return None
    found = [texts.get(slot) for slot in slots.tolist()]
    return [None if text is None else read_features(text) for text in found] if any(found) else None


_Encoded = tuple[Sequence[int], Sequence[float]]
_NOTHING: _Encoded = ((), ())


class Encodings:
    """Columns of features by their text, those last asked for: the next fit is mostly of the same items.

    They take so many bytes at most, about: a description may have a thousand words, or two.
    """

    def __init__(self, most_bytes: int = MEMORY) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._known: OrderedDict[str, _Encoded] = OrderedDict()
        self._turn = Lock()  # each service of a process fits in threads

    def __len__(self) -> int:
        return len(self._known)

    def of(self, text: str) -> _Encoded:
        """What features say, as columns and how much of each."""
        with self._turn:
            found = self._known.get(text)
            if found is not None:
                self._known.move_to_end(text)
                return found
            keys, values, _ = hashed(read_features(text))
            made = self._known[text] = array("q", keys), array("d", values)
            self.bytes += _size(text, made)
            while self.bytes > self.most_bytes:
                self.bytes -= _size(*self._known.popitem(last=False))
            return made


def _size(text: str, made: _Encoded) -> int:
    """About how many bytes an entry takes."""
    return _ENTRY + getsizeof(text) + sum(map(getsizeof, made))


_ENCODINGS = Encodings()


def _rows(texts: Mapping[int, str], slots: Slots) -> Rows:
    found = [texts.get(slot) for slot in slots.tolist()]
    return Rows.of([_NOTHING if text is None else _ENCODINGS.of(text) for text in found])


class _Names(dict[int, Named]):
    """Names of columns, read from the features of these items when they are first asked for: few are."""

    def __init__(self, texts: Mapping[int, str], slots: Slots) -> None:
        self._texts, self._slots = texts, slots

    def __missing__(self, key: int) -> Named:
        for slot in self._slots.tolist() if not self else ():
            keys, _, names = hashed(read_features(self._texts.get(slot)))
            self.update(zip(keys, names, strict=True))
        return dict.__getitem__(self, key)


def described(
    texts: Mapping[int, str],
    members: Slots,
    since: Slots,
    left: Slots,
    left_sums: tuple[Floats, Floats],
    left_groups: Sequence[tuple[str, ...]],
) -> Described:
    """What the members of a fit are; and what those were that have left, the last ones first.

    Parameters
    ----------
    texts
        Features by slot, as JSON.
    members, since
        Slots of the members, and where in the log each began.
    left, left_sums, left_groups
        Slots of those that have left, with impressions and rewards and the group of each.
    """
    n, s = left_sums
    shown = np.flatnonzero(n > 0)[:LEFT]
    marks = np.array([mark_of(left_groups[j]) if left_groups[j] else 0 for j in shown.tolist()], np.uint64)
    return Described(
        lambda places: _rows(texts, members[places]),
        _Names(texts, np.concatenate([members, left[shown]])).__getitem__,
        since.astype(np.uint64) * _SPREAD,
        (s[shown], n[shown], _rows(texts, left[shown]), marks),
    )
