"""Tests the rewrite of sums for NVIDIA's GPUs: values on the CPU, and which sums are not rewritten."""

from typing import Any

import numpy as np
import pytest

from tiduc.backends.iree.fast.cuda.gpu_sums import gpu_sums
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.mlir.context import parse, stage

RNG = np.random.default_rng(0)

SUM = """func.func @main(%x: tensor<{0}xf32>) -> tensor<{1}xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [{2}]
    : (tensor<{0}xf32>, tensor<f32>) -> tensor<{1}xf32>
  return %0 : tensor<{1}xf32>
}}"""
PRODUCTS = """func.func @main(%x: tensor<197x3x5xf32>, %y: tensor<197x3x5xf32>) -> tensor<3x5xf32> {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [1, 2] x [1, 2], contracting_dims = [0] x [0]
    : (tensor<197x3x5xf32>, tensor<197x3x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}"""


@stage
def text_of(module: Any) -> str:
    return str(module.operation.get_asm(assume_verified=True))


@pytest.mark.parametrize(
    ("sizes", "dimensions", "parts"),
    [((197, 6), [0], True), ((4, 128, 3), [1, 0], True), ((128, 6), [0], False), ((6, 900), [1], False)],
)
def test_sums_in_parts(sizes: tuple[int, ...], dimensions: list[int], parts: bool) -> None:
    rest = [n for d, n in enumerate(sizes) if d not in dimensions]
    words = ("x".join(map(str, each)) for each in (sizes, rest))
    text = SUM.format(*words, ", ".join(map(str, dimensions)))
    module = parse(text)
    assert gpu_sums(module) == int(parts)
    x = RNG.normal(size=sizes).astype(np.float32)
    expected = x.sum(tuple(dimensions), dtype=np.float64)
    np.testing.assert_allclose(evaluate(text_of(module), [x])[0], expected, rtol=0, atol=1e-4)


def test_sums_of_products_in_parts() -> None:
    module = parse(PRODUCTS)
    assert gpu_sums(module) == 1
    x, y = RNG.normal(size=(2, 197, 3, 5)).astype(np.float32)
    expected = np.einsum("rij,rij->ij", *(v.astype(np.float64) for v in (x, y)))
    np.testing.assert_allclose(evaluate(text_of(module), [x, y])[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        PRODUCTS.replace("197x", "?x"),
        PRODUCTS.replace("tensor<3x5", "tensor<?x5"),
        SUM.format("?x6", "6", "0"),
        SUM.format("197x?", "?", "0"),
        SUM.format("197x6", "6", "0").replace("0.0", "(0.0, 0.0)").replace("f32", "complex<f32>"),
        SUM.format("197x6", "6", "0").replace("0.0", "1.0"),
    ],
    ids=["rows", "columns", "rows_of_elements", "columns_of_elements", "complex", "start"],
)
def test_sums_that_stay(text: str) -> None:
    """`gpu_sums` rewrites no sum with dynamic shapes, of complex numbers, or with an initial value other than 0."""
    assert gpu_sums(parse(text)) == 0
