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
def _ahead(key: float, b: Any, value: float, other: Any) -> Any:
    """Whether an entry comes before another."""
    if key != other["key"]:
        return key > other["key"]
    return b < other["b"] or (b == other["b"] and value < other["value"])


@inline
def _write(entry: Any, key: float, a: Any, b: Any, value: float) -> None:
    """Set an entry field by field; a record assigned as a whole is copied byte by byte."""
    entry["key"] = key
    entry["a"] = a
    entry["b"] = b
    entry["value"] = value


@inline
def push(entries: Any, size: Any, key: float, a: Any, b: Any, value: float) -> None:
    """Add an entry to a heap of that size."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        other = entries[parent]
        if not _ahead(key, b, value, other):
            break
        _write(entries[hole], other["key"], other["a"], other["b"], other["value"])
        hole = parent
    _write(entries[hole], key, a, b, value)


@inline
def drop(entries: Any, size: Any) -> None:
    """Remove the first entry from a heap of that size."""
    last = size - 1
    key, a, b, value = entries[last]["key"], entries[last]["a"], entries[last]["b"], entries[last]["value"]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= last:
            break
        other = entries[child]
        if child + 1 < last and not _ahead(other["key"], other["b"], other["value"], entries[child + 1]):
            child += 1
            other = entries[child]
        if not _ahead(other["key"], other["b"], other["value"], entries[last]):
            break
        _write(entries[hole], other["key"], other["a"], other["b"], other["value"])
        hole = child
    _write(entries[hole], key, a, b, value)
