"""Parts of arrays, and what is put together of them: what IREE gets wrong, or does not compile, against XLA."""

import numpy as np
import pytest
from iree.compiler.tools import CompilerToolError, compile_str
from numpy.typing import NDArray
from xla import by_xla

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

WRONG = {"vectors first, of a gather in batches": VECTORS_FIRST}
"""What IREE alone computes, but not as it should."""
REJECTED = {"a gather of a slice with steps": STEPS}
"""What it does not compile."""


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
