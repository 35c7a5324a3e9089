"""Sums on CPUs: the passes reductions_in_lanes and sums_in_blocks, and a pattern for sums of padded arrays."""
