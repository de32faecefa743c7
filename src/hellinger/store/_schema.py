"""The tables, as the newest migration leaves them; a test proves that the migrations lead here."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, Text

__all__ = ["METADATA"]

METADATA = MetaData(naming_convention={"uq": "uq_%(table_name)s_%(column_0_name)s", "pk": "pk_%(table_name)s"})

# SQLite's own row number serves as the place, which it does only for a key declared as INTEGER
_PLACE = BigInteger().with_variant(Integer(), "sqlite")
# compared byte by byte, as SQLite does: a range of keys is a range of the index whatever the database's locale
_KEY = Text().with_variant(Text(collation="C"), "postgresql")

Table(
    "events",
    METADATA,
    Column("seq", _PLACE, primary_key=True, autoincrement=False),
    Column("key", _KEY, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
Table(
    "snapshots",
    METADATA,
    Column("id", _PLACE, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("base", Integer, nullable=False),  # 1: what compaction builds upon; 0: what a start begins with
    Column("parts", Integer),
    Column("digest", Text),  # with parts: none until the snapshot is complete
)
Table(
    "snapshot_parts",
    METADATA,
    Column("snapshot", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("digest", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
Table(
    "meta",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
