"""lower: a flat graph becomes a `func.func` of plain StableHLO, which is then simplified."""
