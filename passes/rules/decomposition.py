"""Functions that the rules of matrix decompositions share: settings of calls, and reciprocals of spectral gaps."""

import math
from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.dialect.attributes import named_attributes
from tiduc.dialect.graph import Definition
from tiduc.dialect.lapack import CONFIG, CallSettings
from tiduc.dialect.types import element, predicate, rank, shape, with_shape
from tiduc.passes.rules.elementwise import times
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.triangular_solve import compare_places

EQUAL_WITHIN = "tidu.equal_within"
"""The attribute of a call that says by how many units in the last place of the largest one equal values may differ."""

ROUNDING = 1024
"""A divisor of so few units in the last place counts as zero: fewer than three digits of the quotient are correct."""


def config(op: Definition) -> tuple[str, Any]:
    """The attribute that holds the settings of a call, with its name."""
    for name in CONFIG:
        if name in op.attributes:
            return name, op.attributes[name]
    raise unsupported("jvp", op, "it has no backend_config")


def settings(op: Definition) -> CallSettings:
    """The settings of a call by name, as plain values; characters are integers."""
    _, attribute = config(op)
    if not isinstance(attribute, ir.DictAttr):
        raise unsupported("jvp", op, "its backend_config is not a dictionary")
    return CallSettings(op.attributes, partial(unsupported, "jvp", op))


def with_settings(op: Definition, **changed: int | bool) -> dict[str, Any]:
    """The attributes of a call with some settings changed."""
    where, attribute = config(op)
    given = named_attributes(attribute)
    for name, value in changed.items():
        old = given[name]
        given[name] = (
            ir.BoolAttr.get(value) if isinstance(old, ir.BoolAttr) else ir.IntegerAttr.get(old.type, value)
        )
    return {where: ir.DictAttr.get(given)}


def columns(b: Any, x: Any, type_: Any) -> Any:
    """Matrices of the given type whose column j is filled with x_j."""
    return b.broadcast_in_dim(x, [*range(rank(x) - 1), rank(x)], type_)


def rows(b: Any, x: Any, type_: Any) -> Any:
    """Matrices of the given type whose row i is filled with x_i."""
    return b.broadcast_in_dim(x, range(rank(x)), type_)


def diagonal(b: Any, x: Any) -> Any:
    """The diagonals of the square matrices in x."""
    return b.reduce_sum(b.select(compare_places(b, x, "EQ"), x, b.zeros_like(x)), [rank(x) - 1])


def inverse(b: Any, x: Any, margin: Any) -> Any:
    """1 / x, and 0 where |x| is at most the margin, which has one number for each matrix or vector in x."""
    zero, one = b.zeros_like(x), b.constant(1, x)
    size = b.abs(x)
    none = b.compare(size, b.broadcast_in_dim(margin, range(rank(margin)), size.type), "LE")
    return b.select(none, zero, b.divide(one, b.select(none, one, x)))


def inverse_gaps(b: Any, w: Any, margin: Any) -> Any:
    """1 / (w_j - w_i) in row i and column j, and 0 where w_i and w_j differ by at most the margin."""
    return inverse(b, gaps(b, w), margin)


def gaps(b: Any, w: Any) -> Any:
    """w_j - w_i in row i and column j."""
    square = with_shape(w.type, [*shape(w), shape(w)[-1]])
    return b.subtract(columns(b, w, square), rows(b, w, square))


def largest(b: Any, w: Any) -> Any:
    """The largest |w| of each matrix's values w."""
    size = b.abs(w)
    return b.reduce(size, b.zero(with_shape(size.type, [])), [rank(w) - 1], "stablehlo.maximum")


def equality_margin(b: Any, op: Definition, w: Any) -> Any:
    """The difference up to which two values of one matrix count as equal, for each matrix's values w.

    It is `EQUAL_WITHIN` units in the last place of the largest value, by default 8 times the root of their number:
    LAPACK's eigenvalues and singular values that are equal differed by up to 7 units for 5 values, and 31 for 200.
    """
    ulps = 8 * math.sqrt(shape(w)[-1])
    if EQUAL_WITHIN in op.attributes:
        ulps = ir.FloatAttr(op.attributes[EQUAL_WITHIN]).value
    return times(b, ulps * epsilon(w), largest(b, w))


def epsilon(x: Any) -> float:
    """The unit in the last place of 1, for an element type of 32 or 64 bits, or of twice as many if it is complex."""
    type_ = element(x)
    width = (type_.element_type if isinstance(type_, ir.ComplexType) else type_).width
    return float(2.0 ** (-52 if width == 64 else -23))


def some(b: Any, flags: Any, dimensions: list[int]) -> Any:
    """Whether some flags along the dimensions are true."""
    return b.reduce(flags, b.zero(with_shape(flags.type, [])), dimensions, "stablehlo.or")


def unless(b: Any, flags: Any, x: Any) -> Any:
    """The matrices in x, and NaN in each matrix whose flag is true."""
    everywhere = b.broadcast_in_dim(flags, range(rank(flags)), predicate(x.type))
    return b.select(everywhere, b.constant(float("nan"), x), x)


def scaled(b: Any, factor: Any, x: Any) -> Any:
    """factor * x, where the factor may be real and x complex."""
    return b.multiply(b.convert(factor, x.type.element_type), x)
