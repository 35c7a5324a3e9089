"""Uses of Taylor mode: flows of differential equations, a physics-informed network, and a transformer to order four."""

from math import factorial

import jax
import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.example_files import EXAMPLES, script
from harness.stages import F64

from tiduc.dialect.errors import RequestError
from tiduc.loading import load

LINEAR = """
func.func @main(%a: tensor<3x3xf64> {tidu.name = "a"}, %x: tensor<3xf64> {tidu.name = "x"}) -> tensor<3xf64> {
  %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<3x3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
"""
SQUARE = f"""
func.func @main(%x: {F64} {{tidu.name = "x"}}) -> {F64} {{
  %0 = stablehlo.multiply %x, %x : {F64}
  return %0 : {F64}
}}
"""
RNG = np.random.default_rng(0)


# ---- flows -------------------------------------------------------------------------------------------------


def test_the_flow_of_a_linear_equation_is_the_exponential() -> None:
    a, x = RNG.standard_normal((3, 3)), RNG.standard_normal(3)
    program = load(LINEAR).flow(5, "x")
    assert str(program.signature) == "(a: 3x3xf64, x: 3xf64) -> (x.series: 5x3xf64)"
    expected = [np.linalg.matrix_power(a, k) @ x / factorial(k) for k in range(1, 6)]
    compare(run(program, [a, x]), [np.stack(expected)], 1e-13)


def test_a_flow_can_be_differentiated() -> None:
    """The flow of x' = x^2, whose coefficients are powers of x, has the right Jacobian.

    The solution of the equation is x / (1 - t x).
    """
    program, x = load(SQUARE).flow(6), np.array(0.3)
    compare(run(program, [x]), [x ** np.arange(2, 8)], 1e-13)
    compare(run(program.jacobian(), [x]), [np.arange(2, 8) * x ** np.arange(1, 7)], 1e-12)


def test_the_flow_of_a_constant() -> None:
    text = f"""
    func.func @main(%x: {F64}) -> {F64} {{
      %0 = stablehlo.constant dense<2.0> : {F64}
      return %0 : {F64}
    }}
    """
    compare(run(load(text).flow(3), [np.array(1.0)]), [np.array([2.0, 0.0, 0.0])])


def test_a_flow_needs_a_field() -> None:
    with pytest.raises(RequestError, match="flow needs one input, and one output of the same type"):
        load(LINEAR).flow(3)
    with pytest.raises(RequestError, match="flow needs one input, and one output of the same type"):
        load(LINEAR).flow(3, "a")


# ---- examples ----------------------------------------------------------------------------------------------


def test_taylor_integration() -> None:
    """The example of Taylor integration computes JAX's coefficients and SciPy's solution of the Lorenz equations."""
    integrate = pytest.importorskip("scipy.integrate")
    example, start = script("taylor_ode"), np.array([1.0, 1.0, 1.0])
    coefficients = load(example.LORENZ).flow(8).compile(engine="xla")
    with jax.enable_x64(True):
        compare(coefficients(start), [np.asarray(y) for y in example.jax_coefficients(8)(start)], 1e-10)
    end, steps = example.integrate(coefficients, start, 1.0, 1e-12)
    known = integrate.solve_ivp(
        lambda _, u: [10 * (u[1] - u[0]), u[0] * (28 - u[2]) - u[1], u[0] * u[1] - 8 / 3 * u[2]],
        (0, 1),
        start,
        method="DOP853",
        rtol=1e-12,
        atol=1e-12,
    )
    compare([end], [known.y[:, -1]], 1e-8)
    assert 20 < steps < 400


def test_a_physics_informed_network() -> None:
    """The example of a physics-informed network computes the loss and gradient that JAX computes by nested gradients.

    Training halves the loss.
    """
    example = script("pinn_beam")
    step = example.gradient().compile(engine="xla")
    weights, points = example.start()
    compare(step(*weights, points), example.jax_gradient()(*weights, points), 1e-3)
    losses = example.train(step, 20)
    assert losses[-1] < losses[0] / 2


@pytest.mark.slow
def test_the_transformer_at_order_four_on_iree() -> None:
    program = load(EXAMPLES / "transformer_f32.mlir")
    with np.load(EXAMPLES / "transformer_f32.npz") as stored:
        point = [stored[f"input.{i}"] for i in range(len(program.inputs))]
        weight = next(i for i, port in enumerate(program.inputs) if "tensor<f32>" != str(port.type))
        tangent, known = stored[f"tangent.{weight}"], float(stored["loss"])
    series = np.stack([tangent, *([np.zeros_like(tangent)] * 3)])
    jet = program.jet(4, weight)
    found, expected = (jet.compile(engine=engine)(*point, series) for engine in ("iree", "xla"))
    np.testing.assert_allclose(found[0], known, rtol=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-5)
