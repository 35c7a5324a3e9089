"""Factorizations and solves, none of which IREE has: loops over columns and rows, in StableHLO.

A file here is one of them, for the op of StableHLO where there is one, and for the calls that JAX exports: LAPACK's on
CPUs, cuSOLVER's and hipSOLVER's, and those of TPUs. Matrices come as one dimension of batches and two of their own; a
step of a loop works on all batches, and on whole matrices with masks, so that shapes are static and the text is short
whatever the size is. On CPUs many are kernels instead, which lines.py tells about. All are
backward stable, as LAPACK is, and have its conventions: signs, orders, pivots, `info`.
"""
