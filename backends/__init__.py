"""From StableHLO to what an engine runs: one folder an engine, which holds every fact about it."""
