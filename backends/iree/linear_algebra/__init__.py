"""Factorizations and solves, which IREE lacks, as StableHLO loops over columns and rows.

Each file has one of them: for the StableHLO op, if there is one, and for the calls that JAX exports to LAPACK
on CPUs, to cuSOLVER and hipSOLVER, and to TPUs. Matrices have one batch dimension before their own two. An
iteration works on all batches, and on whole matrices under masks, so that shapes are static and the code does
not grow with the size. On CPUs many of them are single dispatches instead (lines.py). All are backward
stable, as LAPACK is, and follow its conventions: signs, orders, pivots, `info`.
"""
