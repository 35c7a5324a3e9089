"""What ops are on operands that say more, each for less: the table of merging.

    multiply x, 1 -> x      add x, 0 -> x           negate (negate x) -> x       add x, (negate y) -> subtract x, y
    divide x, 1   -> x      subtract x, 0 -> x      reshape, transpose, broadcast_in_dim, convert: to the same -> x
    broadcast_in_dim (splat) -> splat               two reshapes, transposes or broadcasts in a row -> one

All are exact, but that `x + 0` gives -0 where x is -0 and the sum would be +0. `x * 0` stays, since it is NaN where x
is not finite.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Definition, Value
from tiduc.dialect.types import dims, entries

NEUTRAL = {
    "stablehlo.add": (0, (0, 1)),
    "stablehlo.divide": (1, (1,)),
    "stablehlo.multiply": (1, (0, 1)),
    "stablehlo.subtract": (0, (1,)),
}
"""The number that leaves the other operand as it is, and the operands it may be."""

Operands = Sequence[Value]
Identity = Callable[[Definition, Operands], Value | Definition | None]
"""Of an op of one result and the operands it has by now: the value or the op it is as well, for less; or None."""


def neutral(name: str) -> Identity:
    """The operand beside a neutral one."""
    number, sides = NEUTRAL[name]

    def rule(op: Definition, operands: Operands) -> Value | None:
        for side in sides:
            x = operands[side].definition  # tested here and not by `made_by`: most ops are products and sums
            if x is not None and x.name == "stablehlo.constant":
                if is_splat_of(x.attributes["value"], operands[side].type, number):
                    return operands[1 - side]
        return None

    return rule


without_zero = neutral("stablehlo.add")


def add(op: Definition, operands: Operands) -> Value | Definition | None:
    """x + 0 is x, x + (-y) is x - y."""
    y = operands[1].definition
    if y is not None and y.name == "stablehlo.negate":
        return op.instead("stablehlo.subtract", (operands[0], y.operands[0]))
    return without_zero(op, operands)


def negate(op: Definition, operands: Operands) -> Value | None:
    """-(-x) is x."""
    negated = made_by("stablehlo.negate", operands[0])
    return None if negated is None else negated.operands[0]


def convert(op: Definition, operands: Operands) -> Value | None:
    """To the type that x has is x."""
    return operands[0] if operands[0].type == op.result.type else None


def broadcast_in_dim(op: Definition, operands: Operands) -> Value | Definition | None:
    """To the same shape is x, of a constant a larger one, of another broadcast one from what that had."""
    (x,), type_ = operands, op.result.type
    along = op.attributes["broadcast_dimensions"]
    if x.type == type_ and in_order(along):
        return x
    if (constant := made_by("stablehlo.constant", x)) is not None:
        wide = widened(constant.attributes["value"], x.type, type_)
        return None if wide is None else op.instead("stablehlo.constant", (), {"value": wide})
    if (inner := made_by(op.name, x)) is not None:
        composed = picked(along, inner.attributes["broadcast_dimensions"])
        return op.instead(op.name, inner.operands, {"broadcast_dimensions": composed})
    return None


def dynamic_slice(op: Definition, operands: Operands) -> Value | None:
    """Of the whole of x is x: starts are clamped."""
    return operands[0] if operands[0].type == op.result.type else None


def reshape(op: Definition, operands: Operands) -> Value | Definition | None:
    """To the same shape is x, of another reshape one from what that had."""
    (x,) = operands
    if x.type == op.result.type:
        return x
    inner = made_by(op.name, x)
    return None if inner is None else op.instead(op.name, inner.operands)


def transpose(op: Definition, operands: Operands) -> Value | Definition | None:
    """In the order of x is x, of another transpose one from what that had."""
    (x,), order = operands, op.attributes["permutation"]
    if in_order(order):
        return x
    if (inner := made_by(op.name, x)) is not None:
        composed = picked(inner.attributes["permutation"], order)
        return op.instead(op.name, inner.operands, {"permutation": composed})
    return None


IDENTITIES: Mapping[str, Identity] = {
    "stablehlo.add": add,
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.convert": convert,
    "stablehlo.divide": neutral("stablehlo.divide"),
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.multiply": neutral("stablehlo.multiply"),
    "stablehlo.negate": negate,
    "stablehlo.reshape": reshape,
    "stablehlo.subtract": neutral("stablehlo.subtract"),
    "stablehlo.transpose": transpose,
}


# ---- what is known of operands and constants ------------------------------------------------------------------


def made_by(name: str, x: Value) -> Definition | None:
    """The op that a value is the result of, where it is of that name."""
    op = x.definition
    return op if op is not None and op.name == name else None


@functools.cache
def in_order(dimensions: Any) -> bool:
    """The attribute is 0, 1, 2, ..."""
    return entries(dimensions) == tuple(range(len(dimensions)))


@functools.cache
def picked(dimensions: Any, which: Any) -> Any:
    """Entries of a list of dimensions, in the order that another one says; all three are attributes."""
    return dims([entries(dimensions)[i] for i in entries(which)])


@functools.cache
def is_splat_of(value: Any, type_: Any, number: int) -> bool:
    """A constant of that type, which is not quantized, is one number everywhere."""
    if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat or value.type != type_:
        return False
    if isinstance(type_.element_type, ir.ComplexType):  # whose splat the bindings cannot give
        return str(value).startswith(f"dense<({number}.000000e+00,0.000000e+00)> ")
    return bool(value.get_splat_value().value == number)


@functools.cache
def widened(value: Any, narrow: Any, wide: Any) -> Any | None:
    """The constant of another shape, where it is the same everywhere."""
    if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat or value.type != narrow:
        return None
    if isinstance(narrow.element_type, ir.ComplexType) or not wide.has_static_shape:
        return None
    return ir.DenseElementsAttr.get_splat(wide, value.get_splat_value())
