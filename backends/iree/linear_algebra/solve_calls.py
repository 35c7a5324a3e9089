"""Cholesky and LU factors, and solves: StableHLO's ops, and the calls of LAPACK, cuSOLVER and TPUs."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter, legalize
from tiduc.backends.iree.fault import missing
from tiduc.backends.iree.linear_algebra.implementations import implementation
from tiduc.backends.iree.linear_algebra.routines import is_lower, on_batches, routine, settings
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape
from tiduc.passes.rules.getrf import exchanged
from tiduc.passes.rules.trsm import solve_attributes


@legalize("stablehlo.cholesky")
@missing("IREE lacks it; emits L with a = L L^H, in one dispatch.", "cholesky")
def cholesky(b: Emitter, op: Any) -> Sequence[Any] | None:
    """L with a = L L^H, or the upper factor L^H. The other triangle of the result is zero."""
    lower = "lower" in op.attributes and op.attributes["lower"].value
    factor = partial(implementation(b, "cholesky"), b, lower=lower, keep=False)
    return on_batches(b, op, [2], lambda a: factor(a)[:1])


@routine("potrf")
def potrf(b: Emitter, op: Any, a: Any) -> Sequence[Any]:
    """The factor in one triangle, the other one as it was; `info` is the first column without a root."""
    return implementation(b, "cholesky")(b, a, is_lower(op), keep=True)


@routine("getrf")
def getrf(b: Emitter, op: Any, a: Any) -> Sequence[Any]:
    """The factors; pivots, counted from one; `info`, the first pivot that is zero."""
    lu, pivots, info = implementation(b, "lu")(b, a)
    return lu, b.add(pivots, b.constant(1, pivots)), info


def _first_order(b: Emitter, op: Any) -> Sequence[Any]:
    """Zeros and, as the last result, the order of rows before any exchange."""
    *others, order = op.results
    return [*(b.zero(y.type) for y in others), b.iota(len(order.type.shape) - 1, order.type)]


@routine("LuDecomposition", empty=_first_order)
def lu_decomposition(b: Emitter, op: Any, a: Any) -> Sequence[Any]:
    """The factors; pivots, counted from zero; and the permutation of rows that they make."""
    lu, pivots, _ = implementation(b, "lu")(b, a)
    return lu, pivots, exchanged(b, pivots, shape(a)[1])


@routine("pivots_to_permutation", empty=_first_order)
def pivots_to_permutation(b: Emitter, op: Any, pivots: Any) -> Sequence[Any]:
    """The permutation of rows that the pivots make by exchanges, one after the other."""
    return [exchanged(b, pivots, shape(op.results[0])[-1])]


@legalize("stablehlo.triangular_solve")
@missing("IREE lacks it; substitutes row by row, in one dispatch.", "triangular_solve")
def triangular_solve(b: Emitter, op: Any) -> Sequence[Any] | None:
    """x with op(a) x = c or x op(a) = c, for a triangular matrix a, its transpose or its adjoint."""
    left, lower, unit = (op.attributes[name].value for name in ("left_side", "lower", "unit_diagonal"))
    kind = hlo.TransposeAttr(op.attributes["transpose_a"]).value
    how = {"left": left, "lower": lower, "unit": unit, "transpose": kind != "NO_TRANSPOSE"}

    def solve(a: Any, c: Any) -> Sequence[Any]:
        matrix = b.conj(a) if kind == "ADJOINT" else a
        return implementation(b, "triangular_solve")(b, matrix, c, **how)

    return [op.operands[1]] if is_empty(op.operands[1]) else on_batches(b, op, [2, 2], solve)


@legalize_call(*targets("trsm"))
def trsm(b: Emitter, op: Any) -> Sequence[Any]:
    """The call as `stablehlo.triangular_solve`."""
    attributes = solve_attributes(settings(op))
    return [b.emit("stablehlo.triangular_solve", list(op.operands), op.results[0].type, attributes)]


@routine("gtsv")
def gtsv(b: Emitter, op: Any, dl: Any, d: Any, du: Any, y: Any) -> Sequence[Any]:
    """The second, main and first diagonals of U from elimination with partial pivoting, x, and LAPACK's `info`."""
    main, first, second, x, info = implementation(b, "tridiagonal_solve")(b, [dl, d, du], y, perturb=False)
    return second, main, first, x, info


@routine("gtsv2")
def gtsv2(b: Emitter, op: Any, dl: Any, d: Any, du: Any, y: Any) -> Sequence[Any]:
    """x alone."""
    return implementation(b, "tridiagonal_solve")(b, [dl, d, du], y, perturb=False)[3:4]


@routine("tridiagonal_solve_perturbed")
def perturbed(b: Emitter, op: Any, dl: Any, d: Any, du: Any, y: Any) -> Sequence[Any]:
    """x for a matrix near a singular one, as inverse iteration needs it; small pivots are moved from zero."""
    return implementation(b, "tridiagonal_solve")(b, [dl, d, du], y, perturb=True)[3:4]
