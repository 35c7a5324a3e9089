"""The stage that converts a flat graph to a `func.func` of StableHLO, and simplifies it.

lower.py        the stage: repeats MLIR's and StableHLO's passes and the patterns until the function no longer changes
simplify.py     patterns that those passes lack; products.py has those for products of matrices
sorts.py        fuses sorts
manual_regions.py   restores Shardy's ops, such as manual computations
"""
