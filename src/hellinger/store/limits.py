"""What a log may hold, what it may let go, and how long it may take."""

from __future__ import annotations

__all__ = ["COMPACTED", "KEY_BYTES", "PART_BYTES", "TIMEOUT"]

COMPACTED = ("feedback", "forget", "item", "pace", "prior", "rank", "seen", "shadow", "state")
"""Kinds of events that compaction deletes, since a snapshot has their effect. The keys of others (``import``,
``leave``) must stay known: the same event comes again under the same key, however late, and must not count twice."""

KEY_BYTES = 2048
"""The longest key or kind: an entry in an index of PostgreSQL may have 2,704."""

PART_BYTES = 1 << 20
"""The largest part of a snapshot."""

TIMEOUT = 2.0
"""Seconds after which a database that does not answer is unavailable, unless its URL says otherwise."""
