"""Sums, scatters and half-precision products in the form for NVIDIA's GPUs: values on the CPU, and what compiles."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiduc.backends.iree.compile import compile_module, compile_source
from tiduc.backends.iree.emit.emitter import Emitter, rewrite, within
from tiduc.backends.iree.emit.gpu_scatters import with_rows_added
from tiduc.backends.iree.fast.cuda.gpu_products import gpu_products
from tiduc.backends.iree.fast.cuda.gpu_sums import gpu_sums
from tiduc.backends.iree.faults.half_products import separate_half_products
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.source import Source
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.context import parse, stage
from tiduc.runtime.run import Executable

RNG = np.random.default_rng(0)
CUDA = Settings(cpu=False, cuda=True, tensor_cores=True)

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
SCATTER = """func.func @main({0}%i: tensor<12x1xi32>, %u: tensor<12x5xf32>) -> tensor<7x5xf32> {{
  {1}%0 = "stablehlo.scatter"(%t, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }}) : (tensor<7x5xf32>, tensor<12x1xi32>, tensor<12x5xf32>) -> tensor<7x5xf32>
  return %0 : tensor<7x5xf32>
}}"""
PRODUCT = """func.func @main(%x: tensor<{0}xT>, %y: tensor<{1}xT>) -> tensor<{2}xf32> {{
  %0 = stablehlo.dot_general %x, %y, {3} : (tensor<{0}xT>, tensor<{1}xT>) -> tensor<{2}xf32>
  return %0 : tensor<{2}xf32>
}}"""
NUMBERS = (
    "contracting_dims = [1] x [0]",
    "contracting_dims = [0] x [1]",
    "batching_dims = [0] x [0], contracting_dims = [2] x [1]",
)
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


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
    """Sums of dynamic shape, of complex numbers, and from a start other than 0."""
    assert gpu_sums(parse(text)) == 0


@pytest.mark.parametrize("constant", [True, False])
def test_rows_added_at_once(constant: bool) -> None:
    """Rows meet, and infinities and NaN of one row stay in it."""
    zeros = "%t = stablehlo.constant dense<0.0> : tensor<7x5xf32>\n"
    text = SCATTER.format("", zeros) if constant else SCATTER.format("%t: tensor<7x5xf32>, ", "")
    module = parse(text)

    def rows(b: Emitter, op: Any) -> list[Any]:
        return [with_rows_added(b, *op.operands)] if len(op.regions) else []

    assert stage(rewrite)(module, {"stablehlo.scatter": rows}) == 1
    t, u = RNG.normal(size=(7, 5)).astype(np.float32), RNG.normal(size=(12, 5)).astype(np.float32)
    u[0, 0], u[3, 1], u[4, 1], u[5, 2] = np.inf, np.inf, -np.inf, np.nan
    i = np.array([2, 2, 2, 0, 0, 6, 6, 1, 3, 3, 3, 2], np.int32)[:, None]
    arguments = [i, u] if constant else [t, i, u]
    (expected,), (found,) = evaluate(text, arguments), evaluate(text_of(module), arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.isinf(expected).sum() == 1 and np.isnan(expected).sum() == 2


@pytest.mark.parametrize("name", DTYPES)
def test_half_products_in_tensor_cores(name: str) -> None:
    """Whole tiles of rows and columns; zeros complete the terms."""
    module = parse(PRODUCT.replace("xT>", f"x{name}>").format("100x96", "160x100", "96x160", NUMBERS[1]))
    stage(separate_half_products)(module, CUDA)
    assert gpu_products(module) == 1
    assert "mma_kind" in text_of(module) and "padding" not in text_of(module)
    compile_module(text_of(module), "cuda")
    for op in within(module.operation):
        if "compilation_info" in op.attributes:
            del op.attributes["compilation_info"]
    run = Executable(compile_source(Source(text_of(module), "cpu")), "cpu", entry="main")
    x, y = (RNG.normal(size=s).astype(DTYPES[name]) for s in ((100, 96), (160, 100)))
    expected = np.einsum("ki,jk->ij", *(v.astype(np.float64) for v in (x, y)))
    np.testing.assert_allclose(run(x, y)[0], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "numbers", "settings", "element"),
    [
        (("8x9", "9x8", "8x8"), NUMBERS[0], CUDA, "f32"),
        (("512x100", "100x512", "512x512"), NUMBERS[0], CUDA, "bf16"),
        (("500x100", "100x512", "500x512"), NUMBERS[0], CUDA, "f32"),
        (("4x512x64", "4x64x512", "4x512x512"), NUMBERS[2], CUDA, "f32"),
        (("512x512",) * 3, NUMBERS[0], Settings(cpu=False, cuda=True), "f32"),
        (("512x512",) * 3, NUMBERS[0], Settings(cpu=False, spirv=True), "f32"),
        (("512x512",) * 3, NUMBERS[0], Settings(cpu=False), "bf16"),
    ],
    ids=["small", "whole_tiles", "no_whole_tiles", "batches", "no_tensor_cores", "spirv", "other"],
)
def test_types_of_operands(shapes: tuple[str, ...], numbers: str, settings: Settings, element: str) -> None:
    """Products get operands of f32 unless tensor cores compute them in whole tiles."""
    module = parse(PRODUCT.replace("xT>", "xbf16>").format(*shapes, numbers))
    stage(separate_half_products)(module, settings)
    product = next(op for op in within(module.operation) if op.name == "stablehlo.dot_general")
    assert str(product.operands[0].type) == f"tensor<{shapes[0]}x{element}>"
