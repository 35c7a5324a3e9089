"""Determinants as JAX exports them, from the pivots d of an LU factorization.

    low = select(any(d == 0), -inf, sum(log |d|))      the logarithm of the determinant's absolute value
    det = select(any(d == 0), 0, s) * exp(low)         the determinant, with the sign s

At singular matrices, the selects choose constants. The rules use the tangents of the other operands instead. For the
logarithm, the tangent is then infinite or NaN. For the determinant, it is that of s times the product of |d|,

    s sum_k d|d_k| prod_{j != k} |d_j|    where d d_k = (m - dL U)_kk, with m = L^-1 P da

which is finite if only the last pivot is 0. If an earlier pivot is 0, the pivots are discontinuous, but the determinant
has the derivative

    s prod_{d_j != 0} |d_j|  prod_a y_(k_a, k_(a+1))  (y m y)_(k_r, k_1)    with y = U1^-1

where the pivots with the indices k_1 < ... < k_r are 0, and U1 is U with 1 in their place. The formula follows from
det(U1 - E E^T + m) = det(U1 + m) det(1 - E^T (U1 + m)^-1 E), where E has the unit vectors of these indices as columns.
The derivatives of this derivative are not finite there.
"""

from collections.abc import Callable, Sequence

from torch_mlir import ir

from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.matrices import (
    adjoint,
    columns,
    compare_places,
    diagonal,
    rows,
    rows_exchanged,
    rows_taken,
    solve,
    some,
    successive,
    triangle,
    without_last,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.identities import is_zeros
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.facts.matchers import KEEP_SPLATS, is_lowest, splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, call_target
from tiduc.dialect.ops.ir_types import AnyOp, Typed
from tiduc.dialect.shapes.types import (
    dimensions_in,
    element,
    is_dynamic,
    predicate,
    rank,
    shape,
    with_element,
    with_shape,
)

SELECT = "stablehlo.select"
_TARGETS = (*targets("getrf"), "LuDecomposition")
MOST_STEPS = 64
"""The most ops that are searched between a factorization and the absolute values of its pivots."""


def sizes_of_pivots(op: AnyOp) -> Typed | None:
    """Returns |d| (pivots along the last dimension) if a select is the logarithm `low` of the formula, else None."""
    is_singular, low, total = op.operands
    if not is_lowest(low):
        return None
    logs, zeros = _reduced(total, "stablehlo.add"), _reduced(is_singular, "stablehlo.or")
    if logs is None or zeros is None:
        return None
    *_, logs = traced(logs, ("stablehlo.convert",))
    log, test = defined_by(logs, "stablehlo.log"), defined_by(zeros, "stablehlo.compare")
    size = None if log is None else defined_by(log.operands[0], "stablehlo.abs")
    if size is None or test is None or "EQ" not in str(test.attributes["comparison_direction"]):
        return None
    d, zero = test.operands
    *_, zero = traced(zero, KEEP_SPLATS)
    is_same = d == size.operands[0] and is_zeros(zero) and not is_dynamic(d.type)
    result: Typed | None = log.operands[0] if log is not None and is_same else None
    return result


def _reduced(x: Typed, name: str) -> Typed | None:
    """Returns the operand if x is a reduce over its last dimension by the op `name`, starting with zero, else None."""
    reduce = defined_by(x, "stablehlo.reduce")
    if (
        reduce is None
        or len(reduce.results) != 1
        or reducer(reduce) != name
        or not is_zeros(reduce.operands[1])
    ):
        return None
    of: Typed = reduce.operands[0]
    return of if dimensions_in(reduce.attributes["dimensions"]) == (rank(of) - 1,) else None


def of_determinant(b: StablehloBuilder, op: Definition) -> Sequence[Value | None] | None:
    """Returns the tangent of a product that is a determinant, or None for another product."""
    parts = determinant(op, lambda x: b.engine.tangent(x) is not None)
    return None if parts is None else [tangent_of_determinant(b, parts)]


def determinant(op: Definition, has_tangent: Callable[[Value], bool]) -> tuple[Value, Value, Value] | None:
    """Returns whether the matrix is singular, the sign s, and |d|, if a product is a determinant `det`, else None."""
    for sign, size in (op.operands, op.operands[::-1]):
        power = defined_by(size, "stablehlo.exponential")
        low = None if power is None else defined_by(power.operands[0], SELECT)
        of = None if low is None else defined_by(sign, SELECT)
        if low is None or of is None or of.operands[0] != low.operands[0] or splat(of.operands[1]) != 0:
            continue
        sizes = sizes_of_pivots(low)
        if isinstance(sizes, Value) and not has_tangent(of.operands[2]):
            return of.operands[0], of.operands[2], sizes
    return None


def tangent_of_determinant(b: StablehloBuilder, parts: Sequence[Value]) -> Value | None:
    """The tangent of a determinant by the first formula above, or by the second if a pivot before the last one is 0.

    The product of the other pivots is computed in two ways. For regular matrices, it is the exponential of a sum of
    logarithms, which overflows only where the product does. For singular ones, the pivots are multiplied.
    """
    is_singular, sign, sizes = parts
    tangents: Value | None = b.engine.tangent(sizes)
    if tangents is None:
        return None
    one, last = b.constant(1, sizes), rank(sizes) - 1
    everywhere = b.broadcast_in_dim(is_singular, range(last), predicate(sizes.type))
    regular, singular = b.select(everywhere, one, sizes), b.select(everywhere, sizes, one)
    product = _product(b, _others(b, singular, 1), [last + 1])
    total = b.reduce_sum(_others(b, b.log(regular), 0), [last + 1])
    slopes = b.select(everywhere, product, b.exponential(total))
    if (call := _factors(sizes)) is None:
        return b.multiply(sign, b.reduce_sum(b.multiply(slopes, tangents), [last]))
    jumping, tangents, instead = _of_factors(b, call, sizes)
    changes = b.reduce_sum(b.multiply(slopes, tangents), [last])
    return b.multiply(sign, b.select(jumping, instead, changes))


def _factors(sizes: Value) -> Definition | None:
    """Returns the LU factorization from which the absolute values `sizes` of pivots are computed, or None."""
    pending, steps = [sizes], 0
    while pending and (steps := steps + 1) < MOST_STEPS:
        op = pending.pop().definition
        if op is not None and op.name == CUSTOM_CALL:
            is_lu = call_target(op) in _TARGETS and shape(op.results[0])[:-1] == shape(sizes)
            return op if is_lu else None
        pending += () if op is None else op.reads
    return None


def _of_factors(b: StablehloBuilder, call: Definition, sizes: Value) -> tuple[Value, Value, Value]:
    """Returns whether a pivot before the last one is 0, the tangents d|d_k|, and the second formula without s.

    The tangents are NaN where `sizes` differs from the absolute diagonal of U, as after a call that failed.
    """
    lu, da, last = call.results[0], b.engine.tangent(call.operands[0]), rank(sizes) - 1
    d, zero, one = diagonal(b, lu), b.zeros_like(sizes), b.constant(1, sizes)
    is_zero, at = b.compare(d, zero, "EQ"), compare_places(b, lu, "EQ")
    u = b.select(b.and_(rows(b, is_zero, at.type), at), b.constant(1, lu), lu)
    m = solve(b, lu, in_order(b, call, da), left=True, lower=True, adjoint=False, unit=True)
    c = solve(b, without_last(b, u), m, left=False, lower=False, adjoint=False)
    moved = b.reduce_sum(b.multiply(triangle(b, c, lower=True, strict=True), adjoint(b, lu)), [last + 1])
    tangents = b.multiply(
        b.select(b.compare(d, zero, "LT"), b.negate(one), one), b.subtract(diagonal(b, m), moved)
    )
    y = solve(b, u, b.convert(at, element(lu)), left=True, lower=False, adjoint=False)
    first, final, links = successive(b, is_zero, lu)
    row = b.reduce_sum(b.multiply(rows(b, final, y.type), y), [last])
    column = b.reduce_sum(b.multiply(columns(b, first, c.type), c), [last + 1])
    weight = b.multiply(
        _product(b, b.select(is_zero, one, sizes), [last]),
        _product(b, b.select(links, y, b.constant(1, y)), [last, last + 1]),
    )
    number = b.iota(last, with_element(d.type, ir.IntegerType.get_signless(32)))
    before = b.compare(number, b.constant(shape(d)[-1] - 1, number), "LT")
    is_same = b.select(b.compare(b.abs(d), sizes, "EQ"), one, b.constant(float("nan"), d))
    instead = b.multiply(weight, b.reduce_sum(b.multiply(row, b.multiply(is_same, column)), [last]))
    return some(b, b.and_(is_zero, before), [last]), b.multiply(is_same, tangents), instead


def in_order(b: StablehloBuilder, op: Definition, x: Value) -> Value:
    """Returns P x, the rows of x in the order in which a call factorizes rows.

    `LuDecomposition` has the permutation as its last result; that of the other calls follows from the pivots.
    """
    _, pivots, permutation = op.results
    is_given = call_target(op) == "LuDecomposition"
    return rows_taken(b, x, permutation) if is_given else rows_exchanged(b, x, pivots)


def _product(b: StablehloBuilder, x: Value, dimensions: Sequence[int]) -> Value:
    return b.reduce(x, b.constant(1, with_shape(x.type, [])), list(dimensions), "stablehlo.multiply")


def _others(b: StablehloBuilder, x: Value, neutral: int) -> Value:
    """Returns a matrix whose row k is the vector x with the number `neutral` in place of x_k."""
    square = with_shape(x.type, [*shape(x), shape(x)[-1]])
    all_ = columns(b, x, square)
    return b.select(compare_places(b, all_, "EQ"), b.constant(neutral, all_), all_)
