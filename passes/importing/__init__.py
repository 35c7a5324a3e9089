"""Import: converts functions of StableHLO and CHLO to graphs."""
