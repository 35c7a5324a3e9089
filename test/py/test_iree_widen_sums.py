"""On IREE, sums, products and windows of f16 and bf16 have rounding errors of their type only.

Shapes are static or dynamic.
"""

import ml_dtypes
import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one, compiled_together

import tiduc

AFFINE = """func.func @main(%x: tensor<2048x64xT>, %w: tensor<64x3xT>, %b: tensor<3xT>) -> tensor<2048x3xT> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2048x64xT>, tensor<64x3xT>) -> tensor<2048x3xT>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xT>) -> tensor<2048x3xT>
  %2 = stablehlo.add %0, %1 : tensor<2048x3xT>
  return %2 : tensor<2048x3xT>
}"""
SUM = """func.func @main(%x: tensor<?x3xT>) -> tensor<3xT> {
  %zero = stablehlo.constant dense<0.0> : tensor<T>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<?x3xT>, tensor<T>) -> tensor<3xT>
  return %0 : tensor<3xT>
}"""
DEPTHWISE = """func.func @main(%x: tensor<1x9x9x4xT>, %w: tensor<3x3x1x4xT>) -> tensor<1x7x7x4xT> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 4 : i64}
    : (tensor<1x9x9x4xT>, tensor<3x3x1x4xT>) -> tensor<1x7x7x4xT>
  return %0 : tensor<1x7x7x4xT>
}"""
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def assert_rounded(found: np.ndarray, wanted: np.ndarray, dtype: type) -> None:
    """Asserts that the error of `found` is at most the epsilon of `dtype` times the largest element of `wanted`.

    `wanted` is in f64. The bound is the error of two roundings.
    """
    error = np.abs(found.astype(np.float64) - wanted) / np.max(np.abs(wanted))
    assert np.max(error) <= float(ml_dtypes.finfo(dtype).eps)


@pytest.fixture(scope="module")
def static() -> Joined:
    """Fixture: the programs with static shapes, compiled as one function."""
    programs = {}
    for name in DTYPES:
        gradient = tiduc.load(AFFINE.replace("xT>", f"x{name}>")).vjp(wrt=["w", "b"])
        programs |= {
            ("affine", name): gradient.text,
            ("depthwise", name): DEPTHWISE.replace("xT>", f"x{name}>"),
        }
    return compiled_as_one(programs)


@pytest.fixture(scope="module")
def dynamic() -> dict[bool, dict[str, tiduc.Executable]]:
    """Fixture: sums along a dynamic dimension, as functions of one module, with and without rewrites for speed."""
    programs = {name: SUM.replace("T>", f"{name}>") for name in DTYPES}
    return {fast: compiled_together(programs, fast=fast) for fast in (True, False)}


@pytest.mark.parametrize("name", DTYPES)
def test_gradients_toward_weights_and_bias(name: str, static: Joined) -> None:
    dtype, rng = DTYPES[name], np.random.default_rng(0)
    x, w, b, t = (rng.random(s).astype(dtype) for s in ((2048, 64), (64, 3), (3,), (2048, 3)))
    _, dw, db = static["affine", name](x, w, b, t)
    assert_rounded(dw, x.astype(np.float64).T @ t.astype(np.float64), dtype)
    assert_rounded(db, t.astype(np.float64).sum(0), dtype)


@pytest.mark.parametrize("name", DTYPES)
def test_depthwise_convolution(name: str, static: Joined) -> None:
    dtype, rng = DTYPES[name], np.random.default_rng(0)
    x, w = rng.random((1, 9, 9, 4)).astype(dtype), rng.random((3, 3, 1, 4)).astype(dtype)
    (found,) = static["depthwise", name](x, w)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (1, 2))
    assert_rounded(found, np.einsum("bijfkl,klf->bijf", windows, w.astype(np.float64)[:, :, 0]), dtype)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("fast", [True, False])
def test_sums_along_a_dynamic_dimension(
    name: str, fast: bool, dynamic: dict[bool, dict[str, tiduc.Executable]]
) -> None:
    dtype, call = DTYPES[name], dynamic[fast][name]
    for n in (0, 1, 4096):
        (found,) = call(np.ones((n, 3), dtype))
        assert_rounded(found, np.full(3, float(n)), dtype) if n else np.testing.assert_array_equal(found, 0)
