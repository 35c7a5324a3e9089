"""Tests `numpy.linalg` on eager arrays, run by IREE: which elements are read, singular matrices, and errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tiduc.eager import Array, Interpreter, executing, grad

DRAW = np.random.default_rng(0)
B = DRAW.standard_normal((3, 3))
A = B @ B.T + 3 * np.eye(3) + np.triu(DRAW.standard_normal((3, 3)), 1) / 5  # not symmetric
W = DRAW.standard_normal((3, 3))

OF_A_TRIANGLE: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: np.sum(np.linalg.cholesky(x) * W),
    "upper cholesky": lambda x: np.sum(np.linalg.cholesky(x, upper=True) * W),
    "eigvalsh": lambda x: np.sum(np.linalg.eigvalsh(x) * W[0]),
    "upper eigvalsh": lambda x: np.sum(np.linalg.eigvalsh(x, UPLO="U") * W[0]),
}


def differences(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    slopes, step = np.zeros_like(x), 1e-6
    for i in np.ndindex(x.shape):
        change = np.zeros_like(x)
        change[i] = step
        slopes[i] = (f(x + change) - f(x - change)) / (2 * step)
    return slopes


@pytest.mark.more
def test_one_triangle_is_read() -> None:
    """For functions that read one triangle of a matrix, values equal NumPy's, and derivatives are zero elsewhere.

    In the triangle, derivatives equal finite differences.
    """
    found = {}
    for name, f in OF_A_TRIANGLE.items():
        x = Array(A, requires_grad=True)
        y = f(x)
        found[name] = y.data, grad(y, x).data
    for name, (value, slope) in found.items():
        f = OF_A_TRIANGLE[name]
        np.testing.assert_allclose(value, f(A), rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(slope, differences(f, A), atol=1e-7, err_msg=name)
        assert not (np.tril(slope, -1) if name.startswith("upper") else np.triu(slope, 1)).any()


@pytest.mark.more
def test_determinants() -> None:
    """The gradient of a determinant is the conjugate of the matrix of cofactors, also at a singular matrix."""
    for matrix in (
        [[1.0, 2.0], [2.0, 4.0]],
        [[2.0, 1.0], [5.0, -3.0]],
        [[1 + 1j, 2.0], [2 + 2j, 4.0]],
        B + 1j * W,
    ):
        x = Array(matrix, requires_grad=True)
        y = np.linalg.det(x)
        np.testing.assert_allclose(y.data, np.linalg.det(x.data), atol=1e-14)
        slope = grad([y], x, [np.ones((), x.dtype)]).data
        cofactors = [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x.data, i, 0), j, 1)) for j in range(len(x))]
            for i in range(len(x))
        ]
        np.testing.assert_allclose(slope, np.conj(cofactors), atol=1e-12)
        sign, log = np.linalg.slogdet(x)
        np.testing.assert_allclose(sign.data, np.linalg.slogdet(x.data)[0], atol=1e-14)
        np.testing.assert_allclose(np.exp(log.data), abs(y.data), atol=1e-14)


@pytest.mark.more
def test_errors_of_numpy() -> None:
    singular, error = Array([[1.0, 2.0], [2.0, 4.0]]), np.linalg.LinAlgError
    with pytest.raises(error, match="Singular matrix"):
        np.linalg.solve(singular, [1.0, 2.0])
    with pytest.raises(error, match="Singular matrix"):
        np.linalg.inv(singular * 0)
    with pytest.raises(error, match="not positive definite"):
        np.linalg.cholesky(-singular)


def test_refusals() -> None:
    """Invalid arguments raise NumPy's kinds of errors."""
    x, error = Array(W), np.linalg.LinAlgError
    with executing(Interpreter()):
        for call, kind, text in (
            (lambda: np.linalg.solve(x[:2], x), error, "square"),
            (lambda: np.linalg.qr(x[0]), error, "at least two-dimensional"),
            (lambda: np.linalg.qr(x, "raw"), ValueError, "no mode 'raw'"),
            (lambda: np.linalg.eigh(x, "X"), ValueError, "UPLO"),
            (lambda: np.linalg.svdvals(x.astype(np.float16)), TypeError, "float16 is unsupported"),
            (lambda: np.linalg.pinv(x, hermitian=True), TypeError, "takes no hermitian="),
            (lambda: np.fft.fft(x, norm="other"), ValueError, "Invalid norm"),
            (lambda: np.fft.fft(x, 0), ValueError, "Invalid number of FFT data points"),
            (lambda: np.fft.rfft(x + 1j), TypeError, "rfft requires real values"),
            (lambda: np.cross(x[:, :2], x[:, :2]), ValueError, "three elements"),
            (lambda: np.take_along_axis(x, np.array([[3]]), 1), IndexError, "out of bounds"),
            (lambda: np.take_along_axis(x, np.array([1]), 1), ValueError, "number of dimensions"),
            (lambda: np.take_along_axis(x, np.array([[1.0]]), 1), IndexError, "integer array"),
            (lambda: np.matrix_transpose(x[0]), ValueError, "two dimensions"),
            (lambda: np.cumulative_sum(x), ValueError, "needs an axis"),
            (lambda: np.meshgrid(x[0], indexing="ab"), ValueError, "indexing"),
        ):
            with pytest.raises(kind, match=text):
                call()
        assert (
            np.append(x.astype(np.float32), 2).dtype == np.append(W.astype(np.float32), 2).dtype == np.float64
        )
        wrapped = np.take_along_axis(x, np.array([[-1], [1], [2]], np.int8), 1)
        np.testing.assert_array_equal(wrapped.data, np.take_along_axis(W, np.array([[-1], [1], [2]]), 1))
