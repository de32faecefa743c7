"""A whole log in one file, from either database to the other.

The file is compressed lines of JSON: first what it is and the log's secret; then each event as ``[seq, key, kind, at,
body]``; then each part of the snapshot and of the base of compaction in Base64; last how many there were of each, the
snapshots' places, and a checksum of all lines before. It holds the secret, so it is made readable by its owner alone.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from hellinger.events import Logged
from hellinger.store._contract import Store
from hellinger.store._registry import open_store
from hellinger.store.errors import StoreDamagedError, StoreVersionError

__all__ = ["Transferred", "dump", "restore", "verify"]

_FORMAT = "hellinger log"
_VERSION = 1
_PAGE = 10_000
_PRESS = 3  # beyond, time grows faster than the file shrinks


class Transferred(NamedTuple):
    """How much was moved: events, the last one's place, and place and parts of the snapshots that there are."""

    events: int
    last: int
    snapshot: int | None
    parts: int
    base: int | None
    base_parts: int


def dump(store: Store, path: str | Path) -> Transferred:
    """Write a log to a file, which appears when it is complete. The log may be written to meanwhile.

    Events up to the last one at the beginning are there for certain. The snapshots are read after the events and are
    of places that they reach, so what a compaction deletes meanwhile has its effect in them. The base is read first:
    at no time is it ahead of the snapshot to start from.
    """
    path = Path(path)
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_PRESS, mtime=0) as packed:
                done = _write(store, packed)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink()
        raise
    return done


def _write(store: Store, file: gzip.GzipFile) -> Transferred:
    digest = hashlib.sha256()

    def line(content: object) -> None:
        text = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
        digest.update(text)
        file.write(text)

    line({"format": _FORMAT, "version": _VERSION, "secret": store.secret().hex()})
    events = last = 0
    goal = store.last()
    while True:
        while last < goal:
            page = store.read(last, _PAGE)
            for event in page:
                line(tuple(event))
            events += len(page)
            last = page[-1].seq
        base, current = store.snapshot(base=True), store.snapshot()
        snapshots = current, base
        goal = max(found[0] if found else 0 for found in snapshots)
        if goal <= last:
            break
    written: list[tuple[int | None, int]] = []
    for found in snapshots:
        parts = 0
        for part in found[1] if found else ():
            line(b64encode(part).decode())
            parts += 1
        written.append((found[0] if found else None, parts))
    done = Transferred(events, last, *written[0], *written[1])
    file.write(orjson.dumps({**done._asdict(), "digest": digest.hexdigest()}, option=orjson.OPT_APPEND_NEWLINE))
    return done


def verify(path: str | Path) -> Transferred:
    """Read a file to its end, and refuse one that is damaged, cut short, or of a newer version."""
    digest = hashlib.sha256()
    previous = b""
    for line in _lines(Path(path)):
        if not previous:
            _require_known(line, path)
        digest.update(previous)
        previous = line
    end = _parsed(previous)
    if not isinstance(end, dict) or end.pop("digest", None) != digest.hexdigest():
        raise StoreDamagedError(f"{path} is damaged or cut short: its checksum does not match")
    return Transferred(**end)


def restore(path: str | Path, url: str) -> Transferred:
    """Fill the empty log at a URL from a file; the file is verified first, and a failure leaves the log empty."""
    done = verify(path)
    lines = map(_parsed, _lines(Path(path)))
    secret = bytes.fromhex(next(lines)["secret"])
    events = map(Logged._make, islice(lines, done.events))
    parts, base_parts = (map(b64decode, islice(lines, count)) for count in (done.parts, done.base_parts))
    store = open_store(url, exclusive=True)
    try:
        snapshot = None if done.snapshot is None else (done.snapshot, parts)
        store.fill(secret, events, snapshot, None if done.base is None else (done.base, base_parts))
    finally:
        store.close()
    return done


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as file:
            yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise StoreDamagedError(f"{path} is damaged or cut short: {error}") from error


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _require_known(line: bytes, path: str | Path) -> None:
    header = _parsed(line)
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise StoreDamagedError(f"{path} is not a log that was dumped")
    if header.get("version") != _VERSION:
        found = header.get("version")
        raise StoreVersionError(f"{path} has version {found}, but this version of the package reads version {_VERSION}")
