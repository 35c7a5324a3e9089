"""Tests programs for which IREE's code generators for GPUs have bugs that its code generator for CPUs does not have.

The programs are compiled for Vulkan and CUDA, and run if a device is present. A software device suffices for Vulkan.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from cases.iree_case import Array, function
from cases.iree_gpu_cases import CASES
from harness.one_module import selected
from harness.vulkan import called, has_device, module_for_gpus, skip_without_device

from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.targets import find_target
from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.context import parse, stage

PAGE = Path(__file__).parents[2] / "docs" / "iree.md"
TARGET = "vulkan:llvmpipe"
RNG = np.random.default_rng(0)
REJECTED = {"constant", "convert", "iota", "leading_zeros", "leading_zeros_of_bytes", "negated_sum", "sort"}
"""Cases that IREE rejects for GPUs without tiduc's rewrites. They are compiled even if no device is present."""


def legalized(text: str, target: str = TARGET) -> str:
    module = parse(text)
    legalize_for_iree(module, cpu=False, spirv=find_target(target).spirv)
    return stage(str)(module)


@pytest.fixture(scope="module", params=["cuda", TARGET])
def rewritten(request: pytest.FixtureRequest) -> dict[str, Sequence[Array]]:
    """Fixture: the results of the selected cases, compiled as one module. Skips the test if the device is missing.

    Without a device, the cases of `REJECTED` are still compiled.
    """
    names = selected(request, "test_rewritten")
    if not has_device(find_target(request.param).device):
        names &= REJECTED
    text = "\n".join(function(name, case) for name, case in CASES.items() if name in names)
    vmfb = module_for_gpus(legalized(text, request.param), request.param)
    skip_without_device(request.param)
    return called(vmfb, request.param, {name: CASES[name].arguments for name in sorted(names)})


@pytest.mark.parametrize("name", CASES)
def test_rewritten(rewritten: dict[str, Sequence[Array]], name: str) -> None:
    np.testing.assert_allclose(rewritten[name][0], CASES[name].expected, rtol=CASES[name].rtol)


@pytest.mark.parametrize("type_, op", [("f64", "exponential"), ("f64", "tan"), ("complex<f64>", "sqrt")])
def test_functions_of_f64_are_refused(type_: str, op: str) -> None:
    text = f"""func.func @main(%x: tensor<2x{type_}>) -> tensor<2x{type_}> {{
      %0 = stablehlo.{op} %x : tensor<2x{type_}>
      return %0 : tensor<2x{type_}>
    }}"""
    with pytest.raises(Unsupported, match="Vulkan has no such function of f64") as refused:
        legalized(text)
    assert refused.value.location == "-:2:12"


def test_a_large_kernel_is_reversed() -> None:
    """Reversing a large transposed kernel compiles for CUDA.

    Without tiduc's rewrite, it does not, because the code divides vectors of 16-bit indices.
    """
    text = """func.func @main(%x: tensor<512x512x3x3xf32>) -> tensor<3x3x512x512xf32> {
      %0 = stablehlo.transpose %x, dims = [2, 3, 1, 0] : (tensor<512x512x3x3xf32>) -> tensor<3x3x512x512xf32>
      %1 = stablehlo.reverse %0, dims = [0, 1] : tensor<3x3x512x512xf32>
      return %1 : tensor<3x3x512x512xf32>
    }"""
    assert compile_module(text, "cuda")


def test_roots_of_f64_stay() -> None:
    text = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
      %0 = stablehlo.sqrt %x : tensor<f64>
      return %0 : tensor<f64>
    }"""
    assert "stablehlo.sqrt" in legalized(text)


SUMS = {
    "concatenate": "%v = stablehlo.concatenate %n, %x, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>",
    "pad": "%v = stablehlo.pad %n, %z, low = [1], high = [3], interior = [0] "
    ": (tensor<4xf32>, tensor<f32>) -> tensor<8xf32>",
}
"""Arrays %v of which only some elements are negated. A pass must not move the negation out of the sum of %v."""


@pytest.mark.parametrize("view", SUMS)
def test_sum_of_some_negated_values(view: str) -> None:
    text = f"""func.func @main(%x: tensor<4xf32>) -> tensor<f32> {{
      %z = stablehlo.constant dense<2.0> : tensor<f32>
      %n = stablehlo.negate %x : tensor<4xf32>
      {SUMS[view]}
      %y = stablehlo.reduce(%v init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      return %y : tensor<f32>
    }}"""
    x = RNG.standard_normal(4).astype(np.float32)
    np.testing.assert_allclose(
        evaluate(legalized(text), [x])[0], 2 + (8 - x.sum() if view == "pad" else 0), rtol=1e-5
    )


@pytest.mark.parametrize("places", [0, 2])
def test_groups_of_another_element_type(places: int) -> None:
    """A grouped convolution of i8 arrays is summed in i32. Its result may be empty."""
    y = f"tensor<1x{places}x4xi32>"
    text = f"""func.func @main(%x: tensor<1x2x4xi8>, %k: tensor<1x2x4xi8>) -> {y} {{
      %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
        window = {{pad = [[0, {places - 2}]]}} {{batch_group_count = 1 : i64, feature_group_count = 2 : i64}}
        : (tensor<1x2x4xi8>, tensor<1x2x4xi8>) -> {y}
      return %y : {y}
    }}"""
    x, k = np.full((1, 2, 4), 100, np.int8), np.full((1, 2, 4), -100, np.int8)
    np.testing.assert_array_equal(evaluate(legalized(text), [x, k])[0], np.full((1, places, 4), -20_000))
