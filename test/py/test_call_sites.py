"""A call or loop may be linearized several times, each time with respect to other inputs.

The derivatives must be correct although the copies keep different residuals.
"""

from collections.abc import Callable

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare

from tiduc.loading import load
from tiduc.program import Program

V = "tensor<2xf64>"
F = f"""
func.func private @f(%a: {V}, %b: {V}, %y: {V}) -> {V} ATTRIBUTES {{
  %s = stablehlo.sine %a : {V}
  %e = stablehlo.exponential %b : {V}
  %p = stablehlo.multiply %s, %e : {V}
  %t = stablehlo.tanh %p : {V}
  %q = stablehlo.multiply %t, %y : {V}
  %r = stablehlo.power %e, %q : {V}
  return %r : {V}
}}"""
CALL = f"%1 = func.call @f(%a, %b, %a) : ({V}, {V}, {V}) -> {V}"
UNROLLED = "\n".join(
    f"%{i + 1} = func.call @f(%a, %b, %{i or 'a'}) : ({V}, {V}, {V}) -> {V}" for i in range(3)
)
LOOP = f"""
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %a) : tensor<i32>, {V}
  cond {{
    %n = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %z = func.call @f(%a, %b, %y) : ({V}, {V}, {V}) -> {V}
    stablehlo.return %j, %z : tensor<i32>, {V}
  }}
  %3 = stablehlo.add %r#1, %r#1 : {V}"""


def program(body: str, result: str, attributes: str = "") -> Program:
    inputs = ", ".join(f'%{x}: {V} {{tidu.name = "{x}"}}' for x in "ab")
    main = f"func.func @main({inputs}) -> {V} {{ {body} \n return {result} : {V} }}"
    return load(main + F.replace("ATTRIBUTES", attributes))


DERIVATIVES: dict[str, Callable[[Program], Program]] = {
    "forward": lambda p: p.jacobian(mode="forward").jvp(),
    "reverse": lambda p: p.jacobian(mode="forward").vjp(),
    "together": lambda p: p.jvp(["a"]).together(p.jvp(["b"])).jvp(["a", "b"]),
}


def check(derivative: str, first: Program, second: Program, factor: float = 1.0) -> None:
    """Compares the derivatives of two programs. The first program must compute `factor` times the second."""
    one, other = DERIVATIVES[derivative](first), DERIVATIVES[derivative](second)
    draw = np.random.default_rng(4).standard_normal
    arguments = [0.5 * draw(port.type.shape) for port in one.inputs]
    of_second = list(arguments)
    for i, port in enumerate(one.inputs):
        if "cotangent" in port.name:
            of_second[i] = factor * arguments[i]
    results = zip(one.outputs, run(one, arguments), run(other, of_second), strict=True)
    for port, y, z in results:
        compare([y], [z if port.name.endswith("cotangent") else factor * z])


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_calls_linearized_in_one_input_each(derivative: str) -> None:
    check(derivative, program(CALL, "%1", "attributes {no_inline}"), program(CALL, "%1"))


@pytest.mark.more
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_loops_linearized_in_one_input_each(derivative: str) -> None:
    check(derivative, program(LOOP, "%3"), program(UNROLLED, "%3"), 2.0)
