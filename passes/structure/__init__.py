"""structure: lowers control flow over graphs to the control flow of StableHLO, and fuses loops."""
