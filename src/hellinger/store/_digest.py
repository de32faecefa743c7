"""Checksums of snapshots: one for each part, and one for all of them in order."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

__all__ = ["of", "of_all"]


def of(part: bytes) -> str:
    """The checksum of a part."""
    return blake2b(part, digest_size=16).hexdigest()


def of_all(digests: Iterable[str]) -> str:
    """The checksum of the parts' checksums: it changes when one is missing or out of place."""
    return of("\n".join(digests).encode())
