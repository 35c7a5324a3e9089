"""Calls, branches and loops: as records, as regions, their trip counts, and their form in StableHLO."""
