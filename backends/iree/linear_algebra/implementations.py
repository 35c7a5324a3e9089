"""The implementation of each factorization and solve, by the way to factorize: the only place that chooses.

A program (program.py) runs on every target. On CPUs a module may call LAPACK on the host instead, for what NumPy has,
if the option `--lapack=callback` asks for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tiduc.backends.backend import CALLBACK, LOOPS
from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra import (
    cholesky,
    eig,
    eigh,
    gtsv,
    host,
    lu,
    qr,
    svd,
    triangular_solve,
)

Implementation = Callable[..., Sequence[Any]]

IMPLEMENTATIONS: dict[tuple[str, str], Implementation] = {
    ("cholesky", LOOPS): cholesky.factor,
    ("cholesky", CALLBACK): host.cholesky,
    ("lu", LOOPS): lu.factors,
    ("triangular_solve", LOOPS): triangular_solve.solve,
    ("tridiagonal_solve", LOOPS): gtsv.solve,
    ("qr", LOOPS): qr.factors,
    ("qr", CALLBACK): host.qr,
    ("pivoted_qr", LOOPS): qr.pivoted,
    ("multiply_by_q", LOOPS): qr.multiply_by_q,
    ("multiply_by_q", CALLBACK): host.multiply_by_q,
    ("eigh", LOOPS): eigh.decompose,
    ("eigh", CALLBACK): host.eigh,
    ("svd", LOOPS): svd.decompose,
    ("svd", CALLBACK): host.svd,
    ("eig", LOOPS): eig.decompose,
    ("eig", CALLBACK): host.eig,
    ("eig_with_left_vectors", LOOPS): eig.decompose,
}
"""Implementations by what they compute and how; where LAPACK on the host has none, the loops serve."""


def implementation(b: Emitter, name: str) -> Implementation:
    """The implementation for the module that the emitter writes."""
    loops = IMPLEMENTATIONS[name, LOOPS]
    return IMPLEMENTATIONS.get((name, CALLBACK), loops) if b.lapack else loops
