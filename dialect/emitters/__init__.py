"""Emitters: the builder of StableHLO graphs, the bodies of regions, and functions of matrices."""
