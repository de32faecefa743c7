"""Conformance suites: what every family and every policy must do."""
