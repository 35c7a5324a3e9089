"""Test cases for `torch_gradients.py`: linear algebra, Fourier transforms, complex and special functions of PyTorch."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

F, L, S, T = torch.nn.functional, torch.linalg, torch.special, torch.fft
Row = tuple[str, Callable[..., Any], Sequence[Any]]
"""A test case: its name, a function of tensors, and the arguments of the function."""


def draw(*sizes: int) -> Any:
    """Returns a tensor of standard normal numbers in f64. They depend only on the sizes."""
    generator = torch.Generator().manual_seed(sum((i + 1) * n for i, n in enumerate(sizes)) + 7)
    return torch.randn(sizes, dtype=torch.float64, generator=generator)


def positive(*sizes: int) -> Any:
    """Returns a tensor of random numbers between 0.1 and about 3."""
    return draw(*sizes).abs() + 0.1


def small(*sizes: int) -> Any:
    """Returns a tensor of random numbers between -0.9 and 0.9."""
    return 0.9 * torch.tanh(draw(*sizes))


def imaginary(*sizes: int) -> Any:
    """Returns a tensor of random complex numbers."""
    return torch.complex(draw(*sizes), draw(*sizes[::-1]).reshape(sizes))


def symmetric(x: Any) -> Any:
    return x + x.mT


def definite(x: Any) -> Any:
    """Returns the Hermitian positive definite matrix x x^H + 1."""
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


A, B, TALL, WIDE = draw(2, 3, 3), draw(2, 3, 2), draw(2, 4, 3), draw(2, 3, 4)
C, X, V, ONE = imaginary(3, 3), draw(3, 4), draw(5), draw(3, 3)
I = torch.tensor([[0, 2, 1], [1, 0, 2]])  # noqa: E741
GAMMA = torch.tensor([0.3, 1, 2.5, 7, 1000, 40]).double()
SIGNAL, SPECTRUM = draw(2, 8), imaginary(2, 5)


def recomposed(x: Any, full: bool = False) -> Any:
    """Returns the singular values of a matrix, and U V^H, which does not depend on the signs of singular vectors."""
    u, s, vh = L.svd(x, full_matrices=full)
    k = s.shape[-1]
    return s, u[..., :k] @ vh[..., :k, :]


def scaled(x: Any, values: Any, vectors: Any) -> Any:
    """Sorts eigenvalues and eigenvectors, and makes the first element of each eigenvector real and positive.

    The scaled vectors do not depend on the phases that a library chooses.
    """
    first = vectors[..., :1, :]
    order = torch.argsort(values.real, stable=True)
    return values[order], (vectors * (first.abs() / first))[..., order]


LINALG: list[Row] = [
    ("linalg.cholesky", lambda x: L.cholesky(definite(x)), [A]),
    ("linalg.cholesky (upper)", lambda x: L.cholesky(definite(x), upper=True), [ONE]),
    ("linalg.cholesky (complex)", lambda x: L.cholesky(definite(x)), [C]),
    ("linalg.cholesky_ex", lambda x: L.cholesky_ex(definite(x)), [A]),
    ("linalg.cond", L.cond, [ONE]),
    ("linalg.cross", L.cross, [draw(2, 3), draw(4, 3)[:2]]),
    ("linalg.det", L.det, [A]),
    ("linalg.diagonal", L.diagonal, [TALL]),
    ("linalg.eig", lambda x: scaled(x, *L.eig(x)), [ONE]),
    ("linalg.eig (complex)", lambda x: scaled(x, *L.eig(x)), [C]),
    ("linalg.eigvals", lambda x: torch.sort(L.eigvals(x).abs())[0], [ONE]),
    ("linalg.eigh", lambda x: scaled(x, *L.eigh(symmetric(x))), [ONE]),
    ("linalg.eigh (complex)", lambda x: scaled(x, *L.eigh(x + x.mH)), [C]),
    ("linalg.eigvalsh", lambda x: L.eigvalsh(symmetric(x)), [A]),
    ("linalg.householder_product", L.householder_product, [draw(4, 3), draw(3)]),
    ("linalg.inv", L.inv, [A]),
    ("linalg.inv (complex)", L.inv, [C]),
    ("linalg.inv_ex", L.inv_ex, [A]),
    ("linalg.ldl_factor", lambda x: L.ldl_factor(symmetric(x)), [ONE]),
    ("linalg.ldl_solve", lambda x, b: L.ldl_solve(*L.ldl_factor(symmetric(x)), b), [ONE, draw(3, 2)]),
    ("linalg.lstsq", lambda x, b: L.lstsq(x, b).solution, [TALL, draw(2, 4, 2)]),
    ("linalg.lu", L.lu, [A]),
    ("linalg.lu (tall)", L.lu, [TALL]),
    ("linalg.lu_factor", L.lu_factor, [A]),
    ("linalg.lu_solve", lambda x, b: L.lu_solve(*L.lu_factor(x), b), [A, B]),
    ("linalg.matmul", L.matmul, [A, B]),
    ("linalg.matrix_exp", L.matrix_exp, [A]),
    ("linalg.matrix_exp (large)", lambda x: L.matrix_exp(20 * x) / 1e9, [draw(2, 2) / 4]),
    ("linalg.matrix_norm", L.matrix_norm, [A]),
    ("linalg.matrix_norm (nuc)", lambda x: L.matrix_norm(x, "nuc"), [A]),
    ("linalg.matrix_norm (2)", lambda x: L.matrix_norm(x, 2), [A]),
    ("linalg.matrix_norm (inf)", lambda x: L.matrix_norm(x, float("inf")), [A]),
    ("linalg.matrix_power", lambda x: L.matrix_power(x, 3), [A]),
    ("linalg.matrix_power (-2)", lambda x: L.matrix_power(x, -2), [A]),
    ("linalg.matrix_rank", L.matrix_rank, [TALL]),
    ("linalg.multi_dot", lambda *xs: L.multi_dot(xs), [draw(3, 4), draw(4, 2), draw(2, 5)]),
    ("linalg.norm", L.norm, [ONE]),
    ("linalg.pinv", L.pinv, [TALL]),
    ("linalg.pinv (hermitian)", lambda x: L.pinv(symmetric(x), hermitian=True), [ONE]),
    ("linalg.qr", L.qr, [TALL]),
    ("linalg.qr (wide)", L.qr, [WIDE]),
    ("linalg.qr (complex)", L.qr, [C]),
    ("linalg.qr (r)", lambda x: L.qr(x.detach(), mode="r")[1], [TALL]),
    ("linalg.slogdet", L.slogdet, [A]),
    ("linalg.slogdet (complex)", L.slogdet, [C]),
    ("linalg.solve", L.solve, [A, B]),
    ("linalg.solve (vector)", L.solve, [ONE, draw(3)]),
    ("linalg.solve (right)", lambda a, b: L.solve(a, b, left=False), [A, draw(2, 2, 3)]),
    ("linalg.solve (complex)", L.solve, [C, imaginary(3, 2)]),
    ("linalg.solve_ex", L.solve_ex, [A, B]),
    ("linalg.solve_triangular", lambda a, b: L.solve_triangular(a, b, upper=True), [A, B]),
    (
        "linalg.solve_triangular (right, unit)",
        lambda a, b: L.solve_triangular(a, b, upper=False, left=False, unitriangular=True),
        [A, draw(2, 2, 3)],
    ),
    ("linalg.svd", recomposed, [TALL]),
    ("linalg.svd (full)", lambda x: recomposed(x, True), [ONE]),
    ("linalg.svd (complex)", recomposed, [C]),
    ("linalg.svdvals", L.svdvals, [TALL]),
    ("linalg.tensorinv", lambda x: L.tensorinv(x.reshape(2, 3, 6)), [draw(6, 6)]),
    ("linalg.tensorsolve", lambda a, b: L.tensorsolve(a.reshape(2, 3, 6), b), [draw(6, 6), draw(2, 3)]),
    ("linalg.vander", L.vander, [V]),
    ("linalg.vecdot", L.vecdot, [X, draw(3, 5)[:, :4]]),
    ("linalg.vector_norm", L.vector_norm, [X]),
    ("linalg.vector_norm (3)", lambda x: L.vector_norm(x, 3, dim=1), [X]),
    ("cholesky", lambda x: torch.cholesky(definite(x)), [ONE]),
    ("cholesky_inverse", lambda x: torch.cholesky_inverse(L.cholesky(definite(x))), [ONE]),
    ("cholesky_solve", lambda x, b: torch.cholesky_solve(b, L.cholesky(definite(x))), [ONE, draw(3, 2)]),
    ("geqrf", lambda x: torch.geqrf(x.detach()), [draw(4, 3)]),
    ("logdet", lambda x: torch.logdet(definite(x)), [ONE]),
    ("lu_unpack", lambda x: torch.lu_unpack(*L.lu_factor(x)), [A]),
    ("ormqr", torch.ormqr, [draw(3, 3), draw(3), draw(3, 2)]),
    ("triangular_solve", lambda a, b: torch.triangular_solve(b, a)[0], [ONE, draw(3, 2)]),
]

FFT: list[Row] = [
    ("fft.fft", T.fft, [SIGNAL]),
    ("fft.fft (n, dim, norm)", lambda x: T.fft(x, n=3, dim=0, norm="ortho"), [SIGNAL]),
    ("fft.fft (complex)", T.fft, [C]),
    ("fft.ifft", T.ifft, [SPECTRUM]),
    ("fft.rfft", T.rfft, [SIGNAL]),
    ("fft.rfft (odd)", lambda x: T.rfft(x, n=7, norm="forward"), [SIGNAL]),
    ("fft.irfft", T.irfft, [SPECTRUM]),
    ("fft.irfft (odd)", lambda x: T.irfft(x, n=7), [SPECTRUM]),
    ("fft.hfft", T.hfft, [SPECTRUM]),
    ("fft.ihfft", T.ihfft, [SIGNAL]),
    ("fft.fft2", T.fft2, [imaginary(2, 3, 4)]),
    ("fft.ifft2", T.ifft2, [imaginary(2, 3, 4)]),
    ("fft.rfft2", T.rfft2, [draw(2, 3, 4)]),
    ("fft.irfft2", T.irfft2, [imaginary(2, 4, 3)]),
    ("fft.fftn", T.fftn, [imaginary(2, 3, 4)]),
    ("fft.ifftn", T.ifftn, [imaginary(2, 3, 4)]),
    ("fft.rfftn", T.rfftn, [draw(2, 3, 4)]),
    ("fft.irfftn", T.irfftn, [imaginary(2, 4, 3)]),
    ("fft.rfftn (four dimensions)", T.rfftn, [draw(2, 3, 2, 4)]),
    ("fft.irfftn (four dimensions)", T.irfftn, [imaginary(2, 3, 3, 2)]),
    ("fft.hfft2", T.hfft2, [imaginary(2, 4, 3)]),
    ("fft.ihfft2", T.ihfft2, [draw(2, 4, 3)]),
    ("fft.fftshift", T.fftshift, [SIGNAL]),
    ("fft.ifftshift", T.ifftshift, [SIGNAL]),
    ("fft.fftfreq", lambda x: x * T.fftfreq(8, dtype=torch.float64), [SIGNAL]),
    (
        "stft",
        lambda x: torch.stft(x, 8, window=torch.hann_window(8).double(), return_complex=True),
        [draw(32)],
    ),
    (
        "istft",
        lambda x: torch.istft(x, 8, window=torch.hann_window(8).double()),
        [imaginary(5, 6)],
    ),
]

COMPLEX: list[Row] = [
    ("abs (complex)", torch.abs, [C]),
    ("angle", torch.angle, [C]),
    ("complex", torch.complex, [X, draw(3, 5)[:, :4]]),
    ("conj", lambda x: x.conj() * x.real, [C]),
    ("exp (complex)", torch.exp, [C]),
    ("imag", lambda x: x.imag, [C]),
    ("matmul (complex)", lambda x: x @ x.mH, [C]),
    ("mul, add, div (complex)", lambda x, y: (x * y + 2j * x) / (y + 3), [C, imaginary(3, 3)]),
    ("polar", torch.polar, [positive(3, 4), X]),
    ("real", lambda x: x.real, [C]),
    ("sum, mean (complex)", lambda x: x.sum(0) + x.mean(1), [C]),
    ("view_as_complex", lambda x: torch.view_as_complex(x) ** 2, [draw(3, 2)]),
    ("view_as_real", lambda x: torch.view_as_real(x * x), [C]),
]

SPECIAL: list[Row] = [
    *((name, getattr(torch, name), [small(3, 4)]) for name in ("asin", "acos", "atanh", "erfinv")),
    *(
        (name, getattr(torch, name), [X])
        for name in (
            "asinh",
            "atan",
            "cosh",
            "erf",
            "erfc",
            "exp2",
            "expm1",
            "sinc",
            "sinh",
            "tan",
            "tanh",
            "i0",
        )
    ),
    *(
        (name, getattr(torch, name), [positive(3, 4)])
        for name in ("digamma", "lgamma", "log1p", "log2", "rsqrt")
    ),
    ("acosh", lambda x: torch.acosh(x + 1), [positive(3, 4)]),
    ("atan2", torch.atan2, [X, draw(3, 5)[:, :4]]),
    ("hypot", torch.hypot, [X, draw(3, 5)[:, :4]]),
    ("logaddexp", torch.logaddexp, [X, draw(3, 5)[:, :4]]),
    ("logit", lambda x: torch.logit(x / 4), [positive(3, 4)]),
    ("mvlgamma", lambda x: torch.mvlgamma(x + 2, 2), [positive(3, 4)]),
    ("polygamma", lambda x: torch.polygamma(2, x), [positive(3, 4)]),
    ("xlogy", torch.xlogy, [X, positive(3, 4)]),
    *(
        (f"special.{name}", getattr(S, name), [X])
        for name in ("erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "bessel_j0")
    ),
    ("special.i0 (large)", lambda x: S.i0e(30 * x) + S.i1e(30 * x), [X]),
    ("special.entr", S.entr, [positive(3, 4)]),
    ("special.gammaln", S.gammaln, [positive(3, 4)]),
    ("special.gammainc", lambda x: S.gammainc(GAMMA, x), [torch.tensor([0.2, 0.4, 9, 3, 900, 20]).double()]),
    ("special.gammaincc", lambda x: S.gammaincc(GAMMA, x), [torch.tensor([0.2, 1, 2, 30, 999, 90]).double()]),
    ("special.ndtri", lambda x: S.ndtri(x / 4), [positive(3, 4)]),
    ("special.xlog1py", S.xlog1py, [X, positive(3, 4)]),
    ("special.zeta", lambda x, y: S.zeta(x.detach() + 2, y.detach()), [positive(3, 4), positive(3, 4)]),
]
