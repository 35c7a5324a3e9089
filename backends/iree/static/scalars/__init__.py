"""Small programs as straight lines of scalar ops, for static libraries: no dispatches, no loops, no arrays in memory.

    numbers.py          the scalar ops of a program: equal ops are one, and constants are folded
    arrays.py           computes StableHLO ops on arrays of scalars
    code.py             the scalar ops as a function of LLVM's dialect
    compile.py          compiles the function to an object file

In a program whose arguments and results have a common first dimension, such as a batch, the scalars are those of one
place along the dimension, and the function computes several places at once, as vectors.
"""
