"""The stage that converts a flat graph (it reads no values of other graphs) to a `func.func`, and simplifies it.

lower.py        the stage: repeats MLIR's and StableHLO's passes and the patterns until the number of ops stays the same
simplify.py     patterns that those passes lack; products.py has those for products of matrices
sorts.py        fuses sorts
manual_regions.py   restores Shardy's ops, such as manual computations
"""
