"""Factorizations and solves, which IREE lacks: StableHLO's ops and the calls of LAPACK, cuSOLVER and TPUs.

    calls.py, routines.py       read an op or a call on batches of matrices, and compute its results by name
    implementations.py          the table of implementations, the only place that chooses
    cholesky.py, lu.py, ...     one algorithm each, as a program for one matrix, which runs on every target
    reflectors.py, shifts.py    parts of algorithms: Householder reflections, and the QR algorithm with shifts
    program.py, scalars.py      the language of programs: matrices, loops and branches, and numbers
    run.py                      makes a program a function of batches of matrices, which is one dispatch
    host.py                     LAPACK on the host, for `--lapack=callback`

To add a factorization, write a program in a file of its own, with `@program`; name it in `IMPLEMENTATIONS`; and read
its calls in calls.py, with `@routine`. The calls need a row in `ROUTINES` (dialect/lapack.py). Tests of values are in
test/py/test_iree_linear_algebra.py.

Matrices have one batch dimension before their own two. The emitted code does not grow with the matrix. All are
backward stable, as LAPACK is, and follow LAPACK's conventions: signs, orders, pivots, `info`.
"""
