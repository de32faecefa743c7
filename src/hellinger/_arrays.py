"""Arrays that grow."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LARGE", "ROOM", "distinct", "extended", "grown", "roomy", "slack"]

LARGE = 1 << 17
"""Entries from which on an array is given address space for many more: to copy fewer takes some milliseconds."""
ROOM = 16
"""How many times as many entries a large array has address space for. Memory is taken by those in use alone."""


def slack(size: int) -> int:
    """How many more entries a small array is given when it must grow: very small ones double, others waste little."""
    return size if size < 4096 else size // 16


def distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Each of these numbers once, in order: ``np.unique``, which takes five to forty times as long for integers."""
    ordered: npt.NDArray[np.int64] = np.sort(values)
    if ordered.size > 1:
        ordered = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    return ordered


def grown(array: npt.NDArray[Any], size: int, *, scattered: bool = False) -> npt.NDArray[Any]:
    """The array where it has so many entries, or else a copy that has, zeros behind what it held.

    A large array is copied once in its life, or each time that it has grown sixteenfold: at a million entries a copy
    into new memory takes long.

    ``scattered``: entries are written here and there from the first on. Its memory then comes in small pages: a large
    one is cleared when it is first written to, which takes a virtual machine milliseconds, and a few hundred entries
    would need all of them at once.
    """
    if size <= array.size:
        return array
    larger = _spacious(ROOM * size, array.dtype, scattered=scattered) if size >= LARGE else None
    if larger is None:
        larger = np.zeros(max(size, array.size + slack(array.size), 64), array.dtype)
    larger[: array.size] = array
    return larger


def roomy(size: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """So many entries, unset; :func:`extended` may give a large array more of them without a copy."""
    larger = _spacious(ROOM * size, np.dtype(kind)) if size >= LARGE else None
    return np.empty(size, kind) if larger is None else larger[:size]


def extended(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any] | None:
    """The same entries with more behind them, in the address space of :func:`roomy`; None where there is no more."""
    whole = array.base
    return whole[:size] if isinstance(whole, np.ndarray) and whole.size >= size else None


def _spacious(size: int, kind: np.dtype[Any], *, scattered: bool = False) -> npt.NDArray[Any] | None:
    """Zeros that take memory only where they are written to; None where the system has no such thing."""
    if sys.platform != "linux":
        return None
    try:
        memory = mmap.mmap(-1, size * kind.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_NOHUGEPAGE if scattered else mmap.MADV_HUGEPAGE)
    except OSError:  # address space is limited, or memory has to be there for all of it (vm.overcommit_memory = 2)
        return None
    return np.frombuffer(memory, kind)
