"""uniform_quantize: straight-through derivatives from a float operand to the dequantized result.

Other uses are refused.
"""

from typing import Any

import numpy as np
import pytest
from harness.evidence import NOTES
from harness.xla import by_xla

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.context import parse, run_passes
from tiduc.loading import load

F, Q = "tensor<6xf32>", "tensor<6x!quant.uniform<i8:f32, 0.5:3>>"
AXIS = "tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3, 0.1:0}>>"


def program(f: str, q: str, attribute: str = "{tidu.straight_through}", between: str = "") -> str:
    return f"""
    func.func @main(%x: {f}) -> {f} {{
      %q = stablehlo.uniform_quantize %x {attribute} : ({f}) -> {q}
      {between or f"%r = stablehlo.uniform_dequantize %q : ({q}) -> {f}"}
      %y = stablehlo.multiply %r, %x : {f}
      return %y : {f}
    }}"""


def by_math(text: str, *arguments: Any) -> list[Any]:
    """Runs a program on XLA after a pass of StableHLO has replaced quantization by arithmetic."""
    module = parse(text)
    run_passes(
        module.operation,
        "builtin.module(func.func(stablehlo-legalize-quant-to-math,chlo-legalize-to-stablehlo))",
    )
    return list(by_xla(str(module), arguments))


@pytest.mark.parametrize(
    ("f", "q", "scale", "zero"),
    [
        (F, Q, np.full(6, 0.5), np.full(6, 3)),
        ("tensor<3x2xf32>", AXIS, np.array([0.5, 0.1]), np.array([3, 0])),
    ],
)
def test_straight_through(f: str, q: str, scale: Any, zero: Any) -> None:
    shape = (3, 2) if len(scale) == 2 else (6,)
    x = np.array([0.3, -1.26, 61.9, 62.3, -65.4, -66.0], np.float32).reshape(shape)
    dx = np.array([1, 2, 3, 4, 5, -6], np.float32).reshape(shape)
    rounded = (np.clip(np.round(x / scale) + zero, -128, 127) - zero) * scale
    inside = (x >= (-128 - zero) * scale) & (x <= (127 - zero) * scale)
    p = load(program(f, q))
    y, dy = by_math(str(p.jvp()), x, dx)
    np.testing.assert_allclose(y, rounded * x, rtol=1e-6)
    np.testing.assert_allclose(dy, rounded * dx + x * inside * dx, rtol=1e-6)
    _, cx = by_math(str(p.vjp()), x, dx)
    np.testing.assert_allclose(cx, dy, rtol=1e-6)
    *_, second = by_math(str(p.jvp().jvp([0])), x, dx, dx)
    np.testing.assert_allclose(second, 2 * inside * dx * dx, rtol=1e-6)
    NOTES.checked_text(program(f, q), 2)


def test_rounding_is_refused() -> None:
    with pytest.raises(Unsupported, match="set the attribute tidu.straight_through"):
        load(program(F, Q, "")).jvp()


def test_quantized_arithmetic_is_refused() -> None:
    """Derivatives of arithmetic on quantized values are refused, because the tangents would be floats."""
    between = f"""
      %s = stablehlo.add %q, %q : {Q}
      %r = stablehlo.uniform_dequantize %s : ({Q}) -> {F}"""
    with pytest.raises(Unsupported, match="a straight-through tangent needs a float operand"):
        load(program(F, Q, between=between)).jvp()


def test_quantized_inputs_have_no_tangent() -> None:
    """Neither a quantized input nor its dequantized value has a tangent."""
    text = f"""
    func.func @main(%q: {Q}, %x: {F}) -> {F} {{
      %r = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
      %y = stablehlo.multiply %r, %x : {F}
      return %y : {F}
    }}"""
    assert [x.name for x in load(text).jvp().inputs] == ["q", "x", "x.tangent"]


DOT = "stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :"
CONVOLUTION = """stablehlo.convolution(%x, %w) dim_numbers = [b, f]x[i, o]->[b, f], window = {}
                 {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :"""


@pytest.mark.parametrize("op", [DOT, CONVOLUTION])
def test_quantized_weights(op: str) -> None:
    """In a product with quantized weights, tangents and cotangents are multiplied by the dequantized weights."""
    rng = np.random.default_rng(0)
    w_type = "tensor<3x4x!quant.uniform<i8:f32, 0.5>>"
    p = load(f"""
    func.func @main(%x: tensor<2x3xf32>, %w: {w_type}) -> tensor<2x4xf32> {{
      %y = {op} (tensor<2x3xf32>, {w_type}) -> tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }}""")
    x, dx, ct = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (2, 3), (2, 4)))
    w = rng.integers(-128, 127, (3, 4), np.int8)
    np.testing.assert_allclose(by_math(str(p.jvp()), x, w, dx)[1], dx @ (w * 0.5), rtol=1e-5)
    np.testing.assert_allclose(by_math(str(p.vjp()), x, w, ct)[1], ct @ (w * 0.5).T, rtol=1e-5)
