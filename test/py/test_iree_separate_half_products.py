"""Tests the rewrite of f16 and bf16 products for GPUs: values on the CPU, and that programs compile."""

import ml_dtypes
import numpy as np
import pytest
from test_iree_gpu_sums import RNG, text_of

from tiduc.backends.iree.compile import compile_module, compile_source
from tiduc.backends.iree.fast.cuda.gpu_products import gpu_products
from tiduc.backends.iree.faults.separate_half_products import separate_half_products
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.source import Source
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse, stage
from tiduc.runtime.run import Executable

CUDA = Settings(cpu=False, cuda=True, tensor_cores=True)


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


@pytest.mark.parametrize("name", DTYPES)
def test_half_products_in_tensor_cores(name: str) -> None:
    """A product whose rows and columns fill whole tiles uses tensor cores, and its values equal NumPy's.

    The contracted dimension is padded by zeros.
    """
    module = parse(PRODUCT.replace("xT>", f"x{name}>").format("100x96", "160x100", "96x160", NUMBERS[1]))
    stage(separate_half_products)(module, CUDA)
    assert gpu_products(module) == 1
    assert "mma_kind" in text_of(module) and "padding" not in text_of(module)
    compile_module(text_of(module), "cuda")
    for op in outer_first(module.operation):
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
    """The operands of a bf16 product are converted to f32 on CUDA and SPIR-V, unless tensor cores compute it.

    On other targets, the operands stay bf16.
    """
    module = parse(PRODUCT.replace("xT>", "xbf16>").format(*shapes, numbers))
    stage(separate_half_products)(module, settings)
    product = next(op for op in outer_first(module.operation) if op.name == "stablehlo.dot_general")
    assert str(product.operands[0].type) == f"tensor<{shapes[0]}x{element}>"
