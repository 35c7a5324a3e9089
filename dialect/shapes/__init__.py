"""The types and shapes of values: where the size of each dimension comes from, and sums of such sizes."""
