"""Solves with triangular matrices, for StableHLO's op and for BLAS's trsm."""

from collections.abc import Sequence
from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter, legalize
from tiduc.backends.iree.fault import Fault
from tiduc.backends.iree.linear_algebra.matrices import (
    BLOCK,
    batched,
    blocks,
    checked,
    everywhere,
    loop,
    masked,
    places,
    product,
    quotient,
    resized,
    restored,
    settings,
    transposed,
)
from tiduc.backends.iree.linear_algebra.substitution import substituted
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape
from tiduc.passes.rules.triangular_solve import compare_places
from tiduc.passes.rules.trsm import solve_attributes


@legalize(
    "stablehlo.triangular_solve",
    fault=Fault(
        "missing",
        "IREE lacks it; emits forward substitution, by blocks of rows, or in one dispatch on CPUs.",
        witness="triangular_solve",
    ),
)
def triangular_solve(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Forward substitution, by blocks of rows, or in one dispatch on CPUs.

    Other cases become this one: x op(a) = c is transposed, and an upper matrix is reversed in both
    dimensions.
    """
    a, c = checked(op).operands
    if is_empty(c):
        return [c]
    left, lower, unit = (op.attributes[name].value for name in ("left_side", "lower", "unit_diagonal"))
    kind = hlo.TransposeAttr(op.attributes["transpose_a"]).value
    matrix, right = batched(b, a), batched(b, c)
    if kind == "ADJOINT":
        matrix = b.conj(matrix)
    if b.cpu:
        turned = kind != "NO_TRANSPOSE"
        x = substituted(b, matrix, right, left=left, lower=lower, unit=unit, transpose=turned)
        return [restored(b, x, op.results[0].type)]
    if kind != "NO_TRANSPOSE":
        matrix, lower = transposed(b, matrix), not lower
    if not left:
        matrix, lower, right = transposed(b, matrix), not lower, transposed(b, right)
    x = solved(b, matrix, right, lower, unit)
    return [restored(b, x if left else transposed(b, x), op.results[0].type)]


@legalize_call(*targets("trsm"))
def trsm(b: Emitter, op: Any) -> Sequence[Any]:
    """The call as `stablehlo.triangular_solve`."""
    attributes = solve_attributes(settings(op))
    return [b.emit("stablehlo.triangular_solve", list(op.operands), op.results[0].type, attributes)]


def solved(b: Emitter, matrix: Any, right: Any, lower: bool, unit: bool) -> Any:
    """x with matrix x = right; reads one triangle of the matrix, and its diagonal unless `unit`."""
    if not lower:
        matrix, right = b.reverse(matrix, [1, 2]), b.reverse(right, [1])
    n = shape(matrix)[1]
    strict = masked(b, compare_places(b, matrix, "GT"), matrix)
    count = blocks(n)
    x = _rows(b, matrix, strict, right, unit) if count == 1 else _by_blocks(b, matrix, strict, right, unit)
    return x if lower else b.reverse(x, [1])


def _by_blocks(b: Emitter, matrix: Any, strict: Any, right: Any, unit: bool) -> Any:
    """x by blocks of rows: a product with the rows before is subtracted from a block first."""
    batch, n, width = shape(right)
    count = blocks(n)
    size = count * BLOCK
    strict, right = resized(b, strict, size, size), resized(b, right, size, width)
    matrix = b.select(
        b.compare(places(b, strict, 1), b.constant(n, places(b, strict, 1)), "GE"),
        b.constant(1, strict),
        resized(b, matrix, size, size),
    )

    def body(b: Emitter, k: Any, x: Any) -> Sequence[Any]:
        zero, at = b.zeros_like(k), b.multiply(k, b.constant(BLOCK, k))
        rows = b.dynamic_slice(strict, (zero, at, zero), [batch, BLOCK, size])
        rest = b.dynamic_slice(right, (zero, at, zero), [batch, BLOCK, width])
        rest = b.subtract(rest, product(b, rows, x))
        own, below = (b.dynamic_slice(y, (zero, at, at), [batch, BLOCK, BLOCK]) for y in (matrix, strict))
        return [b.dynamic_update_slice(x, _rows(b, own, below, rest, unit), (zero, at, zero))]

    (x,) = loop(b, count, [b.zeros_like(right)], body)
    return resized(b, x, n, width)


def _rows(b: Emitter, matrix: Any, strict: Any, right: Any, unit: bool) -> Any:
    """x by forward substitution, row by row."""
    batch, n, width = shape(right)

    def body(b: Emitter, i: Any, x: Any) -> Sequence[Any]:
        zero = b.zeros_like(i)
        row = b.dynamic_slice(strict, (zero, i, zero), [batch, 1, n])
        rest = b.dynamic_slice(right, (zero, i, zero), [batch, 1, width])
        rest = b.subtract(rest, product(b, row, x))
        if not unit:
            entry = b.dynamic_slice(matrix, (zero, i, i), [batch, 1, 1])
            rest = quotient(b, rest, everywhere(b, entry, rest))
        return [b.dynamic_update_slice(x, rest, (zero, i, zero))]

    return loop(b, n, [b.zeros_like(right)], body)[0]
