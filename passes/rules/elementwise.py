"""Rules of elementwise ops, by their partial derivatives. Derivatives at kinks and ties are those of JAX.

If a derivative is 1 / d, the tangent is emitted as `dx / d`, because `1 / d` overflows for tiny d. For complex types,
the formulas are those of holomorphic functions, except for `abs` and `sign`.
"""

from collections.abc import Callable
from typing import Never

from torch_mlir import ir

from tiduc.dialect.emitters.masks import in_shape
from tiduc.dialect.emitters.protocol import V
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.ir_types import AnyOp
from tiduc.dialect.shapes.types import element, is_complex
from tiduc.passes.rules.opset import elementwise, inactive, linearize
from tiduc.passes.rules.registry import Tangents


def quotient(name: str, divisor: Callable[[StablehloBuilder, Value, Value], Value]) -> None:
    """Declares the rule dy = dx / divisor(b, x, y). It divides in the divisor's element type, which may be wider."""

    @linearize(name)
    def rule(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
        by = divisor(b, op.operands[0], op.result)
        return [b.convert(b.divide(b.convert(dx[0], element(by)), by), element(op.result))]


def plus(b: StablehloBuilder, x: Value, number: float) -> Value:
    """x + number."""
    return b.add(x, b.constant(number, x))


def times(b: StablehloOps[V, Never], number: float, x: V) -> V:
    """number * x."""
    return b.multiply(b.constant(number, x), x)


def difference(b: StablehloBuilder, first: Value | None, second: Value | None) -> Value:
    """first - second, where one of them may be None, a symbolic zero."""
    if second is None:
        assert first is not None
        return first
    return b.negate(second) if first is None else b.subtract(first, second)


def square(b: StablehloBuilder, x: Value) -> Value:
    """x * x."""
    return b.multiply(x, x)


def widened(type_: ir.Type) -> ir.Type:
    """Returns f32 for a narrower float type, and other types unchanged. Some formulas need its digits or range."""
    return ir.F32Type.get() if isinstance(type_, ir.FloatType) and type_.width < 32 else type_


def upcast(b: StablehloBuilder, x: Value) -> Value:
    """x, converted to f32 if its element type is a narrower float."""
    return b.convert(x, widened(element(x)))


def ordered(b: StablehloBuilder, x: Value, y: Value, direction: str) -> Value:
    """Compares x with y by GE, GT, LE or LT. Complex values compare by real part, and by imaginary part at a tie."""
    if not is_complex(x):
        return b.compare(x, y, direction)
    first, second = (b.real(x), b.real(y)), (b.imag(x), b.imag(y))
    tie = b.and_(b.compare(*first, "EQ"), b.compare(*second, direction))
    return b.or_(b.compare(*first, direction[0] + "T"), tie)


elementwise("stablehlo.cosine", lambda b, x, y: b.negate(b.sine(x)))
elementwise("stablehlo.exponential", lambda b, x, y: y)
elementwise("stablehlo.exponential_minus_one", lambda b, x, y: b.exponential(x))  # y + 1 loses digits
elementwise("stablehlo.logistic", lambda b, x, y: b.multiply(y, b.subtract(b.constant(1, y), y)))
elementwise("stablehlo.rsqrt", lambda b, x, y: b.divide(times(b, -0.5, y), x))
elementwise("stablehlo.sine", lambda b, x, y: b.cosine(x))
elementwise("stablehlo.tan", lambda b, x, y: plus(b, square(b, y), 1))
elementwise("stablehlo.tanh", lambda b, x, y: b.subtract(b.constant(1, y), square(b, y)))

quotient("stablehlo.cbrt", lambda b, x, y: times(b, 3, square(b, y)))
quotient("stablehlo.log", lambda b, x, y: x)
quotient("stablehlo.log_plus_one", lambda b, x, y: plus(b, x, 1))
quotient("stablehlo.sqrt", lambda b, x, y: times(b, 2, y))

inactive(  # piecewise constant functions of floats
    "stablehlo.ceil",
    "stablehlo.compare",
    "stablehlo.floor",
    "stablehlo.is_finite",
    "stablehlo.round_nearest_afz",
    "stablehlo.round_nearest_even",
)
inactive(  # ops on integers and booleans only
    "stablehlo.and",
    "stablehlo.count_leading_zeros",
    "stablehlo.not",
    "stablehlo.or",
    "stablehlo.popcnt",
    "stablehlo.shift_left",
    "stablehlo.shift_right_arithmetic",
    "stablehlo.shift_right_logical",
    "stablehlo.xor",
)
inactive(  # the result contains no value of an operand
    "stablehlo.after_all",
    "stablehlo.constant",
    "stablehlo.create_token",
    "stablehlo.dynamic_iota",
    "stablehlo.get_dimension_size",
    "stablehlo.infeed",
    "stablehlo.iota",
    "stablehlo.partition_id",
    "stablehlo.recv",
    "stablehlo.replica_id",
    "stablehlo.rng_bit_generator",
)


def _power_base(b: StablehloBuilder, x: Value, y: Value, z: Value) -> Value | None:
    """The derivative y x^(y - 1), or None if y is the constant 0. Where x = y = 0, x is replaced by 1 to avoid NaN.

    A select on the result instead of x would lose the derivative of the result in y. Narrow floats are computed in f32,
    because x^(y - 1) may overflow f16 where y x^(y - 1) does not.
    """
    n = splat(y)
    if n == 0:
        return None
    if n is not None:
        lower = x if n == 2 else b.power(x, b.constant(n - 1, y))
        return b.constant(1, x) if n == 1 else times(b, n, lower)
    x, y = upcast(b, x), upcast(b, y)
    zero, one = b.zeros_like(x), b.constant(1, x)
    flat = b.compare(y, zero, "EQ")
    if is_complex(y):  # complex 0^0 need not be 1
        flat = b.or_(flat, b.compare(y, one, "EQ"))
    base = b.select(b.and_(b.compare(x, zero, "EQ"), flat), one, x)
    return b.convert(b.multiply(y, b.power(base, b.subtract(y, one))), element(z))


def _power_exponent(b: StablehloBuilder, x: Value, y: Value, z: Value) -> Value:
    """The derivative log(x) x^y. At x = 0, it is 0 for y >= 0, which is the limit for y > 0, and infinite for y < 0."""
    size = b.real(y) if is_complex(y) else y
    is_zero = b.and_(b.compare(x, b.zeros_like(x), "EQ"), b.compare(size, b.zeros_like(size), "GE"))
    return b.multiply(b.log(b.select(is_zero, b.constant(1, x), x)), z)


elementwise("stablehlo.power", _power_base, _power_exponent)


@linearize("stablehlo.abs")
def abs_(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    """d|x| = dx if x >= 0, else -dx; for complex x, Re(conj(sign(x)) dx), which is 0 at x = 0."""
    x = op.operands[0]
    if is_complex(x):
        return [b.real(b.multiply(b.conj(b.sign(x)), dx[0]))]
    one, minus = b.constant(1, x), b.constant(-1, x)
    return [b.multiply(b.select(b.compare(x, b.zeros_like(x), "GE"), one, minus), dx[0])]


def _atan2(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """y / (x^2 + y^2). For f16, it is computed in f32, because squares overflow f16 beyond 255.

    x and y are scaled by a power of two so that the squares neither overflow nor underflow.
    """
    type_, x, y = element(x), upcast(b, x), upcast(b, y)
    scale = None if is_complex(x) else _scale(b, b.add(b.abs(x), b.abs(y)))
    if scale is not None:
        x, y = b.multiply(x, scale), b.multiply(y, scale)
    slope = b.divide(y, b.add(square(b, x), square(b, y)))
    return b.convert(slope if scale is None else b.multiply(scale, slope), type_)


elementwise(
    "stablehlo.atan2", lambda b, x, y, z: _atan2(b, x, y), lambda b, x, y, z: b.negate(_atan2(b, y, x))
)


def _scale(b: StablehloBuilder, size: Value) -> Value:
    """Returns a power of two by which to multiply numbers of size `size`, so that squares do not over- or underflow."""
    exponent = 64 if element(size).width == 32 else 512
    one, bound = b.constant(1, size), 2.0 ** (exponent - 4)
    small = b.select(b.compare(size, b.constant(1 / bound, size), "LT"), b.constant(2.0**exponent, size), one)
    is_large = b.compare(size, b.constant(bound, size), "GT")
    return b.select(is_large, b.constant(2.0**-exponent, size), small)


@linearize("stablehlo.sign")
def sign(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """None for real x. For complex x and s = x / |x|, ds = i s Im(conj(s) dx) / |x|, or 0 at x = 0."""
    x, s = op.operands[0], op.result
    if not is_complex(x):
        return [None]
    size = b.abs(x)
    zero, one = b.zeros_like(size), b.constant(1, size)
    turn = b.divide(b.imag(b.multiply(b.conj(s), dx[0])), b.select(b.compare(size, zero, "EQ"), one, size))
    return [b.multiply(s, b.complex(zero, turn))]


@linearize("stablehlo.clamp")
def clamp(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """The tangent of minimum(maximum(low, x), high); scalar bounds are broadcast."""
    x = op.operands[1]
    low, x, high = (in_shape(b, v, x) for v in op.operands)
    tangents = [None if tangent is None else in_shape(b, tangent, x) for tangent in dx]
    raised = _chosen(b, low, x, tangents[:2], MAXIMUM)
    return [_chosen(b, b.maximum(low, x), high, (raised, tangents[2]), MINIMUM)]


MAXIMUM, MINIMUM = ("GE", "LE"), ("LE", "GE")
"""Comparisons of left with right operand. The first holds if the left one is chosen, the second if the right one is."""

ABOVE, BELOW = ("GT", "LT"), ("LT", "GT")
"""The strict forms of `MAXIMUM` and `MINIMUM`: at a tie, neither comparison holds."""


def _chosen(b: StablehloBuilder, x: Value, y: Value, dx: Tangents, wins: tuple[str, str]) -> Value | None:
    """Returns the tangent of the chosen operand, or half of each at a tie, or None if neither operand has a tangent.

    `wins` are the two comparisons that choose. If they are strict, the tangent at a tie is 0. A select is used instead
    of a product with 0, so that a NaN or infinity in the other tangent does not propagate.
    """
    if all(tangent is None for tangent in dx):
        return None
    share = None
    if wins not in (ABOVE, BELOW):
        share = b.select(b.compare(x, y, "EQ"), b.constant(0.5, x), b.constant(1, x))
    terms = [
        b.select(
            ordered(b, x, y, direction),
            tangent if share is None else b.multiply(share, tangent),
            b.zeros_like(x),
        )
        for direction, tangent in zip(wins, dx, strict=True)
        if tangent is not None
    ]
    return b.sum(terms)


RELU = "tidu.relu"
"""An attribute of a maximum or minimum that makes the derivative 0 where the operands are equal, unless it is `false`.
"""


def is_relu(op: AnyOp) -> bool:
    """Whether an op has the attribute `RELU`, with another value than `false`."""
    if RELU not in op.attributes:
        return False
    value = op.attributes[RELU]
    return not isinstance(value, ir.BoolAttr) or bool(value.value)


@linearize("stablehlo.maximum")
def maximum(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    x, y = op.operands
    return [_chosen(b, x, y, dx, ABOVE if is_relu(op) else MAXIMUM)]


@linearize("stablehlo.minimum")
def minimum(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    x, y = op.operands
    return [_chosen(b, x, y, dx, BELOW if is_relu(op) else MINIMUM)]
