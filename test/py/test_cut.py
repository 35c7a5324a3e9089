"""Tests `cut`, which splits a linear graph into two parts, and Jacobians of functions with a waist.

A waist is a set of few values through which all outputs depend on the inputs.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import run
from harness.exports import exported

from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.loading import load
from tiduc.passes.cut import bottleneck, cut
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.rules import OPSET
from tiduc.ports import InputPort, OutputPort
from tiduc.program import Program

RNG = np.random.default_rng(0)
A, B, C = (RNG.standard_normal(sizes) for sizes in ((6, 2), (2, 5), (5, 6)))


def waist(x: Any) -> Any:
    h = jnp.tanh(x @ A)
    return jnp.sin(jnp.cos(h @ B) @ C)


def two_waists(x: Any, w: Any) -> Any:
    """Two outputs that depend on the inputs only through a sum and a product. One output does not depend on w."""
    s, p = jnp.sum(x * w), jnp.prod(jnp.sin(x))
    return jnp.outer(jnp.arange(1.0, 8.0), jnp.ones(3)) * s * p, jnp.arange(9.0) * p


def linear_of(program: Program) -> Any:
    values, keys = [y.value for y in program.outputs], [x.key for x in program.inputs]
    return stage(linearize)(program.view, values, keys, OPSET)


def jacobian_of(program: Program, graph: Any, at: Any) -> Any:
    """Evaluates a linear graph. `at` has the values of the program's inputs, then those of the graph's inputs."""
    own = [InputPort(key, x.type, key) for key, x in graph.inputs.items()]
    outputs = [OutputPort(f"y{i}", y.type, y) for i, y in enumerate(graph.outputs)]
    return run(Program(program.view, program.name, (*program.inputs, *own), tuple(outputs)), at)


def test_the_halves_compose() -> None:
    """Running the two parts of a cut in sequence gives the JVP. Running their transposes in reverse gives the VJP."""
    program, x, dx = load(exported(waist, np.zeros(6))), RNG.standard_normal(6), RNG.standard_normal(6)
    linear = linear_of(program)
    (h,) = bottleneck(program.view, linear, lambda v: int(np.prod(v.type.shape)), linear.outputs)
    assert list(h.type.shape) == [2]
    first, second = cut(program.view, linear, [h], OPSET)
    (dh,) = jacobian_of(program, first, [x, dx])
    (dy,) = jacobian_of(program, second, [x, dh])
    np.testing.assert_allclose(dy, run(program.jvp(), [x, dx])[1], rtol=1e-12)
    turned = [linear_transpose(program.view, graph, OPSET) for graph in (second, first)]
    (ch,) = jacobian_of(program, turned[0], [x, dy])
    (cx,) = jacobian_of(program, turned[1], [x, ch])
    np.testing.assert_allclose(cx, run(program.vjp(), [x, dy])[1], rtol=1e-12)


def test_what_cut_refuses() -> None:
    program = load(exported(lambda x: (jnp.sin(x) * 2 + x, jnp.floor(x)), np.zeros(3)))
    linear = linear_of(program)
    (sine,) = [v for v in linear.tangent_of if v.definition and v.definition.name == "stablehlo.sine"]
    with pytest.raises(RequestError, match="has a path from inputs to outputs that avoids the cut"):
        cut(program.view, linear, [sine], OPSET)
    with pytest.raises(RequestError, match="twice"):
        cut(program.view, linear, [sine, sine], OPSET)
    with pytest.raises(RequestError, match="which has no tangent in graph"):
        cut(program.view, linear, [program.outputs[1].value], OPSET)


@pytest.mark.parametrize("function", [waist, two_waists])
def test_jacobians_through_a_waist(function: Any) -> None:
    """The Jacobian is computed as the product of the Jacobians on both sides of the waist.

    It equals JAX's, and no identity matrix of the inputs' size is needed.
    """
    arguments = [RNG.standard_normal(6) for _ in range(1 if function is waist else 2)]
    positions = tuple(range(len(arguments)))
    program = load(exported(function, *arguments))
    jacobian = program.jacobian()
    assert "precision = [HIGHEST, HIGHEST]" in jacobian.text and "tensor<6x6xi" not in jacobian.text
    with jax.enable_x64(True):
        expected = jax.tree.leaves(jax.jacfwd(function, positions)(*map(jnp.asarray, arguments)))
    for y, wanted in zip(run(jacobian, arguments), expected, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-10, atol=1e-12)


def test_a_waist_of_one_number() -> None:
    """The Jacobian is correct if the waist is a single number, whose single basis vector needs no batch dimension."""
    x = RNG.standard_normal(7)
    program = load(exported(lambda x: jnp.outer(jnp.arange(8.0), jnp.arange(8.0)) * jnp.sum(jnp.sin(x)), x))
    (y,) = run(program.jacobian(), [x])
    np.testing.assert_allclose(
        y, np.multiply.outer(np.outer(np.arange(8), np.arange(8)), np.cos(x)), rtol=1e-12
    )
