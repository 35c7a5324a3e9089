"""`together`: several derivatives in one module, which computes shared values once."""

import jax.numpy as jnp
import numpy as np
import pytest
from cases.control_flow_programs import PROGRAMS
from harness.check_rule import run
from harness.exports import exported

from tiduc.dialect.errors import RequestError
from tiduc.loading import load

RNG = np.random.default_rng(0)


def test_value_gradient_product_and_hessian() -> None:
    """A module of a value, a gradient, an HVP, a JVP and a Hessian has only one tanh and one exponential.

    Its outputs equal those of the separate programs. Different inputs of the programs have different names.
    """
    x, dx, w = (RNG.standard_normal(4) for _ in range(3))
    program = load(exported(lambda x: jnp.sum(jnp.tanh(x) * jnp.exp(x)), x))
    parts = [program, program.grad(), program.hvp(), program.jvp(), program.hessian()]
    both = program.together(*parts[1:])
    assert [both.text.count(f"stablehlo.{op}") for op in ("tanh", "exponential")] == [1, 1]
    assert [port.name for port in both.inputs] == ["arg0", "arg0.tangent", "arg0.tangent.2"]
    names = (
        "result0 arg0.cotangent arg0.cotangent.tangent result0.2 result0.tangent result0.hessian.arg0.arg0"
    )
    assert [port.name for port in both.outputs] == names.split()
    expected = [
        y for part, given in zip(parts, ([], [], [dx], [w], []), strict=True) for y in run(part, [x, *given])
    ]
    for y, wanted in zip(run(both, [x, dx, w]), expected, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-12)


def test_a_loop_is_shared() -> None:
    """A VJP together with itself has no more loops than the VJP alone."""
    function, arguments = PROGRAMS["scan_reverse"]
    program = load(exported(function, *arguments)).vjp()
    both = program.together(program)
    assert both.text.count("stablehlo.while") == program.text.count("stablehlo.while")


def test_programs_of_two_files_are_refused() -> None:
    text = exported(jnp.sin, np.zeros(2))
    with pytest.raises(RequestError, match="are not derived from one loaded program"):
        load(text).together(load(text).jvp())
