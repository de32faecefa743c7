"""A max-heap for use inside a kernel: keys with two whole numbers and a float each, in an array with room for all.

Entries of equal key come by their second number and then their float, ascending: in one order, however they came in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hellinger._jit import inline

__all__ = ["ENTRY", "drop", "push"]

ENTRY = np.dtype([("key", np.float64), ("a", np.int64), ("b", np.int64), ("value", np.float64)])


@inline
def _ahead(key: float, b: Any, value: float, other: Any) -> bool:
    """Whether an entry comes before another."""
    if key != other["key"]:
        return key > other["key"]
    return b < other["b"] or (b == other["b"] and value < other["value"])


@inline
def push(entries: Any, size: Any, key: float, a: Any, b: Any, value: float) -> None:
    """Add an entry to a heap of that size."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        if not _ahead(key, b, value, entries[parent]):
            break
        entries[hole] = entries[parent]
        hole = parent
    entry = entries[hole]
    entry["key"] = key
    entry["a"] = a
    entry["b"] = b
    entry["value"] = value


@inline
def drop(entries: Any, size: Any) -> None:
    """Remove the entry with the largest key, the first one, from a heap of that size."""
    last = size - 1
    key, b, value = entries[last]["key"], entries[last]["b"], entries[last]["value"]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= last:
            break
        if child + 1 < last and not _ahead(
            entries[child]["key"], entries[child]["b"], entries[child]["value"], entries[child + 1]
        ):
            child += 1
        if _ahead(key, b, value, entries[child]):
            break
        entries[hole] = entries[child]
        hole = child
    entries[hole] = entries[last]
