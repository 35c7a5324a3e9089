"""Tests factorizations, which `tidu-legalize-for-iree` expands into loops: accuracy on hard matrices, and failures.

Accuracy is measured by the backward error: the relative error of the product of the factors, in units of machine
epsilon times the size of the matrix. LAPACK's backward errors are about one. JAX exports the programs, and IREE runs
them on the CPU.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax.scipy.linalg as jsl
import numpy as np
import pytest
from cases.hard_matrices import (
    FAILURES,
    LIMIT,
    adjoint,
    backward_error,
    general,
    hermitian,
    lapack,
    normal,
    orthogonal,
    positive,
    slow,
    unpacked,
)
from harness.exports import exported
from jax import lax
from jax import numpy as jnp
from jax._src.lax import linalg  # geqrf and ormqr are not public
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]
N = 6


def ran(function: Callable[..., Any], *arguments: Array, platform: str = "cpu") -> tuple[Array, ...]:
    """Exports a JAX function for a platform, compiles it by IREE, and returns its results."""
    return tiduc.load(exported(function, *arguments, platform=platform)).compile()(*arguments)


@pytest.mark.parametrize(("dtype", "n"), [slow(np.float64, N), (np.complex64, 5)])
def test_cholesky(dtype: Any, n: int) -> None:
    x = positive(dtype, n)
    lower, upper = ran(
        lambda a: (lax.linalg.cholesky(a, symmetrize_input=False), jnp.linalg.cholesky(a, upper=True)), x
    )
    assert np.array_equal(lower, np.tril(lower)) and np.array_equal(upper, np.triu(upper))
    assert backward_error(lower @ adjoint(lower), x) < LIMIT
    assert backward_error(adjoint(upper) @ upper, x) < LIMIT


ROOTS = """
func.func @main(%x: tensor<4x11x11xcomplex<f64>>) -> (tensor<4x11x11xcomplex<f64>>, tensor<4x11x11xcomplex<f64>>,
    tensor<4x11x11xcomplex<f64>>, tensor<4xi32>, tensor<4x11x11xcomplex<f64>>, tensor<4xi32>) {
  %0 = stablehlo.cholesky %x, lower = true : tensor<4x11x11xcomplex<f64>>
  %1 = stablehlo.cholesky %x, lower = false : tensor<4x11x11xcomplex<f64>>
  %2:2 = stablehlo.custom_call @lapack_zpotrf_ffi(%x) {mhlo.backend_config = {uplo = 76 : ui8}}
    : (tensor<4x11x11xcomplex<f64>>) -> (tensor<4x11x11xcomplex<f64>>, tensor<4xi32>)
  %3:2 = stablehlo.custom_call @lapack_zpotrf_ffi(%x) {mhlo.backend_config = {uplo = 85 : ui8}}
    : (tensor<4x11x11xcomplex<f64>>) -> (tensor<4x11x11xcomplex<f64>>, tensor<4xi32>)
  return %0, %1, %2#0, %2#1, %3#0, %3#1 : tensor<4x11x11xcomplex<f64>>, tensor<4x11x11xcomplex<f64>>,
    tensor<4x11x11xcomplex<f64>>, tensor<4xi32>, tensor<4x11x11xcomplex<f64>>, tensor<4xi32>
}
"""


@pytest.mark.slow
def test_one_triangle_of_cholesky() -> None:
    """Cholesky factorizations read only one triangle. If column n fails, `info` is n + 1 (counted from 0).

    Then the columns before it are right, and the elements after it are NaN.
    """
    x = positive(np.complex128, 11)[[0] * 4]
    x[1, 6, 6], x[2, 0, 0], x[3, 9, 9] = -1, 0, np.nan
    lower, upper = np.tril(np.ones((11, 11), bool)), np.triu(np.ones((11, 11), bool))
    run = tiduc.load(ROOTS).compile()
    for used, first, second, *infos in ((lower, 0, 2, 3), (upper, 1, 4, 5)):
        results = run(np.where(used, x, np.nan))
        factor, whole, info = results[first], results[second], results[infos[0]]
        assert info.tolist() == [0, 7, 1, 10]
        assert np.array_equal(whole[:, used], factor[:, used], equal_nan=True)
        assert np.isnan(whole[:, ~used]).all() and not factor[:, ~used].any()
        columns = factor if first == 0 else adjoint(factor)
        good = np.linalg.cholesky(x[0])
        assert np.allclose(columns[0], good, atol=1e-12)
        for matrix, n in ((1, 6), (3, 9)):
            assert np.allclose(columns[matrix, :, :n], good[:, :n], atol=1e-12)
            assert np.isnan(columns[matrix, n, n]) and np.isnan(columns[matrix, -1, -1])


@pytest.mark.parametrize(
    ("dtype", "m", "n"), [slow(np.float64, N, N), slow(np.complex128, 4, 5), slow(np.float32, 5, 3)]
)
def test_lu(dtype: Any, m: int, n: int) -> None:
    x = general(dtype, m, n)
    lu, pivots, permutation = ran(lax.linalg.lu, x)
    lower, upper = unpacked(lu)
    permuted = np.take_along_axis(x, permutation[..., None], -2)
    assert backward_error(lower @ upper, permuted) < LIMIT
    assert np.max(np.abs(lower)) <= 1.5  # not 1, because complex pivots are chosen by |re| + |im|
    assert np.array_equal(np.sort(permutation, -1), np.broadcast_to(np.arange(m), permutation.shape))
    expected = lapack(lax.linalg.lu, x[0])
    assert np.array_equal(pivots[0], expected[1]) and np.array_equal(permutation[0], expected[2])


@pytest.mark.parametrize(("dtype", "m", "n"), [(np.float64, 70, 40), slow(np.complex128, 40, 70)])
def test_lu_in_blocks(dtype: Any, m: int, n: int) -> None:
    """The LU factors, pivots and permutations of matrices with more columns than a block equal LAPACK's."""
    x = normal(dtype, 2, m, n)
    x[1, :, 5] = 0
    ours, theirs = ran(lax.linalg.lu, x), lapack(lax.linalg.lu, x)
    assert np.allclose(ours[0], theirs[0], atol=1e-11)
    assert all(np.array_equal(y, expected) for y, expected in zip(ours[1:], theirs[1:], strict=True))


def test_pivots() -> None:
    """LU chooses as pivot the first entry with the largest |re| + |im|, and no NaN unless it is on the diagonal."""
    ties = np.array([[1.0, 2, 3], [-4, 1, 0], [4, 1, 5]])
    missing = np.array([[1.0, 2, 3], [np.nan, 1, 0], [-4, 1, 5]])
    first = np.array([[np.nan, 2, 3], [7, 1, 0], [-4, 1, 5]])
    parts = np.array([[5j, 1], [3 + 3j, 1]])
    lu, pivots, of_parts = ran(
        lambda x, y: (*lax.linalg.lu(x)[:2], lax.linalg.lu(y)[1]), np.stack([ties, missing, first]), parts
    )
    assert pivots[:, 0].tolist() == [1, 2, 0]
    assert np.isnan(lu[1]).any() and np.isnan(lu[2, 1:]).all()
    assert of_parts.tolist() == [1, 1]


TRIANGULAR = [
    (*flags, transposed, conjugated)
    for flags in itertools.product((True, False), repeat=3)
    for transposed, conjugated in ((False, False), (True, False), (True, True))
]
"""All kinds of triangular solves: whether the matrix is on the left, lower, unit-diagonal, transposed, conjugated."""


@pytest.mark.parametrize(
    ("dtype", "n", "width", "every"),
    [
        slow(np.float64, 9, 3, 1),
        (np.complex128, 4, 9, 3),
        slow(np.complex128, 4, 9, 1),
        slow(np.float32, 40, 1, 1),
    ],
)
def test_triangular_solve(dtype: Any, n: int, width: int, every: int) -> None:
    """Triangular solves of all kinds (or of every third kind) are accurate. Entries that must not be read are NaN."""
    kinds = [kind for i, kind in enumerate(TRIANGULAR) if (i // 3 + i) % every == 0]
    a = normal(dtype, 2, n, n) + 2 * n * np.eye(n, dtype=dtype)
    left, right = normal(dtype, 2, n, width), normal(dtype, 2, width, n)

    def all_(a: Any, left: Any, right: Any) -> Any:
        solutions = []
        for on_left, lower, unit, transposed, conjugated in kinds:
            kept = jnp.tril(jnp.ones((n, n)), -1 if unit else 0)
            x = jnp.where(kept if lower else kept.T, a, jnp.nan)
            solutions.append(
                lax.linalg.triangular_solve(
                    x,
                    left if on_left else right,
                    left_side=on_left,
                    lower=lower,
                    unit_diagonal=unit,
                    transpose_a=transposed,
                    conjugate_a=conjugated,
                )
            )
        return solutions

    of_lapack = lapack(all_, a, left, right)
    for kind, x, expected in zip(kinds, ran(all_, a, left, right), of_lapack, strict=True):
        assert np.max(np.abs(x - expected)) <= 50 * np.finfo(dtype).eps * np.max(np.abs(expected)), kind


@pytest.mark.parametrize(
    ("dtype", "m", "n"), [slow(np.float64, N, 4), (np.complex64, 4, 5), slow(np.complex128, 33, 20)]
)
def test_qr(dtype: Any, m: int, n: int) -> None:
    x = general(dtype, m, n)
    q, r, thin = ran(lambda a: (*jnp.linalg.qr(a, mode="complete"), jnp.linalg.qr(a)[0]), x)
    assert backward_error(q @ r, x) < LIMIT and np.array_equal(r, np.triu(r))
    assert orthogonal(q)
    assert np.array_equal(thin, q[..., : min(m, n)])
    of_lapack = np.linalg.qr(x[0])[1]
    assert np.allclose(r[0, : min(m, n)], of_lapack, atol=50 * np.finfo(dtype).eps)  # also the signs


def test_one_column() -> None:
    """QR and SVD of matrices with one column are correct. IREE once reordered reads and writes of such arrays."""
    x = normal(np.float64, 2, 3, 1)
    q, r, u, values, vh = ran(lambda a: (*jnp.linalg.qr(a), *jnp.linalg.svd(a, full_matrices=False)), x)
    assert np.allclose(q @ r, x) and np.allclose(u * values[:, None] @ vh, x)


@pytest.mark.parametrize(
    ("dtype", "n"), [slow(np.float64, N), slow(np.float32, 37), (np.complex128, 33), slow(np.complex64, 7)]
)
def test_eigh(dtype: Any, n: int) -> None:
    x = hermitian(dtype, n)
    v, w = ran(lambda a: lax.linalg.eigh(a, symmetrize_input=False), x)
    assert backward_error(v * w[:, None] @ adjoint(v), x) < LIMIT
    assert orthogonal(v) and np.all(np.diff(w) >= 0)


@pytest.mark.parametrize(
    ("dtype", "m", "n", "full"),
    [
        slow(np.float64, N, 4, True),
        slow(np.complex64, 8, 13, True),
        slow(np.float32, 37, 37, False),
        (np.complex128, 3, 3, True),
    ],
)
def test_svd(dtype: Any, m: int, n: int, full: bool) -> None:
    x = general(dtype, m, n)
    u, s, vh = ran(lambda a: jnp.linalg.svd(a, full_matrices=full), x)
    k = min(m, n)
    assert u.shape[-1] == (m if full else k) and vh.shape[-2] == (n if full else k)
    assert backward_error(u[..., :k] * s[:, None] @ vh[:, :k], x) < LIMIT
    assert orthogonal(u) and orthogonal(adjoint(vh)) and np.all(np.diff(s) <= 0) and np.all(s >= 0)


@pytest.mark.parametrize(("dtype", "n"), [slow(np.float64, N), slow(np.complex64, 5), slow(np.float32, 3)])
def test_eig(dtype: Any, n: int) -> None:
    """Left and right eigenvectors have small backward errors and norm 1, and eigenvalues equal NumPy's.

    Some matrices are triangular or defective, or have pairs of complex eigenvalues.
    """
    more = [np.triu(normal(dtype, n, n)), np.eye(n, k=1) + np.eye(n), np.roll(np.eye(n), 1, 0)]
    x = np.concatenate([general(dtype, n, n), np.stack([np.asarray(y, dtype) for y in more])])
    w, left, right = ran(lax.linalg.eig, x)
    assert backward_error(x @ right, right * w[:, None], x) < LIMIT
    assert backward_error(adjoint(x) @ left, left * np.conj(w)[:, None], x) < LIMIT
    for vectors in (left, right):
        assert np.allclose(np.linalg.norm(vectors, axis=-2), 1, atol=n * np.finfo(dtype).eps)
    expected = np.linalg.eigvals(x[0])
    assert all(np.min(np.abs(expected - value)) <= 1e3 * np.finfo(dtype).eps for value in w[0])
    assert np.iscomplexobj(x) or np.all(w[-3].imag == 0)


def test_tridiagonal_solve() -> None:
    """Tridiagonal solves exchange rows, so that they are accurate for matrices with zeros on the diagonal."""
    dl, d, du = normal(np.complex128, 3, 2, 7)
    d[:, ::3] = 0
    y = normal(np.complex128, 2, 7, 2)
    (x,) = ran(lax.linalg.tridiagonal_solve, dl, d, du, y)
    a = [np.diag(d[i]) + np.diag(dl[i, 1:], -1) + np.diag(du[i, :-1], 1) for i in range(2)]
    assert backward_error(np.stack(a) @ x, y) < 50


@pytest.mark.slow
def test_perturbed_tridiagonal_solve() -> None:
    """With `perturb_singular`, a tridiagonal solve replaces a pivot 0 by epsilon.

    Inverse iteration needs this; `eigh_tridiagonal`, which uses it, gives correct eigenvectors.
    """
    d, e, y = np.array([1.0, 1, 0, 1]), np.zeros(4), np.ones((4, 1))
    x, w, v = ran(
        lambda d, e, y: (
            lax.linalg.tridiagonal_solve(e, d, e, y, perturb_singular=True),
            *jsl.eigh_tridiagonal(jnp.cumsum(y[:, 0]), y[1:, 0]),
        ),
        *(d, e, y),
    )
    assert np.allclose(x[:, 0], [1, 1, 1 / np.finfo(np.float64).eps, 1])
    matrix = np.diag(np.arange(1.0, 5)) + np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    assert np.allclose(v * w @ v.T, matrix, atol=1e-12) and np.allclose(v.T @ v, np.eye(4), atol=1e-12)


def test_solves_in_blocks() -> None:
    """Cholesky, LU and their solves are accurate for sizes that exceed a block and are no multiples of a block."""
    x, y = normal(np.float64, 70, 70), normal(np.float64, 70, 3)
    spd = x @ x.T + np.eye(70)

    def both(a: Any, s: Any, c: Any) -> Any:
        factor = lax.linalg.cholesky(s, symmetrize_input=False)
        return lax.linalg.lu(a)[0], factor, jnp.linalg.solve(a, c), jsl.cho_solve((factor, True), c)

    lu, factor, solved, of_spd = ran(both, x, spd, y)
    assert np.allclose(lu, lapack(lax.linalg.lu, x)[0], atol=1e-11)
    assert backward_error(factor @ factor.T, spd) < LIMIT
    assert np.linalg.norm(x @ solved - y) <= 70 * 2.2e-16 * np.linalg.norm(x) * np.linalg.norm(solved)
    assert np.linalg.norm(spd @ of_spd - y) <= 70 * 2.2e-16 * np.linalg.norm(spd) * np.linalg.norm(of_spd)


@pytest.mark.slow
def test_larger_matrices() -> None:
    x = normal(np.float64, 64, 64)
    q, r, v, w, u, s, vh = ran(
        lambda a: (*jnp.linalg.qr(a), *lax.linalg.eigh(a + a.T), *jnp.linalg.svd(a, full_matrices=False)), x
    )
    assert backward_error(q @ r, x) < LIMIT and orthogonal(q)
    assert backward_error(v * w @ v.T, x + x.T) < LIMIT and orthogonal(v)
    assert backward_error(u * s @ vh, x) < LIMIT and orthogonal(u) and orthogonal(vh.T)


@pytest.mark.slow
def test_pivoted_qr_and_products_of_reflectors() -> None:
    """QR with pivoting gives falling diagonals; `ormqr` multiplies by Q^H; `geqp3` puts selected columns first."""
    x, c = general(np.complex128, 5, 4), normal(np.complex128, 13, 3, 5)

    def both(a: Any, c: Any, wanted: Any) -> Any:
        q, r, order = lax.linalg.qr(a, pivoting=True, full_matrices=False)
        packed, taus = linalg.geqrf(a)
        turned = linalg.ormqr(packed, taus, c, left=False, transpose=True)
        return q, r, order, turned, linalg.geqp3(a, wanted)

    wanted = np.broadcast_to(np.array([0, 1, 0, 1], np.int32), (13, 4))
    q, r, order, product, *others = ran(both, x, c, wanted)
    assert backward_error(q @ r, np.take_along_axis(x, order[:, None], -1)) < LIMIT and orthogonal(q)
    sizes = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    assert np.all(sizes[:, 1:] <= sizes[:, :-1] * (1 + 1e-12))
    full = np.linalg.qr(x[0], mode="complete")[0]
    assert np.allclose(product[0], c[0] @ adjoint(full), atol=1e-13)
    for actual, expected in zip(others, lapack(linalg.geqp3, x[0], wanted[0]), strict=True):
        assert np.allclose(actual[0], expected, atol=1e-13)


def test_info() -> None:
    """The result `info` of several factorizations is nonzero exactly for the matrices for which they fail."""
    x = np.stack([np.eye(4) + 0.1, np.diag([1.0, 2, -3, 4]), np.diag([1.0, 0, 2, 3]), np.eye(4)])
    x[3, 2, 1] = np.nan
    y, *info = tiduc.load(FAILURES).compile()(x, np.zeros(3), np.ones((3, 1)))
    assert [i.tolist() for i in info] == [[0, 3, 2, 3], [0, 0, 2, 0], [0, 0, 0, 1], [0, 0, 0, 1], 1]
    upper = np.triu_indices(4, 1)
    assert np.array_equal(y[0][upper], x[0][upper])  # entries that are not read are returned unchanged
    assert np.allclose(np.tril(y[0]), np.linalg.cholesky(x[0]))


@pytest.mark.more
def test_failures_as_jax_shows_them() -> None:
    """For each matrix for which a factorization fails, JAX's results are NaN; those of other matrices are finite."""
    x, s = normal(np.float64, 4, 21, 21), np.stack([np.eye(3), -np.eye(3)])
    x[1, 7, 3], x[2, 20, 19], x[3, 5, 5] = np.nan, np.inf, -np.inf

    def all_of(a: Any, s: Any) -> Any:
        eigh, svd = lax.linalg.eigh(a, symmetrize_input=False), jnp.linalg.svd(a, full_matrices=False)
        values = jnp.linalg.eigvalsh(a), jnp.linalg.svd(a, compute_uv=False)
        return jnp.linalg.cholesky(s), *eigh, *svd, *values

    factor, *results = ran(all_of, x, s)
    assert np.isfinite(factor[0]).all() and np.isnan(factor[1][np.tril_indices(3)]).all()
    for y in results:
        assert np.isfinite(y[0]).all() and np.isnan(y[1:]).all()
