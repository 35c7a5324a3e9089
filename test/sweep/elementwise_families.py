"""Families of elementwise ops that random programs are made of."""

import math

from composer import Composer, Value, tensor


def unary(c: Composer) -> Value:
    """A function that is smooth everywhere, of a real value."""
    x = c.real()
    op, bound = c.choose(
        [
            ("sine", 1.0),
            ("cosine", 1.0),
            ("tanh", 1.0),
            ("logistic", 1.0),
            ("exponential", math.exp(x.bound)),
            ("exponential_minus_one", math.exp(x.bound)),
            ("negate", x.bound),
            ("chlo.erf", 1.0),
            ("chlo.erfc", 2.0),
            ("chlo.atan", 1.6),
            ("chlo.asinh", x.bound),
            ("chlo.square", x.bound**2),
            ("chlo.cosh", math.exp(x.bound)),
            ("chlo.sinh", math.exp(x.bound)),
            ("stablehlo.optimization_barrier", x.bound),
        ]
    )
    return c.unary(op, x, bound)


def unary_of_positive(c: Composer) -> Value:
    """A function that is smooth on the positive numbers."""
    x = c.positive(c.real())
    op, bound = c.choose(
        [
            ("sqrt", x.bound),
            ("cbrt", x.bound),
            ("rsqrt", 1.5),
            ("log", x.bound),
            ("log_plus_one", x.bound),
            ("chlo.lgamma", 2 * x.bound**2),
            ("chlo.digamma", x.bound + 2),
            ("chlo.acosh", x.bound),
        ]
    )
    if op == "chlo.acosh":
        x = c.add(x, c.constant(1.0, x.shape))
    return c.unary(op, x, bound)


def kinked(c: Composer) -> Value:
    """A function with a kink or a step."""
    x = c.real()
    op = c.choose(("abs", "sign", "floor", "ceil", "round_nearest_even"))
    return c.unary(op, x, x.bound + 1)


def binary(c: Composer) -> Value:
    x = c.any()
    y = c.fit(c.any(), x.shape, x.is_complex)
    ops = ["add", "subtract", "multiply"] + ([] if x.is_complex else ["maximum", "minimum"])
    op = c.choose(ops)
    return c.binary(op, x, y, x.bound * y.bound if op == "multiply" else x.bound + y.bound)


def binary_of_positive(c: Composer) -> Value:
    """Division, powers, angles and remainders, whose second (first, of power) operand is positive."""
    x = c.real()
    y = c.positive(c.fit(c.real(), x.shape))
    op = c.choose(("divide", "power", "atan2", "remainder"))
    if op == "power":
        x = c.unary("tanh", x, 1.0)
        return c.binary(op, y, x, max(2.0, y.bound))
    return c.binary(op, x, y, {"divide": 2 * x.bound, "atan2": 3.2, "remainder": x.bound}[op])


def select(c: Composer) -> Value:
    """One or the other, by a comparison of what may be active too."""
    x = c.any()
    y = c.fit(c.any(), x.shape, x.is_complex)
    left = c.fit(c.real(), x.shape)
    right = c.add(c.fit(c.real(), x.shape), c.constant(0.37, x.shape))
    predicate = tensor(x.shape, "i1")
    direction = c.choose(("LT", "GE", "GT", "LE", "EQ", "NE"))
    condition = c.emit(
        f"stablehlo.compare {direction}, {left.name}, {right.name} : ({left.type}, {right.type}) -> {predicate}"
    )
    text = f"stablehlo.select {condition.name}, {x.name}, {y.name} : {predicate}, {x.type}"
    return c.emit(text, x.shape, x.is_complex, max(x.bound, y.bound))


def clamp(c: Composer) -> Value:
    """Between bounds that are not x itself: there the derivative is that of neither."""
    x = c.real()
    shape = x.shape if c.flag() else ()
    low = c.add(c.fit(c.real(), shape), c.constant(-0.1, shape))
    high = c.add(c.fit(c.real(), shape), c.constant(0.8, shape))
    text = (
        f"stablehlo.clamp {low.name}, {x.name}, {high.name} : ({low.type}, {x.type}, {high.type}) -> {x.type}"
    )
    return c.emit(text, x.shape, bound=x.bound + low.bound + high.bound)


def complex_(c: Composer) -> Value:
    """To complex values, between them, and back."""
    x = c.any()
    if not x.is_complex:
        return c.complex(x, c.fit(c.real(), x.shape))
    op = c.choose(
        ("real", "imag", "exponential", "sine", "cosine", "negate", "conj", "multiply", "divide", "log")
    )
    if op in ("real", "imag"):
        return c.emit(f"stablehlo.{op} {x.name} : ({x.type}) -> {tensor(x.shape)}", x.shape, bound=x.bound)
    if op == "conj":
        return c.unary("chlo.conj", x, x.bound)
    if op == "multiply":
        return c.binary(op, x, x, x.bound**2)
    if op in ("divide", "log"):
        y = c.complex(c.positive(c.fit(c.real(), x.shape)), c.fit(c.real(), x.shape))
        return c.binary(op, x, y, 2 * x.bound) if op == "divide" else c.unary(op, y, y.bound + 3)
    return c.unary(op, x, x.bound if op == "negate" else math.exp(x.bound))


def through_integers(c: Composer) -> Value:
    """What is rounded to an integer has no derivative; what it is multiplied with has."""
    x = c.real()
    rounded = c.emit(f"stablehlo.convert {x.name} : ({x.type}) -> {tensor(x.shape, 'i32')}", x.shape)
    text = f"stablehlo.convert {rounded.name} : ({tensor(x.shape, 'i32')}) -> {x.type}"
    return c.binary("multiply", c.emit(text, x.shape, bound=x.bound), x, x.bound**2)


ELEMENTWISE = (
    unary,
    unary_of_positive,
    kinked,
    binary,
    binary_of_positive,
    select,
    clamp,
    complex_,
    through_integers,
)
