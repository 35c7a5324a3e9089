"""Derivatives in f16 that are finite although intermediate values of the usual formulas overflow f16."""

from typing import Any

import numpy as np
import pytest
from cases.index_cases import Indexing
from harness.xla import by_xla

from tiduc.dialect.mlir.context import parse, run_passes
from tiduc.loading import load

POINTS = {
    "stablehlo.atan2 %x, %y : T": ([300.0, -3e3, 2.0], [200.0, 0.5, 4e4]),
    "stablehlo.power %x, %y : T": ([1e-6, 3e-7, 0.0], [0.5, 0.0, 0.0]),
    "chlo.asinh %x : T -> T": ([300.0, -3e3, 3e4], [0.0, 0.0, 0.0]),
    "chlo.atan %x : T -> T": ([300.0, -500.0, 1e3], [0.0, 0.0, 0.0]),
}


def tangents(op: str, element: str, x: list[float], y: list[float]) -> list[Any]:
    """The derivatives of the op's result toward x and y."""
    t = f"tensor<3x{element}>"
    text = f"""
    func.func @main(%x: {t}, %y: {t}) -> {t} {{
      %z = {op.replace("T", t)}
      return %z : {t}
    }}"""
    dtype = {"f16": np.float16, "f64": np.float64}[element]
    results = []
    for wrt in ([0], [1])[: op.count("%")]:
        module = parse(str(load(text).jvp(wrt)))
        run_passes(module.operation, "builtin.module(func.func(chlo-legalize-to-stablehlo))")
        arguments = [np.array(v, np.float16).astype(dtype) for v in (x, y, [1.0] * 3)]
        results.append(by_xla(str(module), arguments)[1])
    return results


@pytest.mark.parametrize("op", POINTS)
def test_as_in_double_precision(op: str) -> None:
    for low, exact in zip(*(tangents(op, e, *POINTS[op]) for e in ("f16", "f64")), strict=True):
        np.testing.assert_allclose(low, exact, rtol=3e-3, atol=1e-6)


COUNT = 70_000
"""A number of elements that is larger than the largest f16 number."""


def test_ties_of_a_maximum() -> None:
    p = load(f"""
    func.func @main(%x: tensor<{COUNT}xf16>) -> tensor<f16> {{
      %least = stablehlo.constant dense<0xFC00> : tensor<f16>
      %y = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [0]
        : (tensor<{COUNT}xf16>, tensor<f16>) -> tensor<f16>
      return %y : tensor<f16>
    }}""")
    _, cx = by_xla(str(p.vjp()), [np.zeros(COUNT, np.float16), np.float16(2)])
    np.testing.assert_allclose(cx, np.full(COUNT, 2 / COUNT), rtol=5e-3)


def test_ties_of_a_scatter() -> None:
    """If very many updates of one element are tied, each gets an equal share of the element's cotangent."""
    scatter = Indexing([2], [COUNT, 1], [1], [], [0], [0], 1)
    p = load(scatter.scatter("maximum", "f16"))
    x, u, at = np.full(2, -1, np.float16), np.ones(COUNT, np.float16), np.zeros((COUNT, 1), np.int32)
    _, cu = by_xla(str(p.vjp([2])), [x, at, u, np.full(2, 2, np.float16)])
    np.testing.assert_allclose(cu, np.full(COUNT, 4 / COUNT), rtol=5e-3)
