"""Derivatives of elementwise functions, compared with mpmath as in test/sweep/elementwise_accuracy.py, but at fewer
points.
"""

from typing import Any

import numpy as np
import pytest
from elementwise_accuracy import FUNCTIONS, by_reference

from tiduc.backends.reference.interpreter import evaluate
from tiduc.loading import load


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_a_few_roundings(name: str, dtype: Any) -> None:
    for order, worst in enumerate(by_reference(name, dtype, 12), 1):
        assert worst.units <= FUNCTIONS[name].bar, f"order {order}: {worst}"


DERIVATIVES = [
    ("f32", "chlo.asin %x : T -> T", 2, [1e-7, -1e-8, 1e-30], lambda x: x),
    ("f32", "chlo.acos %x : T -> T", 2, [1e-7, 1e-8], lambda x: -x),
    ("f32", "chlo.atanh %x : T -> T", 2, [1e-7, 1e-8], lambda x: 2 * x),
    ("f64", "chlo.asin %x : T -> T", 2, [1e-15, 1e-100], lambda x: x),
    ("f32", "chlo.asinh %x : T -> T", 1, [1e30, -1e36], lambda x: 1 / abs(x)),
    ("f64", "chlo.asinh %x : T -> T", 1, [1e200, -1e300], lambda x: 1 / abs(x)),
    ("f32", "chlo.digamma %x : T -> T", 1, [1e30], lambda x: 1 / x),
    ("f64", "chlo.digamma %x : T -> T", 1, [1e200], lambda x: 1 / x),
    ("f32", "chlo.lgamma %x : T -> T", 2, [1e30], lambda x: 1 / x),
    ("f32", "chlo.bessel_i1e %x : T -> T", 2, [1e-20, -1e-6], lambda x: -np.sign(x)),
]


@pytest.mark.parametrize(("dtype", "op", "order", "points", "expected"), DERIVATIVES)
def test_numbers_at_the_ends_of_the_range(
    dtype: str, op: str, order: int, points: list[float], expected: Any
) -> None:
    x = np.array(points, np.float32 if dtype == "f32" else np.float64)
    t = f"tensor<{len(x)}x{dtype}>"
    program = load(f"""
    func.func @main(%x: {t}) -> {t} {{
      %y = {op.replace("T", t)}
      return %y : {t}
    }}""").jvp()
    derived = program if order == 1 else program.jvp([0])
    actual = evaluate(str(derived), [x] + [np.ones_like(x)] * order)[-1]
    wide = x.astype(np.float64)
    np.testing.assert_allclose(actual, expected(wide), rtol=4e-6)


TAILS = {
    "logistic": (
        """%z = stablehlo.logistic %below : T
           %s = stablehlo.subtract %one, %z : T
           %y = stablehlo.select %is_negative, %z, %s : (P, T, T) -> T""",
        lambda e: e / (1 + e) ** 2,
        lambda x, e: -np.sign(x) * e * (1 - e) / (1 + e) ** 3,
    ),
    "tanh": (
        """%twice = stablehlo.add %below, %below : T
           %m = stablehlo.exponential_minus_one %twice : T
           %two = stablehlo.add %one, %one : T
           %sum = stablehlo.add %two, %m : T
           %z = stablehlo.divide %m, %sum : T
           %s = stablehlo.negate %z : T
           %y = stablehlo.select %is_negative, %z, %s : (P, T, T) -> T""",
        lambda e: 4 * e**2 / (1 + e**2) ** 2,
        lambda x, e: -np.sign(x) * 8 * e**2 * (1 - e**2) / (1 + e**2) ** 3,
    ),
}


@pytest.mark.parametrize("name", TAILS)
def test_tails_of_functions_of_minus_the_size_of_x(name: str) -> None:
    """The formulas for `logistic` and `tanh` that docs/conventions.md recommends have accurate slopes in both tails."""
    body, slope, second = TAILS[name]
    x = np.array([-40, -30, -5, -0.5, 0, 0.5, 5, 30, 40], np.float32)
    program = load(
        f"""
    func.func @main(%x: T) -> T {{
      %one = stablehlo.constant dense<1.0> : T
      %zero = stablehlo.constant dense<0.0> : T
      %is_negative = stablehlo.compare LT, %x, %zero : (T, T) -> P
      %size = stablehlo.abs %x : T
      %below = stablehlo.negate %size : T
      {body}
      return %y : T
    }}""".replace("T", "tensor<9xf32>")
        .replace("P", "tensor<9xi1>")
        .replace("Ltensor<9xf32>", "LT")
    ).jvp()
    e = np.exp(-np.abs(x.astype(np.float64)))
    found = evaluate(str(program), [x, np.ones_like(x)])[-1]
    np.testing.assert_allclose(found, slope(e), rtol=1e-5)
    found = evaluate(str(program.jvp([0])), [x, np.ones_like(x), np.ones_like(x)])[-1]
    np.testing.assert_allclose(found, second(x, e), rtol=2e-5, atol=1e-8)


@pytest.mark.parametrize(("dtype", "sizes"), [("f32", [1e30, 3, 1e-30]), ("f64", [1e200, 3, 1e-200])])
def test_atan2_of_large_and_small_numbers(dtype: str, sizes: list[float]) -> None:
    """The derivative of atan2 is accurate for numbers whose squares overflow or underflow."""
    x = np.array(sizes, np.float32 if dtype == "f32" else np.float64)
    t, one = f"tensor<3x{dtype}>", np.ones_like(x)
    program = load(f"""
    func.func @main(%x: {t}, %y: {t}) -> {t} {{
      %z = stablehlo.atan2 %x, %y : {t}
      return %z : {t}
    }}""")
    dx, dy = evaluate(str(program.vjp()), [x, 2 * x, one])[1:]
    np.testing.assert_allclose(dx, 2 / (5 * x), rtol=1e-6)
    np.testing.assert_allclose(dy, -1 / (5 * x), rtol=1e-6)
    slope = evaluate(str(program.jvp([0])), [x, 2 * x, one])[1]
    np.testing.assert_allclose(slope, 2 / (5 * x), rtol=1e-6)
