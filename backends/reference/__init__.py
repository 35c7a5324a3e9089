"""The backend that runs programs with StableHLO's reference interpreter, which is slow and exact."""
