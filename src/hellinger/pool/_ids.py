"""From ids to places in the array: a table of places, with no object for each item.

A whole number is its own key; a string's key is its hash, and the string itself settles whether it is the one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import brief, entry, inline, jit
from hellinger.errors import UnknownIdError
from hellinger.pool._groups import mix
from hellinger.pool._layout import ITEM, NONE

__all__ = ["Id", "IdT", "Ids", "forget", "point", "whole"]

Id = int | str

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    IdT = TypeVar("IdT", bound=Id, default=Id)
else:
    from typing import TypeVar

    IdT = TypeVar("IdT")
Keys = npt.NDArray[np.int64]
Table = npt.NDArray[np.int32]


@inline
def _probe(table: Table, items: Any, key: Any) -> Any:
    mask = table.size - 1
    i = np.int64(mix(key) & np.uint64(mask))
    while table[i] != NONE and items[table[i]]["key"] != key:
        i = (i + 1) & mask
    return i


@brief
def _find(table: Table, items: Any, keys: Keys) -> Keys:
    out = np.empty(keys.size, np.int64)
    for j in range(keys.size):
        out[j] = table[_probe(table, items, keys[j])]
    return out


@brief
def _find_one(table: Table, items: Any, key: int) -> Any:
    return table[_probe(table, items, key)]


@jit
def _insert(table: Table, items: Any, first: int, last: int) -> int:
    """Enter items[first:last]; at a key already present, undo all and return its position."""
    for j in range(first, last):
        i = _probe(table, items, items[j]["key"])
        if table[i] != NONE:
            for k in range(j - 1, first - 1, -1):
                forget(table, items, items[k]["key"])
            return j
        table[i] = j
    return NONE


@inline
def forget(table: Table, items: Any, key: int) -> None:
    """Take a key out of the table, moving back the entries that had to pass it."""
    mask = table.size - 1
    hole = _probe(table, items, key)
    i = hole
    while True:
        i = (i + 1) & mask
        if table[i] == NONE:
            break
        home = np.int64(mix(items[table[i]]["key"]) & np.uint64(mask))
        if ((i - home) & mask) >= ((i - hole) & mask):
            table[hole] = table[i]
            hole = i
    table[hole] = NONE


@inline
def point(table: Table, items: Any, key: int, new: int) -> None:
    """Note that the item of a key is at another place now."""
    table[_probe(table, items, key)] = new


class Ids:
    """The ids of a pool; ``items`` in every method is the pool's array, whose ``key`` column belongs to this."""

    def __init__(self) -> None:
        self.table: Table = np.full(64, NONE, np.int32)
        self.names: list[Id] | None = None
        """The ids in order of place; None while all are whole numbers, which their keys hold."""
        self._odd: dict[Id, int] = {}
        """Keys of ids whose own was taken."""
        self._find_one = entry(_find_one, self.table, np.empty(0, ITEM), 0)
        self._find = entry(_find, self.table, np.empty(0, ITEM), np.empty(0, np.int64))

    # Asking -------------------------------------------------------------------------------------------

    def place(self, items: Any, name: object) -> int:
        """Where this id is; UnknownIdError if nowhere."""
        key = hash(name) if type(name) is str and not self._odd else self._key(name)
        if key is not None:
            slot: int = self._find_one(self.table, items, key)
            if slot >= 0 and (self.names is None or self.names[slot] == name):
                return slot
        raise UnknownIdError(f"`id` must be one of those in the pool, but got {name!r}")

    def places(self, items: Any, names: Iterable[Id] | npt.NDArray[np.integer[Any]]) -> Keys:
        """Where these ids are; UnknownIdError at the first that is nowhere."""
        if self.names is None:
            keys = whole(names)
            if keys is not None:
                slots: Keys = self._find(self.table, items, keys)
                if slots.size and slots.min() < 0:
                    unknown = int(keys[np.argmax(slots < 0)])
                    raise UnknownIdError(f"`id` must be one of those in the pool, but got {unknown!r}")
                return slots
            return np.array([self.place(items, name) for name in names], np.int64)
        listed: Sequence[Any] = names.tolist() if isinstance(names, np.ndarray) else list(names)
        if self.names and not self._odd and set(map(type, listed)) == {str}:
            slots = self._find(self.table, items, np.fromiter(map(hash, listed), np.int64, len(listed)))
            if list(map(self.names.__getitem__, slots.tolist())) == listed:  # −1 gives the last name, not this one
                return slots
        return np.array([self.place(items, name) for name in listed], np.int64)

    def known(self, items: Any, names: Iterable[Id] | npt.NDArray[np.integer[Any]]) -> Keys:
        """Where those of these ids are that are anywhere."""
        keys = whole(names) if self.names is None else None
        if keys is not None:
            places: Keys = self._find(self.table, items, keys)
            return places[places >= 0]
        listed: list[Any] = names.tolist() if isinstance(names, np.ndarray) else list(names)
        if self.names and not self._odd and set(map(type, listed)) == {str}:
            slots = self._find(self.table, items, np.fromiter(map(hash, listed), np.int64, len(listed)))
            names = self.names
            found = [slot for slot, name in zip(slots.tolist(), listed, strict=True) if names[slot] == name]
        else:
            found = [self.place(items, name) for name in listed if self.holds(items, name)]
        return np.array(found, np.int64)

    def found(self, items: Any, names: Iterable[Id] | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
        """Whether each of these ids is anywhere."""
        return self.positions(items, names) >= 0

    def positions(self, items: Any, names: Iterable[Id] | npt.NDArray[np.integer[Any]]) -> Keys:
        """Where these ids are, −1 for those that are nowhere."""
        keys = whole(names) if self.names is None else None
        if keys is not None:
            places: Keys = self._find(self.table, items, keys)
            return places
        listed = names.tolist() if isinstance(names, np.ndarray) else names
        return np.array([self.place(items, name) if self.holds(items, name) else -1 for name in listed], np.int64)

    def holds(self, items: Any, name: object) -> bool:
        """Whether this id is present."""
        try:
            self.place(items, name)
        except ValueError:
            return False
        return True

    def by_key(self, items: Any, keys: Keys) -> Keys:
        """Places of these keys, −1 for those absent."""
        found: Keys = self._find(self.table, items, keys)
        return found

    def name(self, items: Any, slot: int) -> Id:
        """The id at a place."""
        return int(items[slot]["key"]) if self.names is None else self.names[slot]

    def of(self, items: Any, slots: Keys) -> list[Any]:
        """The ids at these places."""
        if self.names is None:
            found: list[Id] = items["key"][slots].tolist()
            return found
        names = self.names
        return [names[slot] for slot in slots.tolist()]

    def _key(self, name: object) -> int | None:
        if self._odd and isinstance(name, (int, str)) and name in self._odd:
            return self._odd[name]
        if type(name) is str:
            return hash(name)
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and -(2**63) <= name < 2**63:
            return int(name)
        return None

    # Changing -----------------------------------------------------------------------------------------

    def add(self, items: Any, first: int, names: Iterable[Id] | npt.NDArray[np.integer[Any]]) -> int:
        """Enter ids at the places from ``first`` on (``items`` must have room); all or none. Returns how many."""
        keys = whole(names) if self.names is None else None
        if keys is None:
            return self._add_names(items, first, names)
        self._reserve(items, first, first + keys.size)
        items["key"][first : first + keys.size] = keys
        double = _insert(self.table, items, first, first + keys.size)
        if double >= 0:
            raise UnknownIdError(f"`id` must be new to the pool and given once, but got {int(items[double]['key'])!r}")
        return int(keys.size)

    def _add_names(self, items: Any, first: int, names: Iterable[Id]) -> int:
        listed: list[Any] = names.tolist() if isinstance(names, np.ndarray) else list(names)
        if self._add_strings(items, first, listed):
            return len(listed)
        for name in listed:
            if type(name) is not str and self._key(name) is None:
                raise UnknownIdError(f"`id` must be a string or a whole number below 2⁶³, but got {name!r}")
        if len(set(listed)) != len(listed):
            double = next(name for name, times in Counter(listed).items() if times > 1)
            raise UnknownIdError(f"`id` must be new to the pool and given once, but got {double!r}")
        keys = np.fromiter((hash(name) if type(name) is str else name for name in listed), np.int64, len(listed))
        taken = self._find(self.table, items, keys) if first else np.full(keys.size, NONE)
        for j in np.flatnonzero(taken >= 0).tolist():
            if self.holds(items, listed[j]):
                raise UnknownIdError(f"`id` must be new to the pool and given once, but got {listed[j]!r}")
        if self.names is None:
            self.names = items["key"][:first].tolist()
        self._reserve(items, first, first + len(listed))
        if (taken >= 0).any() or np.unique(keys).size != keys.size:
            self._disperse(items, first, listed, keys)
        items["key"][first : first + keys.size] = keys
        _insert(self.table, items, first, first + keys.size)
        self.names.extend(listed)
        return len(listed)

    def _add_strings(self, items: Any, first: int, listed: list[Any]) -> bool:
        """Enter strings if no two ids share a hash, which is the rule; whether that was so."""
        if self._odd or (self.names is None and first) or set(map(type, listed)) != {str}:
            return False
        last = first + len(listed)
        self._reserve(items, first, last)
        items["key"][first:last] = np.fromiter(map(hash, listed), np.int64, len(listed))
        if _insert(self.table, items, first, last) >= 0:
            return False
        if self.names is None:
            self.names = []
        self.names.extend(listed)
        return True

    def _disperse(self, items: Any, first: int, listed: list[Id], keys: Keys) -> None:
        """Give another key to each id whose own is taken: two strings in 2⁶⁴ share a hash."""
        taken = set(items["key"][:first].tolist())
        for j, name in enumerate(listed):
            key = int(keys[j])
            while key in taken:
                key = (key * 6364136223846793005 + 1442695040888963407 + 2**63) % 2**64 - 2**63
            if key != keys[j]:
                self._odd[name] = key
                keys[j] = key
            taken.add(key)

    def _reserve(self, items: Any, present: int, wanted: int) -> None:
        size = self.table.size
        while 4 * wanted > 3 * size:
            size *= 2
        if size > self.table.size:
            self.table = np.full(size, NONE, np.int32)
            _insert(self.table, items, 0, present)

    def remove(self, slots: list[int]) -> None:
        """Forget the names at these places, last place first; the last name moves into each."""
        if self.names is not None:
            for slot in slots:
                self._odd.pop(self.names[slot], None)
                self.names[slot] = self.names[-1]
                self.names.pop()

    def copy(self) -> Ids:
        """The same ids, to go their own way."""
        other = Ids()
        other.table, other._odd = self.table.copy(), dict(self._odd)
        other.names = None if self.names is None else list(self.names)
        return other

    def rebuilt(self, items: Any, count: int, names: list[Id] | None) -> None:
        """Set the ids of items[:count], as a snapshot gives them back."""
        if names is None:
            self.table = np.full(64, NONE, np.int32)
            self._reserve(items, 0, count)
            _insert(self.table, items, 0, count)
        else:
            self.names = []
            self._add_names(items, 0, names)


def whole(names: object) -> Keys | None:
    """The ids as an array of whole numbers, if that is what they are."""
    if isinstance(names, range):
        return np.arange(names.start, names.stop, names.step, dtype=np.int64)
    if isinstance(names, np.ndarray):
        if names.dtype.kind not in "iu" or names.ndim != 1 or int(names.max(initial=0)) >= 2**63:
            return None
        return names.astype(np.int64)
    if isinstance(names, (list, tuple)) and all(type(name) is int for name in names):
        try:
            return np.array(names, np.int64)
        except OverflowError:
            return None
    return None
