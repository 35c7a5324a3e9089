"""Factorizations and solves, which IREE lacks: StableHLO's ops and the calls of LAPACK, cuSOLVER and TPUs.

    routines.py                      registers patterns for calls, which get their operands as batches
    solve_calls.py, factor_calls.py  read an op or a call, and ask for an implementation
    implementations.py               the table of implementations, the only place that chooses
    cholesky.py, lu.py, eigh.py, ... one algorithm each, as a program that runs on every target
    reflectors.py, shifts.py         parts of algorithms: Householder reflections, sweeps of rotations
    host.py                          LAPACK on the host, for `--lapack=callback`
    run.py, program.py, scalars.py   how programs are written and run

Matrices have one batch dimension before their own two. The emitted code does not grow with the matrix. All are
backward stable, as LAPACK is, and follow LAPACK's conventions: signs, orders, pivots, `info`.
"""
