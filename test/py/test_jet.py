"""Compares Taylor coefficients (jets) with formulas, and tests costs, control flow, custom derivatives and errors.

`test/sweep/jet_rules.py` compares the jets of all programs in the tests of rules with nested JVPs. This file compares a
sample of them.
"""

from collections import Counter
from collections.abc import Callable
from math import factorial, pi, prod
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import F64
from numpy.polynomial import hermite
from scipy import special

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.loading import load
from tiduc.passes.jets.series import Series
from tiduc.program import Program

ORDER = 20
X = np.array(0.3)


def function(*lines: str, result: str = "%y") -> Program:
    """A program with a function of the scalar %x. `lines` are its ops."""
    body = "\n".join(f"  {line}" for line in lines)
    return load(f"func.func @main(%x: {F64}) -> {F64} {{\n{body}\n  return {result} : {F64}\n}}")


def stablehlo(op: str, result: str = "y", operands: str = "%x") -> str:
    return f"%{result} = stablehlo.{op} {operands} : {F64}"


def constant(value: float) -> str:
    return f"%c = stablehlo.constant dense<{float(value)}> : {F64}"


def coefficients(p: Program, x: float, order: int) -> list[float]:
    """The Taylor coefficients of a program at x, of the orders 0 to `order`."""
    values = run(p.derivatives(order), [np.array(float(x))])
    return [float(y) / factorial(k) for k, y in enumerate(values)]


def count(p: Program) -> int:
    """The number of StableHLO ops of a lowered program."""
    return str(p).count(" = stablehlo.")


# ---- closed forms ------------------------------------------------------------------------------------------


def tangent_coefficients(x: float) -> list[float]:
    """The Taylor coefficients of y = tan x, computed from y' = 1 + y^2."""
    y = [np.tan(x)]
    for k in range(ORDER):
        y.append((float(k == 0) + sum(y[i] * y[k - i] for i in range(k + 1))) / (k + 1))
    return y


def erf_coefficients(x: float) -> list[float]:
    """The Taylor coefficients of erf. The derivatives of exp(-x^2) are Hermite polynomials times exp(-x^2)."""
    slopes = [(-1) ** k * hermite.hermval(x, [0] * k + [1]) * np.exp(-(x**2)) for k in range(ORDER)]
    higher = [2 / np.sqrt(pi) * slope / factorial(k + 1) for k, slope in enumerate(slopes)]
    return [float(special.erf(x)), *higher]


def lgamma_coefficients(x: float) -> list[float]:
    """The Taylor coefficients of lgamma, whose k-th derivative is (-1)^k (k - 1)! zeta(k, x) for k > 1."""
    higher = [(-1) ** k * special.zeta(k, x) / k for k in range(2, ORDER + 1)]
    return [float(special.gammaln(x)), float(special.digamma(x)), *higher]


def power_coefficients(p: float) -> Callable[[float], list[float]]:
    """A function from x to the Taylor coefficients of x^p, by the binomial series."""
    binomials = [prod((p - i) / (i + 1) for i in range(k)) for k in range(ORDER + 1)]
    return lambda x: [binomial * x ** (p - k) for k, binomial in enumerate(binomials)]


CLOSED: dict[str, tuple[list[str], float, Callable[[float], list[float]]]] = {
    "exp": ([stablehlo("exponential")], 0.7, lambda x: [np.exp(x) / factorial(k) for k in range(ORDER + 1)]),
    "sin": (
        [stablehlo("sine")],
        0.7,
        lambda x: [np.sin(x + k * pi / 2) / factorial(k) for k in range(ORDER + 1)],
    ),
    "log": (
        [stablehlo("log")],
        0.7,
        lambda x: [np.log(x), *((-1) ** (k + 1) / (k * x**k) for k in range(1, ORDER + 1))],
    ),
    "1/(1-x)": (
        [constant(1), stablehlo("subtract", "d", "%c, %x"), stablehlo("divide", operands="%c, %d")],
        0.3,
        lambda x: [(1 - x) ** -(k + 1) for k in range(ORDER + 1)],
    ),
    "x^2.5": ([constant(2.5), stablehlo("power", operands="%x, %c")], 0.7, power_coefficients(2.5)),
    "x^-3": ([constant(-3), stablehlo("power", operands="%x, %c")], 0.7, power_coefficients(-3)),
    "x^7": ([constant(7), stablehlo("power", operands="%x, %c")], 0.7, power_coefficients(7)),
    "sqrt": ([stablehlo("sqrt")], 0.7, power_coefficients(0.5)),
    "rsqrt": ([stablehlo("rsqrt")], 0.7, power_coefficients(-0.5)),
    "tan": ([stablehlo("tan")], 0.7, tangent_coefficients),
    "erf": ([f"%y = chlo.erf %x : {F64} -> {F64}"], 0.7, erf_coefficients),
    "lgamma": ([f"%y = chlo.lgamma %x : {F64} -> {F64}"], 1.7, lgamma_coefficients),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name: str) -> None:
    lines, x, expected = CLOSED[name]
    found = coefficients(function(*lines), x, ORDER)
    np.testing.assert_allclose(found, expected(x), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(("p", "expected"), [(2.5, [0, 0, 0]), (3, [0, 0, 0, 1, 0]), (2, [0, 0, 1, 0])])
def test_powers_at_zero(p: float, expected: list[float]) -> None:
    found = coefficients(function(constant(p), stablehlo("power", operands="%x, %c")), 0, len(expected) - 1)
    assert found == expected


POWER = f"""
func.func @main(%x: {F64}, %p: {F64}) -> {F64} {{
  %y = stablehlo.power %x, %p : {F64}
  return %y : {F64}
}}
"""


def test_a_power_with_two_series() -> None:
    """If x and p are series, the jet of x^p equals that of exp(p log x). It takes a quadratic number of ops."""
    text = f"""
    func.func @main(%x: {F64}, %p: {F64}) -> {F64} {{
      %0 = stablehlo.log %x : {F64}
      %1 = stablehlo.multiply %p, %0 : {F64}
      %2 = stablehlo.exponential %1 : {F64}
      return %2 : {F64}
    }}
    """
    rng = np.random.default_rng(0)
    point = [np.array(0.7), np.array(0.4), rng.standard_normal(6), rng.standard_normal(6)]
    compare(run(load(POWER).jet(6), point), run(load(text).jet(6), point), 1e-12)
    cotangents = [np.array(0.3), rng.standard_normal(6)]
    found, expected = (run(p.jet(6).vjp(), [*point, *cotangents]) for p in (load(POWER), load(text)))
    compare(found, expected, 1e-11)
    ops = {order: count(load(POWER).jet(order)) for order in (8, 16)}
    assert ops[16] <= 4 * ops[8]


@pytest.mark.parametrize(("p", "expected"), [(3.5, [0, 0, 0]), (2, [0, 4]), (1, [2]), (0, [0])])
def test_a_power_with_two_series_at_zero(p: float, expected: list[float]) -> None:
    """The jet of x^p at x = 2 t has the coefficients of (2 t)^p up to order p. Higher coefficients are NaN."""
    series = [np.array([2.0, 0.0, 0.0]), np.array([0.5, 0.0, 0.0])]
    _, found = run(load(POWER).jet(3), [np.array(0.0), np.array(float(p)), *series])
    np.testing.assert_array_equal(found, [*expected, *[np.nan] * (3 - len(expected))])


# ---- costs -------------------------------------------------------------------------------------------------

CHAIN = (
    stablehlo("sine", "a"),
    stablehlo("exponential", "b", "%a"),
    stablehlo("multiply", "c", "%b, %x"),
    stablehlo("log_plus_one", "d", "%c"),
    stablehlo("tanh", "e", "%d"),
    stablehlo("add", operands="%e, %x"),
)


def test_a_chain_of_six_ops_equals_nested_gradients() -> None:
    nested = [function(*CHAIN)]
    for _ in range(5):
        nested.append(nested[-1].grad())
    expected = [float(run(p, [np.array(0.4)])[0]) for p in nested]
    found = [float(y) for y in run(nested[0].derivatives(5), [np.array(0.4)])]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_cost_of_a_chain_is_quadratic_in_the_order() -> None:
    p = function(*CHAIN)
    ops = {order: count(p.jet(order)) for order in (8, 16, 30)}
    assert ops[8] <= 1_000
    assert ops[16] <= 4 * ops[8]
    assert ops[30] <= 4 * (30 / 16) ** 2 / 4 * ops[16] * 1.1


@pytest.mark.parametrize("depth", [1_500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_deep_chain(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jet of a deep chain of ops visits each op a fixed number of times, and does not recurse over the ops."""
    visits = Counter[int]()
    is_known = Series._is_known
    for size in (depth, 2 * depth):
        lines, x = [], "%x"
        for i in range(size):
            lines.append(stablehlo("sine" if i % 10 == 0 else "negate", f"v{i}", x))
            x = f"%v{i}"
        p = function(*lines, result=x)
        monkeypatch.setattr(
            Series, "_is_known", lambda *given, n=size: [visits.update((n,)), is_known(*given)][1]
        )
        p.jet(2)
    assert depth < visits[2 * depth] <= 2.1 * visits[depth]


# ---- linear algebra, complex numbers -----------------------------------------------------------------------


def test_a_rule_whose_result_multiplies_two_tangents() -> None:
    """The jet of a Cholesky factor L of A is right: the series of L L^H equals that of A. In L' = L phi(L^-1 A' L^-H),
    both factors of the product depend on the variable of the series.
    """
    text = """
    func.func @main(%a: tensor<2x2xcomplex<f64>>) -> tensor<2x2xcomplex<f64>> {
      %0 = stablehlo.cholesky %a, lower = true : tensor<2x2xcomplex<f64>>
      return %0 : tensor<2x2xcomplex<f64>>
    }
    """
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2))
    a = root @ root.conj().T + 2 * np.eye(2)
    more = rng.standard_normal((4, 2, 2)) + 1j * rng.standard_normal((4, 2, 2))
    more += more.conj().swapaxes(1, 2)
    y, series = run(load(text).jet(4), [a, more])
    factors = [y, *series]
    for k, expected in enumerate([a, *more]):
        product = sum(factors[i] @ factors[k - i].conj().T for i in range(k + 1))
        compare([np.asarray(product)], [expected], 1e-12)


def test_a_solve_is_one_solve_an_order() -> None:
    text = """
    func.func @main(%a: tensor<3x3xf64>, %y: tensor<3x1xf64>) -> tensor<3x1xf64> {
      %0 = "stablehlo.triangular_solve"(%a, %y) {left_side = true, lower = true, unit_diagonal = false,
        transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<3x3xf64>, tensor<3x1xf64>) -> tensor<3x1xf64>
      return %0 : tensor<3x1xf64>
    }
    """
    p = load(text).jet(4)
    assert str(p).count("triangular_solve") == 5
    rng = np.random.default_rng(0)
    a, y = np.tril(rng.standard_normal((5, 3, 3))) + 3 * np.eye(3), rng.standard_normal((5, 3, 1))
    x, series = run(p, [a[0], y[0], a[1:], y[1:]])
    xs = [x, *series]
    for k in range(5):
        compare([np.asarray(sum(a[i] @ xs[k - i] for i in range(k + 1)))], [y[k]], 1e-12)


# ---- control flow ------------------------------------------------------------------------------------------

NEWTON = f"""
func.func @main(%x: {F64}) -> {F64} {{
  %tiny = stablehlo.constant dense<1.0e-30> : {F64}
  %half = stablehlo.constant dense<0.5> : {F64}
  %0:2 = stablehlo.while(%y = %x, %gap = %x) : {F64}, {F64}
    cond {{
      %1 = stablehlo.compare GT, %gap, %tiny : ({F64}, {F64}) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }} do {{
      %1 = stablehlo.divide %x, %y : {F64}
      %2 = stablehlo.add %y, %1 : {F64}
      %3 = stablehlo.multiply %2, %half : {F64}
      %4 = stablehlo.subtract %y, %3 : {F64}
      %5 = stablehlo.multiply %4, %4 : {F64}
      stablehlo.return %3, %5 : {F64}, {F64}
    }}
  return %0#0 : {F64}
}}
"""


def test_newtons_square_root() -> None:
    found = coefficients(load(NEWTON), 2.0, 5)
    np.testing.assert_allclose(found, power_coefficients(0.5)(2.0)[:6], rtol=1e-12)


CALLS = f"""
func.func @main(%x: {F64}, %i: tensor<i32>) -> {F64} {{
  %0 = func.call @f(%x) : ({F64}) -> {F64}
  %1 = func.call @f(%0) : ({F64}) -> {F64}
  %2 = "stablehlo.case"(%i) ({{
    %3 = stablehlo.multiply %1, %x : {F64}
    stablehlo.return %3 : {F64}
  }}, {{
    %3 = stablehlo.exponential %1 : {F64}
    stablehlo.return %3 : {F64}
  }}) : (tensor<i32>) -> {F64}
  return %2 : {F64}
}}
func.func private @f(%x: {F64}) -> {F64} attributes {{no_inline}} {{
  %0 = stablehlo.sine %x : {F64}
  return %0 : {F64}
}}
"""


@pytest.mark.parametrize("branch", [0, 1])
def test_calls_and_branches(branch: int) -> None:
    lines = [stablehlo("sine", "a"), stablehlo("sine", "b", "%a")]
    last = stablehlo("exponential", operands="%b") if branch else stablehlo("multiply", operands="%b, %x")
    expected = run(function(*lines, last).derivatives(4), [np.array(0.3)])
    program = load(CALLS).derivatives(4, "arg0")
    compare(run(program, [np.array(0.3), np.array(branch, np.int32)]), expected, 1e-12)


def test_a_function_is_propagated_once_for_all_its_calls() -> None:
    p = load(CALLS)
    before = set(p.view.graphs)
    p.jet(3, "arg0")
    made = [name for name in p.view.graphs if name not in before and name.startswith("f.jet")]
    assert len(made) == 1


OWN = f"""
func.func @main(%x: {F64}) -> {F64} {{
  %0 = func.call @f(%x) : ({F64}) -> {F64}
  return %0 : {F64}
}}
func.func private @f(%x: {F64}) -> {F64} attributes {{tidu.DERIVATIVE = @g}} {{
  %0 = stablehlo.sine %x : {F64}
  return %0 : {F64}
}}
"""
JVP = f"""
func.func private @g(%x: {F64}, %dx: {F64}) -> ({F64}, {F64}) {{
  %0 = stablehlo.sine %x : {F64}
  %1 = stablehlo.exponential %x : {F64}
  %2 = stablehlo.multiply %1, %dx : {F64}
  return %0, %2 : {F64}, {F64}
}}
"""
VJP = f"""
func.func private @g(%x: {F64}, %ct: {F64}) -> {F64} {{
  return %ct : {F64}
}}
"""


def test_an_own_jvp_is_used() -> None:
    """A jet uses a custom JVP: if it says that the derivative of a sine is exp, so are all higher derivatives."""
    found = run(load(OWN.replace("DERIVATIVE", "jvp") + JVP).derivatives(6), [np.array(0.3)])
    np.testing.assert_allclose(found, [np.sin(0.3), *[np.exp(0.3)] * 6], rtol=1e-12)


TUPLES = f"""
func.func @main(%x: {F64}) -> {F64} {{
  %0 = stablehlo.sine %x : {F64}
  %1 = stablehlo.tuple %0, %x : tuple<{F64}, {F64}>
  %2 = stablehlo.tuple %x, %1 : tuple<{F64}, tuple<{F64}, {F64}>>
  %3 = stablehlo.get_tuple_element %2[1] : (tuple<{F64}, tuple<{F64}, {F64}>>) -> tuple<{F64}, {F64}>
  %4 = stablehlo.get_tuple_element %3[0] : (tuple<{F64}, {F64}>) -> {F64}
  %5 = stablehlo.get_tuple_element %1[1] : (tuple<{F64}, {F64}>) -> {F64}
  %y = stablehlo.multiply %4, %5 : {F64}
  return %y : {F64}
}}
"""


def test_parts_of_tuples() -> None:
    expected = run(
        function(stablehlo("sine", "a"), stablehlo("multiply", operands="%a, %x")).derivatives(4), [X]
    )
    program = load(TUPLES).derivatives(4)
    compare(run(program, [X]), expected, 1e-14)
    assert "tuple" not in program.text


# ---- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
def test_an_own_vjp_is_refused(order: int) -> None:
    with pytest.raises(Unsupported, match="defines its derivative as the VJP @g"):
        load(OWN.replace("DERIVATIVE", "vjp") + VJP).jet(order)


@pytest.mark.parametrize("order", [1, 3])
def test_an_op_without_a_rule_is_refused_by_name(order: int) -> None:
    p = function(f"%y = stablehlo.custom_call @mine(%x) : ({F64}) -> {F64}")
    with pytest.raises(Unsupported, match="stablehlo.custom_call: unknown call target: mine"):
        p.jet(order)


def test_an_order_that_is_too_high_is_refused() -> None:
    with pytest.raises(RequestError, match="order must be an integer from 1 to 100, not 101"):
        function(stablehlo("sine")).jet(101)


def test_values_of_one_view_share_graphs() -> None:
    """Jets of order 1 and 3 of one program, which share its graphs, agree on the first coefficient."""
    p: Any = load(CALLS)
    one, three = p.jet(1, "arg0"), p.jet(3, "arg0")
    x, i, c = np.array(0.3), np.array(0, np.int32), np.array([1.0, 0.5, -2.0])
    compare([run(three, [x, i, c])[1][:1]], [run(one, [x, i, c[:1]])[1]], 1e-14)
