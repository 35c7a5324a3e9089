"""Parts of arrays, and what is put together of them: what IREE gets wrong, or does not compile, against XLA."""

import iree.runtime as rt
import numpy as np
import pytest
from harness.xla import by_xla
from iree.compiler.tools import CompilerToolError, compile_str
from numpy.typing import NDArray

import tiduc.runtime
from tiduc.program import load
from tiduc.runtime.signature import DTYPES

VECTORS_FIRST = """
func.func @main(%x: tensor<5x4xf32>, %i: tensor<1x5x3x3xi32>) -> tensor<5x3x3x1xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{
    dimension_numbers = #stablehlo.gather<
      offset_dims = [3], collapsed_slice_dims = [], operand_batching_dims = [0],
      start_indices_batching_dims = [1], start_index_map = [1], index_vector_dim = 0>,
    slice_sizes = array<i64: 1, 1>, indices_are_sorted = false
  }> : (tensor<5x4xf32>, tensor<1x5x3x3xi32>) -> tensor<5x3x3x1xf32>
  return %0 : tensor<5x3x3x1xf32>
}
"""
STEPS = """
func.func @main(%x: tensor<9x3xf32>, %i: tensor<4x1xi32>) -> tensor<2x4xf32> {
  %0 = stablehlo.slice %x [0:9:2, 1:2] : (tensor<9x3xf32>) -> tensor<5x1xf32>
  %1 = "stablehlo.gather"(%0, %i) <{
    dimension_numbers = #stablehlo.gather<
      offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 2, 1>, indices_are_sorted = false
  }> : (tensor<5x1xf32>, tensor<4x1xi32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
"""
WINDOWS_OVER_NOTHING = """
func.func @main(%x: tensor<0xi16>, %y: tensor<0xi16>) -> (tensor<1xi16>, tensor<1xi16>) {
  %zero = stablehlo.constant dense<0> : tensor<i16>
  %least = stablehlo.constant dense<-32768> : tensor<i16>
  %0:2 = "stablehlo.reduce_window"(%x, %y, %least, %zero) <{
    padding = dense<2> : tensor<1x2xi64>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>
  }> ({
  ^bb0(%a: tensor<i16>, %b: tensor<i16>, %c: tensor<i16>, %d: tensor<i16>):
    %1 = stablehlo.maximum %a, %c : tensor<i16>
    %2 = stablehlo.or %b, %d : tensor<i16>
    stablehlo.return %1, %2 : tensor<i16>, tensor<i16>
  }) : (tensor<0xi16>, tensor<0xi16>, tensor<i16>, tensor<i16>) -> (tensor<1xi16>, tensor<1xi16>)
  return %0#0, %0#1 : tensor<1xi16>, tensor<1xi16>
}
"""
SLICED = """
func.func @main(%x: tensor<1000xf32>, %i: tensor<i32>) -> (tensor<160xf32>, tensor<160xf32>, tensor<4x128xi8>) {
  %0 = stablehlo.slice %x [3:163] : (tensor<1000xf32>) -> tensor<160xf32>
  %1 = stablehlo.negate %0 : tensor<160xf32>
  %2 = stablehlo.dynamic_slice %x, %i, sizes = [160] : (tensor<1000xf32>, tensor<i32>) -> tensor<160xf32>
  %3 = stablehlo.negate %2 : tensor<160xf32>
  %4 = stablehlo.convert %x : (tensor<1000xf32>) -> tensor<1000xi8>
  %5 = stablehlo.slice %4 [2:515] : (tensor<1000xi8>) -> tensor<513xi8>
  %6 = stablehlo.slice %5 [1:513] : (tensor<513xi8>) -> tensor<512xi8>
  %7 = stablehlo.reshape %6 : (tensor<512xi8>) -> tensor<4x128xi8>
  %8 = stablehlo.negate %7 : tensor<4x128xi8>
  return %1, %3, %8 : tensor<160xf32>, tensor<160xf32>, tensor<4x128xi8>
}
"""
CONCATENATED = """
func.func @main(%x: tensor<163xf32>, %y: tensor<64x64xf32>) -> tensor<4259xf32> {
  %0 = stablehlo.negate %x : tensor<163xf32>
  %1 = stablehlo.negate %y : tensor<64x64xf32>
  %2 = stablehlo.reshape %1 : (tensor<64x64xf32>) -> tensor<4096xf32>
  %3 = stablehlo.concatenate %0, %2, dim = 0 : (tensor<163xf32>, tensor<4096xf32>) -> tensor<4259xf32>
  return %3 : tensor<4259xf32>
}
"""

WRONG = {"vectors first, of a gather in batches": VECTORS_FIRST}
"""What IREE alone computes, but not as it should."""
REJECTED = {"a gather of a slice with steps": STEPS, "windows over nothing": WINDOWS_OVER_NOTHING}
"""What it does not compile."""
ON_VULKAN = {"slices between fourth elements": SLICED, "arrays put there": CONCATENATED}
"""What it gets wrong on Vulkan."""


def _arguments(text: str) -> list[NDArray[np.generic]]:
    """Numbers that all differ, but for indices, which are small, or out of range."""
    rng, arguments = np.random.default_rng(0), []
    for value in load(text).signature.inputs:
        shape, dtype = tuple(n or 0 for n in value.type.shape), DTYPES[value.type.element]
        x = rng.integers(-2, 6, shape) if dtype.kind == "i" else rng.permutation(np.arange(np.prod(shape)))
        arguments.append(x.reshape(shape).astype(dtype))
    return arguments


@pytest.mark.parametrize("name", [*WRONG, *REJECTED])
def test_values_are_those_of_xla(name: str) -> None:
    text = {**WRONG, **REJECTED}[name]
    arguments = _arguments(text)
    for got, expected in zip(load(text).compile()(*arguments), by_xla(text, arguments), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", WRONG)
def test_iree_alone_is_wrong(name: str) -> None:
    """This fails when IREE gets it right, and the pattern can go."""
    arguments = _arguments(WRONG[name])
    vmfb = compile_str(WRONG[name], input_type="stablehlo", target_backends=["llvm-cpu"])
    got = tiduc.runtime.load(vmfb)["main"](*arguments)
    expected = by_xla(WRONG[name], arguments)
    assert not all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("name", REJECTED)
def test_iree_alone_does_not_compile(name: str) -> None:
    """As above."""
    with pytest.raises(CompilerToolError):
        compile_str(REJECTED[name], input_type="stablehlo", target_backends=["llvm-cpu"])


@pytest.mark.parametrize("name", ON_VULKAN)
def test_values_on_vulkan_are_those_of_xla(name: str) -> None:
    text = ON_VULKAN[name]
    main, arguments = load(text).compile("vulkan:llvmpipe"), _arguments(text)
    try:
        rt.get_device("vulkan")
    except Exception:
        pytest.skip("no Vulkan device")
    for i in range(5):
        arguments = [x if x.ndim else np.array(i, x.dtype) for x in arguments]
        for got, expected in zip(main(*arguments), by_xla(text, arguments), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ON_VULKAN)
def test_iree_alone_is_wrong_on_vulkan(name: str) -> None:
    """This fails when IREE gets it right, and `backends/iree/faults/unaligned_slices.py` can go."""
    try:
        rt.get_device("vulkan")
    except Exception:
        pytest.skip("no Vulkan device")
    text = ON_VULKAN[name]
    arguments = [x if x.ndim else np.array(3, x.dtype) for x in _arguments(text)]
    flags = ["--iree-vulkan-target=llvmpipe"]
    vmfb = compile_str(text, input_type="stablehlo", target_backends=["vulkan-spirv"], extra_args=flags)
    got = tiduc.runtime.load(vmfb, "vulkan:llvmpipe")["main"](*arguments)
    assert not any(np.array_equal(a, b) for a, b in zip(got, by_xla(text, arguments), strict=True))
