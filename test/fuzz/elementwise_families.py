"""Families of elementwise ops for random programs."""

import math

from composer import Composer, Value, tensor


def unary(c: Composer) -> Value:
    """Adds a real function that is smooth everywhere."""
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
            ("chlo.bessel_i1e", 0.3),
            ("chlo.cosh", math.exp(x.bound)),
            ("chlo.sinh", math.exp(x.bound)),
            ("stablehlo.optimization_barrier", x.bound),
        ]
    )
    return c.unary(op, x, bound)


def unary_of_positive(c: Composer) -> Value:
    """Adds a function that is smooth on the positive numbers, applied to a positive value."""
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


def unary_of_small(c: Composer) -> Value:
    """Adds a function that is smooth between -1 and 1, applied to a value in this interval."""
    x = c.unary("tanh", c.real(), 1.0)
    x = c.binary("multiply", x, c.constant(0.8, x.shape), 0.8)
    dialect = "chlo."
    op = c.choose(("asin", "acos", "atanh", "tan", "erf_inv", "stablehlo.tan"))
    return c.unary(op if "stablehlo" in op else dialect + op, x, 2.5)


def of_two_positive(c: Composer) -> Value:
    """Adds a zeta or polygamma op, with operands away from the poles."""
    y = c.positive(c.real())
    if c.flag():
        n = c.constant(float(c.integer(0, 2)), y.shape)
        text = f"chlo.polygamma {n.name}, {y.name} : {n.type}, {y.type} -> {y.type}"
        return c.emit(text, y.shape, bound=20.0)
    x = c.constant(float(c.integer(3, 4)), y.shape)
    y = c.add(y, c.constant(0.5, y.shape))
    return c.emit(f"chlo.zeta {x.name}, {y.name} : {x.type}, {y.type} -> {y.type}", y.shape, bound=2.0)


def broadcasting(c: Composer) -> Value:
    """Adds a broadcasting binary op of CHLO. The second operand is a scalar, or has the shape of the last dimension."""
    x = c.real()
    y = c.fit(c.real(), c.choose(((), x.shape[-1:])))
    op = c.choose(("add", "subtract", "multiply", "maximum", "minimum", "divide", "power", "atan2"))
    x, y, bound = _safe(c, op, x, y)
    text = f"chlo.broadcast_{op} {x.name}, {y.name} : ({x.type}, {y.type}) -> {x.type}"
    return c.emit(text, x.shape, bound=bound)


def _safe(c: Composer, op: str, x: Value, y: Value) -> tuple[Value, Value, float]:
    """Changes operands so that they are away from poles and branch cuts. Returns them and a bound on the result."""
    if op == "power":
        x, y = c.positive(x), c.unary("tanh", y, 1.0)
        return x, y, max(2.0, x.bound)
    if op in ("divide", "atan2"):
        y = c.positive(y)
    return (
        x,
        y,
        {"divide": 2 * x.bound, "atan2": 3.2, "multiply": x.bound * y.bound}.get(op, x.bound + y.bound),
    )


def mapped(c: Composer) -> Value:
    """Adds a map op. Both operands may be the same value."""
    x = c.real()
    y = c.choose((x, c.fit(c.real(), x.shape)))
    dimensions = ", ".join(map(str, range(x.rank)))
    op, other = c.choose(("sine", "tanh", "cosine")), c.choose(("add", "multiply", "subtract"))
    text = (
        f'"stablehlo.map"({x.name}, {y.name}) ({{\n  ^bb0(%a: tensor<f64>, %b: tensor<f64>):\n'
        f"    %c = stablehlo.{other} %a, %b : tensor<f64>\n    %d = stablehlo.{op} %c : tensor<f64>\n"
        f"    %e = stablehlo.multiply %d, %a : tensor<f64>\n    stablehlo.return %e : tensor<f64>\n  }}) "
        f"{{dimensions = array<i64{':' if dimensions else ''} {dimensions}>}} : ({x.type}, {y.type}) -> {x.type}"
    )
    return c.emit(text, x.shape, bound=x.bound)


def batch_norm(c: Composer) -> Value:
    """Adds batch normalization for training or inference, with four elements for each feature."""
    x = c.fit(c.real(1), (4, c.choose((1, 2, 3))))
    if x.rank == 2 and x.shape[1] > 1:
        wave = c.emit(f"stablehlo.iota dim = {c.integer(0, 1)} : {x.type}", x.shape, bound=3.0)
        x = c.add(x, c.unary("sine", wave, 1.0))  # so that the elements of a feature are not all equal
    scale, offset = (c.fit(c.real(), x.shape[1:]) for _ in range(2))
    row = scale.type
    if c.flag():
        mean, variance = c.fit(c.real(), x.shape[1:]), c.positive(c.fit(c.real(), x.shape[1:]))
        operands = f"{x.name}, {scale.name}, {offset.name}, {mean.name}, {variance.name}"
        text = (
            f'"stablehlo.batch_norm_inference"({operands}) {{epsilon = 0.125 : f32, feature_index = 1 : i64}} '
            f": ({x.type}, {row}, {row}, {row}, {row}) -> {x.type}"
        )
        return c.emit(text, x.shape, bound=2 * (x.bound + mean.bound) * scale.bound + offset.bound)
    results = c.emit(
        f'"stablehlo.batch_norm_training"({x.name}, {scale.name}, {offset.name}) '
        f"{{epsilon = 0.125 : f32, feature_index = 1 : i64}} : ({x.type}, {row}, {row}) -> ({x.type}, {row}, {row})"
    )
    c.several(results, 3)
    i = c.integer(0, 2)
    bound = (2 * scale.bound + offset.bound, x.bound, x.bound**2)[i]
    return Value(f"{results.name}#{i}", (x.shape, x.shape[1:], x.shape[1:])[i], False, bound)


def chosen_by_logic(c: Composer) -> Value:
    """Adds a select whose predicate is a logical combination of comparisons."""
    x = c.any()
    y = c.fit(c.any(), x.shape, x.is_complex)
    predicate = tensor(x.shape, "i1")
    predicates = []
    for number in (0.21, -0.43):
        left, right = c.fit(c.real(), x.shape), c.constant(number, x.shape)
        types = f"({left.type}, {right.type}) -> {predicate}"
        predicates.append(
            c.emit(f"stablehlo.compare {c.choose(('LT', 'GE'))}, {left.name}, {right.name} : {types}").name
        )
    both = c.emit(
        f"stablehlo.{c.choose(('and', 'or', 'xor'))} {predicates[0]}, {predicates[1]} : {predicate}"
    ).name
    if c.flag():
        both = c.emit(f"stablehlo.not {both} : {predicate}").name
    text = f"stablehlo.select {both}, {x.name}, {y.name} : {predicate}, {x.type}"
    return c.emit(text, x.shape, x.is_complex, max(x.bound, y.bound))


def tupled(c: Composer) -> Value:
    x, y = c.any(), c.any()
    both = f"tuple<{x.type}, {y.type}>"
    pair = c.emit(f"stablehlo.tuple {x.name}, {y.name} : {both}")
    i = c.integer(0, 1)
    z = (x, y)[i]
    text = f"stablehlo.get_tuple_element {pair.name}[{i}] : ({both}) -> {z.type}"
    return c.emit(text, z.shape, z.is_complex, z.bound)


def kinked(c: Composer) -> Value:
    """Adds a function with a kink or a step, such as abs or floor."""
    x = c.real()
    op = c.choose(("abs", "abs", "sign", "floor", "ceil", "round_nearest_even", "round_nearest_afz"))
    return c.unary(op, x, x.bound + 1)


def binary(c: Composer) -> Value:
    x = c.any()
    y = c.fit(c.any(), x.shape, x.is_complex)
    ops = ["add", "subtract", "multiply"] + ([] if x.is_complex else ["maximum", "minimum"])
    op = c.choose(ops)
    return c.binary(op, x, y, x.bound * y.bound if op == "multiply" else x.bound + y.bound)


def binary_of_positive(c: Composer) -> Value:
    """Adds a divide, power, atan2 or remainder. The second operand, or the base of a power, is positive."""
    x = c.real()
    y = c.positive(c.fit(c.real(), x.shape))
    op = c.choose(("divide", "power", "atan2", "remainder"))
    if op == "power":
        x = c.unary("tanh", x, 1.0)
        return c.binary(op, y, x, max(2.0, y.bound))
    return c.binary(op, x, y, {"divide": 2 * x.bound, "atan2": 3.2, "remainder": x.bound}[op])


def select(c: Composer) -> Value:
    """Adds a select whose predicate is a comparison. The compared values are computed, too."""
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
    """Adds a clamp. The value x is never equal to a bound, where the clamp would have a kink."""
    x = c.real()
    shape = x.shape if c.flag() else ()
    low = c.add(c.fit(c.real(), shape), c.constant(-0.1, shape))
    high = c.add(c.fit(c.real(), shape), c.constant(0.8, shape))
    text = (
        f"stablehlo.clamp {low.name}, {x.name}, {high.name} : ({low.type}, {x.type}, {high.type}) -> {x.type}"
    )
    return c.emit(text, x.shape, bound=x.bound + low.bound + high.bound)


def complex_(c: Composer) -> Value:
    """Adds an op that makes a complex value of two real ones, a complex function, or an op that returns a real part."""
    x = c.any()
    if not x.is_complex:
        return c.complex(x, c.fit(c.real(), x.shape))
    ops = "real imag exponential exponential_minus_one sine cosine negate conj multiply".split()
    right = "divide log log_plus_one sqrt rsqrt cbrt abs sign power tanh logistic atan2".split()
    op = c.choose(ops + right)
    if op in ("real", "imag"):
        return c.emit(f"stablehlo.{op} {x.name} : ({x.type}) -> {tensor(x.shape)}", x.shape, bound=x.bound)
    if op == "conj":
        return c.unary("chlo.conj", x, x.bound)
    if op == "multiply":
        return c.binary(op, x, x, x.bound**2)
    if op in right:
        return _right_half(c, op, x)
    return c.unary(op, x, x.bound if op == "negate" else 2 * math.exp(x.bound))


def _right_half(c: Composer, op: str, x: Value) -> Value:
    """Adds an op on a complex value in the right half-plane.

    Its real part is at least 0.5, and the magnitude of its imaginary part is at most 1.
    """
    y = c.complex(c.positive(c.fit(c.real(), x.shape)), c.unary("tanh", c.fit(c.real(), x.shape), 1.0))
    if op == "divide":
        return c.binary(op, x, y, 2 * x.bound)
    if op == "power":
        return c.binary(op, y, c.constant(c.choose((0.5, -1.0, 2.0)), y.shape, True), max(2.0, y.bound**2))
    if op == "atan2":
        return c.binary(op, c.constant(0.25, y.shape, True), y, 3.2)
    if op == "abs":
        return c.emit(f"stablehlo.abs {y.name} : ({y.type}) -> {tensor(y.shape)}", y.shape, bound=y.bound)
    return c.unary(op, y, y.bound + 3)


def through_integers(c: Composer) -> Value:
    """Adds the product of x and x rounded to an integer. The derivative of the rounded factor is zero."""
    x = c.real()
    rounded = c.emit(f"stablehlo.convert {x.name} : ({x.type}) -> {tensor(x.shape, 'i32')}", x.shape)
    text = f"stablehlo.convert {rounded.name} : ({tensor(x.shape, 'i32')}) -> {x.type}"
    return c.binary("multiply", c.emit(text, x.shape, bound=x.bound), x, x.bound**2)


ELEMENTWISE = (
    unary,
    unary_of_positive,
    unary_of_small,
    of_two_positive,
    broadcasting,
    mapped,
    batch_norm,
    chosen_by_logic,
    tupled,
    kinked,
    binary,
    binary_of_positive,
    select,
    clamp,
    complex_,
    through_integers,
)
