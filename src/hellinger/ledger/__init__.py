"""The fold of the event log: every count, and nothing that the log does not say."""
