"""Chooses the implementation of each factorization and solve.

A program (program.py) runs on every target. With the option `--lapack=callback`, a module for CPUs calls LAPACK on the
host instead, if NumPy has the routine.
"""

from collections.abc import Callable, Sequence

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.linear_algebra import cholesky, eig, eigh, gtsv, host, lu, qr, svd, triangular_solve
from tiduc.dialect.ops.ir_types import IrValue

Implementation = Callable[..., Sequence[IrValue]]

IMPLEMENTATIONS: dict[str, tuple[Implementation, Implementation | None]] = {
    "cholesky": (cholesky.factors, host.cholesky),
    "eig": (eig.decompose, host.eig),
    "eig with left vectors": (eig.decompose, None),
    "eigh": (eigh.decompose, host.eigh),
    "lu": (lu.factors, None),
    "multiply by q": (qr.multiply_by_q, host.multiply_by_q),
    "pivoted qr": (qr.pivoted, None),
    "qr": (qr.factors, host.qr),
    "svd": (svd.decompose, host.svd),
    "triangular solve": (triangular_solve.solve, None),
    "tridiagonal solve": (gtsv.solve, None),
}
"""For each factorization or solve, its program, and the function that calls LAPACK, or None if there is none.

The program and the function return results of the same types and meaning.
"""


def compute(b: Emitter, name: str, *batches: IrValue, **options: int) -> Sequence[IrValue]:
    """Computes the factorization or solve `name` by the implementation that the emitter's settings select."""
    as_program, on_host = IMPLEMENTATIONS[name]
    return (on_host if b.lapack and on_host else as_program)(b, *batches, **options)
