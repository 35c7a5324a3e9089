"""Calls with dynamic sizes in exports of JAX: top_k, approximate top_k and sums over windows."""

import re

import jax
import numpy as np
import pytest
from jax import export, lax
from numpy.typing import NDArray

import tiduc
from tiduc.checking.check import check

RNG = np.random.default_rng(0)

ADD = """func.func private @add(%a: tensor<f64>, %b: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.add %b, %a : tensor<f64>
  return %0 : tensor<f64>
}"""
WINDOW = """func.func @main(%x: tensor<?x4xf64>) -> tensor<?x?xf64> {{
  %init = stablehlo.constant dense<{init}> : tensor<f64>
  {numbers}
  %padding = stablehlo.constant dense<{padding}> : tensor<2x2xi32>
  %z = stablehlo.sine %x : tensor<?x4xf64>
  %y = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%z, %init, %sizes, %strides, %base, %dilation, %padding)
    {{called_computations = [@add]}} : (tensor<?x4xf64>, tensor<f64>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>,
    tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x?xf64>
  return %y : tensor<?x?xf64>
}}
{add}"""


def window(sizes: list[int], strides: list[int], base: list[int], dilation: list[int], **more: object) -> str:
    named = {"sizes": sizes, "strides": strides, "base": base, "dilation": dilation}
    numbers = (f"%{name} = stablehlo.constant dense<{v}> : tensor<2xi32>" for name, v in named.items())
    return WINDOW.format(
        numbers="\n  ".join(numbers), **{"init": 0.0, "padding": [[0, 0], [0, 0]], "add": ADD, **more}
    )


def agrees(program: tiduc.Program, *arguments: NDArray[np.float64], order: int = 1) -> bool:
    def compiled(derived: tiduc.Program) -> object:
        return derived.compile(engine="xla")

    comparisons = list(check(program, arguments, compiled, order=order))  # type: ignore[arg-type]
    assert {c.name.split()[0] for c in comparisons}
    return all(c.agrees for c in comparisons)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(window([2, 3], [1, 1], [1, 1], [1, 1]), marks=pytest.mark.slow),
        window([2, 2], [2, 1], [1, 1], [1, 2], padding=[[1, 0], [0, 2]]),
        window([2, 1], [1, 3], [2, 1], [2, 1], padding=[[2, 1], [1, 1]], init=0.5),
        pytest.param(
            window([1, 2], [2, 2], [1, 3], [1, 1], padding=[[-1, 0], [0, -1]]), marks=pytest.mark.slow
        ),
    ],
)
def test_sums_over_windows(text: str) -> None:
    assert agrees(tiduc.load(text), RNG.standard_normal((5, 4)))


def test_other_windows_are_refused() -> None:
    text = window([2, 3], [1, 1], [1, 1], [1, 1])
    for other in ("maximum", "multiply"):
        with pytest.raises(tiduc.TiducError, match="only sums over dynamic windows are differentiated"):
            tiduc.load(text.replace("stablehlo.add", f"stablehlo.{other}")).jvp()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "@stablehlo.dynamic_top_k(%x) : (X) -> (X, tensor<?x4xi32>)",
            "takes an array of at least one dimension",
        ),
        ("@stablehlo.dynamic_reduce_window(%x, %k) : (X, tensor<i32>) -> X", "takes arrays, as many scalars"),
        ("@f(%x) {indices_of_shape_operands = dense<0> : tensor<1xi64>} : (X) -> X", "do not name a vector"),
        ('@f(%x) {indices_of_shape_operands = "a"} : (X) -> X', "do not name a vector"),
    ],
)
def test_invalid_calls(call: str, message: str) -> None:
    count = ":2" if "top_k" in call else ""
    text = f"""func.func @main(%x: X, %k: tensor<i32>) -> X {{
  %0{count} = stablehlo.custom_call {call}
  return %x : X
}}"""
    with pytest.raises(tiduc.ParseError, match=message):
        tiduc.load(re.sub(r"\bX\b", "tensor<?x4xf64>", text))


def exported(function: object, shape: str) -> tiduc.Program:
    with jax.enable_x64(True):
        (x,) = export.symbolic_args_specs((np.zeros((2, 2)),), (shape,))
        return tiduc.load(export.export(jax.jit(function))(x).mlir_module_serialized)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "order"), [pytest.param(2, 2, marks=pytest.mark.slow), (5, 1)])
def test_cumulative_sum_of_a_dynamic_dimension(rows: int, order: int) -> None:
    program = exported(lambda x: lax.cumsum(x * x, 0), "n, m")
    assert agrees(program, RNG.standard_normal((rows, 3)), order=order)


def test_top_k_of_a_dynamic_dimension() -> None:
    program = exported(lambda x: lax.top_k(x * x, x.shape[1] - 1)[0], "n, m")
    for rows, columns in ((1, 4), (3, 2)):
        assert agrees(program, RNG.standard_normal((rows, columns)))
