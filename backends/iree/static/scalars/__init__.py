"""Compiles small programs to straight-line code of scalar ops, for static libraries.

The code has no dispatches and keeps no intermediate arrays in memory.

    numbers.py          the scalar ops of a program: merges equal ops, and folds constants
    arrays.py           turns StableHLO ops on arrays into scalar ops
    code.py             writes the scalar ops as a function of LLVM's dialect
    compile.py          compiles the function to an object file

If arguments and results have a common first dimension, such as a batch, the program may compute each element of the
batch alike. The scalar ops are then those for one element of the batch, and a loop runs them on vectors of several
elements of the batch. In this folder, that dimension is called `lane`, and its indices are called places.
"""
