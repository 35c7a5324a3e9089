"""Faster and more accurate sums on CPUs: passes in reductions_in_lanes and sums_in_blocks, a pattern in padded_sums."""
