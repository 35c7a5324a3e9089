"""Calls, branches and loops: reads them from ops and regions, finds trip counts, and emits them as StableHLO."""
