"""Tests each convention of docs/conventions.md at a point where the derivative depends on it, and compares with JAX."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.errors import RequestError
from tiduc.loading import load
from tiduc.program import Program

pytestmark = pytest.mark.usefixtures("double_precision")


def program(body: str, *types: str, result: str) -> Program:
    """A program with the function `main`, which has the arguments %arg0, %arg1, ... and returns %y."""
    arguments = ", ".join(f"%arg{i}: tensor<{type_}>" for i, type_ in enumerate(types))
    return load(
        f"func.func @main({arguments}) -> tensor<{result}> {{\n{body}\n  return %y : tensor<{result}>\n}}"
    )


def run(p: Program, *arguments: Any) -> tuple[Any, ...]:
    return evaluate(str(p), [np.asarray(x) for x in arguments])


def unary(name: str, type_: str = "f64") -> Program:
    return program(f"  %y = {name} %arg0 : tensor<{type_}>", type_, result=type_)


def binary(name: str) -> Program:
    return program(f"  %y = {name} %arg0, %arg1 : tensor<f64>", "f64", "f64", result="f64")


KINKS: list[tuple[str, float, float, Callable[[Any], Any]]] = [
    ("stablehlo.abs", 0.0, 1.0, lax.abs),
    ("stablehlo.sign", 0.0, 0.0, lax.sign),
    ("stablehlo.floor", 1.0, 0.0, lax.floor),
    ("stablehlo.ceil", 1.0, 0.0, lax.ceil),
    ("stablehlo.round_nearest_even", 0.5, 0.0, lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    ("stablehlo.sqrt", 0.0, np.inf, lax.sqrt),
    ("stablehlo.cbrt", 0.0, np.inf, lax.cbrt),
    ("stablehlo.log", 0.0, np.inf, lax.log),
]


@pytest.mark.parametrize(("name", "x", "dy", "of_jax"), KINKS, ids=[row[0] for row in KINKS])
def test_kinks(name: str, x: float, dy: float, of_jax: Callable[[Any], Any]) -> None:
    assert run(unary(name).jvp(), x, 1.0)[1] == dy
    assert jax.jvp(of_jax, (x,), (1.0,))[1] == dy


TIES: list[tuple[str, float, float, float, float, Callable[[Any, Any], Any]]] = [
    ("stablehlo.maximum", 2.0, 2.0, 0.5, 0.5, lax.max),
    ("stablehlo.minimum", 2.0, 2.0, 0.5, 0.5, lax.min),
    ("stablehlo.power", 0.0, 2.0, 0.0, 0.0, lax.pow),
    ("stablehlo.remainder", 7.0, 2.0, 1.0, -3.0, lax.rem),
    ("stablehlo.remainder", -7.0, 2.0, 1.0, 3.0, lax.rem),
]


@pytest.mark.parametrize(("name", "x", "y", "to_x", "to_y", "of_jax"), TIES)
def test_ties(
    name: str, x: float, y: float, to_x: float, to_y: float, of_jax: Callable[[Any, Any], Any]
) -> None:
    assert run(binary(name).vjp(), x, y, 1.0)[1:] == (to_x, to_y)
    assert jax.grad(of_jax, (0, 1))(x, y) == (to_x, to_y)


def test_zero_to_the_power_of_zero() -> None:
    assert run(binary("stablehlo.power").vjp(), 0.0, 0.0, 1.0)[1:] == (0, 0)
    assert np.isnan(jax.grad(lax.pow)(0.0, 0.0))  # the only point where tiduc and JAX differ


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ((0.0, 1.0, 2.0), (0.0, 1.0, 0.0)),
        ((0.0, -1.0, 2.0), (1.0, 0.0, 0.0)),
        ((0.0, 3.0, 2.0), (0.0, 0.0, 1.0)),
        ((0.0, 0.0, 2.0), (0.5, 0.5, 0.0)),
        ((0.0, 2.0, 2.0), (0.0, 0.5, 0.5)),
        ((0.0, 0.0, 0.0), (0.25, 0.25, 0.5)),
    ],
)
def test_clamp(point: tuple[float, ...], expected: tuple[float, ...]) -> None:
    body = "  %y = stablehlo.clamp %arg0, %arg1, %arg2 : tensor<f64>"
    p = program(body, "f64", "f64", "f64", result="f64")
    assert run(p.vjp(), *point, 1.0)[1:] == expected
    tied = point[1] in (point[0], point[2])  # if the operand equals a bound, JAX's three derivatives are zero
    assert jax.grad(lax.clamp, (0, 1, 2))(*point) == ((0.0, 0.0, 0.0) if tied else expected)


REDUCE = """
  %c = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %y = stablehlo.reduce(%arg0 init: %c) applies stablehlo.maximum across dimensions = [0]
    : (tensor<4xf64>, tensor<f64>) -> tensor<f64>"""
WINDOW = """
  %c = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %y = "stablehlo.reduce_window"(%arg0, %c) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %m = stablehlo.maximum %a, %b : tensor<f64>
    stablehlo.return %m : tensor<f64>
  }) {window_dimensions = array<i64: 4>} : (tensor<4xf64>, tensor<f64>) -> tensor<1xf64>"""


def test_a_maximum_over_dimensions_shares_evenly() -> None:
    p = program(REDUCE, "4xf64", result="f64")
    assert list(run(p.vjp(), [1.0, 3.0, 2.0, 3.0], 1.0)[1]) == [0, 0.5, 0, 0.5]


def test_a_maximum_over_windows_takes_the_first() -> None:
    p = program(WINDOW, "4xf64", result="1xf64")
    assert list(run(p.vjp(), [1.0, 3.0, 2.0, 3.0], [1.0])[1]) == [0, 1, 0, 0]


def test_gather_clamps_and_scatter_drops() -> None:
    gather = """
  %y = "stablehlo.gather"(%arg0, %arg1) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}
    : (tensor<3xf64>, tensor<2x1xi64>) -> tensor<2xf64>"""
    p = program(gather, "3xf64", "2x1xi64", result="2xf64")
    indices = np.array([[-5], [9]])
    assert list(run(p.vjp(), [1.0, 2.0, 3.0], indices, [10.0, 20.0])[1]) == [10, 0, 20]
    p = program(scatter("%b"), "3xf64", "2x1xi64", "2xf64", result="3xf64")
    _, to_x, to_updates = run(p.vjp(), np.zeros(3), np.array([[1], [9]]), np.ones(2), [1.0, 2.0, 3.0])
    assert list(to_x) == [1, 0, 3] and list(to_updates) == [2, 0]


def scatter(result: str, op: str = "") -> str:
    """A scatter of %arg2 into %arg0 at the indices %arg1. The body of the scatter returns `result`."""
    return f"""
  %y = "stablehlo.scatter"(%arg0, %arg1, %arg2) ({{
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    {op}
    stablehlo.return {result} : tensor<f64>
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
    : (tensor<3xf64>, tensor<2x1xi64>, tensor<2xf64>) -> tensor<3xf64>"""


def test_updates_that_meet() -> None:
    types = "3xf64", "2x1xi64", "2xf64"
    x, same, updates, ct = np.zeros(3), np.array([[1], [1]]), np.array([4.0, 4.0]), [1.0, 2.0, 3.0]
    winner = program(scatter("%b"), *types, result="3xf64")
    assert sorted(run(winner.vjp(), x, same, updates, ct)[2]) == [0, 2]
    shared = program(scatter("%m", "%m = stablehlo.maximum %a, %b : tensor<f64>"), *types, result="3xf64")
    assert list(run(shared.vjp(), x, same, updates, ct)[2]) == [1, 1]
    product = program(scatter("%m", "%m = stablehlo.multiply %a, %b : tensor<f64>"), *types, result="3xf64")
    _, to_x, to_updates = run(product.vjp(), [2.0, 3.0, 5.0], same, [4.0, 0.5], ct)
    assert list(to_x) == [1, 4, 3] and list(to_updates) == [3, 24]


def test_complex() -> None:
    p = program(
        "  %y = stablehlo.multiply %arg0, %arg1 : tensor<complex<f64>>",
        *["complex<f64>"] * 2,
        result="complex<f64>",
    )
    c, z, ct = 2 + 1j, 3 - 1j, 1 + 1j
    assert run(p.vjp(wrt=1), c, z, ct)[1] == np.conj(c) * ct
    assert run(p.vjp(wrt=1, conjugate=True), c, z, ct)[1] == c * ct
    _, back = jax.vjp(lambda z: c * z, z)
    assert back(ct)[0] == c * ct
    p = program(
        "  %y = stablehlo.abs %arg0 : (tensor<complex<f64>>) -> tensor<f64>", "complex<f64>", result="f64"
    )
    assert run(p.vjp(), 3 + 4j, 1.0)[1] == (3 + 4j) / 5
    assert run(p.vjp(), 0j, 1.0)[1] == 0


def test_conversions() -> None:
    to_integer = """
  %0 = stablehlo.convert %arg0 : (tensor<f64>) -> tensor<i32>
  %y = stablehlo.convert %0 : (tensor<i32>) -> tensor<f64>"""
    assert run(program(to_integer, "f64", result="f64").jvp(), 2.5, 1.0) == (2, 0)


def test_integers() -> None:
    body = "  %y = stablehlo.add %arg0, %arg0 : tensor<f64>"
    p = program(body, "f64", "i32", "i1", result="f64")
    assert [port.name for port in p.jvp().inputs] == ["arg0", "arg1", "arg2", "arg0.tangent"]
    with pytest.raises(RequestError, match="has no derivative"):
        p.jvp(wrt=1)


def test_zeros_are_explicit_at_the_boundary() -> None:
    p = program("  %y = stablehlo.sine %arg0 : tensor<f64>", "f64", "2xf64", result="f64").grad()
    assert [str(value) for value in p.signature.outputs] == ["arg0.cotangent: f64", "arg1.cotangent: 2xf64"]
    assert list(run(p, 0.0, np.ones(2))[1]) == [0, 0]
    assert len(p.inputs) == 2  # unused inputs are kept


def test_signed_zero() -> None:
    p = program(
        "  %c = stablehlo.constant dense<0.0> : tensor<f64>\n  %y = stablehlo.add %arg0, %c : tensor<f64>",
        "f64",
        result="f64",
    )
    assert np.signbit(run(p, -0.0)[0])  # adding 0 would give +0, but tiduc removes the addition
    assert "stablehlo.add" not in str(p)


def test_a_product_with_zero_stays() -> None:
    body = (
        "  %c = stablehlo.constant dense<0.0> : tensor<f64>\n"
        "  %y = stablehlo.multiply %arg0, %c : tensor<f64>"
    )
    assert np.isnan(run(program(body, "f64", result="f64").jvp(), 1.0, np.inf)[1])
