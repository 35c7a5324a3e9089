"""Cholesky and LU factors, and solves: StableHLO's ops, and the calls of LAPACK, cuSOLVER and TPUs."""

from collections.abc import Sequence
from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter, legalize
from tiduc.backends.iree.fault import missing
from tiduc.backends.iree.linear_algebra.implementations import implementation
from tiduc.backends.iree.linear_algebra.matrices import (
    batched,
    checked,
    is_lower,
    restored,
    restored_all,
    settings,
    vectors,
)
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape
from tiduc.passes.rules.getrf import exchanged
from tiduc.passes.rules.trsm import solve_attributes


@legalize("stablehlo.cholesky")
@missing("IREE lacks it; emits L with a = L L^H, in one dispatch.", "cholesky")
def cholesky(b: Emitter, op: Any) -> Sequence[Any] | None:
    """L with a = L L^H.

    An upper factor is the adjoint of the adjoint's lower factor. The other triangle of the result is zero.
    """
    (a,) = checked(op).operands
    if is_empty(a):
        return [a]
    lower = "lower" in op.attributes and op.attributes["lower"].value
    factor, _ = implementation(b, "cholesky")(b, batched(b, a), lower, kept=False)
    return [restored(b, factor, op.results[0].type)]


@legalize_call(*targets("potrf"))
def potrf(b: Emitter, op: Any) -> Sequence[Any]:
    """The factor in one triangle, the other one as it was; `info` is the first column without a root."""
    (a,) = checked(op).operands
    if is_empty(a):
        return [a, b.zero(op.results[1].type)]
    return restored_all(b, op, implementation(b, "cholesky")(b, batched(b, a), is_lower(op), kept=True))


@legalize_call(*targets("getrf"))
def getrf(b: Emitter, op: Any) -> Sequence[Any]:
    """The factors, column by column; pivots, counted from one; `info`, the first pivot that is zero."""
    (a,) = checked(op).operands
    if is_empty(a):
        return [a, *[b.zero(y.type) for y in list(op.results)[1:]]]
    lu, pivots, info = implementation(b, "lu")(b, batched(b, a))
    return restored_all(b, op, (lu, b.add(pivots, b.constant(1, pivots)), info))


@legalize_call("LuDecomposition")
def lu_decomposition(b: Emitter, op: Any) -> Sequence[Any]:
    """The factors, column by column; pivots, counted from zero; and the permutation of rows that they make."""
    (a,) = checked(op).operands
    lu, pivots, permutation = op.results
    if is_empty(a):
        return [a, b.zero(pivots.type), b.iota(len(shape(permutation)) - 1, permutation.type)]
    factors, exchanges, _ = implementation(b, "lu")(b, batched(b, a))
    exchanges = restored(b, exchanges, pivots.type)
    return [restored(b, factors, a.type), exchanges, exchanged(b, exchanges, shape(a)[-2])]


@legalize_call(*targets("pivots_to_permutation"))
def pivots_to_permutation(b: Emitter, op: Any) -> Sequence[Any]:
    """The permutation of rows that the pivots make by exchanges, one after the other."""
    (pivots,) = checked(op).operands
    type_ = op.results[0].type
    if is_empty(pivots) or is_empty(op.results[0]):
        return [b.iota(len(type_.shape) - 1, type_)]
    return [exchanged(b, pivots, type_.shape[-1])]


@legalize("stablehlo.triangular_solve")
@missing("IREE lacks it; substitutes row by row, in one dispatch.", "triangular_solve")
def triangular_solve(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Forward substitution.

    Other cases become this one: x op(a) = c is transposed, and an upper matrix is reversed in both
    dimensions.
    """
    a, c = checked(op).operands
    if is_empty(c):
        return [c]
    left, lower, unit = (op.attributes[name].value for name in ("left_side", "lower", "unit_diagonal"))
    kind = hlo.TransposeAttr(op.attributes["transpose_a"]).value
    matrix = batched(b, a)
    if kind == "ADJOINT":
        matrix = b.conj(matrix)
    how = {"left": left, "lower": lower, "unit": unit, "transpose": kind != "NO_TRANSPOSE"}
    x = implementation(b, "triangular_solve")(b, matrix, batched(b, c), **how)
    return [restored(b, x, op.results[0].type)]


@legalize_call(*targets("trsm"))
def trsm(b: Emitter, op: Any) -> Sequence[Any]:
    """The call as `stablehlo.triangular_solve`."""
    attributes = solve_attributes(settings(op))
    return [b.emit("stablehlo.triangular_solve", list(op.operands), op.results[0].type, attributes)]


@legalize_call(*targets("gtsv", "gtsv2"))
def gtsv(b: Emitter, op: Any) -> Sequence[Any]:
    """Elimination with partial pivoting, then back substitution; also gives the diagonals of U, as LAPACK does."""
    *diagonals, y = checked(op).operands
    alone = len(op.results) == 1
    if is_empty(y):
        return [y] if alone else [*diagonals, y, b.zero(op.results[4].type)]
    main, first, second, x, info = _solved(b, diagonals, y, perturb=False)
    return restored_all(b, op, [x] if alone else [second, main, first, x, info])


@legalize_call(*targets("tridiagonal_solve_perturbed"))
def perturbed(b: Emitter, op: Any) -> Sequence[Any]:
    """Solves with a matrix near a singular one, as inverse iteration needs it; small pivots are moved from zero."""
    *diagonals, y = checked(op).operands
    return [y] if is_empty(y) else restored_all(b, op, [_solved(b, diagonals, y, perturb=True)[3]])


def _solved(b: Emitter, diagonals: Sequence[Any], y: Any, perturb: bool) -> Any:
    rows = [vectors(b, x) for x in diagonals]
    return implementation(b, "tridiagonal_solve")(b, rows, batched(b, y), perturb)
