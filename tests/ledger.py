"""Tests that are known to fail, each with its reason. The ledger is strict: one that passes fails the run."""

KNOWN_FAILURES: dict[str, str] = {}
