"""cholesky and triangular_solve, neither of which compiles: a loop over columns, one over rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.types import element, is_complex, is_open, shape, with_element
from tiduc.passes.iree.emitter import Emitter, legalize, signless
from tiduc.passes.iree.refused import refused


@legalize("stablehlo.cholesky")
def cholesky(b: Emitter, op: Any) -> Sequence[Any] | None:
    """L with a = L L^H, column by column: what is left of column j, over the root of its diagonal entry.

    An upper factor is that of the adjoint's lower one; the other triangle is zero.
    """
    (a,) = op.operands
    if is_open(a.type):
        raise refused(op, "its sizes are open")
    if 0 in shape(a):
        return [a]
    lower = "lower" in op.attributes and op.attributes["lower"].value
    x = _batched(b, a)
    count, n, _ = shape(x)
    given = x if lower else _adjoint(b, x)
    place = b.iota(1, with_element(_column_type(b, given), signless(32)))

    def body(b: Emitter, j: Any, factor: Any) -> Sequence[Any]:
        zero = b.constant(0, j)
        row = b.dynamic_slice(factor, (zero, j, zero), [count, 1, n])
        column = b.dynamic_slice(given, (zero, zero, j), [count, n, 1])
        (done,) = b.barrier(b.dot_general(factor, b.conj(row), ([0], [0]), ([2], [2]), {}))
        rest = b.subtract(column, done)
        diagonal = b.sqrt(b.real(b.dynamic_slice(rest, (zero, j, zero), [count, 1, 1])))
        root = b.complex(diagonal, b.like(0, diagonal)) if is_complex(rest) else diagonal
        root = b.broadcast_in_dim(root, [0, 1, 2], rest.type)
        at = b.broadcast_in_dim(j, [], place.type)
        below = b.select(b.compare(place, at, "GT"), b.divide(rest, root), b.like(0, rest))
        new = b.select(b.compare(place, at, "EQ"), root, below)
        return [b.dynamic_update_slice(factor, new, (zero, zero, j))]

    (factor,) = b.for_(n, [b.like(0, given)], body)
    return [b.convert(b.reshape(factor if lower else _adjoint(b, factor), shape(a)), element(a))]


@legalize("stablehlo.triangular_solve")
def triangular_solve(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Forward substitution: row i of x is what is left of that of the right-hand side, over the diagonal entry.

    Other cases become this one: x op(a) = c is transposed, an upper matrix is reversed in both dimensions.
    """
    a, c = op.operands
    if is_open(a.type) or is_open(c.type):
        raise refused(op, "its sizes are open")
    if 0 in shape(c):
        return [c]
    left, lower, unit = (op.attributes[name].value for name in ("left_side", "lower", "unit_diagonal"))
    kind = hlo.TransposeAttr(op.attributes["transpose_a"]).value
    matrix, right = _batched(b, a), _batched(b, c)
    if kind == "ADJOINT":
        matrix = b.conj(matrix)
    if kind != "NO_TRANSPOSE":
        matrix, lower = b.transpose(matrix, [0, 2, 1]), not lower
    if not left:
        matrix, lower, right = b.transpose(matrix, [0, 2, 1]), not lower, b.transpose(right, [0, 2, 1])
    if not lower:
        matrix, right = b.reverse(matrix, [1, 2]), b.reverse(right, [1])
    x = _forward(b, matrix, right, unit)
    if not lower:
        x = b.reverse(x, [1])
    return [b.convert(b.reshape(x if left else b.transpose(x, [0, 2, 1]), shape(c)), element(c))]


def _forward(b: Emitter, matrix: Any, right: Any, unit: bool) -> Any:
    """x with matrix x = right, of which only what is below the diagonal, and it unless `unit`, is read."""
    count, n, width = shape(right)
    positions = with_element(matrix.type, signless(32))
    rows, columns = b.iota(1, positions), b.iota(2, positions)
    strict = b.select(b.compare(rows, columns, "GT"), matrix, b.like(0, matrix))

    def body(b: Emitter, i: Any, x: Any) -> Sequence[Any]:
        zero = b.constant(0, i)
        row = b.dynamic_slice(strict, (zero, i, zero), [count, 1, n])
        # A barrier, since some differences to products of one element do not compile.
        (done,) = b.barrier(b.dot_general(row, x, ([0], [0]), ([2], [1]), {}))
        rest = b.subtract(b.dynamic_slice(right, (zero, i, zero), [count, 1, width]), done)
        if not unit:
            diagonal = b.dynamic_slice(matrix, (zero, i, i), [count, 1, 1])
            rest = b.divide(rest, b.broadcast_in_dim(diagonal, [0, 1, 2], rest.type))
        return [b.dynamic_update_slice(x, rest, (zero, i, zero))]

    return b.for_(n, [b.like(0, right)], body)[0]


def _batched(b: Emitter, x: Any) -> Any:
    """Matrices with one dimension of batches; of f16 and bf16, which would lose too much, f32."""
    *batch, n, m = shape(x)
    if not is_complex(x) and element(x).width < 32:
        x = b.convert(x, ir.F32Type.get())
    return b.reshape(x, [int(np.prod(batch, dtype=np.int64)), n, m])


def _adjoint(b: Emitter, x: Any) -> Any:
    return b.conj(b.transpose(x, [0, 2, 1]))


def _column_type(b: Emitter, x: Any) -> Any:
    count, n, _ = shape(x)
    return ir.RankedTensorType.get([count, n, 1], element(x))
