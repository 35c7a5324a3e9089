"""lower: converts a flat graph to a `func.func` of plain StableHLO, and simplifies it."""
