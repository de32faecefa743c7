"""A max-heap for use inside a kernel: keys with two whole numbers and a float each, in arrays that grow."""

from __future__ import annotations

from typing import Any

import numpy as np

from hellinger._jit import helper, inline

__all__ = ["drop", "new", "push"]

_ENTRY = np.dtype([("key", np.float64), ("a", np.int64), ("b", np.int64), ("value", np.float64)])


@helper
def new(capacity: int) -> Any:
    """An empty heap."""
    return np.empty(capacity, _ENTRY)


@inline
def push(entries: Any, size: Any, key: float, a: Any, b: Any, value: float) -> Any:
    """Add an entry to a heap of that size; returns its array, a larger one where it was full."""
    if size == entries.size:
        longer = np.empty(2 * size, _ENTRY)
        for j in range(size):  # a slice would compile ten times as long
            longer[j] = entries[j]
        entries = longer
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        if not key > entries[parent]["key"]:
            break
        entries[hole] = entries[parent]
        hole = parent
    entry = entries[hole]
    entry["key"] = key
    entry["a"] = a
    entry["b"] = b
    entry["value"] = value
    return entries


@inline
def drop(entries: Any, size: Any) -> None:
    """Remove the entry with the largest key, the first one, from a heap of that size."""
    last = size - 1
    key = entries[last]["key"]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= last:
            break
        if child + 1 < last and entries[child + 1]["key"] > entries[child]["key"]:
            child += 1
        if not entries[child]["key"] > key:
            break
        entries[hole] = entries[child]
        hole = child
    entries[hole] = entries[last]
