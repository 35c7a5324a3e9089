"""Compiles small programs to straight-line code of scalar ops, for static libraries.

    numbers.py          collects the scalar ops of a program, merges equal ops, and folds ops on constants
    ranges.py           computes the ranges of integers, such as pivots
    arrays.py           evaluates StableHLO ops on arrays of scalar ops; rules.py maps each op to its function
    indexing.py         evaluates dynamic slices, gathers and scatters by selects among the possible elements
    control.py          unrolls loops of known trip counts, and evaluates branches
    factorizations.py   evaluates LU and Cholesky factors and triangular solves of small matrices
    code.py             writes the scalar ops as a function of LLVM's dialect
    compile.py          compiles the function to an object file

If arguments and results have a common first dimension, such as a batch, a program often computes the same function of
each element of the batch. The scalar ops are then those for one element, and a loop runs them on vectors that hold
several elements of the batch. The code calls this dimension the `lane`, and each index along it a place.
"""
