"""The log, its snapshots, and what belongs to the log as a whole."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_PLACE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

# The whole of an append in one call: the lock is held for no longer than the server needs, whatever the network does.
# Each statement of a volatile function sees what was committed before it began, so the places are chosen from what the
# previous holder of the lock left. The lock is the table's own number: logs in several schemas do not wait for each
# other. Keys are looked up one by one in the index, which a plan made while the table was empty would otherwise not do.
_APPEND = """
CREATE FUNCTION hellinger_append(batch jsonb, OUT last bigint, OUT added bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('events'::regclass::oid::bigint);
  SELECT coalesce(max(seq), 0) INTO last FROM events;
  INSERT INTO events (seq, key, kind, at, body)
    SELECT last + row_number() OVER (ORDER BY place), new ->> 0, new ->> 1, (new ->> 2)::bigint, new ->> 3
    FROM jsonb_array_elements(batch) WITH ORDINALITY AS given (new, place)
    LEFT JOIN LATERAL (SELECT true AS held FROM events WHERE key = new ->> 0 LIMIT 1) AS old ON true
    WHERE held IS NULL;
  GET DIAGNOSTICS added = ROW_COUNT;
  last := last + added;
END $$
"""


def upgrade() -> None:
    """Make the tables, and on PostgreSQL the function that writes to the log."""
    op.create_table(
        "events",
        sa.Column("seq", _PLACE, autoincrement=False, nullable=False),
        sa.Column("key", _KEY, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
        sa.UniqueConstraint("key", name="uq_events_key"),
    )
    op.create_table(
        "snapshots",
        sa.Column("id", _PLACE, autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("base", sa.Integer(), nullable=False),
        sa.Column("parts", sa.Integer()),
        sa.Column("digest", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_snapshots"),
    )
    op.create_table(
        "snapshot_parts",
        sa.Column("snapshot", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot", "part", name="pk_snapshot_parts"),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_meta"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_APPEND)
        # parts are packed already: packing them again only costs time
        op.execute("ALTER TABLE snapshot_parts ALTER COLUMN body SET STORAGE EXTERNAL")
