"""Rules of CHLO ops: elementwise functions, and forms of StableHLO ops that broadcast their operands implicitly."""

from math import pi, sqrt
from typing import Any

from tiduc.dialect.emitters.polygamma import polygamma as reflected_polygamma
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.traits import BROADCASTING, TRAITS
from tiduc.dialect.shapes.sizes import known_equal
from tiduc.dialect.shapes.types import element, is_complex, rank, shape
from tiduc.passes.rules.elementwise import plus, quotient, square, times, upcast
from tiduc.passes.rules.opset import OPSET, elementwise, inactive, linear, linearize, unsupported
from tiduc.passes.rules.registry import Tangents


def _one_minus_square(b: StablehloBuilder, x: Value) -> Value:
    """1 - x^2, computed as (1 - x) (1 + x) for |x| >= 1/2.

    Near |x| = 1, the product is more accurate than 1 - x^2, but near 0 the derivative of 1 - x^2 is more accurate. For
    complex x, computes -(x - 1) (x + 1), so that the sign of a zero depends on the side of the branch cut.
    """
    if is_complex(x):
        return b.negate(b.multiply(plus(b, x, -1), plus(b, x, 1)))
    one = b.constant(1, x)
    product = b.multiply(b.subtract(one, x), plus(b, x, 1))
    is_small = b.compare(b.abs(x), b.constant(0.5, x), "LT")
    return b.select(is_small, b.subtract(one, square(b, x)), product)


def _one_plus_square(b: StablehloBuilder, x: Value) -> Value:
    """1 + x^2. It is computed and returned in f32 for narrower types, because x^2 overflows f16 from x = 256 on."""
    return plus(b, square(b, upcast(b, x)), 1)


def _asinh(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """1 / sqrt(1 + x^2). For large |x|, computes 1 / |x|, because x^2 may overflow and 1 is negligible."""
    near = _one_plus_square(b, x)
    if is_complex(x):
        return b.rsqrt(near)
    size = b.abs(upcast(b, x))
    is_large = b.compare(size, b.constant(LARGE[element(size).width], size), "GT")
    far = b.divide(b.constant(1, size), size)
    return b.convert(b.select(is_large, far, b.rsqrt(near)), element(y))


def _trigamma(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """The derivative polygamma(1, x) of digamma. For large x, where its expansion underflows, 1 / x + 1 / (2 x^2)."""
    is_large = b.compare(x, b.constant(LARGE[max(element(x).width, 32)], x), "GT")
    near = b.convert(reflected_polygamma(b, 1, upcast(b, x)), element(x))
    return b.select(is_large, inverse(b, x), near)


def inverse(b: StablehloBuilder, x: Value) -> Value:
    """1 / x + 1 / (2 x^2)."""
    return b.divide(plus(b, b.divide(b.constant(0.5, x), x), 1), x)


LARGE = {32: 2.0**13, 64: 2.0**27}
"""For each width of a float type, a number x for which 1 / x^2 is less than half a unit in the last place of 1."""

elementwise("chlo.acos", lambda b, x, y: b.negate(b.rsqrt(_one_minus_square(b, x))))
# The derivative of acosh is a product of two roots, because sqrt(x^2 - 1) has the wrong sign where Re x < 0.
elementwise("chlo.acosh", lambda b, x, y: b.multiply(b.rsqrt(plus(b, x, -1)), b.rsqrt(plus(b, x, 1))))
elementwise("chlo.asin", lambda b, x, y: b.rsqrt(_one_minus_square(b, x)))
elementwise("chlo.asinh", _asinh)
elementwise("chlo.cosh", lambda b, x, y: b.sinh(x))
elementwise("chlo.digamma", _trigamma)
elementwise("chlo.erf", lambda b, x, y: times(b, 2 / sqrt(pi), b.exponential(b.negate(square(b, x)))))
elementwise("chlo.erf_inv", lambda b, x, y: times(b, sqrt(pi) / 2, b.exponential(square(b, y))))
elementwise("chlo.erfc", lambda b, x, y: times(b, -2 / sqrt(pi), b.exponential(b.negate(square(b, x)))))
elementwise("chlo.lgamma", lambda b, x, y: b.digamma(x))
elementwise("chlo.sinh", lambda b, x, y: b.cosh(x))
elementwise("chlo.square", lambda b, x, y: times(b, 2, x))
elementwise("chlo.tan", lambda b, x, y: plus(b, square(b, y), 1))

quotient("chlo.atan", lambda b, x, y: _one_plus_square(b, x))
quotient("chlo.atanh", lambda b, x, y: _one_minus_square(b, x))

inactive(
    "chlo.broadcast_and",
    "chlo.broadcast_compare",
    "chlo.broadcast_or",
    "chlo.broadcast_shift_left",
    "chlo.broadcast_shift_right_arithmetic",
    "chlo.broadcast_shift_right_logical",
    "chlo.broadcast_xor",
    "chlo.constant",
    "chlo.constant_like",
    "chlo.is_inf",
    "chlo.is_neg_inf",
    "chlo.is_pos_inf",
    "chlo.mulhi",
)


@linear("chlo.conj", [0])
def conj(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    return [b.conj(ct)]


@linearize("chlo.polygamma")
def polygamma(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    """The derivative is polygamma(n + 1, x). For large x, its expansion underflows; -n polygamma(n, x) / x is used."""
    n, x = op.operands
    if dx[0] is not None:
        raise unsupported("jvp", op, "it has no derivative in its order, which is an integer")
    is_large = b.compare(x, times(b, LARGE[max(element(x).width, 32)], plus(b, n, 1)), "GT")
    is_digamma = b.compare(n, b.zeros_like(n), "EQ")
    far = b.multiply(
        inverse(b, x), b.select(is_digamma, b.constant(1, x), b.negate(b.multiply(n, op.result)))
    )
    order = splat(n)
    if order is not None and order == int(order) >= 0:
        near = b.convert(reflected_polygamma(b, int(order) + 1, upcast(b, x)), element(x))
    else:
        near = b.polygamma(plus(b, n, 1), x)
    return [b.multiply(b.select(is_large, far, near), dx[1])]


@linearize("chlo.next_after")
def next_after(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """The result is x plus or minus one unit in the last place, so the derivative is 1 in x and 0 in y."""
    return [dx[0]]


# ---- ops that broadcast their operands implicitly ----------------------------------------------------------


def _broadcasting(name: str) -> None:
    """Declares a rule for `chlo.broadcast_OP`: broadcasts operands and tangents, and then applies the rule of OP."""
    plain = next(
        op for op in (name.replace("chlo.broadcast_", of) for of in ("stablehlo.", "chlo.")) if op in TRAITS
    )

    @linearize(name)
    def rule(b: StablehloBuilder, op: Definition, dx: Tangents) -> Any:
        operands = [_spread(b, op, x) for x in op.operands]
        tangents = [None if t is None else _spread(b, op, t) for t in dx]
        same = b.emit(plain, operands, op.result.type).definition
        return b.engine.rule(same)(b, same, tangents)


def _spread(b: StablehloBuilder, op: Definition, v: Value) -> Value:
    """Broadcasts v to the shape of the result, along `broadcast_dimensions` or else the trailing dimensions."""
    sizes = shape(op.result)
    if rank(v) == len(sizes) and all(map(known_equal, shape(v), sizes)):
        return v
    dimensions: Any = range(len(sizes) - rank(v), len(sizes))
    if "broadcast_dimensions" in op.attributes and rank(v) < len(sizes):
        dimensions = op.attributes["broadcast_dimensions"]
    return b.broadcast_in_dim(v, dimensions, sizes)


for _name in sorted(BROADCASTING - OPSET.inactive_ops):
    _broadcasting(_name)
