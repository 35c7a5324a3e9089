"""Determinants as JAX exports them, from the pivots d of an LU factorization.

    low = select(any(d == 0), -inf, sum(log |d|))      the logarithm of a determinant's size
    det = select(any(d == 0), 0, s) * exp(low)         with the sign s

At singular matrices, the selects choose constants. The rules use the tangents of the other operands instead: for the
logarithm, an infinite or NaN tangent; for the determinant, that of s times the product of |d|, which is finite if only
the last pivot is 0.
"""

from collections.abc import Sequence

from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.matrices import columns, compare_places
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.identities import is_zeros
from tiduc.dialect.facts.matchers import KEEP_SPLATS, is_lowest, splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.ir_types import AnyOp, Typed
from tiduc.dialect.shapes.types import dimensions_in, is_dynamic, predicate, rank, shape, with_shape

SELECT = "stablehlo.select"


def sizes_of_pivots(op: AnyOp) -> Typed | None:
    """|d|, if a select is the logarithm of a determinant's size; else None. The pivots are along d's last dimension."""
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
    """The operand of a reduction of the last dimension by an op of this name, starting with zero; else None."""
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
    """The tangent of a product that is a determinant; None for other products."""
    parts = determinant(b, op)
    return None if parts is None else [tangent_of_determinant(b, parts)]


def determinant(b: StablehloBuilder, op: Definition) -> tuple[Value, Value, Value] | None:
    """If a product of reals is a determinant: whether the matrix is singular, its sign s without a tangent, and |d|."""
    for sign, size in (op.operands, op.operands[::-1]):
        power = defined_by(size, "stablehlo.exponential")
        low = None if power is None else defined_by(power.operands[0], SELECT)
        of = None if low is None else defined_by(sign, SELECT)
        if low is None or of is None or of.operands[0] != low.operands[0] or splat(of.operands[1]) != 0:
            continue
        sizes = sizes_of_pivots(low)
        if isinstance(sizes, Value) and b.engine.tangent(of.operands[2]) is None:
            return of.operands[0], of.operands[2], sizes
    return None


def tangent_of_determinant(b: StablehloBuilder, parts: Sequence[Value]) -> Value | None:
    """s times the sum over k of d|d_k| times the product of all other |d_j|.

    For regular matrices, the product is computed as the exponential of a sum of logarithms, which overflows only where
    the product does; for singular ones, by multiplication.
    """
    is_singular, sign, sizes = parts
    tangent: Value | None = b.engine.tangent(sizes)
    if tangent is None:
        return None
    one, last = b.constant(1, sizes), rank(sizes) - 1
    everywhere = b.broadcast_in_dim(is_singular, range(last), predicate(sizes.type))
    regular, singular = b.select(everywhere, one, sizes), b.select(everywhere, sizes, one)
    product = b.reduce(
        _others(b, singular, 1), b.constant(1, with_shape(sizes.type, [])), [last + 1], "stablehlo.multiply"
    )
    total = b.reduce_sum(_others(b, b.log(regular), 0), [last + 1])
    slopes = b.select(everywhere, product, b.exponential(total))
    return b.multiply(sign, b.reduce_sum(b.multiply(slopes, tangent), [last]))


def _others(b: StablehloBuilder, x: Value, neutral: int) -> Value:
    """In row k, x with the neutral element in place of x_k."""
    square = with_shape(x.type, [*shape(x), shape(x)[-1]])
    all_ = columns(b, x, square)
    return b.select(compare_places(b, all_, "EQ"), b.constant(neutral, all_), all_)
