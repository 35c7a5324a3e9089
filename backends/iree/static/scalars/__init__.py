"""Compiles small programs to straight-line code of scalar ops, for static libraries.

    numbers.py          the scalar ops of a program: equal ops are one, and constants are folded
    ranges.py           the ranges of integers, such as pivots
    arrays.py           computes StableHLO ops on arrays of scalars; rules.py has the functions of all ops
    indexing.py         dynamic slices, gathers and scatters: selects among the elements that an index may mean
    control.py          loops of known trip counts, unrolled, and branches
    factorizations.py   LU and Cholesky factors and triangular solves of small matrices
    code.py             the scalar ops as a function of LLVM's dialect
    compile.py          compiles the function to an object file

If arguments and results have a common first dimension, such as a batch, the program may compute each element of the
batch alike. The scalar ops are then those for one element of the batch, and a loop runs them on vectors of several
elements of the batch. In this folder, that dimension is called `lane`, and its indices are called places.
"""
