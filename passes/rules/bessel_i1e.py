"""bessel_i1e: y = I1(x) exp(-|x|), whose derivative needs the order-zero function I0, which CHLO lacks.

The derivative, I0(x) exp(-|x|) - (sign(x) + 1/x) y, is even in x. For a = |x|, it is computed as

    a < 1/2   the Taylor series, because the terms of higher derivatives of y / x cancel near 0
    a < 20    y / x (1 - a + c),  c = a^2 / (4 + a^2 / (6 + a^2 / (8 + ...)))   DLMF 10.33.1: I0 / I1 = (2 + c) / a
    a >= 20   -(2 pi a^3)^(-1/2) sum_k (k + 1/2) p_k a^(-k)                     DLMF 10.40.1, differentiated;
              p_0 = 1,  p_k = ((2k - 1)^2 - 4) / (8k) p_(k-1)

with a relative error of 1e-14. All ops used have rules, so higher orders follow.
"""

from math import factorial, pi, sqrt

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element, is_complex
from tiduc.passes.rules.elementwise import plus, square, times, upcast
from tiduc.passes.rules.opset import linearize, unsupported
from tiduc.passes.rules.registry import Tangents

LIMIT = 20
DEPTH = 32  # The continued fraction's remainder is below 1e-16 for a < 20.
ORDERS = 20  # The Taylor series' last term is below 1e-16 for a < 1/2.
TERMS = 28  # The asymptotic series' last term is below 1e-16 for a >= 20.


@linearize("chlo.bessel_i1e")
def bessel_i1e(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    if is_complex(op.result):
        raise unsupported("jvp", op, "it has a derivative for real operands only")
    return [b.multiply(_derivative(b, op.operands[0], op.result), dx[0])]


def _derivative(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """The derivative of the op. At x = 0 it is a constant, 1/2, because the second derivative jumps from 1 to -1."""
    type_ = element(x)
    x, y = upcast(b, x), upcast(b, y)
    limit, is_zero = b.constant(LIMIT, x), b.compare(x, b.zeros_like(x), "EQ")
    x = b.select(is_zero, b.constant(1, x), x)
    a = b.abs(x)
    is_near = b.compare(a, limit, "LT")
    near = b.multiply(b.divide(y, x), _fraction(b, b.select(is_near, a, limit)))
    slope = b.select(is_near, near, _series(b, b.select(is_near, limit, a)))
    half = b.constant(0.5, x)
    is_small = b.compare(a, half, "LT")
    slope = b.select(is_small, _taylor(b, b.select(is_small, a, half)), slope)
    return b.convert(b.select(is_zero, b.constant(0.5, x), slope), type_)


def _taylor(b: StablehloBuilder, a: Value) -> Value:
    """The Taylor series of the derivative at a = 0."""
    of_i1 = {2 * j + 1: 1 / (2 ** (2 * j + 1) * factorial(j) * factorial(j + 1)) for j in range(ORDERS)}
    total = b.zeros_like(a)
    for k in range(ORDERS, 0, -1):
        coefficient = sum(c * (-1) ** (k - i) / factorial(k - i) for i, c in of_i1.items() if i <= k)
        total = plus(b, b.multiply(total, a), k * coefficient)
    return total


def _fraction(b: StablehloBuilder, a: Value) -> Value:
    """1 - a + c, with the continued fraction c."""
    squared, c = square(b, a), b.constant(2 * DEPTH, a)
    for k in range(DEPTH - 1, 1, -1):
        c = plus(b, b.divide(squared, c), 2 * k)
    return b.add(b.subtract(b.constant(1, a), a), b.divide(squared, c))


def _series(b: StablehloBuilder, a: Value) -> Value:
    """The series for a >= 20. It is in powers of 20 / a, so that the coefficients stay small."""
    coefficients, p = [0.5], 1.0
    for k in range(1, TERMS):
        p *= ((2 * k - 1) ** 2 - 4) / (8 * k * LIMIT)
        coefficients.append((k + 0.5) * p)
    total, power = b.constant(coefficients[-1], a), b.divide(b.constant(LIMIT, a), a)
    for coefficient in coefficients[-2::-1]:
        total = plus(b, b.multiply(total, power), coefficient)
    return b.divide(times(b, -1 / sqrt(2 * pi), b.multiply(b.rsqrt(a), total)), a)
