"""Algebraic identities: functions that replace an op by an equal value, or by an equal op that is cheaper.

    multiply x, 1 -> x      add x, 0 -> x           negate (negate x) -> x       add x, (negate y) -> subtract x, y
    divide x, 1   -> x      subtract x, 0 -> x      reshape, transpose, broadcast_in_dim or convert that keeps x -> x
    broadcast_in_dim, reshape (splat) -> splat      two nested reshapes, transposes or broadcasts -> one
    convert (splat of integers) to floats -> splat
    select p, x, x -> x   select true, x, y -> x   select false, x, y -> y
    real, imag (complex x, y) -> x, y              complex (real z), (imag z) -> z
    complex (real z), (negate (imag z)) -> conj z  conj (conj z) -> z
    add (complex x, 0), (complex 0, y) -> complex x, y
    dot_general x, ones -> broadcast_in_dim x, if no dimension is contracted

All identities are exact, with one exception: `x + 0 -> x` gives -0 for x = -0, where the sum is +0. `x * 0` stays,
because it is NaN if x is not finite.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.matching import defined_by, definition, instead
from tiduc.dialect.mlir.constants import as_floats, is_splat, splat_number
from tiduc.dialect.ops import traits
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import AnyOp, Typed
from tiduc.dialect.shapes.types import dimensions_in, dims

NEUTRAL = {
    name: (int(number), (0, 1) if name in traits.COMMUTATIVE else (1,))
    for name, number in traits.NEUTRAL.items()
    if math.isfinite(number)
}
"""Maps an op to its neutral element, and to the indices of the operands that may be this element.

For example, `subtract` maps to 0 and (1,), because x - 0 is x.
"""

Operands = Sequence[Typed]
Replacement = Typed | AnyOp | None
Identity = Callable[[Any, Operands], Any]
"""Maps an op of one result and its operands to an equal value or a cheaper equal op. Returns None if there is none."""


def neutral(name: str) -> Callable[[AnyOp, Operands], Replacement]:
    """Returns the identity for an op in `NEUTRAL`: op(x, neutral element) is x."""
    number, sides = NEUTRAL[name]

    def rule(_: AnyOp, operands: Operands) -> Replacement:
        for side in sides:
            x = operands[side]
            inner = x.definition if type(x) is Value else definition(x)  # inlines `defined_by` for speed
            if inner is not None and inner.name == "stablehlo.constant":
                if is_splat_of(inner.attributes["value"], x.type, number):
                    return operands[1 - side]
        return None

    return rule


without_zero = neutral("stablehlo.add")


def add(op: AnyOp, operands: Operands) -> Replacement:
    """x + 0 is x; x + (-y) is x - y; and x + i y is a complex number with the parts x and y."""
    if (y := defined_by(operands[1], "stablehlo.negate")) is not None:
        return instead(op, "stablehlo.subtract", (operands[0], y.operands[0]))
    if defined_by(operands[0], "stablehlo.complex") is not None and (parts := _added_parts(operands)):
        return instead(op, "stablehlo.complex", parts)
    return without_zero(op, operands)


def _added_parts(operands: Operands) -> tuple[Typed, Typed] | None:
    """The pair x, y if the operands are x + 0i and 0 + y i, in either order; else None."""
    terms = [op for x in operands if (op := defined_by(x, "stablehlo.complex")) is not None]
    for first, second in (terms, terms[::-1]) if len(terms) == 2 else ():
        if is_zeros(first.operands[1]) and is_zeros(second.operands[0]):
            return first.operands[0], second.operands[1]
    return None


def complex_(op: AnyOp, operands: Operands) -> Replacement:
    """real z + i imag z is z, and real z - i imag z is the conjugate of z.

    Emits the conjugate only in graphs, because it is a CHLO op. Passes on functions may run when CHLO ops have already
    been expanded.
    """
    real = defined_by(operands[0], "stablehlo.real")
    if real is None or real.operands[0].type != op.result.type:
        return None
    z: Typed = real.operands[0]
    part = operands[1]
    if (negated := defined_by(part, "stablehlo.negate")) is not None:
        part = negated.operands[0]
    imag = defined_by(part, "stablehlo.imag")
    if imag is None or imag.operands[0] != z:
        return None
    if negated is None:
        return z
    return instead(op, "chlo.conj", (z,), of=(0,)) if isinstance(op, Definition) else None


def conj(op: AnyOp, operands: Operands) -> Replacement:
    """conj(conj z) is z, and conj x is x for real x."""
    (x,) = operands
    if not isinstance(x.type.element_type, ir.ComplexType):
        return x if x.type == op.result.type else None
    inner = defined_by(x, op.name)
    return None if inner is None else inner.operands[0]


def real(_: AnyOp, operands: Operands) -> Replacement:
    """The real part of x + i y is x."""
    parts = defined_by(operands[0], "stablehlo.complex")
    return None if parts is None else parts.operands[0]


def imag(_: AnyOp, operands: Operands) -> Replacement:
    """The imaginary part of x + i y is y."""
    parts = defined_by(operands[0], "stablehlo.complex")
    return None if parts is None else parts.operands[1]


def negate(op: AnyOp, operands: Operands) -> Replacement:
    """-(-x) is x."""
    negated = defined_by(operands[0], "stablehlo.negate")
    return None if negated is None else negated.operands[0]


def convert(op: AnyOp, operands: Operands) -> Replacement:
    """A conversion of x to its own type is x.

    A splat constant of integers, converted to floats, is a splat constant.
    """
    (x,), type_ = operands, op.result.type
    if x.type == type_:
        return x
    if (constant := defined_by(x, "stablehlo.constant")) is not None:
        floats = as_floats(constant.attributes["value"], x.type, type_)
        return None if floats is None else instead(op, "stablehlo.constant", (), {"value": floats})
    return None


def broadcast_in_dim(op: AnyOp, operands: Operands) -> Replacement:
    """A broadcast of x to its own shape is x. A broadcast of a splat constant is a splat constant.

    A broadcast of a broadcast is one broadcast.
    """
    (x,), type_ = operands, op.result.type
    along = op.attributes["broadcast_dimensions"]
    if x.type == type_ and in_order(along):
        return x
    if (constant := defined_by(x, "stablehlo.constant")) is not None:
        wide = widened_splat(constant.attributes["value"], x.type, type_)
        return None if wide is None else instead(op, "stablehlo.constant", (), {"value": wide})
    if (inner := defined_by(x, op.name)) is not None:
        composed = picked(along, inner.attributes["broadcast_dimensions"])
        return instead(op, op.name, inner.operands, {"broadcast_dimensions": composed})
    return None


def dynamic_slice(op: AnyOp, operands: Operands) -> Replacement:
    """A dynamic slice of x that has the shape of x is x, because start indices are clamped."""
    return operands[0] if operands[0].type == op.result.type else None


def reshape(op: AnyOp, operands: Operands) -> Replacement:
    """A reshape of x to its own shape is x. A reshape of a splat constant is a splat constant.

    A reshape of a reshape is one reshape.
    """
    (x,), type_ = operands, op.result.type
    if x.type == type_:
        return x
    if (constant := defined_by(x, "stablehlo.constant")) is not None:
        value = widened_splat(constant.attributes["value"], x.type, type_)
        return None if value is None else instead(op, "stablehlo.constant", (), {"value": value})
    inner = defined_by(x, op.name)
    return None if inner is None else instead(op, op.name, inner.operands)


def select(op: AnyOp, operands: Operands) -> Replacement:
    """A selection between x and x is x, and a selection by a constant splat is one of the alternatives."""
    predicate, x, y = operands
    chosen = x if x == y or is_ones(predicate) else y if is_zeros(predicate) else None
    return chosen if chosen is not None and chosen.type == op.result.type else None


def transpose(op: AnyOp, operands: Operands) -> Replacement:
    """A transpose of x by the identity permutation is x. A transpose of a transpose is one transpose."""
    (x,), order = operands, op.attributes["permutation"]
    if in_order(order):
        return x
    if (inner := defined_by(x, op.name)) is not None:
        composed = picked(inner.attributes["permutation"], order)
        return instead(op, op.name, inner.operands, {"permutation": composed})
    return None


def dot_general(op: AnyOp, operands: Operands) -> Replacement:
    """If no dimension is contracted, the product of x with an array of ones is a broadcast of x.

    Such products occur in derivatives if the cotangent of the output is 1.
    """
    side = 1 if is_ones(operands[0]) else 0 if is_ones(operands[1]) else None
    if side is None:
        return None
    x, type_, of = operands[side], op.result.type, Contraction.of(op)
    if of.summed[0] or x.type.element_type != type_.element_type:
        return None
    places = of.places(side, [y.type.rank for y in operands])
    along = [places[d] for d in range(x.type.rank)]
    if along != sorted(along) or not (x.type.has_static_shape and type_.has_static_shape):
        return None
    if x.type == type_:
        return x
    return instead(op, "stablehlo.broadcast_in_dim", (x,), {"broadcast_dimensions": dims(along)}, of=(side,))


IDENTITIES: Mapping[str, Identity] = {
    "chlo.conj": conj,
    "stablehlo.add": add,
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.complex": complex_,
    "stablehlo.convert": convert,
    "stablehlo.divide": neutral("stablehlo.divide"),
    "stablehlo.dot_general": dot_general,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.imag": imag,
    "stablehlo.multiply": neutral("stablehlo.multiply"),
    "stablehlo.negate": negate,
    "stablehlo.real": real,
    "stablehlo.reshape": reshape,
    "stablehlo.select": select,
    "stablehlo.subtract": neutral("stablehlo.subtract"),
    "stablehlo.transpose": transpose,
}


# ---- these functions read constants and lists of dimensions ---------------------------------------------------


@functools.cache
def in_order(dimensions: ir.DenseI64ArrayAttr) -> bool:
    """Whether the attribute lists 0, 1, 2, ..."""
    return dimensions_in(dimensions) == tuple(range(len(dimensions)))


@functools.cache
def picked(dimensions: ir.DenseI64ArrayAttr, which: ir.DenseI64ArrayAttr) -> ir.DenseI64ArrayAttr:
    """The entries `dimensions[i]` for each i in `which`."""
    return dims([dimensions_in(dimensions)[i] for i in dimensions_in(which)])


@functools.cache
def is_splat_of(value: ir.Attribute, type_: ir.RankedTensorType, number: int) -> bool:
    """Whether the value of a constant of type `type_` is a splat of `number`. False for quantized types."""
    if not is_splat(value) or value.type != type_:
        return False
    if isinstance(type_.element_type, ir.ComplexType):  # the bindings cannot return a complex splat
        return str(value).startswith(f"dense<({number}.000000e+00,0.000000e+00)> ")
    return bool(splat_number(value) == number)


def is_zeros(x: Typed) -> bool:
    """Whether x is a constant of zeros. False for quantized types."""
    return _is_filled(x, 0)


def is_ones(x: Typed) -> bool:
    """Whether x is a constant of ones. False for quantized types."""
    return _is_filled(x, 1)


def _is_filled(x: Typed, number: int) -> bool:
    op = defined_by(x, "stablehlo.constant")
    return op is not None and is_splat_of(op.attributes["value"], x.type, number)


@functools.cache
def widened_splat(
    value: ir.Attribute, narrow: ir.RankedTensorType, wide: ir.RankedTensorType
) -> ir.Attribute | None:
    """Converts the splat `value` of type `narrow` to a splat of the same number and of type `wide`.

    Returns None if `value` is not a splat of type `narrow`, if it is complex, or if `wide` has a dynamic shape.
    """
    if not is_splat(value) or value.type != narrow:
        return None
    if isinstance(narrow.element_type, ir.ComplexType) or not wide.has_static_shape:
        return None
    return ir.DenseElementsAttr.get_splat(wide, value.get_splat_value())
