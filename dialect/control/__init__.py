"""Reads calls, branches and loops from ops and their regions, finds trip counts, and emits the ops as StableHLO."""
