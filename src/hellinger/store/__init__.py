"""The event log in SQL: ordered, idempotent, durable."""
