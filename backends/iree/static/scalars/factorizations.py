"""LU and Cholesky factors and triangular solves of small matrices, unrolled.

The ops and their order are those of the algorithms for large matrices (`linear_algebra/lu.py`, `cholesky.py`,
`triangular_solve.py`), so that both give equal pivots, `info`, and results for singular matrices and NaN.
"""

from collections.abc import Callable, Sequence

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.linear_algebra.routines import is_lower
from tiduc.backends.iree.static.scalars.arrays import Evaluation, Ids, ScalarArray, kind_of
from tiduc.backends.iree.static.scalars.numbers import ScalarOps, TooLarge
from tiduc.dialect.facts.lapack import CallSettings, targets
from tiduc.dialect.ops.control_ops import call_target
from tiduc.dialect.ops.ir_types import Attributes, IrOp
from tiduc.passes.rules.trsm import solve_attributes

LARGEST = 16
"""The most rows and columns of a matrix."""

Rows = list[list[int]]
OfMatrices = Callable[..., Sequence[Ids]]


def lu_factors(n: ScalarOps, kind: str, a: Rows) -> tuple[Rows, list[int], int]:
    """The LU factors in one matrix, the indices of the pivot rows (counted from zero), and `info`."""
    rows, pivots, zero = [list(row) for row in a], [], n.constant(0, kind)
    for j in range(min(len(rows), len(rows[0]))):
        pivots.append(_exchange_for_pivot(n, kind, rows, j))
        pivot = rows[j][j]
        pivot = n.apply("select", kind, n.apply("EQ", "i1", pivot, zero), n.constant(1, kind), pivot)
        for row in rows[j + 1 :]:
            row[j] = n.apply("divide", kind, row[j], pivot)
            for c in range(j + 1, len(row)):
                row[c] = _minus_product(n, kind, row[c], row[j], rows[j][c])
    diagonal = [rows[j][j] for j in range(len(pivots))]
    return rows, pivots, _number_of_first(n, [n.apply("EQ", "i1", x, zero) for x in diagonal])


def _exchange_for_pivot(n: ScalarOps, kind: str, rows: Rows, j: int) -> int:
    """Exchanges row j with the row of the pivot of column j. Returns the index of the pivot's row.

    The pivot is the first of the largest entries on and below the diagonal. A NaN is not larger than a number.
    """
    at, most = n.constant(j, "i32"), n.apply("abs", kind, rows[j][j])
    flags = []
    for i in range(j + 1, len(rows)):
        size = n.apply("abs", kind, rows[i][j])
        flag = n.apply("GT", "i1", size, most)
        flags.append((i, flag))
        at = n.apply("select", "i32", flag, n.constant(i, "i32"), at)
        most = n.apply("select", kind, flag, size, most)
    upper = list(rows[j])
    for i, flag in flags:
        rows[j] = [n.apply("select", kind, flag, x, y) for x, y in zip(rows[i], rows[j], strict=True)]
    later = n.constant(False, "i1")
    for i, flag in reversed(flags):
        is_pivot = n.apply("and", "i1", flag, n.apply("not", "i1", later))
        rows[i] = [n.apply("select", kind, is_pivot, x, y) for x, y in zip(upper, rows[i], strict=True)]
        later = n.apply("or", "i1", later, flag)
    return at


def cholesky_factor(n: ScalarOps, kind: str, a: Rows, lower: bool, keep: bool) -> tuple[Rows, int]:
    """The Cholesky factor and `info`. The other triangle is zero, or if `keep` is set, that of the matrix."""
    size = len(a)
    u = [[a[c][i] if lower else a[i][c] for c in range(size)] for i in range(size)]
    for i in range(size):
        for j in range(i):
            for c in range(i, size):
                u[i][c] = _minus_product(n, kind, u[i][c], u[j][i], u[j][c])
        root = u[i][i] = n.apply("sqrt", kind, u[i][i])
        for c in range(i + 1, size):
            u[i][c] = n.apply("divide", kind, u[i][c], root)
    zero, found = n.constant(0, kind), [list(row) for row in a]
    for i in range(size):
        for c in range(i, size):
            below, above = (i, c), (c, i)
            first, second = (above, below) if lower else (below, above)
            if c > i and not keep:
                found[second[0]][second[1]] = zero
            found[first[0]][first[1]] = u[i][c]
    positive = [n.apply("GT", "i1", u[i][i], zero) for i in range(size)]
    return found, _number_of_first(n, [n.apply("not", "i1", each) for each in positive])


def solution(
    n: ScalarOps,
    kind: str,
    a: Rows,
    c: Rows,
    left: bool,
    lower: bool,
    unit: bool,
    transpose: bool,
    by_reciprocals: bool = False,
) -> Rows:
    """The solution x of op(a) x = c if `left` is set, and else of x op(a) = c. Reads only one triangle of a.

    With `by_reciprocals`, numbers are multiplied by the reciprocals of the diagonal, and not divided by the diagonal.
    """
    if not left:
        turned = solution(n, kind, a, _turned(c), True, lower, unit, not transpose, by_reciprocals)
        return _turned(turned)
    matrix, x = _turned(a) if transpose else a, [list(row) for row in c]
    order = list(range(len(x)))
    if lower == transpose:
        order.reverse()
    for k, i in enumerate(order):
        for j in order[:k]:
            x[i] = [_minus_product(n, kind, own, matrix[i][j], y) for own, y in zip(x[i], x[j], strict=True)]
        if by_reciprocals and not unit:
            reciprocal = n.apply("divide", kind, n.constant(1, kind), matrix[i][i])
            x[i] = [n.apply("multiply", kind, own, reciprocal) for own in x[i]]
        elif not unit:
            x[i] = [n.apply("divide", kind, own, matrix[i][i]) for own in x[i]]
    return x


def permutation(n: ScalarOps, pivots: Sequence[int], count: int) -> list[int]:
    """The numbers 0 to `count` - 1 after entry i was exchanged with entry pivots[i], for each i in order."""
    found = [n.constant(i, "i32") for i in range(count)]
    for i, at in enumerate(pivots):
        first, last = n.range(at)
        own, other = found[i], found[i]
        for k in range(max(first, 0), min(last, count - 1) + 1):
            flag = n.apply("EQ", "i1", at, n.constant(k, "i32"))
            other = n.apply("select", "i32", flag, found[k], other)
            if k != i:
                found[k] = n.apply("select", "i32", flag, own, found[k])
        found[i] = other
    return found


def _turned(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]


def _minus_product(n: ScalarOps, kind: str, x: int, y: int, z: int) -> int:
    return n.apply("subtract", kind, x, n.apply("multiply", kind, y, z))


def _number_of_first(n: ScalarOps, flags: Sequence[int]) -> int:
    """The number 1 + i, where i is the index of the first flag that is true. It is 0 if no flag is true."""
    found = n.constant(0, "i32")
    for i, flag in reversed(list(enumerate(flags))):
        found = n.apply("select", "i32", flag, n.constant(i + 1, "i32"), found)
    return found


# ---- ops -------------------------------------------------------------------------------------------------------


def _on_matrices(
    e: Evaluation, op: IrOp, xs: Sequence[ScalarArray], ranks: Sequence[int], function: OfMatrices
) -> list[ScalarArray]:
    """Applies `function`, a function of matrices or vectors, to the operands at each index of the batch dimensions."""
    shapes = [list(x.type.shape) for x in op.operands]
    count = len(shapes[0]) - ranks[0]
    if max(shapes[0][count:]) > LARGEST:
        raise TooLarge("a large matrix")
    ids, lane = e.aligned(xs, [1] * len(xs))
    if lane is not None and lane >= count:
        raise TooLarge("a matrix across places")
    found = [
        np.empty([1 if d == lane else n for d, n in enumerate(y.type.shape)], np.int64) for y in op.results
    ]
    for place in np.ndindex(ids[0].shape[:count]):
        given = [x[place] for x in ids]
        e.spend(sum(x.size for x in given) * LARGEST)
        for target, value in zip(found, function(*(x.tolist() for x in given)), strict=True):
            target[place] = value
    return [ScalarArray(each, lane) for each in found]


def cholesky(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> list[ScalarArray]:
    lower = "lower" in op.attributes and op.attributes["lower"].value
    return _cholesky(e, op, xs, lower, False)


def _cholesky(
    e: Evaluation, op: IrOp, xs: Sequence[ScalarArray], lower: bool, keep: bool
) -> list[ScalarArray]:
    def of(a: Rows) -> Sequence[Ids]:
        factor, info = cholesky_factor(e.numbers, kind_of(op.operands[0]), a, lower, keep)
        return [np.array(factor), np.array(info)][: len(op.results)]

    return _on_matrices(e, op, xs, [2], of)


def _lu(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray], as_permutation: bool) -> list[ScalarArray]:
    """The LU factors, their pivots and `info`.

    With `as_permutation`, pivots are counted from zero, and the permutation of the rows replaces `info`.
    """
    n, kind = e.numbers, kind_of(op.operands[0])

    def of(a: Rows) -> Sequence[Ids]:
        factors, pivots, info = lu_factors(n, kind, a)
        last = permutation(n, pivots, len(a)) if as_permutation else info
        if not as_permutation:
            pivots = [n.apply("add", "i32", x, n.constant(1, "i32")) for x in pivots]
        return [np.array(x, np.int64) for x in (factors, pivots, last)]

    return _on_matrices(e, op, xs, [2], of)


def _permutation(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> list[ScalarArray]:
    count = op.results[0].type.shape[-1]
    return _on_matrices(e, op, xs, [1], lambda pivots: [np.array(permutation(e.numbers, pivots, count))])


def triangular_solve(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> list[ScalarArray]:
    return _solved(e, op, xs, op.attributes)


def _solved(
    e: Evaluation, op: IrOp, xs: Sequence[ScalarArray], attributes: ir.OpAttributeMap | Attributes
) -> list[ScalarArray]:
    left, lower, unit = (
        ir.BoolAttr(attributes[name]).value for name in ("left_side", "lower", "unit_diagonal")
    )
    transpose = hlo.TransposeAttr(attributes["transpose_a"]).value != "NO_TRANSPOSE"

    shares = e.numbers.is_finite and xs[1].tangent and not xs[0].tangent  # many tangents share the matrix
    settings = left, lower, unit, transpose, shares

    def of(a: Rows, c: Rows) -> Sequence[Ids]:
        return [np.array(solution(e.numbers, kind_of(op.results[0]), a, c, *settings))]

    return _on_matrices(e, op, xs, [2, 2], of)


def custom_call(e: Evaluation, op: IrOp, xs: Sequence[ScalarArray]) -> list[ScalarArray]:
    target = call_target(op)
    if target in targets("getrf", "LuDecomposition"):
        return _lu(e, op, xs, target in targets("LuDecomposition"))
    if target in targets("pivots_to_permutation"):
        return _permutation(e, op, xs)
    if target in targets("trsm"):
        with op.context:
            attributes = solve_attributes(CallSettings(op.attributes, TooLarge))
        return _solved(e, op, xs, attributes)
    if target in targets("potrf"):
        return _cholesky(e, op, xs, is_lower(op), True)
    raise TooLarge(f"a call of {target}")
