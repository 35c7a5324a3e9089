"""Compares the derivatives of small functions with formulas, in every mode, to order three and higher.

The lit tests check the IR of the same functions.

A mode is a word of the letters F (jvp) and R (vjp), innermost first: "RF" is forward over reverse. Each step
differentiates the last output of the previous step. F uses a tangent of ones. R uses a cotangent of ones for that
output, and zeros for the other outputs. After n steps, the last output is the n-th derivative in any mode.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from numpy.typing import NDArray

from tiduc.loading import load
from tiduc.program import Program

Array = NDArray[Any]
E = np.exp


def function(inputs: str, body: str, output: str) -> str:
    """The text of a function. `inputs` has names and a type, as in "a x: tensor<f64>"; `{t}` in `body` is that type."""
    names, _, type_ = inputs.partition(": ")
    arguments = ", ".join(f'%{name}: {type_} {{tidu.name = "{name}"}}' for name in names.split())
    lines = "\n  ".join(line.strip() for line in body.replace("{t}", type_).strip().splitlines())
    value, _, result = output.partition(": ")
    return f"func.func @main({arguments}) -> {result} {{\n  {lines}\n  return {value} : {result}\n}}\n"


F64, V, C = "tensor<f64>", "tensor<2xf64>", "tensor<complex<f64>>"
ADD = function(f"x: {F64}", "%0 = stablehlo.add %x, %x : {t}", f"%0: {F64}")
MUL = function(f"x y: {F64}", "%0 = stablehlo.multiply %x, %y : {t}", f"%0: {F64}")
MUL_COMPLEX = function(f"c z: {C}", "%0 = stablehlo.multiply %c, %z : {t}", f"%0: {C}")
SQUARE = function(f"x: {F64}", "%0 = stablehlo.multiply %x, %x : {t}", f"%0: {F64}")
CUBE = function(
    f"x: {F64}",
    """%0 = stablehlo.multiply %x, %x : {t}
    %1 = stablehlo.multiply %0, %x : {t}""",
    f"%1: {F64}",
)
FOURTH = function(
    f"x: {F64}",
    """%0 = stablehlo.multiply %x, %x : {t}
    %1 = stablehlo.multiply %0, %0 : {t}""",
    f"%1: {F64}",
)
EXP = function(
    f"a x: {F64}",
    """%0 = stablehlo.multiply %a, %x : {t}
    %1 = stablehlo.exponential %0 : {t}""",
    f"%1: {F64}",
)
EXP_VECTOR = EXP.replace(F64, V)
SUM_EXP = function(
    f"a x: {V}",
    """%0 = stablehlo.multiply %a, %x : {t}
    %1 = stablehlo.exponential %0 : {t}
    %2 = stablehlo.constant dense<0.0> : tensor<f64>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0] : ({t}, tensor<f64>) -> tensor<f64>""",  # noqa: E501
    f"%3: {F64}",
)
NORM = function(
    f"z: {C}",
    """%0 = stablehlo.real %z : ({t}) -> tensor<f64>
    %1 = stablehlo.imag %z : ({t}) -> tensor<f64>
    %2 = stablehlo.multiply %0, %0 : tensor<f64>
    %3 = stablehlo.multiply %1, %1 : tensor<f64>
    %4 = stablehlo.add %2, %3 : tensor<f64>""",
    f"%4: {F64}",
)


def modes(order: int) -> list[str]:
    """All modes of this order, as words of F and R."""
    return ["".join(letters) for letters in itertools.product("FR", repeat=order)]


def derivative(program: Program, mode: str, point: Sequence[Any], wrt: Sequence[str]) -> Array:
    """Differentiates by each letter of a mode, and returns the last output. Letter i is with respect to `wrt[i]`."""
    arguments = [np.asarray(x) for x in point]
    place = {port.name: i for i, port in enumerate(program.inputs)}
    for letter, name in zip(mode, wrt, strict=True):
        results = run(program, arguments)
        if letter == "F":
            program = program.jvp(name)
            arguments.append(np.ones_like(arguments[place[name]]))
        else:
            program = program.vjp(name)
            arguments += [*(np.zeros_like(y) for y in results[:-1]), np.ones_like(results[-1])]
    return run(program, arguments)[-1]


A, X = 0.7, 1.3
a, x = np.array([2.0, 3.0]), np.array([1.0, 2.0])
c, z = 2 + 1j, 1 + 2j

TABLE: list[tuple[str, str, Sequence[Any], str, Any]] = [
    # name, function, point, the input of each derivative, expected derivative
    ("x+x", ADD, (3.0,), "x", 2.0),
    ("x+x", ADD, (3.0,), "xx", 0.0),
    ("x+x", ADD, (3.0,), "xxx", 0.0),
    ("x*y", MUL, (2.0, 3.0), "x", 3.0),
    ("x*y", MUL, (2.0, 3.0), "y", 2.0),
    ("x*y", MUL, (2.0, 3.0), "xy", 1.0),
    ("x*y", MUL, (2.0, 3.0), "yx", 1.0),
    ("x*y", MUL, (2.0, 3.0), "xx", 0.0),
    ("x*y", MUL, (2.0, 3.0), "xyx", 0.0),
    ("c*z", MUL_COMPLEX, (c, z), "zz", 0.0),
    ("c*z", MUL_COMPLEX, (c, z), "zc", 1.0),
    ("c*z", MUL_COMPLEX, (c, z), "zcz", 0.0),
    ("x^2", SQUARE, (3.0,), "x", 6.0),
    ("x^2", SQUARE, (3.0,), "xx", 2.0),
    ("x^2", SQUARE, (3.0,), "xxx", 0.0),
    ("x^3", CUBE, (3.0,), "x", 27.0),
    ("x^3", CUBE, (3.0,), "xx", 18.0),
    ("x^3", CUBE, (3.0,), "xxx", 6.0),
    ("x^4", FOURTH, (1.5,), "xxx", 36.0),
    ("x^4", FOURTH, (1.5,), "xxxx", 24.0),
    ("exp(ax)", EXP, (A, X), "x", A * E(A * X)),
    ("exp(ax)", EXP, (A, X), "a", X * E(A * X)),
    ("exp(ax)", EXP, (A, X), "xx", A**2 * E(A * X)),
    ("exp(ax)", EXP, (A, X), "ax", (1 + A * X) * E(A * X)),
    ("exp(ax)", EXP, (A, X), "xxx", A**3 * E(A * X)),
    ("exp(ax)", EXP, (A, X), "axx", (2 * A + A**2 * X) * E(A * X)),
    ("exp(ax) of vectors", EXP_VECTOR, (a, x), "x", a * E(a * x)),
    ("exp(ax) of vectors", EXP_VECTOR, (a, x), "xx", a**2 * E(a * x)),
    ("exp(ax) of vectors", EXP_VECTOR, (a, x), "xxx", a**3 * E(a * x)),
    ("|z|^2", NORM, (z,), "zz", 2.0),
    ("|z|^2", NORM, (z,), "zzz", 0.0),
]
CASES = [
    pytest.param(text, mode, point, wrt, expected, id=f"{what}, {wrt}, {mode}")
    for what, text, point, wrt, expected in TABLE
    for mode in modes(len(wrt))
]


@pytest.mark.parametrize(("text", "mode", "point", "wrt", "expected"), CASES)
def test_derivative(text: str, mode: str, point: Sequence[Any], wrt: str, expected: Any) -> None:
    compare([derivative(load(text), mode, point, wrt)], [expected])


@pytest.mark.parametrize("mode", [mode for order in (1, 2, 3) for mode in modes(order)])
def test_sum_of_exponentials(mode: str) -> None:
    """Forward mode gives the sum of the derivatives of all terms; a mode with R gives the derivative of each term."""
    terms = a ** len(mode) * E(a * x)
    value = derivative(load(SUM_EXP), mode, (a, x), "x" * len(mode))
    compare([value], [terms if "R" in mode else terms.sum()])


# ---- values listed in the design ---------------------------------------------------------------------------


def test_x_plus_x_at_3() -> None:
    compare(run(load(ADD).jvp(), [3.0, 1.0]), [6, 2])


def test_x_times_y_at_2_3() -> None:
    compare(run(load(MUL).vjp(), [2.0, 3.0, 1.0]), [6, 3, 2])


@pytest.mark.parametrize("mode", modes(2))
def test_x_squared_twice(mode: str) -> None:
    compare([derivative(load(SQUARE), mode, (5.0,), "xx")], [2])


@pytest.mark.parametrize("mode", modes(2))
def test_exp_twice(mode: str) -> None:
    compare([derivative(load(EXP), mode, (2.0, 1.0), "xx")], [4 * E(2.0)])


def test_vector() -> None:
    compare(run(load(EXP_VECTOR).jvp("x"), [a, x, np.ones(2)])[1:], [[2 * E(2), 3 * E(6)]])
    compare(run(load(EXP_VECTOR).vjp("x"), [a, x, np.ones(2)])[1:], [[2 * E(2), 3 * E(6)]])


def test_sum_of_vector() -> None:
    p = load(SUM_EXP)
    compare(run(p.jvp("x"), [a, x, np.ones(2)])[1:], [2 * E(2) + 3 * E(6)])
    compare(run(p.vjp("x"), [a, x, np.array(2.0)])[1:], [[4 * E(2), 6 * E(6)]])
    compare(run(p.grad("x"), [a, x]), [[2 * E(2), 3 * E(6)]])
    v = np.array([0.5, -2.0])
    compare(run(p.hvp("x"), [a, x, v]), [a**2 * E(a * x) * v])


def test_complex_product() -> None:
    p, dz, ct = load(MUL_COMPLEX), 0.3 - 0.8j, 1.7 + 0.2j
    compare(run(p.jvp("z"), [c, z, dz])[1:], [c * dz])
    compare(run(p.vjp("z"), [c, z, 1 + 0j])[1:], [2 - 1j])
    compare(run(p.vjp("z"), [c, z, ct])[1:], [np.conj(c) * ct])
    compare(run(p.vjp("z", conjugate=True), [c, z, ct])[1:], [c * ct])
    compare(run(p.jvp("z").vjp("z.tangent"), [c, z, dz, 0j, ct])[-1:], [np.conj(c) * ct])
    compare(run(p.vjp("z").jvp(2), [c, z, ct, dz])[-1:], [np.conj(c) * dz])
    compare(run(p.vjp("z").vjp(2), [c, z, ct, 0j, dz])[-1:], [c * dz])


def test_squared_magnitude_at_1_2i() -> None:
    p = load(NORM)
    compare(run(p.vjp(), [z, 1.0]), [5, 2 + 4j])
    compare(run(p.grad(), [z]), [2 + 4j])
    compare(run(p.jvp(), [z, 1 + 0j])[1:], [2])
    compare(run(p.jvp(), [z, 1j])[1:], [4])
    compare(run(p.hvp(), [z, 0.3 - 0.8j]), [2 * (0.3 - 0.8j)])


def test_x_to_the_fourth_four_times() -> None:
    for mode in modes(4):
        compare([derivative(load(FOURTH), mode, (2.0,), "xxxx")], [24])
