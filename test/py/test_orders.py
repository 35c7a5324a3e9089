"""Jets and higher derivatives with respect to one variable, as programs: signatures, composition, engines and
errors.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.compare import compare
from harness.exports import exported
from harness.stages import F64
from test_jet import NEWTON

from tiduc.cli import run as cli
from tiduc.dialect.errors import RequestError
from tiduc.loading import load
from tiduc.program import Program

SCALAR = f"""
func.func @main(%a: {F64} {{tidu.name = "a"}}, %x: {F64} {{tidu.name = "x"}}) -> ({F64} {{tidu.name = "y"}}) {{
  %0 = stablehlo.multiply %a, %x : {F64}
  %1 = stablehlo.exponential %0 : {F64}
  return %1 : {F64}
}}
"""
MIXED = f"""
func.func @main(%w: tensor<3xf64> {{tidu.name = "w"}}, %n: tensor<i32> {{tidu.name = "n"}},
                %z: tensor<complex<f64>> {{tidu.name = "z"}})
    -> (tensor<3xf64> {{tidu.name = "sine"}}, tensor<i32>, tensor<complex<f64>> {{tidu.name = "square"}},
        {F64} {{tidu.name = "one"}}, tensor<3xf64> {{tidu.name = "copy"}}) {{
  %0 = stablehlo.sine %w : tensor<3xf64>
  %1 = stablehlo.add %n, %n : tensor<i32>
  %2 = stablehlo.multiply %z, %z : tensor<complex<f64>>
  %3 = stablehlo.constant dense<1.0> : {F64}
  return %0, %1, %2, %3, %w : tensor<3xf64>, tensor<i32>, tensor<complex<f64>>, {F64}, tensor<3xf64>
}}
"""
DYNAMIC = """
func.func @main(%x: tensor<?x2xf64> {tidu.name = "x"}, %v: tensor<?xf64> {tidu.name = "v"})
    -> (tensor<?x2xf64> {tidu.name = "y"}, tensor<?xf64> {tidu.name = "v"}) {
  %0 = stablehlo.multiply %x, %x : tensor<?x2xf64>
  %1 = stablehlo.sine %0 : tensor<?x2xf64>
  return %1, %v : tensor<?x2xf64>, tensor<?xf64>
}
"""
A, X = np.array(0.7), np.array(-0.4)


def names(ports: Any) -> list[str]:
    return [port.name for port in ports]


def test_signature_of_a_jet() -> None:
    p = load(MIXED).jet(2, ["w", "z"])
    assert str(p.signature) == (
        "(w: 3xf64, n: i32, z: complex<f64>, w.series: 2x3xf64, z.series: 2xcomplex<f64>) -> "
        "(sine: 3xf64, result1: i32, square: complex<f64>, one: f64, copy: 3xf64, "
        "sine.series: 2x3xf64, square.series: 2xcomplex<f64>, one.series: 2xf64, copy.series: 2x3xf64)"
    )
    assert names(load(str(p)).inputs) == names(p.inputs)
    assert names(load(str(p)).outputs) == names(p.outputs)


def test_values_of_a_jet() -> None:
    w, n, z = np.array([0.3, -1.0, 2.0]), np.array(4, np.int32), np.array(0.5 - 0.2j)
    w1, w2 = np.array([[1.0, 0.5, -0.3], [0.2, 0.1, 0.7]])
    z1, z2 = np.array([0.3 + 1j, 0.1j])
    sine = [np.cos(w) * w1, np.cos(w) * w2 - np.sin(w) * w1**2 / 2]
    square = [2 * z * z1, 2 * z * z2 + z1**2]
    expected = [np.sin(w), 2 * n, z**2, np.ones(()), w, np.stack(sine), np.stack(square), np.zeros(2)]
    found = run(load(MIXED).jet(2), [w, n, z, np.stack([w1, w2]), np.stack([z1, z2])])
    compare(found, [*expected, np.stack([w1, w2])], 1e-14)


def test_an_output_that_does_not_depend_on_the_inputs_has_zeros() -> None:
    p = load(MIXED).jet(3, "z")
    found = run(p, [np.ones(3), np.array(1, np.int32), np.array(1j), np.ones(3, complex)])
    compare([found[5], found[7]], [np.zeros((3, 3)), np.zeros(3)])


def test_jets_of_dynamic_shapes() -> None:
    x, v = np.array([[0.3, -0.2], [0.1, 0.5], [1.0, 2.0]]), np.ones(3)
    p = load(DYNAMIC).jet(2, "x")
    assert [str(port.type) for port in p.outputs[2:]] == ["tensor<2x?x2xf64>", "tensor<2x?xf64>"]
    series = np.stack([np.ones((3, 2)), np.zeros((3, 2))])
    y, _, dy, dv = p.compile()(x, v, series)
    first, second = 2 * x * np.cos(x**2), np.cos(x**2) - 2 * x**2 * np.sin(x**2)
    compare([y, dy, dv], [np.sin(x**2), np.stack([first, second]), np.zeros((2, 3))], 1e-12)


def test_derivatives() -> None:
    p = load(SCALAR).derivatives(5, "x")
    assert names(p.outputs) == ["y", *(f"y.derivative{k}" for k in range(1, 6))]
    compare(run(p, [A, X]), [A**k * np.exp(A * X) for k in range(6)], 1e-13)


def test_derivatives_of_an_array_in_one_variable() -> None:
    text = f"""
    func.func @main(%t: {F64} {{tidu.name = "t"}}, %w: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>) {{
      %0 = stablehlo.broadcast_in_dim %t, dims = [] : ({F64}) -> tensor<2xf64>
      %1 = stablehlo.multiply %0, %w : tensor<2xf64>
      %2 = stablehlo.sine %1 : tensor<2xf64>
      return %2, %w : tensor<2xf64>, tensor<2xf64>
    }}
    """
    t, w = np.array(0.3), np.array([2.0, -1.0])
    s, c = np.sin(t * w), np.cos(t * w)
    expected = [s, w * c, -(w**2) * s, -(w**3) * c, w, *([np.zeros(2)] * 3)]
    compare(run(load(text).derivatives(3, "t"), [t, w]), expected, 1e-13)


@pytest.mark.parametrize("engine", ["reference", "xla", "iree"])
def test_engines(engine: str) -> None:
    compiled = load(SCALAR).derivatives(4, "x").compile(engine=engine)
    compare(compiled(A, X), [A**k * np.exp(A * X) for k in range(5)], 1e-10)


def only(p: Program, i: int) -> Program:
    """A copy of the program that returns only output i."""
    return replace(p, outputs=p.outputs[i : i + 1])


def test_composition() -> None:
    """Derivatives compose: first derivatives of the third derivative of exp(a x) are the fourth, and second derivatives
    also give the fifth.
    """
    y = np.exp(A * X)
    third = only(load(SCALAR).derivatives(3, "x"), 3)
    compare(run(third.grad("x"), [A, X]), [A**4 * y], 1e-12)
    compare(run(third.jvp("x"), [A, X, np.array(2.0)])[1:], [2 * A**4 * y], 1e-12)
    compare(run(third.vjp("x"), [A, X, np.array(2.0)])[1:], [2 * A**4 * y], 1e-12)
    compare(run(third.jacobian("x"), [A, X]), [A**4 * y], 1e-12)
    compare(run(third.hvp("x"), [A, X, np.array(2.0)]), [2 * A**5 * y], 1e-12)
    compare(run(third.derivatives(2, "x"), [A, X])[1:], [A**4 * y, A**5 * y], 1e-12)
    compare(run(only(load(SCALAR).grad("x").derivatives(2, "x"), 2), [A, X]), [A**3 * y], 1e-12)
    tangents = np.array([1.0, 2.0])
    compare(run(third.jvp("x", batch=2), [A, X, tangents])[1:], [tangents * A**4 * y], 1e-12)
    series = np.array([1.0, 0.0])
    fourth = run(third.jet(2, "x"), [A, X, series])[1]
    compare([fourth], [np.array([A**4 * y, A**5 * y / 2])], 1e-12)


@pytest.mark.parametrize("order", [0, -1, 101, True, 2.0, None])
def test_an_order_out_of_range(order: Any) -> None:
    for method in (load(SCALAR).jet, load(SCALAR).derivatives):
        with pytest.raises(RequestError, match="order must be an integer from 1 to 100, not"):
            method(order, "x")


def test_derivatives_needs_one_scalar() -> None:
    with pytest.raises(RequestError, match="one scalar input; there are a: tensor<f64>, x: tensor<f64>"):
        load(SCALAR).derivatives(2)
    with pytest.raises(RequestError, match="one scalar input; there are w: tensor<3xf64>"):
        load(MIXED).derivatives(2, "w")
    with pytest.raises(RequestError, match="unknown input 'b' in wrt"):
        load(SCALAR).jet(2, "b")


@pytest.mark.parametrize("element, highest", [("f16", 8), ("bf16", 34), ("f32", 34)])
def test_a_factorial_out_of_range(element: str, highest: int) -> None:
    text = f"func.func @main(%x: tensor<{element}>) -> tensor<{element}> {{ return %x : tensor<{element}> }}"
    assert len(load(text).derivatives(highest).outputs) == highest + 1
    with pytest.raises(
        RequestError, match=f"order {highest + 1} is too high for 'result0' of type tensor<{element}>"
    ):
        load(text).derivatives(highest + 1)


# ---- reverse over Taylor -----------------------------------------------------------------------------------

CHAIN = f"""
func.func @main(%x: {F64}) -> {F64} {{
  %0 = stablehlo.sine %x : {F64}
  %1 = stablehlo.exponential %0 : {F64}
  %2 = stablehlo.multiply %1, %x : {F64}
  %3 = stablehlo.tanh %2 : {F64}
  %4 = stablehlo.logistic %3 : {F64}
  %5 = stablehlo.multiply %4, %2 : {F64}
  return %5 : {F64}
}}
"""


def layers(x: Any, w: Any) -> Any:
    def step(h: Any, w: Any) -> Any:
        return jnp.tanh(w @ h), ()

    return jax.lax.scan(step, x, w)[0]


def network(x: Any, w: Any) -> Any:
    for i in range(3):
        x = jnp.tanh(w[i] @ x) * jnp.sum(x)
    return x


def ops(p: Program) -> int:
    """The number of ops in the program's text, except constants."""
    return len(re.findall(r"= (?:stablehlo|chlo)\.(?!constant)", p.text))


RNG = np.random.default_rng(0)
LAYERS = RNG.standard_normal(4), RNG.standard_normal((3, 4, 4))


@pytest.mark.parametrize("order", [1, 3, 6])
def test_reverse_mode_of_jets(order: int) -> None:
    """JVPs of a jet equal finite differences, and its VJPs are the adjoints of its JVPs."""
    series = RNG.standard_normal(order)
    check_rule(str(load(CHAIN).jet(order)), np.array(0.3), series, order=1, subsets=False, rtol=1e-6)


@pytest.mark.parametrize("function", [layers, network])
def test_reverse_mode_of_jets_of_networks(function: Any) -> None:
    jet = load(exported(function, *LAYERS)).jet(2, 0)
    check_rule(str(jet), *LAYERS, RNG.standard_normal((2, 4)), order=1, subsets=False, rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 4, 8])
def test_reverse_mode_costs_at_most_four_times_the_jet(order: int) -> None:
    for program in (load(CHAIN), load(exported(network, *LAYERS)), load(exported(layers, *LAYERS))):
        jet = program.jet(order)
        assert ops(jet.vjp()) <= 4 * ops(jet)


@pytest.mark.parametrize("order", [2, 8])
def test_reverse_mode_of_a_loop_of_unknown_trip_count(order: int) -> None:
    """The VJP of a jet of a loop with unknown trip count has at most five times as many ops as the jet, plus 60 for
    checkpoints.
    """
    jet = load(NEWTON).jet(order)
    assert ops(jet.vjp()) <= 5 * ops(jet) + 60


def test_gradient_of_a_residual() -> None:
    """The gradient of a physics-informed loss with respect to the parameters of u equals JAX's.

    The loss is the square of the residual u'' + u, and is computed from derivatives by Taylor mode.
    """

    def u(t: Any, w: Any) -> Any:
        return jnp.sum(jnp.tanh(w[0] * t + w[1]) * w[2])

    def loss(t: Any, w: Any) -> Any:
        return (jax.grad(jax.grad(u))(t, w) + u(t, w)) ** 2

    t, w = np.array(0.4), RNG.standard_normal((3, 5))
    both = load(exported(u, t, w)).derivatives(2, 0)
    y, _, second = run(both, [t, w])
    seed = 2 * (y + second)
    found = run(both.vjp(1), [t, w, seed, np.array(0.0), seed])[3]
    with jax.enable_x64(True):
        compare([found], [np.asarray(jax.grad(loss, 1)(t, w))], 1e-11)


# ---- the command line --------------------------------------------------------------------------------------


def test_a_gradient_of_a_gradient_in_one_variable_has_a_remark(tmp_path: Path, capsys: Any) -> None:
    once, twice = str(tmp_path / "once.mlir"), str(tmp_path / "twice.mlir")
    (tmp_path / "f.mlir").write_text(SCALAR)
    assert cli(["grad", str(tmp_path / "f.mlir"), "--wrt", "x", "-o", once]) == 0
    assert capsys.readouterr().err == ""
    assert cli(["grad", once, "--wrt", "x", "-o", twice]) == 0
    assert (
        "remark: this is the gradient of a gradient in the scalar 'x'; 'tiduc jet" in capsys.readouterr().err
    )
    assert cli(["grad", once, "--wrt", "a", "-o", twice]) == 0
    assert cli(["--quiet", "grad", once, "--wrt", "x", "-o", twice]) == 0
    assert capsys.readouterr().err == ""
