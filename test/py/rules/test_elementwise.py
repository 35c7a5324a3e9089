"""Elementwise ops: one row for each op with its test points. Derivatives at kinks and ties are compared with JAX's."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.tensors import one_op
from harness.xla import by_xla
from jax import lax

from tiduc.dialect.mlir.context import parse
from tiduc.loading import load

REAL, COMPLEX, SCALAR = "tensor<3xf64>", "tensor<3xcomplex<f64>>", "tensor<f64>"


def program(op: str, *types: str, result: str | None = None, attributes: str = "") -> str:
    return one_op(f"stablehlo.{op}", *types, result=result, attributes=attributes)


# ---- away from kinks ---------------------------------------------------------------------------------------

UNARY = {
    "abs": [-1.3, 0.7, 2.1],
    "cbrt": [-1.3, 0.7, 2.1],
    "cosine": [-1.3, 0.7, 2.1],
    "exponential": [-1.3, 0.7, 2.1],
    "exponential_minus_one": [-1.3, 0.0, 2.1],
    "log": [0.4, 0.7, 2.1],
    "log_plus_one": [-0.6, 0.0, 2.1],
    "logistic": [-1.3, 0.0, 2.1],
    "rsqrt": [0.4, 0.7, 2.1],
    "sine": [-1.3, 0.7, 2.1],
    "sqrt": [0.4, 0.7, 2.1],
    "tan": [-1.3, 0.7, 2.1],
    "tanh": [-1.3, 0.0, 2.1],
}

PLANE = np.array([-1.1 + 0.6j, 0.3 - 0.8j, 0.9 + 0.2j])
"""Complex points in three quadrants, away from the branch cuts along the real axis."""


@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str) -> None:
    check_rule(program(op, REAL), np.array(UNARY[op]))


@pytest.mark.parametrize("op", sorted({*UNARY, "sign"} - {"abs", "cbrt"}))
def test_unary_complex(op: str) -> None:
    check_rule(program(op, COMPLEX), PLANE)


def test_abs_complex() -> None:
    check_rule(program("abs", COMPLEX, result=REAL), PLANE, jax_function=lax.abs)


@pytest.mark.parametrize("op", UNARY)
def test_third_order(op: str) -> None:
    check_rule(program(op, SCALAR), np.array(UNARY[op][2]), order=3, rtol=1e-6)


BINARY = {
    "atan2": ([-1.3, 0.7, 0.0], [0.8, -1.1, 2.0]),
    "maximum": ([-1.3, 0.7, 0.0], [0.8, -1.1, 2.0]),
    "minimum": ([-1.3, 0.7, 0.0], [0.8, -1.1, 2.0]),
    "power": ([0.3, 1.7, 2.2], [2.0, -1.1, 0.5]),
    "remainder": ([-7.3, 5.5, 8.1], [2.1, -1.7, 3.0]),
}


@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str) -> None:
    check_rule(program(op, REAL, REAL), *map(np.array, BINARY[op]))


@pytest.mark.parametrize("op", ["atan2", "power"])
def test_binary_complex(op: str) -> None:
    check_rule(program(op, COMPLEX, COMPLEX), PLANE, np.array([0.5 + 0.4j, 1.2 + 0.3j, -0.4 + 0.7j]))


@pytest.mark.parametrize("op", ["atan2", "maximum", "minimum", "remainder"])
def test_repeated_operand(op: str) -> None:
    text = program(op, REAL).replace("(%0) {", "(%0, %0) {").replace(f": ({REAL})", f": ({REAL}, {REAL})")
    check_rule(text, np.array([-1.3, 0.7, 2.1]), differences=op != "remainder")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 1, 3)])
@pytest.mark.parametrize("op", ["tanh", "power", "maximum"])
def test_shapes(op: str, shape: tuple[int, ...]) -> None:
    rng, count = np.random.default_rng(1), 1 if op == "tanh" else 2
    type_ = f"tensor<{''.join(f'{n}x' for n in shape)}f64>"
    check_rule(program(op, *[type_] * count), *(rng.uniform(0.5, 2, shape) for _ in range(count)))


# ---- clamp -------------------------------------------------------------------------------------------------

LOW, HIGH = np.array([-1.0, 0.5, -2.0]), np.array([0.6, 1.5, 0.1])


@pytest.mark.parametrize("low", [np.array(-0.7), LOW])
@pytest.mark.parametrize("high", [np.array(0.9), HIGH])
def test_clamp(low: Any, high: Any) -> None:
    types = [REAL if v.ndim else SCALAR for v in (low, high)]
    text = program("clamp", types[0], REAL, types[1], result=REAL)
    check_rule(
        text,
        low,
        np.array([0.2, 0.3, 1.9]),
        high,
        jax_function=lambda low, x, high: lax.clamp(*(jnp.broadcast_to(v, x.shape) for v in (low, x, high))),
        order=2,
    )


def test_clamp_crossed_bounds() -> None:
    """The derivative of clamp is right if `high` is less than `low`. Then min(max(x, low), high) is `high`."""
    check_rule(
        program("clamp", REAL, REAL, REAL), np.full(3, 1.5), np.array([0.2, 1.2, 2.5]), np.full(3, 0.9)
    )


def test_clamp_ties() -> None:
    low, x, high = [0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0]
    check_rule(
        program("clamp", *["tensor<4xf64>"] * 3),
        *map(np.array, (low, x, high)),
        differences=False,
        jax_function=lambda low, x, high: lax.min(lax.max(low, x), high),
    )


# ---- the order of complex values: by real part, then by imaginary part ----------------------------------------

LEFT = np.array([1 + 2j, 1 - 1j, 0.5 + 9j, -2 + 0j])
RIGHT = np.array([1 + 1j, 1 + 1j, 2 - 3j, -2 - 5j])
SIX = np.array([1 + 1j, 1 + 2j, 1 + 3j, 0.5 + 9j, 2 - 9j, 1 + 2.5j])


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_choice_of_complex_values(op: str) -> None:
    """Derivatives of complex maxima and minima are those of the selected operand.

    Values with equal real parts are ordered by their imaginary parts.
    """
    text = program(op, *[COMPLEX.replace("3x", "4x")] * 2)
    check_rule(text, LEFT, RIGHT, order=1, differences=False, jax_function=getattr(lax, op[:3]))
    check_rule(text, LEFT + [0, 0, 0, 1], RIGHT, differences=False)
    value, _, cy = run(load(text).vjp(), [LEFT, RIGHT, np.ones(4, complex)])
    np.testing.assert_array_equal(cy != 0, value == RIGHT)


@pytest.mark.parametrize("scalar", [False, True])
def test_clamp_complex(scalar: bool) -> None:
    t = COMPLEX.replace("3x", "6x")
    bound, shape = (t.replace("6x", ""), ()) if scalar else (t, (6,))
    text = program("clamp", bound, t, bound, result=t)
    low, high, ones = np.full(shape, 1 + 1.5j), np.full(shape, 1 + 2.7j), np.ones(6, complex)
    value, cl, cx, ch = run(load(text).vjp(), [low, SIX, high, ones])
    for ct, chosen in ((cl, low), (cx, SIX), (ch, high)):
        picked = np.asarray(value == chosen).astype(complex)
        np.testing.assert_array_equal(ct, picked.sum() if not ct.ndim else picked)
    check_rule(text, low, SIX, high, differences=False)


def test_choice_of_complex_ties() -> None:
    text = program("maximum", COMPLEX, COMPLEX)
    *_, cx, cy = run(load(text).vjp(), [PLANE, PLANE, np.ones(3, complex)])
    np.testing.assert_array_equal([cx, cy], np.full((2, 3), 0.5))


# ---- kinks and ties ----------------------------------------------------------------------------------------

TIES = {
    "abs": (lax.abs, [[0.0, -0.0, 1.0]]),
    "maximum": (lax.max, [[0.0, -0.0, 1.0], [0.0, 0.0, 1.0]]),
    "minimum": (lax.min, [[0.0, -0.0, 1.0], [0.0, 0.0, 1.0]]),
    "remainder": (lax.rem, [[6.0, -6.0, 0.0], [2.0, 3.0, 1.5]]),
    "cbrt": (lax.cbrt, [[8.0, -1e-200, 1e200]]),
}


@pytest.mark.parametrize("op", TIES)
def test_kink_as_jax(op: str) -> None:
    function, point = TIES[op]
    text = program(op, *[REAL] * len(point))
    check_rule(text, *map(np.array, point), order=1, differences=False, jax_function=function)


def test_abs_complex_at_zero() -> None:
    check_rule(
        program("abs", COMPLEX, result=REAL),
        np.array([0j, 1j, -3 + 4j]),
        differences=False,
        jax_function=lax.abs,
    )


def test_operands_not_chosen_contribute_nothing() -> None:
    """An operand that a maximum does not select contributes nothing, even if its tangent is infinite, as that of
    sqrt(x) in maximum(sqrt(x), 1) at 0.
    """
    y = derivatives(program("maximum", SCALAR, SCALAR), [0.0, 1.0], [np.inf, 0.5])
    assert y == 0.5


# ---- points where the simplest formula gives NaN ---------------------------------------------------


def derivatives(text: str, point: list[Any], tangents: list[Any]) -> Any:
    """The tangent of the program's only result, for these tangents of its operands."""
    return run(load(text).jvp(), [*map(np.asarray, point), *map(np.asarray, tangents)])[1]


POWER = [  # x, y, and the derivatives of x^y toward x and y
    (0.0, 0.0, 0.0, 0.0),
    (0.0, -1.5, -np.inf, -np.inf),
    (0.0, 0.5, np.inf, 0.0),
    (0.0, 1.0, 1.0, 0.0),
    (0.0, 2.0, 0.0, 0.0),
    (0.0, 3.0, 0.0, 0.0),
    (2.0, 0.0, 0.0, np.log(2)),
    (-2.0, 0.0, 0.0, np.nan),
    (-2.0, 3.0, 12.0, np.nan),
    (-2.0, -1.0, -0.25, np.nan),
    (1.0, -2.0, -2.0, 0.0),
]


@pytest.mark.parametrize(("x", "y", "dx", "dy"), POWER)
def test_power(x: float, y: float, dx: float, dy: float) -> None:
    for wrt, expected in enumerate((dx, dy)):
        p = load(program("power", SCALAR, SCALAR)).jvp(wrt)
        np.testing.assert_allclose(run(p, [np.array(x), np.array(y), np.array(1.0)])[1], expected)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2])
@pytest.mark.parametrize("x", [0.0, -1.5, 2.0])
def test_power_of_constant_exponent(exponent: int, x: float) -> None:
    """The derivatives of x^n with a constant integer exponent n are right up to order three."""
    if x == 0 and exponent < 0:
        return
    text = f"""
    func.func @main(%x: {SCALAR}) -> {SCALAR} {{
      %n = stablehlo.constant dense<{exponent}.0> : {SCALAR}
      %y = stablehlo.power %x, %n : {SCALAR}
      return %y : {SCALAR}
    }}"""
    p, expected = load(text), np.polynomial.Polynomial([0] * exponent + [1]) if exponent >= 0 else None
    for order in (1, 2, 3):
        p = p.grad()
        if expected is not None:
            expected = expected.deriv()
            value = expected(x)
        else:
            value = np.prod([exponent - i for i in range(order)]) * x ** (exponent - order)
        np.testing.assert_allclose(run(p, [np.array(x)])[0], value, atol=1e-12)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4])
def test_power_of_zero_to_order_three(exponent: int) -> None:
    """The derivatives of x^n at x = 0, up to order three, are right if the exponent n is known only at run time.

    No zero factor is multiplied by an infinite factor.
    """
    p, expected = load(program("power", SCALAR, SCALAR)), np.polynomial.Polynomial([0] * exponent + [1])
    for _ in range(3):
        p, expected = p.grad(0), expected.deriv()
        assert run(p, [np.array(0.0), np.array(float(exponent))])[0] == expected(0.0)


@pytest.mark.parametrize(("y", "expected"), [(0, 0), (1, 1), (2, 0), (3, 0)])
def test_power_of_complex_zero(y: complex, expected: complex) -> None:
    point = [np.array(0j), np.array(complex(y)), np.array(1 + 2j)]
    text = program("power", *["tensor<complex<f64>>"] * 2)
    assert run(load(text).jvp(0), point)[1] == expected * (1 + 2j)


def test_power_mixed_derivative_at_exponent_zero() -> None:
    """The mixed derivative of x^y, x^(y - 1) (1 + y log x), is 1 / x at y = 0."""
    p = load(program("power", SCALAR, SCALAR)).grad(0).grad(1)
    np.testing.assert_allclose(run(p, [np.array(4.0), np.array(0.0)])[0], 0.25)


EXTREME = {  # op: x, derivative at x
    "cbrt": (1e-300, 1e200 / 3),
    "exponential_minus_one": (-40.0, np.exp(-40.0)),
    "log": (1e-308, 1e308),
    "logistic": (-800.0, 0.0),
    "sqrt": (1e-308, 0.5e154),
    "tanh": (800.0, 0.0),
}


@pytest.mark.parametrize("op", EXTREME)
def test_extreme(op: str) -> None:
    x, expected = EXTREME[op]
    np.testing.assert_allclose(derivatives(program(op, SCALAR), [x], [1.0]), expected, rtol=1e-12)


# ---- inactive, refused, low precision ----------------------------------------------------------------------

STEPS = ["ceil", "floor", "round_nearest_afz", "round_nearest_even", "sign"]


@pytest.mark.parametrize("op", STEPS)
def test_steps_have_derivative_zero(op: str) -> None:
    check_rule(program(op, REAL), np.array([-1.3, 0.7, 2.1]))


ROWS: list[tuple[str, int]] = [(op, 1) for op in UNARY] + [(op, 2) for op in BINARY] + [("clamp", 3)]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("element", ["bf16", "f16", "f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize(("op", "count"), ROWS)
def test_low_precision_transforms(op: str, count: int, element: str) -> None:
    p = load(program(op, *[f"tensor<3x{element}>"] * count))
    for q in (p.jvp(), p.vjp(), p.jvp().vjp()):
        assert parse(str(q)).operation.verify()


POINTS = {**{op: (x,) for op, x in UNARY.items()}, **BINARY, "clamp": ([-1.0] * 3, [0.5] * 3, [2.0] * 3)}


def tangents(element: str, arguments: list[Any], dx: list[Any]) -> list[Any]:
    """The tangents of all ops in POINTS, converted to f64. One program computes all of them in this element type."""
    t, names = f"tensor<3x{element}>", iter(f"%x{i}" for i in range(len(arguments)))
    lines = [
        f'%y{i} = "stablehlo.{op}"({", ".join(next(names) for _ in point)}) : ({", ".join([t] * len(point))}) -> {t}'
        for i, (op, point) in enumerate(POINTS.items())
    ]
    results = [f"%y{i}" for i in range(len(lines))]
    text = f"""
    func.func @main({", ".join(f"%x{i}: {t}" for i in range(len(arguments)))}) -> ({", ".join([t] * len(lines))}) {{
      {chr(10).join(lines)}
      return {", ".join(results)} : {", ".join([t] * len(lines))}
    }}"""
    values = by_xla(str(load(text).jvp()), [*arguments, *dx])
    return [np.asarray(y).astype(np.float64) for y in values[len(lines) :]]


@pytest.mark.parametrize(
    ("element", "name"),
    [("bf16", "bfloat16"), ("f16", "float16"), ("f8E4M3FN", "float8_e4m3fn"), ("f8E5M2", "float8_e5m2")],
)
def test_low_precision_computes(element: str, name: str) -> None:
    """In low-precision types, the tangents that XLA computes equal those in f64 up to the resolution of the type."""
    dtype, rng = np.dtype(getattr(ml_dtypes, name, name)), np.random.default_rng(5)
    arguments = [np.array(x).astype(dtype) for point in POINTS.values() for x in point]
    dx = [rng.uniform(0.5, 1, 3).astype(dtype) for _ in arguments]
    exact = tangents("f64", *([v.astype(np.float64) for v in some] for some in (arguments, dx)))
    tolerance = 3 * float(ml_dtypes.finfo(dtype).eps)
    for op, low, expected in zip(POINTS, tangents(element, arguments, dx), exact, strict=True):
        np.testing.assert_allclose(low, expected, rtol=tolerance, atol=tolerance, err_msg=op)


Function = Callable[..., Any]
FUNCTIONS: dict[str, Function] = {
    "atan2": lax.atan2,
    "power": lax.pow,
    "tan": lax.tan,
    "logistic": lax.logistic,
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_as_jax(op: str) -> None:
    points = [np.array(v) for v in BINARY[op]] if op in BINARY else [np.array(UNARY[op])]
    check_rule(program(op, *[REAL] * len(points)), *points, order=1, jax_function=FUNCTIONS[op])
