"""The stage that converts a flat graph to a `func.func` of StableHLO, and simplifies it.

lower.py        the stage; it repeats MLIR's and StableHLO's passes and the patterns until the function stays
simplify.py     patterns that those passes lack
sorts.py        fuses sorts
"""
