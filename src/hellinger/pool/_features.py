"""What the items of a pool are, as columns: what a prior's effects make of it, and what they are fitted to."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger._jit import jit
from hellinger.errors import InputError
from hellinger.models import Features, hashed
from hellinger.policies.effects import FITTED, Effects, EffectTable, Named, Rows, column_key, factor_steps
from hellinger.pool._store import Floats, Slots

__all__ = ["Descriptions", "Encoded"]

Encoded = tuple[tuple[int, ...], tuple[float, ...]]
"""Columns of an item, and how much it has of each."""

_NOTHING: Encoded = ((), ())
_LEFT = FITTED // 2
"""Items that have left and still tell what features are worth; of more, the last."""


@jit
def _pack(start: Slots, end: Slots, key: Slots, value: Floats, to_key: Slots, to_value: Floats) -> Any:
    """Move every item's columns together; returns how many there are."""
    top = 0
    for i in range(start.size):
        first = top
        for j in range(start[i], end[i]):
            to_key[top], to_value[top] = key[j], value[j]
            top += 1
        start[i], end[i] = first, top
    return top


class Descriptions:
    """Columns of the items at each place, one after the other in two arrays, and of items that have left."""

    def __init__(self, count: int = 0) -> None:
        self.names: dict[int, Named] = {}
        """What the columns are that items have, or had."""
        self.left: deque[tuple[Encoded, float, float, int]] = deque(maxlen=_LEFT)
        """Items that have left, with their impressions and rewards and the mark of their group."""
        self._start, self._end = (grown(np.zeros(0, np.int64), count) for _ in range(2))
        self._key, self._value = np.zeros(0, np.int64), np.zeros(0)
        self._top = self._unused = 0
        self._table: tuple[Effects, EffectTable] | None = None

    def encode(self, features: Features | Sequence[Features | None] | None, count: int) -> list[Encoded]:
        """The columns of so many items; one description for all, or one for each, None for none."""
        if features is None:
            return [_NOTHING]
        if isinstance(features, Mapping):
            return [self._encoded(features)]
        listed = list(features)
        if len(listed) != count:
            raise InputError(
                f"`features` must be one dict for all or one for each of {count} ids, but got {len(listed)}"
            )
        return [_NOTHING if each is None else self._encoded(each) for each in listed]

    def _encoded(self, features: Features) -> Encoded:
        keys, values, names = hashed(features)
        for key, name in zip(keys, names, strict=True):
            self.names.setdefault(key, name)
        return tuple(keys), tuple(values)

    def set(self, slots: Slots, encoded: list[Encoded], count: int) -> None:
        """Let the items at these places have these columns; one for all, or one for each. There are so many places."""
        self._start, self._end = grown(self._start, count), grown(self._end, count)
        if len(encoded) == 1:
            encoded = encoded * slots.size
        more = Rows.of(encoded)
        size = int(more.start[-1])
        self._unused += int((self._end[slots] - self._start[slots]).sum())
        if self._top + size > self._key.size:
            self._make_room(more.key)
        self._key[self._top : self._top + size] = more.key
        self._value[self._top : self._top + size] = more.value
        self._start[slots], self._end[slots] = self._top + more.start[:-1], self._top + more.start[1:]
        self._top += size

    def _make_room(self, more: Slots) -> None:
        """Make room for these columns."""
        size = more.size
        if 2 * self._unused > self._top:
            key, value = np.empty_like(self._key), np.empty_like(self._value)
            self._top = int(_pack(self._start, self._end, self._key, self._value, key, value))
            self._key, self._value, self._unused = key, value, 0
            left = [key for (keys, _), *_ in self.left for key in keys]
            used = {*np.unique(self._key[: self._top]).tolist(), *left, *more.tolist()}
            self.names = {key: name for key, name in self.names.items() if key in used}
        self._key, self._value = grown(self._key, self._top + size), grown(self._value, self._top + size)

    def leave(self, slots: Slots, n: Floats, s: Floats, marks: Any) -> None:
        """Remember what these items are, which are about to leave, and what they had, in stored counts."""
        for slot, shown, earned, mark in zip(slots.tolist(), n.tolist(), s.tolist(), marks.tolist(), strict=True):
            if shown > 0 and self._end[slot] > self._start[slot]:
                self.left.append((self._at(slot), max(shown, earned), earned, mark))

    def departed(self, scale: float) -> tuple[Rows, Floats, Floats, npt.NDArray[np.uint64]]:
        """Items that have left: columns, impressions, rewards and marks."""
        rows = Rows.of([encoded for encoded, _, _, _ in self.left])
        n, s = (np.array([each[place] for each in self.left]) * scale for place in (1, 2))
        return rows, n, s, np.array([each[3] for each in self.left], np.uint64)

    def _at(self, slot: int) -> Encoded:
        part = slice(int(self._start[slot]), int(self._end[slot]))
        return tuple(self._key[part].tolist()), tuple(self._value[part].tolist())

    def compact(self, falling: Slots, count: int) -> None:
        """Follow the items, of which those at these places were taken out of so many."""
        for slot in falling.tolist():
            count -= 1
            self._unused += int(self._end[slot] - self._start[slot])
            self._start[slot], self._end[slot] = self._start[count], self._end[count]
            self._start[count] = self._end[count] = 0

    def rescale(self, scale: float) -> None:
        """Follow stored counts that have been multiplied by this."""
        left = [(encoded, n * scale, s * scale, mark) for encoded, n, s, mark in self.left]
        self.left = deque(left, maxlen=_LEFT)

    # What is made of it -------------------------------------------------------------------------------

    def steps(self, effects: Effects | None, slots: Slots) -> npt.NDArray[np.int32]:
        """The factors of the items at these places, in steps."""
        out = np.zeros(slots.size, np.int32)
        if effects is not None:
            if self._table is None or self._table[0] is not effects:
                self._table = effects, EffectTable.of(effects)
            factor_steps(self._table[1], self._start[slots], self._end[slots], self._key, self._value, out)
        return out

    def rows(self, slots: Slots) -> Rows:
        """The columns of the items at these places."""
        size = self._end[slots] - self._start[slots]
        start = np.concatenate(([0], np.cumsum(size)))
        where = np.arange(start[-1]) + np.repeat(self._start[slots] - start[:-1], size)
        return Rows(start, self._key[where], self._value[where])

    def parts(self, slot: int) -> dict[Named, float]:
        """What the item at a place is, and how much of each."""
        keys, values = self._at(slot)
        return {self.names[key]: value for key, value in zip(keys, values, strict=True)}

    # State --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Names and what has left, for a snapshot; the arrays are :meth:`arrays`."""
        return {"names": [list(name) for name in self.names.values()], "left": list(self.left)}

    def arrays(self, count: int) -> dict[str, Any]:
        """What a snapshot has to keep besides."""
        rows = self.rows(np.arange(count))
        return {"described.start": rows.start, "described.key": rows.key, "described.value": rows.value}

    @classmethod
    def restored(cls, state: Mapping[str, Any], rows: Rows) -> Descriptions:
        """Go on from a snapshot."""
        made = cls()
        made.names = {column_key(*name): Named(*name) for name in state["names"]}
        for (keys, values), *rest in state["left"]:
            made.left.append(((tuple(keys), tuple(values)), *rest))
        made._start, made._end = rows.start[:-1].copy(), rows.start[1:].copy()
        made._key, made._value, made._top = rows.key, rows.value, int(rows.start[-1])
        return made

    def blank(self, count: int) -> Descriptions:
        """What so many items are, and nothing of those that have left."""
        made = Descriptions()
        rows = self.rows(np.arange(count))
        made.names = dict(self.names)
        made._start, made._end = rows.start[:-1].copy(), rows.start[1:].copy()
        made._key, made._value, made._top = rows.key, rows.value, int(rows.start[-1])
        return made

    def memory(self, count: int) -> int:
        """Bytes in use with so many items, names not counted."""
        return 16 * (self._top + count)
