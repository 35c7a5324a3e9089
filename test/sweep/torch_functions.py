"""Which functions of PyTorch `tiduc.from_torch` imports: values and gradients against torch.autograd, in f64.

    python test/sweep/torch_functions.py [--only TEXT] [--table]

Prints each function that is refused or wrong, and counts. `--table` prints the table of docs/models.md instead.
Exits with 1 where a value or a gradient is wrong, or an exception is no `TiducError`. Takes about two minutes.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import tiduc
from harness.compare import compare

F, L, S, T = torch.nn.functional, torch.linalg, torch.special, torch.fft
Row = tuple[str, Callable[..., Any], Sequence[Any]]
"""The name that the table shows, a function of tensors, and its arguments."""

TOLERANCE = 1e-7
"""The greatest difference, relative to the greatest entry; PyTorch's `hardsigmoid` computes 1/6 in f32."""


def draw(*sizes: int) -> Any:
    """Standard normal numbers in f64, equal in each run."""
    generator = torch.Generator().manual_seed(sum((i + 1) * n for i, n in enumerate(sizes)) + 7)
    return torch.randn(sizes, dtype=torch.float64, generator=generator)


def positive(*sizes: int) -> Any:
    """Numbers between 0.1 and about 3."""
    return draw(*sizes).abs() + 0.1


def small(*sizes: int) -> Any:
    """Numbers between -0.9 and 0.9."""
    return 0.9 * torch.tanh(draw(*sizes))


def imaginary(*sizes: int) -> Any:
    """Complex numbers."""
    return torch.complex(draw(*sizes), draw(*sizes[::-1]).reshape(sizes))


def symmetric(x: Any) -> Any:
    return x + x.mT


def definite(x: Any) -> Any:
    """A Hermitian positive definite matrix."""
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


A, B, TALL, WIDE = draw(2, 3, 3), draw(2, 3, 2), draw(2, 4, 3), draw(2, 3, 4)
C, X, V, ONE = imaginary(3, 3), draw(3, 4), draw(5), draw(3, 3)
I = torch.tensor([[0, 2, 1], [1, 0, 2]])  # noqa: E741
SIGNAL, SPECTRUM = draw(2, 8), imaginary(2, 5)


def recomposed(x: Any, full: bool = False) -> Any:
    """Values of a singular value decomposition that do not depend on the signs of its vectors."""
    u, s, vh = L.svd(x, full_matrices=full)
    k = s.shape[-1]
    return s, u[..., :k] @ vh[..., :k, :]


def scaled(x: Any, values: Any, vectors: Any) -> Any:
    """Values and vectors of an eigenvalue problem, the vectors with their first entry real and positive."""
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
    ("fft.hfft2", T.hfft2, [imaginary(2, 4, 3)]),
    ("fft.ihfft2", T.ihfft2, [draw(2, 4, 3)]),
    ("fft.fftshift", T.fftshift, [SIGNAL]),
    ("fft.ifftshift", T.ifftshift, [SIGNAL]),
    ("fft.fftfreq", lambda x: x * T.fftfreq(8, dtype=torch.float64), [SIGNAL]),
    ("stft", lambda x: torch.stft(x, 8, window=torch.hann_window(8).double(), return_complex=True), [draw(32)]),
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
        for name in ("asinh", "atan", "cosh", "erf", "erfc", "exp2", "expm1", "sinc", "sinh", "tan", "tanh", "i0")
    ),
    *((name, getattr(torch, name), [positive(3, 4)]) for name in ("digamma", "lgamma", "log1p", "log2", "rsqrt")),
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
    ("special.gammainc", S.gammainc, [torch.tensor([1.5, 2.0]).double(), positive(2)]),
    ("special.ndtri", lambda x: S.ndtri(x / 4), [positive(3, 4)]),
    ("special.xlog1py", S.xlog1py, [X, positive(3, 4)]),
    ("special.zeta", lambda x, y: S.zeta(x + 2, y), [positive(3, 4), positive(3, 4)]),
]

ARRAYS: list[Row] = [
    ("as_strided", lambda x: torch.as_strided(x, (2, 3), (4, 1), 1), [draw(3, 4)]),
    ("bincount", lambda x: torch.bincount(I.flatten(), minlength=3) * x, [draw(3)]),
    ("block_diag", torch.block_diag, [draw(2, 2), draw(3, 1)]),
    ("boolean mask assignment", lambda x: torch.where(x > 0, x, 0).masked_fill(x > 1, 2), [X]),
    ("bucketize", lambda x: x * torch.bucketize(x, torch.tensor([-1.0, 0, 1]).double()), [X]),
    ("cdist", torch.cdist, [draw(2, 4, 3), draw(2, 5, 3)]),
    ("cdist (p=1)", lambda x, y: torch.cdist(x, y, p=1), [draw(4, 3), draw(5, 3)]),
    ("cov", torch.cov, [X]),
    ("cummax", lambda x: torch.cummax(x, 1), [X]),
    ("cummin", lambda x: torch.cummin(x, 0), [X]),
    ("cumprod", lambda x: torch.cumprod(x, 1), [X]),
    ("cumsum", lambda x: torch.cumsum(x, 0), [X]),
    ("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), [X]),
    ("diag", torch.diag, [ONE]),
    ("diag (vector)", torch.diag, [V]),
    ("diag_embed", torch.diag_embed, [X]),
    ("diagonal", lambda x: torch.diagonal(x, 1, 1, 2), [TALL]),
    ("diagonal_scatter", torch.diagonal_scatter, [ONE, draw(3)]),
    ("diff", torch.diff, [X]),
    ("einsum", lambda x, y: torch.einsum("bij,bjk->ik", x, y), [A, B]),
    ("flip", lambda x: torch.flip(x, (0, 1)), [X]),
    ("gather", lambda x: torch.gather(x, 1, I), [X]),
    ("index_add", lambda x, y: torch.index_add(x, 0, torch.tensor([2, 0]), y), [X, draw(2, 4)]),
    ("index_copy", lambda x, y: torch.index_copy(x, 0, torch.tensor([2, 0]), y), [X, draw(2, 4)]),
    ("index_fill", lambda x: torch.index_fill(x, 1, torch.tensor([2, 0]), 3.0), [X]),
    ("index_put", lambda x, y: x.index_put((torch.tensor([0, 1]),), y, accumulate=True), [X, draw(2, 4)]),
    ("index_reduce", lambda x, y: x.index_reduce(0, torch.tensor([2, 0]), y, "mean"), [X, draw(2, 4)]),
    ("index_select", lambda x: torch.index_select(x, 1, torch.tensor([2, 0, 2])), [X]),
    ("kron", torch.kron, [draw(2, 2), draw(3, 1)]),
    ("kthvalue", lambda x: torch.kthvalue(x, 2, 1), [X]),
    ("logsumexp", lambda x: torch.logsumexp(x, 1), [X]),
    ("masked_scatter", lambda x, y: torch.masked_scatter(x, x > 0, y), [X, draw(3, 5)[:, :4]]),
    ("max (dim)", lambda x: torch.max(x, 1), [X]),
    ("amax, amin", lambda x: torch.amax(x, 1) - torch.amin(x, 1), [X]),
    ("median", torch.median, [V]),
    ("median (dim)", lambda x: torch.median(x, 1), [X]),
    ("mode", lambda x: torch.mode(x, 1), [X]),
    ("nanmean", torch.nanmean, [X]),
    ("nanmedian", torch.nanmedian, [V]),
    ("nansum", torch.nansum, [X]),
    ("nan_to_num", torch.nan_to_num, [X]),
    ("pad (reflect)", lambda x: F.pad(x, (1, 1), mode="reflect"), [X]),
    ("prod", lambda x: torch.prod(x, 1), [X]),
    ("quantile", lambda x: torch.quantile(x, 0.3, dim=1), [X]),
    ("renorm", lambda x: torch.renorm(x, 2, 0, 1.0), [X]),
    ("roll", lambda x: torch.roll(x, 1, 1), [X]),
    ("rot90", torch.rot90, [X]),
    ("scatter", lambda x, y: torch.scatter(x, 1, I, y), [X[:2], draw(2, 3)]),
    ("scatter_add", lambda x, y: torch.scatter_add(x, 1, I, y), [X[:2], draw(2, 3)]),
    ("scatter_reduce", lambda x, y: x.scatter_reduce(1, I, y, "amax"), [X[:2], draw(2, 3)]),
    ("searchsorted", lambda x: x * torch.searchsorted(torch.tensor([-1.0, 0, 1]).double(), x), [X]),
    ("select_scatter", lambda x, y: torch.select_scatter(x, y, 0, 1), [X, draw(4)]),
    ("slice_scatter", lambda x, y: torch.slice_scatter(x, y, 1, 1, 3), [X, draw(3, 2)]),
    ("slice_scatter (steps)", lambda x, y: torch.slice_scatter(x, y, 1, 0, 4, 2), [X, draw(3, 2)]),
    ("sort", lambda x: torch.sort(x, 1, descending=True), [X]),
    ("std, var", lambda x: torch.std(x, 1) + torch.var(x, 0).sum(), [X]),
    ("take", lambda x: torch.take(x, I), [X]),
    ("take_along_dim", lambda x: torch.take_along_dim(x, I, 1), [X[:2]]),
    ("tensordot", lambda x, y: torch.tensordot(x, y, 1), [A, draw(3, 2)]),
    ("topk", lambda x: torch.topk(x, 2), [X]),
    ("trace", torch.trace, [ONE]),
    ("trapezoid", torch.trapezoid, [X]),
    ("tril, triu", lambda x: torch.tril(x) - 2 * torch.triu(x, 1), [ONE]),
    ("unfold", lambda x: x.unfold(1, 2, 1), [X]),
    ("unique", lambda x: torch.unique(x > 0) * x.sum(), [X]),
    ("x[mask]", lambda x: x[x > 0], [X]),
    ("nonzero", lambda x: torch.nonzero(x), [X]),
    ("y[:, 1:] = x[:, :-1]", lambda x: assigned(x), [draw(8, 8)]),
    ("y[mask] = 2", lambda x: masked(x), [X]),
    ("y[::2] = x", lambda x: stepped(x), [X]),
    ("y[0, 1:3] = x", lambda x: corner(x), [X]),
]


def assigned(x: Any) -> Any:
    y = torch.zeros(8, 8, dtype=x.dtype)
    y[:, 1:] = x[:, :-1]
    return y


def stepped(x: Any) -> Any:
    y = x.clone()
    y[::2] = 2 * x[:2]
    return y


def masked(x: Any) -> Any:
    y = 3 * x
    y[y > 0] = 2
    return y


def corner(x: Any) -> Any:
    y = x * 2
    y[0, 1:3] = x[1, 0:2] ** 2
    y[2] += 1
    return y


def mixed(x: Any, weights: Any) -> Any:
    return F.grouped_mm(x, weights, offs=torch.tensor([2, 5, 6], dtype=torch.int32))


def counted(logits: Any) -> Any:
    lengths = torch.tensor([6, 5])
    return F.ctc_loss(logits.log_softmax(-1), torch.tensor([[1, 2, 2], [3, 1, 0]]), lengths, torch.tensor([3, 2]))


TARGET = torch.tensor([0, 3, 1])
IMAGE = draw(1, 2, 6, 6)
NETWORKS: list[Row] = [
    *(
        (name, getattr(F, name), [X])
        for name in ("gelu", "silu", "mish", "softplus", "softsign", "logsigmoid", "hardsigmoid", "glu", "softmin")
    ),
    ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), [IMAGE]),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 3), [IMAGE]),
    ("affine_grid, grid_sample", lambda t, x: F.grid_sample(x, F.affine_grid(t, (1, 2, 3, 3))), [draw(1, 2, 3), IMAGE]),
    ("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, [X, positive(3, 4)]),
    ("bilinear", F.bilinear, [draw(2, 3), draw(2, 4), draw(5, 3, 4)]),
    ("conv1d", lambda x, w: F.conv1d(x, w, padding=1), [draw(1, 2, 6), draw(3, 2, 3)]),
    ("conv2d (groups)", lambda x, w: F.conv2d(x, w, groups=2), [IMAGE, draw(4, 1, 3, 3)]),
    ("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2), [IMAGE, draw(2, 3, 3, 3)]),
    ("cosine_embedding_loss", lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1])), [X, draw(3, 5)[:, :4]]),
    ("cosine_similarity", F.cosine_similarity, [X, draw(3, 5)[:, :4]]),
    ("cross_entropy", lambda x: F.cross_entropy(x, TARGET, label_smoothing=0.1), [X]),
    ("ctc_loss", counted, [draw(6, 2, 4)]),
    ("embedding", lambda w: F.embedding(I, w), [draw(4, 3)]),
    ("embedding_bag (mean)", lambda w: F.embedding_bag(I, w), [draw(4, 3)]),
    ("embedding_bag (sum, offsets)", lambda w: F.embedding_bag(I.flatten(), w, torch.tensor([0, 2]), mode="sum"), [draw(4, 3)]),
    ("embedding_bag (max)", lambda w: F.embedding_bag(I, w, mode="max"), [draw(4, 3)]),
    ("fold", lambda x: F.fold(x, (4, 4), 2), [draw(1, 8, 9)]),
    ("unfold (images)", lambda x: F.unfold(x, 3), [IMAGE]),
    ("fractional powers", lambda x: x**1.5 + 2**x, [positive(3, 4)]),
    ("group_norm", lambda x: F.group_norm(x, 2), [IMAGE]),
    ("grouped_mm", mixed, [draw(6, 4), draw(3, 4, 5)]),
    ("huber_loss", F.huber_loss, [X, draw(3, 5)[:, :4]]),
    ("instance_norm", F.instance_norm, [IMAGE]),
    ("interpolate (bicubic)", lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), [IMAGE]),
    ("interpolate (area)", lambda x: F.interpolate(x, size=(3, 4), mode="area"), [IMAGE]),
    ("interpolate (nearest-exact)", lambda x: F.interpolate(x, size=(9, 9), mode="nearest-exact"), [IMAGE]),
    ("interpolate (trilinear)", lambda x: F.interpolate(x[None], scale_factor=2, mode="trilinear"), [draw(1, 2, 3, 3)]),
    ("kl_div", lambda x, y: F.kl_div(x, y.softmax(-1)), [X, draw(3, 5)[:, :4]]),
    ("layer_norm", lambda x: F.layer_norm(x, (4,)), [X]),
    ("local_response_norm", lambda x: F.local_response_norm(x, 2), [IMAGE]),
    ("lp_pool2d", lambda x: F.lp_pool2d(x, 2, 2), [IMAGE]),
    ("max_pool2d (indices)", lambda x: F.max_pool2d(x, 2, return_indices=True), [IMAGE]),
    ("max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), [IMAGE]),
    ("multilabel_margin_loss", lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, 0, -1, 0]] * 3)), [X]),
    ("multi_margin_loss", lambda x: F.multi_margin_loss(x, TARGET), [X]),
    ("nll_loss", lambda x: F.nll_loss(x, TARGET), [X]),
    ("normalize", F.normalize, [X]),
    ("one_hot", lambda x: F.one_hot(I, 4) * x.sum(), [X]),
    ("pairwise_distance", F.pairwise_distance, [X, draw(3, 5)[:, :4]]),
    ("pdist", F.pdist, [X]),
    ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), [draw(1, 4, 3, 3)]),
    ("poisson_nll_loss", F.poisson_nll_loss, [X, positive(3, 4)]),
    ("prelu", F.prelu, [X, draw(1)]),
    ("rms_norm", lambda x: F.rms_norm(x, (4,)), [X]),
    ("scaled_dot_product_attention", F.scaled_dot_product_attention, [draw(1, 2, 3, 4), draw(1, 2, 5, 4), draw(1, 2, 5, 4)]),
    (
        "scaled_dot_product_attention (causal)",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 2, 3, 4)],
    ),
    (
        "scaled_dot_product_attention (mask, groups)",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.ones(3, 5).tril().bool(), enable_gqa=True),
        [draw(1, 4, 3, 4), draw(1, 2, 5, 4), draw(1, 2, 5, 4)],
    ),
    ("smooth_l1_loss", F.smooth_l1_loss, [X, draw(3, 5)[:, :4]]),
    ("triplet_margin_loss", F.triplet_margin_loss, [X, draw(3, 5)[:, :4], draw(3, 6)[:, :4]]),
]


def recurrent(kind: str, **options: Any) -> Row:
    """A recurrent network with weights as arguments."""
    layer = getattr(torch.nn, kind)(3, 4, dtype=torch.float64, **options)
    names = [name for name, _ in layer.named_parameters()]
    weights = [draw(*p.shape) for p in layer.parameters()]
    shown = ", ".join(f"{key}" for key in options)

    def run(x: Any, *given: Any) -> Any:
        return torch.func.functional_call(layer, dict(zip(names, given, strict=True)), (x,))

    return f"nn.{kind}" + (f" ({shown})" if shown else ""), run, [draw(5, 2, 3), *weights]


RECURRENT: list[Row] = [
    recurrent("LSTM"),
    recurrent("LSTM", num_layers=2, bidirectional=True),
    recurrent("LSTM", proj_size=2),
    recurrent("GRU", batch_first=True),
    recurrent("GRU", bias=False),
    recurrent("RNN"),
    recurrent("RNN", nonlinearity="relu"),
]


def scanned(x: Any) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(lambda c, row: (c * 0.5 + row, torch.sin(c)), torch.zeros(4, dtype=x.dtype), x)


def mapped(x: Any) -> Any:
    from torch._higher_order_ops.map import map as map_

    return map_(lambda row, y: row.sin() * y, x, x[0] + 1)


def halved(x: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (torch.tensor(0), x + 1))


CONTROL: list[Row] = [
    ("cond", lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y * 2, (x,)), [X]),
    ("cond (else)", lambda x: torch.cond(x.sum() > 99, lambda y: (y.sin(), y + 2), lambda y: (y * 2, y + 1), (x,)), [X]),
    ("while_loop", halved, [X]),
    ("scan", scanned, [X]),
    ("map", mapped, [X]),
]

GROUPS: dict[str, list[Row]] = {
    "torch.linalg": LINALG,
    "torch.fft": FFT,
    "complex numbers": COMPLEX,
    "special functions": SPECIAL,
    "arrays": ARRAYS,
    "networks": NETWORKS,
    "recurrent networks": RECURRENT,
    "control flow": CONTROL,
}


class _Module(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def check(row: Row) -> None:
    """Raises where the function is refused, or a value or a gradient differs from PyTorch's."""
    name, function, inputs = row
    model = tiduc.from_torch(_Module(function), tuple(inputs))
    inputs = [x.clone().requires_grad_() for x in inputs]
    outputs = torch.utils._pytree.tree_leaves(function(*inputs))
    floats = [y for y in outputs if y.is_floating_point() or y.is_complex()]
    seeds = [draw(*y.shape) + (1j * draw(*y.shape) if y.is_complex() else 0) for y in floats]
    pairs = [(y, seed) for y, seed in zip(floats, seeds, strict=True) if y.requires_grad]
    program, expected = model, [y.detach().resolve_conj() for y in outputs]
    if pairs:
        program = model.vjp()
        active, given = zip(*pairs, strict=True)
        expected += torch.autograd.grad(active, inputs, given, materialize_grads=True)
    arrays = [x.detach().numpy() for x in [*inputs, *(seeds if pairs else ())]]
    compare(program.compile(engine="xla")(*arrays), [y.resolve_conj().numpy() for y in expected], TOLERANCE, name)


def outcome(row: Row) -> tuple[str, str]:
    """One of "right", "refused", "wrong" or "crashed", and the reason."""
    try:
        check(row)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:300]
    except tiduc.TiducError as error:
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001  any other exception is a fault of tiduc's
        return "crashed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "right", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only functions whose names this regular expression matches")
    parser.add_argument("--table", action="store_true", help="print the table of docs/models.md")
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    refused: dict[str, list[str]] = defaultdict(list)
    for group, rows in GROUPS.items():
        for row in rows:
            if not re.search(given.only, row[0]):
                continue
            what, why = outcome(row)
            counts[group][what] += 1
            if what != "right":
                refused[group].append(row[0])
                if not given.table:
                    print(f"{what:8} {row[0]}: {why}", flush=True)
    for group, count in counts.items():
        if given.table:
            names = ", ".join(f"`{name}`" for name in refused[group]) or "none"
            print(f"| {group} | {count['right']} of {count.total()} | {names} |")
        else:
            print(group, dict(count))
    return int(any(count["wrong"] or count["crashed"] for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
