"""Tell a write-ahead log of SQLite that is whole from one that was cut short.

A checkpoint copies pages from the write-ahead log into the database. If the log is cut afterwards, its old pages hide
some of the new ones in the database: a mixture, with holes, that SQLite may take for sound. So before anything is
copied, a small file beside the database is made to say from which log, and how much of it.

The log is known by its salt, which changes when SQLite starts it over, and that is only after all of it has been
copied. What it looks like: https://sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import fcntl
import os
from bisect import bisect_left
from pathlib import Path

from hellinger.store.errors import StoreDamagedError

__all__ = ["PAGE_BYTES", "mark", "require_whole", "size"]

PAGE_BYTES = 4096
"""SQLite's own choice."""

_HEADER = 32
_FRAME_HEADER = 24


def mark(path: Path) -> None:
    """Note how much the log of this database holds: whatever is copied now needs all of it.

    One process at a time looks and notes, so that the note never says less than it did of the same log.
    """
    descriptor = os.open(_note(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        salt, frames = _frames(path)
        os.pwrite(descriptor, salt + frames.to_bytes(8, "big"), 0)
    finally:
        os.close(descriptor)


def size(path: Path) -> int:
    """Bytes that the log holds; the file may be larger, for its space is used again."""
    _, frames = _frames(path)
    return frames * PAGE_BYTES


def require_whole(path: Path) -> None:
    """Refuse a database with less of a log than was being copied from it."""
    try:
        noted = _note(path).read_bytes()  # before the log, which only grows until it is started over
    except FileNotFoundError:
        return
    salt, frames = _frames(path)
    if salt and salt == noted[:8] and frames < int.from_bytes(noted[8:], "big"):
        raise StoreDamagedError(
            f"{path}-wal was cut short after part of it had been copied to {path}: "
            "put the whole file back, or restore the database from a dump"
        )


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.checkpoint")


def _frames(path: Path) -> tuple[bytes, int]:
    """The log's salt, and how many whole frames bear it; what follows them is left from before it was started over."""
    try:
        descriptor = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"", 0
    try:
        header = os.pread(descriptor, _HEADER, 0)
        if len(header) < _HEADER:
            return b"", 0
        salt, size = header[16:24], _FRAME_HEADER + int.from_bytes(header[8:12], "big")
        whole = (os.fstat(descriptor).st_size - _HEADER) // size

        def is_older(frame: int) -> bool:
            return os.pread(descriptor, 8, _HEADER + frame * size + 8) != salt

        return salt, bisect_left(range(whole), True, key=is_older)
    finally:
        os.close(descriptor)
