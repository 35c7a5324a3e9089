"""StableHLO's reference interpreter: slow, and exact."""
