"""Bytes and arrays: compile StableHLO, run compiled modules; sees no tidu op."""
