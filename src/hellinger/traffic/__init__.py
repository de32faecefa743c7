"""Traffic as real clients send it."""
