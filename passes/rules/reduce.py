"""reduce: has rules for results that are sums, extrema or selected elements. Others are expanded to a tree of ops."""

from collections.abc import Sequence
from functools import partial
from math import prod

from torch_mlir import ir

from tiduc.dialect.emitters.associative import everywhere, total
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.traits import ASSOCIATIVE
from tiduc.dialect.shapes.types import dimensions_in, is_dynamic, is_empty, rank, shape
from tiduc.passes.rules.opset import linearize, transpose
from tiduc.passes.rules.reduction import linearize_by_body, transpose_of_sums
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import (
    EXTREMA,
    even_share,
    is_identity,
    none,
    numbers,
    repeated,
    selected_by,
)
from tiduc.passes.rules.shifts import cancels
from tiduc.passes.rules.tensor_body import of_tensors


@linearize("stablehlo.reduce")
def reduce(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    if len(op.results) == 1 and reducer(op) in EXTREMA and cancels(b, op.result):
        return [None]
    return linearize_by_body(
        b, op, dx, total=_sum, extremum=_extremum, chosen=_selected, whole=partial(_in_tree, b, op)
    )


def _in_tree(b: StablehloBuilder, op: Definition, *operands: Value) -> Sequence[Value]:
    """Reduces by a tree: applies the body to pairs of partial results, and at the end to the initial values.

    No division is needed, so the derivative of a product is exact even where factors are zero.
    """
    count = len(operands) // 2
    values, inits = operands[:count], operands[count:]
    along, sizes = sorted(dropped(op)), shape(op.results[0])
    number = prod(shape(values[0])[d] for d in along)

    def in_front(x: Value) -> Value:
        return b.reshape(b.transpose(x, [*along, *kept_dimensions(op)]), [number, *sizes])

    def combine(x: Sequence[Value], y: Sequence[Value]) -> Sequence[Value]:
        return of_tensors(b, op, [*x, *y])

    first = everywhere(b, inits, sizes)
    if not number:
        return first
    commutes = all(reducer(op, i) in ASSOCIATIVE for i in range(count))
    return combine(first, total(b, combine, [in_front(x) for x in values], commutes))


def _sum(b: StablehloBuilder, op: Definition, i: int, dx: Value | None, dinit: Value | None) -> Value:
    """dy = dinit + sum dx."""
    terms = [] if dinit is None else [repeated(b, dinit, op.results[i])]
    return b.sum(terms if dx is None else [b.reduce_sum(dx, dropped(op)), *terms])


def _extremum(
    b: StablehloBuilder, op: Definition, i: int, name: str, dx: Value | None, dinit: Value | None
) -> Value | None:
    """dy is the mean of the tangents of all values that equal y: dx where x = y, and dinit if init = y.

    An initial value that is known to be the identity (-inf for a maximum) is not counted, as in JAX. Tangents are
    selected, not multiplied by 0 and 1. The values are counted by integers, so the count is exact for every type.
    """
    x, init, y = op.operands[i], op.operands[len(op.results) + i], op.results[i]
    integer = ir.IntegerType.get_signless(32)
    ties = b.compare(x, b.broadcast_in_dim(y, kept_dimensions(op), x), "EQ")
    number = b.reduce_sum(b.convert(ties, integer), dropped(op))
    terms = [] if dx is None else [b.reduce_sum(b.select(ties, dx, b.zeros_like(x)), dropped(op))]
    if not is_identity(init, name):
        tie = b.compare(y, repeated(b, init, y), "EQ")
        number = b.add(number, b.convert(tie, integer))
        if dinit is not None:
            terms.append(b.select(tie, repeated(b, dinit, y), b.zeros_like(y)))
    elif is_empty(x):
        return None
    elif is_dynamic(x.type):  # a dynamic operand may be empty at run time
        number = b.maximum(number, b.constant(1, number))
    return b.multiply(even_share(b, number, y), b.sum(terms))


def _selected(b: StablehloBuilder, op: Definition, i: int, dx: Value | None, dinit: Value | None) -> Value:
    """dy = dx at the element that the body selects, or dinit if it selects the initial value. Computed by a mask."""
    x, y = op.operands[i], op.results[i]
    at = selected_by(b, op, i)
    terms = []
    if dx is not None:
        element_at = numbers(b, x)
        mask = b.compare(element_at, b.broadcast_in_dim(at, kept_dimensions(op), element_at), "EQ")
        terms.append(b.reduce_sum(b.select(mask, dx, b.zeros_like(x)), dropped(op)))
    if dinit is not None:
        mask = b.compare(at, repeated(b, none(b, x, at), at), "EQ")
        terms.append(b.select(mask, repeated(b, dinit, y), b.zeros_like(y)))
    return b.sum(terms)


@transpose("stablehlo.reduce")
def reduce_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value]:
    def to_operand(i: int) -> Value:
        return b.broadcast_in_dim(ct[i], kept_dimensions(op), op.operands[i])

    def to_init(i: int) -> Value:
        return b.reduce_sum(ct[i], range(len(kept_dimensions(op))))

    return transpose_of_sums(op, ct, to_operand, to_init)


def dropped(op: Definition) -> list[int]:
    """The dimensions that a reduce combines."""
    return list(dimensions_in(op.attributes["dimensions"]))


def kept_dimensions(op: Definition) -> list[int]:
    """The dimensions of the operands of a reduce that its results keep."""
    without = dropped(op)
    return [i for i in range(rank(op.operands[0])) if i not in without]
