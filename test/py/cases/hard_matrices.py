"""Creates matrices for which factorizations often fail, and measures the errors of factorizations."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]
RNG = np.random.default_rng(0)
LIMIT = 8.0
"""The largest allowed error, in units of the machine epsilon times the size of the matrix."""


def normal(dtype: Any, *shape: int, rng: np.random.Generator = RNG) -> Array:
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def unitary(dtype: Any, n: int, rng: np.random.Generator = RNG) -> Array:
    return np.asarray(np.linalg.qr(normal(dtype, n, n, rng=rng))[0])


def general(dtype: Any, m: int, n: int) -> Array:
    """Returns a batch of matrices that are hard to factorize.

    They are random, badly scaled, ill-conditioned, of low rank, zero, unit matrices, permutations, huge, tiny, or have
    equal elements.
    """
    k = min(m, n)
    far = 1e30 if np.finfo(dtype).bits == 32 else 1e200
    hilbert = 1 / (1 + np.add.outer(np.arange(m), np.arange(n)))
    graded = normal(dtype, m, n) * 10.0 ** -np.arange(n)
    steep = unitary(dtype, m)[:, :k] * 10.0 ** (-2 * np.arange(k)) @ unitary(dtype, n)[:k]
    low = normal(dtype, m, 2) @ normal(dtype, 2, n)
    permutation = np.eye(m)[RNG.permutation(m)][:, :n] if m >= n else np.eye(n)[RNG.permutation(n)][:m]
    x = normal(dtype, m, n)
    hole = x.copy()
    hole[:, 1] = hole[:, 2] = 0
    rows_and_columns_scaled = (
        10.0 ** RNG.integers(-8, 8, (m, 1)) * normal(dtype, m, n) * 10.0 ** RNG.integers(-8, 8, n)
    )
    all_ = [
        x,
        rows_and_columns_scaled,
        hilbert,
        graded,
        steep,
        low,
        hole,
        np.zeros((m, n)),
        np.eye(m, n),
        np.ones((m, n)),
        permutation,
    ]
    return np.stack([np.asarray(y, dtype) for y in (*all_, far * x, x / far)])


def hermitian(dtype: Any, n: int) -> Array:
    """Returns a batch of Hermitian matrices.

    They are the sums of the matrices of `general` and their adjoints, matrices with equal eigenvalues, and matrices
    with the eigenvalues x and -x.
    """
    x = general(dtype, n, n)
    q, half = unitary(dtype, n), n // 2
    equal = q * np.where(np.arange(n) < half, 1, 2) @ adjoint(q)
    signs = q * np.where(np.arange(n) < half, 1, -1) @ adjoint(q)
    swap = np.roll(np.eye(n), half, 0) if n % 2 == 0 else np.eye(n)[::-1]
    path = np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    more = [equal, signs, swap, path, np.eye(n)[::-1]]
    return np.concatenate([x + adjoint(x), np.stack([np.asarray(y, dtype) for y in more])])


def positive(dtype: Any, n: int, rng: np.random.Generator = RNG) -> Array:
    """Returns a batch of positive definite matrices.

    They are random, ill-conditioned, unit, diagonal, badly scaled, huge and tiny matrices.
    """
    x = normal(dtype, n, n, rng=rng)
    full = x @ adjoint(x) + n * np.eye(n)
    far = 1e15 if np.finfo(dtype).bits == 32 else 1e150
    q = unitary(dtype, n, rng)
    steep = q * 10.0 ** (-np.arange(n) * (1 if np.finfo(dtype).bits == 32 else 2)) @ adjoint(q)
    scales = 10.0 ** np.arange(n)
    scaled = full * scales * scales[:, None]
    diagonal = np.diag(scales)
    return np.stack(
        [np.asarray(y, dtype) for y in (full, steep, np.eye(n), diagonal, scaled, far * full, full / far)]
    )


def backward_error(y: Array, x: Array, of: Array | None = None) -> float:
    """Returns the largest relative error of y in a batch, in units of the machine epsilon times the size of a matrix.

    The exact matrices are x. The error is relative to the norm of `of`, or of x if `of` is not given.
    """
    of = x if of is None else of
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    size = np.max(np.abs(of), axis=(-2, -1), keepdims=True)
    size[size == 0] = 1
    error = np.linalg.norm(y.astype(wide) / size - x.astype(wide) / size, axis=(-2, -1))
    norm = np.linalg.norm(of.astype(wide) / size, axis=(-2, -1))
    assert np.all(np.isfinite(error))
    return float(np.max(error / np.where(norm == 0, 1, norm)) / (np.finfo(x.dtype).eps * max(x.shape[-2:])))


def orthogonal(q: Array) -> bool:
    """Returns whether the columns are orthonormal up to the tolerance `LIMIT`."""
    gram = adjoint(q) @ q
    return bool(np.max(np.abs(gram - np.eye(q.shape[-1]))) <= LIMIT * q.shape[-2] * np.finfo(q.dtype).eps)


def unpacked(lu: Array) -> tuple[Array, Array]:
    """Returns the factors L and U that `getrf` stores in one matrix."""
    m, n = lu.shape[-2:]
    return np.tril(lu, -1)[..., : min(m, n)] + np.eye(m, min(m, n)), np.triu(lu)[..., : min(m, n), :]


FAILURES = """
func.func @main(%x: tensor<4x4x4xf64>, %d: tensor<3xf64>, %y: tensor<3x1xf64>)
    -> (tensor<4x4x4xf64>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<i32>) {
  %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%x) {mhlo.backend_config = {uplo = 76 : ui8}}
    : (tensor<4x4x4xf64>) -> (tensor<4x4x4xf64>, tensor<4xi32>)
  %1:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%x) {mhlo.backend_config = {}}
    : (tensor<4x4x4xf64>) -> (tensor<4x4x4xf64>, tensor<4x4xi32>, tensor<4xi32>)
  %2:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}}
    : (tensor<4x4x4xf64>) -> (tensor<4x4x4xf64>, tensor<4x4xf64>, tensor<4xi32>)
  %3:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%x) {mhlo.backend_config = {mode = 78 : ui8}} : (tensor<4x4x4xf64>)
    -> (tensor<4x4x4xf64>, tensor<4x4xf64>, tensor<4x4x4xf64>, tensor<4x4x4xf64>, tensor<4xi32>)
  %4:5 = stablehlo.custom_call @lapack_dgtsv_ffi(%d, %d, %d, %y) {mhlo.backend_config = {}}
    : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x1xf64>)
    -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x1xf64>, tensor<i32>)
  return %0#0, %0#1, %1#2, %2#2, %3#4, %4#4
    : tensor<4x4x4xf64>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<i32>
}
"""


def lapack(function: Callable[..., Any], *arguments: Array) -> tuple[Array, ...]:
    """Returns the results of a JAX function as a tuple of NumPy arrays."""
    with jax.enable_x64(True):
        return tuple(np.asarray(y) for y in jax.tree.leaves(function(*arguments)))


def slow(*values: Any) -> Any:
    """Returns the parameters of a test case with the mark `slow`."""
    return pytest.param(*values, marks=pytest.mark.slow)
