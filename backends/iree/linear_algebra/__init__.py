"""Implements the factorizations and solves that IREE lacks: ops of StableHLO, and calls of LAPACK, cuSOLVER and TPUs.

    calls.py                    one pattern for each op or call: reads the settings, and computes the results
    routines.py                 registers these patterns; flattens batches, and handles empty matrices
    implementations.py          the table of implementations; only this file chooses between them
    cholesky.py, lu.py, ...     one algorithm each, as a program for one matrix, which runs on every target
    reflectors.py, shifts.py    parts of algorithms: Householder reflections, and the QR algorithm with shifts
    program.py, scalars.py      the language of programs: matrices, loops and branches; scalars
    run.py                      turns a program into a function of batches of matrices, which is one dispatch
    host.py                     LAPACK on the host, for `--lapack=callback`

To add a factorization, write its program, with the decorator `@program`, in a file of its own, and add the program to
`IMPLEMENTATIONS`. Then add a function with the decorator `@routine` to calls.py, which reads the settings of the calls.
The calls need a row in `ROUTINES` (dialect/facts/lapack.py). Tests are in test/py/test_iree_linear_algebra.py.

A batch is an array of three dimensions: the index of the matrix, its rows, its columns. The size of the emitted code
does not depend on the size of the matrix. All algorithms are backward stable, and follow LAPACK's conventions for
signs, orders, pivots and `info`.
"""
